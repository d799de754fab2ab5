//! The device's side of a packed ring.

use super::super::descriptor::{Descriptor, IndirectTable, WRITE, rest, walk};
use super::super::{Chain, DeviceRing, Layout, Memory, Options, Place, RingError, Token};
use super::plain::{Line, descriptor, made_available, plain, pop_run, prefetch_first, put_run};
use super::{Cursor, Event, available, used};
use std::sync::atomic::{Ordering, fence};

/// The device's side of a packed ring.
#[derive(Debug)]
pub struct PackedDevice {
    place: Place,
    options: Options,
    /// The next descriptor that the driver makes available.
    next: Cursor,
    /// Position of the next used descriptor.
    used: Cursor,
    /// The region of the last lookup.
    hint: u32,
    /// Descriptors popped and not used.
    inside: u16,
    /// The first used descriptor of a batch: its position, and the word that shows it, and with it the batch.
    held_back: Option<(usize, u64)>,
    /// Descriptors used since the driver's notification request was last read.
    untold: u16,
    driver_event: Event,
    device_event: Event,
    /// True if the driver is asked to notify.
    is_asking: bool,
    /// True if the ring notes the position: see `resume`.
    is_noted: bool,
}

impl PackedDevice {
    /// Resumes at `base`: bits 0 to 14 are the position of the next available descriptor, bit 15 its wrap
    /// counter; the upper half is the same for the used side, and 0 there means the same position. A new ring
    /// begins at 0x8000.
    ///
    /// # Errors
    /// [`RingError::Size`] for a place of another layout, [`RingError::Base`].
    pub fn new(place: Place, options: Options, base: u32) -> Result<Self, RingError> {
        let place = place.of_layout(Layout::Packed)?;
        let (size, next) = (place.size, Cursor::of_bits(base as u16));
        let used = if base >> 16 == 0 { next } else { Cursor::of_bits((base >> 16) as u16) };
        if next.index >= size || used.index >= size {
            return Err(RingError::Base { base, size });
        }
        let (driver_event, device_event) = (Event(place.driver.clone()), Event(place.device.clone()));
        if options.in_order {
            device_event.note(used, size);
        }
        Ok(Self {
            place,
            options,
            next,
            used,
            hint: 0,
            inside: 0,
            held_back: None,
            untold: 0,
            driver_event,
            device_event,
            is_asking: true,
            is_noted: options.in_order,
        })
    }

    /// Uses all of `chains` by one entry, which names the last (section 2.8.8): the lines of the others stay
    /// with the driver.
    #[inline(always)]
    fn put_batch_used(&mut self, chains: &[Chain]) {
        let Some(last) = chains.last() else { return };
        let rest = rest(0, last.token().id, used(self.used.wrap));
        self.show(rest);
        let descriptors = chains.iter().map(|chain| chain.token().descriptors);
        // At most as many as are inside, and thus as the ring has.
        let count = descriptors.fold(0, u16::saturating_add).min(self.place.size);
        self.pass(count);
    }

    /// Asks for a notification of the next descriptor, which notes the position.
    fn ask(&mut self) {
        if self.options.in_order {
            self.device_event.note(self.next, self.place.size);
            self.is_noted = true;
        }
        if self.options.event_idx {
            self.device_event.ask_at(self.next);
        } else {
            self.device_event.ask();
        }
    }

    /// Prepares to publish: from then on the noted position is wrong. All notifications come until they are
    /// enabled anew; the position is not read meanwhile.
    #[cold]
    fn forget(&mut self) {
        if self.is_asking {
            self.device_event.ask();
        }
        self.device_event.note_nothing();
        self.is_noted = false;
    }

    /// Writes the next used descriptor's second word: at once, or, for the first one of a batch, when it is
    /// published.
    #[inline(always)]
    fn show(&mut self, rest: u64) {
        let at = self.used.at();
        if self.held_back.is_some() {
            // (C), visible once the first one of the batch is.
            self.place.descriptors.all()[at].store_second_release(rest);
        } else {
            self.held_back = Some((at, rest));
        }
    }

    /// Moves on behind `count` descriptors, which were used.
    #[inline(always)]
    fn pass(&mut self, descriptors: u16) {
        self.used = self.used.advanced(descriptors, self.place.size);
        self.inside = self.inside.saturating_sub(descriptors);
        self.untold = self.untold.saturating_add(descriptors);
    }

    /// Marks the descriptors of a used chain but the first. Drivers ignore them; [`PackedDevice::resume`]
    /// reads them.
    #[inline(never)]
    fn mark(&self, first: Cursor, descriptors: u16) {
        for count in 1..descriptors {
            let cursor = first.advanced(count, self.place.size);
            // The descriptor is the device's until its chain is used: all of the word may be written.
            let record = &self.place.descriptors.all()[cursor.at()];
            let rest = u64::from_le(record.load_second()) & !(u64::from(u16::MAX) << 48);
            record.store_second_release((rest | u64::from(used(cursor.wrap)) << 48).to_le());
        }
    }

