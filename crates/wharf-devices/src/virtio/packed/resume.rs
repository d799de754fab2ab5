//! The position of an earlier device in a packed ring, from the state that it left there.
//!
//! Assumptions: a device of this type, which publishes used buffers in order and has none inside when it is
//! left; the driver's memory was 0 to begin with (virtio 1.2, section 4.1.5.1.3). Goal: the right position,
//! or none.

use super::plain::descriptor;
use super::{AVAILABLE, Cursor, Event, PackedDevice, TELL_AT, USED, available, turn, used};
use crate::virtio::descriptor::NEXT;
use crate::virtio::{Chain, DeviceRing, Memory, Options, Place, RingError, SIZE_MAX, Token};

/// A position outside every ring but the longest.
const UNKNOWN: u16 = u16::MAX;

impl Event {
    /// Notes the device's position in a ring of `size`. With all notifications enabled, or none, the driver
    /// ignores the field (section 2.8.14); otherwise it is the position of the next notification. The
    /// beginning of every other round is noted as the end of the one before: 0 means that no position was
    /// noted.
    pub(super) fn note(&self, cursor: Cursor, size: u16) {
        let bits = if cursor.bits() == 0 { size | Cursor::WRAP } else { cursor.bits() };
        self.0.store_u16_release(0, bits.to_le());
    }

    /// Notes that the position is unknown.
    pub(super) fn note_nothing(&self) {
        self.0.store_u16_release(0, UNKNOWN);
    }

    fn noted(&self, size: u16) -> Option<Cursor> {
        let (bits, flags) = (u16::from_le(self.0.load_u16(0)), u16::from_le(self.0.load_u16(2)));
        match Cursor::of_bits(bits) {
            Cursor { index: 0, wrap: false } if flags != TELL_AT => Some(Cursor::START),
            // In the longest ring neither the end of a round nor the unknown position has bits of its own.
            _ if size == SIZE_MAX => None,
            Cursor { index, wrap: true } if index == size => Some(Cursor { index: 0, wrap: false }),
            cursor => Some(cursor).filter(|cursor| cursor.index < size),
        }
    }
}

impl PackedDevice {
    /// Makes the device that goes on where the ring was left: where its table of what is in flight says, if
    /// it has one that is not new. Buffers that another device left in flight are given back unused: their
    /// number. Without a table, see [`PackedDevice::resume`] for `base`; `None` if the ring does not show the
    /// position.
    ///
    /// # Errors
    /// Those of [`PackedDevice::new`].
    pub fn resumed(place: Place, base: u32, options: Options) -> Result<Option<(Self, usize)>, RingError> {
        let is_used = |(index, wrap)| (turn_at(&place, index) & USED != 0) == wrap;
        let Some((at, left)) = place.inflight.as_ref().and_then(|table| table.resume_packed(is_used)) else {
            let Some(base) = Self::resume(&place, base, options) else { return Ok(None) };
            return Ok(Some((Self::new(place, options, base)?, 0)));
        };
        let bits = u32::from(Cursor { index: at.0, wrap: at.1 }.bits());
        let (place, bits) = (place.clone(), bits | bits << 16);
        if left.is_empty() {
            return Ok(Some((Self::new(place, options, bits)?, 0)));
        }
        // This device may end, too: until all are shown they are in flight.
        let mut device = Self::beside_table(place.clone(), options, bits)?;
        if left.iter().map(|&(_, descriptors)| usize::from(descriptors)).sum::<usize>() > place.size.into() {
            return Err(RingError::Loop { max: place.size });
        }
        left.iter().for_each(|&(id, descriptors)| device.give_back(Token { id, descriptors }));
        device.publish();
        Ok(Some((device, left.len())))
    }

    /// Gives back, unused, a buffer that another device left in flight at this position.
    fn give_back(&mut self, token: Token) {
        self.next = self.next.advanced(token.descriptors, self.place.size);
        self.inside += token.descriptors;
        self.gives_back = true;
        self.put_used(token, 0);
    }

    /// Moves on behind buffers that the device before marked as used, while it published a batch of which it
    /// did not show the first. The driver sees them with what is published now.
    #[cold]
    pub(super) fn skip(&mut self) {
        for _ in 0..self.place.size {
            let record = &self.place.descriptors.all()[self.used.at()];
            let found = turn(u64::from_le(record.load_second_acquire()));
            if found != used(self.used.wrap) {
                // All were available before: behind the driver's position there are none.
                self.skips = found == available(self.used.wrap);
                break;
            }
            self.used = self.used.advanced(1, self.place.size);
            self.untold = self.untold.saturating_add(1);
            self.next = if self.inside == 0 { self.used } else { self.next };
        }
    }

    /// Gives back a buffer to be written that is not shown, although those behind it are: the device before
    /// ended while it showed them. They are the driver's once this one is: a frame that takes several buffers
    /// would wait for ever. Returns true if there was such a buffer; its frame is lost.
    ///
    /// # Errors
    /// Those of [`DeviceRing::pop`].
    pub fn close_hole(&mut self, memory: &Memory) -> Result<bool, RingError> {
        let mut chain = Chain::new();
        if !self.pop(memory, &mut chain)? {
            return Ok(false);
        }
        let behind = u64::from_le(self.place.descriptors.all()[self.next.at()].load_second_acquire());
        if turn(behind) != used(self.next.wrap) || !chain.readable().is_empty() {
            self.undo_pop(chain.token());
            return Ok(false);
        }
        self.put_used(chain.token(), 0);
        Ok(self.publish())
    }

