//! Where a device that is gone stood in a packed ring: from what it has left there.
//!
//! Assumptions: one of ours, which publishes used buffers in order and has none inside when it is left; the driver's memory was 0 to
//! begin with (virtio 1.2, section 4.1.5.1.3). Goal: the right place, or none.

use super::{Cursor, Event, TELL_AT, USED, turn, used};
use crate::virtio::{Options, Place, SIZE_MAX};

/// A place that no ring has, but for the longest.
const UNKNOWN: u16 = u16::MAX;

impl Event {
    /// Notes where its side stands in a ring of `size`. Where it wants to be told of everything, or of nothing, nobody looks at that
    /// (section 2.8.14); and else it is where it wants to be told next. The beginning of every other round is the end of the one
    /// before: 0 is what nobody has noted.
    pub(super) fn note(&self, cursor: Cursor, size: u16) {
        let bits = if cursor.bits() == 0 { size | Cursor::WRAP } else { cursor.bits() };
        self.0.store_u16_release(0, bits.to_le());
    }

    /// Notes that it is not known where its side stands.
    pub(super) fn note_nothing(&self) {
        self.0.store_u16_release(0, UNKNOWN);
    }

    fn noted(&self, size: u16) -> Option<Cursor> {
        let (bits, flags) = (u16::from_le(self.0.load_u16(0)), u16::from_le(self.0.load_u16(2)));
        match Cursor::of_bits(bits) {
            Cursor { index: 0, wrap: false } if flags != TELL_AT => Some(Cursor::START),
            // In the longest ring the end of a round has no bits of its own, nor has what is not known.
            _ if size == SIZE_MAX => None,
            Cursor { index, wrap: true } if index == size => Some(Cursor { index: 0, wrap: false }),
            cursor => Some(cursor).filter(|cursor| cursor.index < size),
        }
    }
}

/// Where the device stands, told `base`, which is believed unless it is the beginning; some drivers say that after their device has
/// gone and come back (QEMU 7.2 does). `None` where the ring does not show it.
pub(super) fn resume(place: &Place, base: u32, options: Options) -> Option<u32> {
    if Cursor::of_bits(base as u16) != Cursor::START {
        return Some(base);
    }
    let cursor = if options.in_order { from_note(place) } else { from_flags(place) }?;
    Some(u32::from(cursor.bits()) | u32::from(cursor.bits()) << 16)
}

/// Whose turn it was with a descriptor, when that was written last.
fn turn_at(place: &Place, index: u16) -> u16 {
    let [_, rest] = place.descriptors.all()[usize::from(index)].load();
    turn(u64::from_le(rest))
}

/// In each descriptor the flag USED is that of the device's last round over it, whoever wrote it last: the driver, that means
/// to go on there, writes the opposite of its own round. So it changes at most once on the way through the ring, where
/// the device stands; see `PackedDevice::mark`.
fn from_flags(place: &Place) -> Option<Cursor> {
    let is_used = |index: u16| turn_at(place, index) & USED != 0;
    let first = is_used(0);
    match (1..place.size).find(|&index| is_used(index) != first) {
        None => Some(Cursor { index: 0, wrap: !first }),
        Some(index) if (index..place.size).all(|index| is_used(index) != first) => {
            Some(Cursor { index, wrap: first })
        }
        Some(_) => None,
    }
}

/// Where buffers are used in order, one entry says so of many, and the others' flags say nothing. So the device notes where it stands
/// whenever it asks to be told and when it ends, and that this is not known before it publishes anything. What it has written
/// before that shows as used on a round to come.
fn from_note(place: &Place) -> Option<Cursor> {
    let cursor = Event(place.device.clone()).noted(place.size)?;
    // On its coming round, each.
    let is_beyond = |index: u16| turn_at(place, index) == used(cursor.wrap == (index >= cursor.index));
    (!(0..place.size).any(is_beyond)).then_some(cursor)
}