    /// Follows a chain whose first descriptor has a next one (sections 2.8.6 and 2.8.7).
    #[inline(never)]
    fn walk(&self, first: Descriptor, memory: &Memory, chain: &mut Chain) -> Result<(), RingError> {
        let mut cursor = self.next;
        let next = |_: &Descriptor| {
            cursor = cursor.advanced(1, self.place.size);
            let record = &self.place.descriptors.all()[cursor.at()];
            Ok(descriptor(record, u64::from_le(record.load_second())))
        };
        // An indirect table's descriptors are consecutive: their flag for a next one means nothing.
        let table = |named: &Descriptor, chain: &mut Chain| {
            let table = IndirectTable::new(named, self.options)?;
            let mut push = |index| table.push(index, memory, chain, Descriptor::of_packed).map(drop);
            (0..table.size).try_for_each(&mut push)
        };
        let (last, count) = walk(first, self.place.size, memory, chain, next, table)?;
        // The last descriptor has the buffer's id (section 2.8.6).
        chain.token = Token { id: last.next_or_id, descriptors: count };
        Ok(())
    }
}

impl Drop for PackedDevice {
    fn drop(&mut self) {
        if self.options.in_order && !self.is_noted && self.held_back.is_none() && self.inside == 0 {
            self.device_event.note(self.used, self.place.size);
        }
    }
}

impl DeviceRing for PackedDevice {
    fn size(&self) -> u16 {
        self.place.size
    }

    #[inline]
    fn pop(&mut self, memory: &Memory, chain: &mut Chain) -> Result<bool, RingError> {
        if self.pop_plain(memory, std::slice::from_mut(chain)) == 1 {
            return Ok(true);
        }
        let record = &self.place.descriptors.all()[self.next.at()];
        let Some(rest) = made_available(record, available(self.next.wrap)) else { return Ok(false) };
        let first = descriptor(record, rest);
        chain.start(Token { id: first.next_or_id, descriptors: 1 });
        self.walk(first, memory, chain)?;
        let (descriptors, size) = (chain.token().descriptors, self.place.size);
        self.inside = self
            .inside
            .checked_add(descriptors)
            .filter(|&inside| inside <= size)
            .ok_or(RingError::Loop { max: size })?;
        self.next = self.next.advanced(descriptors, size);
        Ok(true)
    }

    #[inline]
    fn pop_plain(&mut self, memory: &Memory, chains: &mut [Chain]) -> usize {
        let (descriptors, size) = (self.place.descriptors.all(), self.place.size);
        let room = chains.len().min((size - self.inside).into());
        let (mut hand, mut next, mut count) = (memory.hand(self.hint), self.next, 0);
        let line = if self.options.in_order { Line::Read } else { Line::Written };
        if room > 1 && made_available(&descriptors[next.at()], available(next.wrap)).is_some() {
            prefetch_first(descriptors, next.at(), line);
        }
        // Up to the end of the ring, then from its beginning; then in another region.
        let mut is_other = false;
        while count < room {
            let end = descriptors.len().min(next.at() + (room - count));
            let popped = pop_run(descriptors, next, end, line, hand, &mut chains[count..]);
            let ended = next.at() + popped < end;
            count += popped;
            next = next.advanced(popped as u16, size);
            if !ended {
                continue;
            }
            let first = plain(&descriptors[next.at()], available(next.wrap));
            let other = first.and_then(|first| memory.other_hand(first.address, first.len_bytes, hand));
            // A peer that changes the address meanwhile is not followed for ever.
            let Some(other) = other.filter(|_| popped > 0 || !is_other) else { break };
            (hand, is_other) = (other, true);
        }
        (self.next, self.hint) = (next, hand.index);
        self.inside += count as u16;
        count
    }

    fn undo_pop(&mut self, token: Token) {
        self.inside = self.inside.saturating_sub(token.descriptors);
        self.next = self.next.back(token.descriptors.min(self.place.size), self.place.size);
    }

    #[inline]
    fn put_used(&mut self, token: Token, written_bytes: u32) {
        let flags = used(self.used.wrap) | if written_bytes > 0 { WRITE } else { 0 };
        self.show(rest(written_bytes, token.id, flags));
        if token.descriptors > 1 && !self.options.in_order {
            self.mark(self.used, token.descriptors);
        }
        self.pass(token.descriptors);
    }

    #[inline]
    fn put_all_used(&mut self, chains: &[Chain]) {
        if self.options.in_order {
            return self.put_batch_used(chains);
        }
        let mut left = chains.iter();
        // The first is held back, or is known to lie behind one that is; so are those behind it.
        while let Some(chain) = left.next() {
            self.put_used(chain.token(), 0);
            let run = self.place.descriptors.all().get(self.used.at()..).unwrap_or_default();
            let count = put_run(run, used(self.used.wrap), left.as_slice());
            left = left.as_slice()[count..].iter();
            self.pass(count as u16);
        }
    }

    #[inline]
    fn publish(&mut self) -> bool {
        let Some((at, rest)) = self.held_back.take() else { return false };
        // (C)
        if self.is_noted {
            self.forget();
        }
        self.place.descriptors.all()[at].store_second_release(rest);
        if self.options.in_order && self.is_asking {
            self.ask();
            // (F)
            fence(Ordering::SeqCst);
        }
        true
    }

    fn needs_notification(&mut self) -> bool {
        // (E)
        fence(Ordering::SeqCst);
        self.driver_event.wants(self.used, std::mem::take(&mut self.untold), self.place.size)
    }

    fn enable_notification(&mut self) -> bool {
        self.is_asking = true;
        self.ask();
        // (F)
        fence(Ordering::SeqCst);
        made_available(&self.place.descriptors.all()[self.next.at()], available(self.next.wrap)).is_none()
    }

    fn disable_notification(&mut self) {
        self.is_asking = false;
        self.device_event.ask_not();
    }

    fn next_avail(&self) -> u32 {
        u32::from(self.next.bits()) | u32::from(self.used.bits()) << 16
    }
}