    /// Returns the position for the announced `base`. Some drivers announce the beginning, or where an
    /// earlier device stood, after their device has gone and come back (QEMU 7.2 and 10): what the ring shows
    /// counts, if it shows a position. `None` if it shows none, and what is announced is the beginning, or wrong.
    pub fn resume(place: &Place, base: u32, options: Options) -> Option<u32> {
        let [next, high] = [base as u16, (base >> 16) as u16].map(Cursor::of_bits);
        let announced = if base >> 16 == 0 { next } else { high };
        if announced.index >= place.size {
            return Some(base);
        }
        let is_told = announced != Cursor::START && !shows_beyond(place, announced);
        let shown = match options.in_order {
            // Another device notes something else there.
            true if is_told => None,
            true => from_note(place),
            false => from_flags(place, options).filter(|found| found.1 || !is_told).map(|found| found.0),
        };
        match shown {
            Some(cursor) if cursor != announced || !is_told => {
                Some(u32::from(cursor.bits()) | u32::from(cursor.bits()) << 16)
            }
            _ => is_told.then_some(base),
        }
    }
}

/// True if a descriptor shows as used on its coming round: a device stood beyond `cursor`.
fn shows_beyond(place: &Place, cursor: Cursor) -> bool {
    let is_beyond = |index: u16| turn_at(place, index) == used(cursor.wrap == (index >= cursor.index));
    (0..place.size).any(is_beyond)
}

/// The side that had a descriptor when that was written last.
fn turn_at(place: &Place, index: u16) -> u16 {
    let [_, rest] = place.descriptors.all()[usize::from(index)].load();
    turn(u64::from_le(rest))
}

/// Each descriptor's USED flag is that of the device's last round over it, whichever side wrote it last: a
/// driver that means to go on there writes the opposite of its own round. So the flag changes at most once on
/// the way through the ring, at the device's position; see `PackedDevice::mark`. A device that ended while it
/// published has left a hole there. True unless a device of another type may have left the same in a
/// chain.
fn from_flags(place: &Place, options: Options) -> Option<(Cursor, bool)> {
    let is_used = |index: u16| turn_at(place, index) & USED != 0;
    let in_hole = || {
        let hole = hole(place)?;
        change(place.size, |index| is_used(index) != (index == hole.index)).map(|_| hole)
    };
    let beside_used = || in_hole().or_else(|| before_others(place));
    // Drivers that have indirect tables make next to no chains.
    let is_sure = |cursor| (cursor, options.indirect || !may_be_rest(place, cursor));
    change(place.size, is_used).map(|cursor| (cursor, true)).or_else(|| beside_used().map(is_sure))
}

/// Returns the position of a device behind which another one used buffers. QEMU, whose back end has gone,
/// drops what the driver adds, from a position of its own on. The AVAIL flag changes at the driver's
/// position: of the buffers before it, the first one that is available is the device's next.
fn before_others(place: &Place) -> Option<Cursor> {
    let driver = change(place.size, |index| turn_at(place, index) & AVAILABLE != 0)?;
    let mut all = (1..=place.size).rev().map(|count| driver.back(count, place.size));
    all.find(|&cursor| is_due(place, cursor))
}

fn is_due(place: &Place, cursor: Cursor) -> bool {
    turn_at(place, cursor.index) == available(cursor.wrap)
}

/// True if what is available at `cursor` may be the rest of a used chain, of which a device of another type
/// has marked the first descriptor alone.
fn may_be_rest(place: &Place, cursor: Cursor) -> bool {
    let part = |cursor: Cursor| {
        let record = &place.descriptors.all()[cursor.at()];
        descriptor(record, u64::from_le(record.load_second()))
    };
    let next = |at: &Cursor| (part(*at).flags & NEXT != 0).then(|| at.advanced(1, place.size));
    let last = std::iter::successors(Some(cursor), next).take(place.size.into()).last().unwrap_or(cursor);
    part(last).next_or_id == part(cursor.back(1, place.size)).next_or_id
        && !is_due(place, last.advanced(1, place.size))
}

/// Returns the position at which the flag changes, if there is one at most.
fn change(size: u16, is_used: impl Fn(u16) -> bool) -> Option<Cursor> {
    let first = is_used(0);
    match (1..size).find(|&index| is_used(index) != first) {
        None => Some(Cursor { index: 0, wrap: !first }),
        Some(index) if (index..size).all(|index| is_used(index) != first) => {
            Some(Cursor { index, wrap: first })
        }
        Some(_) => None,
    }
}

/// Returns the position of a device that ended while it showed a batch, whose first descriptor comes last:
/// the only one that is available while the next is used on the same round. See `PackedDevice::skip`.
fn hole(place: &Place) -> Option<Cursor> {
    let at = |index| Cursor { index, wrap: turn_at(place, index) & USED == 0 };
    let mut holes = (0..place.size).map(at).filter(|hole| {
        let next = hole.advanced(1, place.size);
        turn_at(place, hole.index) == available(hole.wrap) && turn_at(place, next.index) == used(next.wrap)
    });
    holes.next().filter(|_| holes.next().is_none())
}

/// With buffers used in order one entry stands for many, and the flags of the others mean nothing. So the
/// device notes its position whenever it enables notifications and when it ends, and notes that it is unknown
/// before it publishes. Descriptors written before that show as used on a later round.
fn from_note(place: &Place) -> Option<Cursor> {
    Event(place.device.clone()).noted(place.size).filter(|&cursor| !shows_beyond(place, cursor))
}
