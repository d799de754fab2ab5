//! The device's side of a packed ring.

use super::super::descriptor::{Descriptor, IndirectTable, WRITE, rest, walk};
use super::super::{Chain, DeviceRing, Layout, Memory, Options, Place, RingError, Token};
use super::plain::{Line, descriptor, made_available, plain, pop_run, prefetch_first};
use super::{AVAILABLE, Cursor, Event, USED, available, used};
use std::sync::atomic::{Ordering, fence};
use wharf_sys::shared::Record;

/// An entry that shows used buffers.
#[derive(Debug, Clone, Copy)]
struct Entry {
    /// The second word of its descriptor, without the flags of a round.
    rest: u64,
    descriptors: u16,
    /// It stands for all buffers up to the one that it names.
    is_batch: bool,
}

/// Returns the flags of used buffers on the round of `cursor`, in the second word of a descriptor.
#[inline(always)]
fn round(cursor: Cursor) -> u64 {
    (u64::from(used(cursor.wrap)) << 48).to_le()
}

/// Shows buffers of one descriptor each with the flags of their `round`, from the first of `entries` on.
/// Returns their number: up to the end of the ring, or of such buffers.
#[inline(always)]
fn put_run(run: &[Record], round: u64, entries: &[Entry]) -> usize {
    for (at, (record, entry)) in run.iter().zip(entries).enumerate() {
        if entry.descriptors != 1 {
            return at;
        }
        record.store_second_release(entry.rest | round);
    }
    run.len().min(entries.len())
}

/// The device's side of a packed ring.
#[derive(Debug)]
pub struct PackedDevice {
    pub(super) place: Place,
    options: Options,
    /// The next descriptor that the driver makes available.
    pub(super) next: Cursor,
    /// Position of the next used descriptor.
    pub(super) used: Cursor,
    /// The region of the last lookup.
    hint: u32,
    /// Descriptors popped and not used.
    pub(super) inside: u16,
    /// Position behind the published ones.
    shown: Cursor,
    /// Entries that are not published. A device that ends now leaves their buffers available.
    pending: Vec<Entry>,
    /// The device before may have ended while it published: see [`PackedDevice::skip`].
    pub(super) skips: bool,
    /// Descriptors used since the driver's notification request was last read.
    pub(super) untold: u16,
    driver_event: Event,
    device_event: Event,
    /// True if the driver is asked to notify.
    is_asking: bool,
    /// True if the ring notes the position: see `resume`.
    is_noted: bool,
    /// What is published next are buffers that another device left in flight: then none are any more.
    pub(super) gives_back: bool,
}

impl PackedDevice {
    /// Resumes at `base`, which a table of what is in flight records: bits 0 to 14 are the position of the
    /// next available descriptor, bit 15 its wrap counter; the upper half is the same for the used side, and
    /// 0 there means the same position. A new ring begins at 0x8000.
    ///
    /// # Errors
    /// [`RingError::Size`] for a place of another layout, [`RingError::Base`].
    pub fn new(place: Place, options: Options, base: u32) -> Result<Self, RingError> {
        let device = Self::beside_table(place, options, base)?;
        device.place.inflight.iter().for_each(|table| table.begin_packed(device.used.position()));
        Ok(device)
    }

    /// Works like [`PackedDevice::new`], and leaves the table as it is.
    pub(super) fn beside_table(place: Place, options: Options, base: u32) -> Result<Self, RingError> {
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
            shown: used,
            pending: Vec::with_capacity(size.into()),
            skips: true,
            // The device before may have told of none.
            untold: size,
            driver_event,
            device_event,
            is_asking: true,
            is_noted: options.in_order,
            gives_back: false,
        })
    }

    /// Uses all of `chains` by one entry, which names the last (section 2.8.8): the lines of the others stay
    /// with the driver. All such entries of a batch are one.
    #[inline(always)]
    fn put_batch_used(&mut self, chains: &[Chain]) {
        let Some(last) = chains.last() else { return };
        let descriptors = chains.iter().map(|chain| chain.token().descriptors);
        // At most as many as are inside, and thus as the ring has.
        let count = descriptors.fold(0, u16::saturating_add).min(self.place.size);
        let rest = rest(0, last.token().id, 0);
        match self.pending.last_mut() {
            Some(entry @ Entry { is_batch: true, .. }) => {
                (entry.rest, entry.descriptors) = (rest, entry.descriptors + count);
            }
            _ => self.pending.push(Entry { rest, descriptors: count, is_batch: true }),
        }
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

    /// Moves on behind `count` descriptors, which were used.
    #[inline(always)]
    fn pass(&mut self, descriptors: u16) {
        self.used = self.used.advanced(descriptors, self.place.size);
        self.inside = self.inside.saturating_sub(descriptors);
        self.untold = self.untold.saturating_add(descriptors);
    }

    /// Marks the descriptors of a used chain but the first. Drivers ignore them; [`PackedDevice::resume`] and
    /// [`PackedDevice::skip`] read them. The chain can be popped again, if the device ends before it shows
    /// the first.
    #[inline(never)]
    fn mark(&self, first: Cursor, descriptors: u16) {
        for count in 1..descriptors {
            let cursor = first.advanced(count, self.place.size);
            // The descriptor is the device's until its chain is used: all of the word may be written.
            let record = &self.place.descriptors.all()[cursor.at()];
            let rest = u64::from_le(record.load_second()) & !(u64::from(AVAILABLE | USED) << 48);
            record.store_second_release((rest | u64::from(used(cursor.wrap)) << 48).to_le());
        }
    }

    /// Shows all pending buffers but the first, which is `first`.
    #[inline(always)]
    fn show_rest(&self, first: Entry) {
        let (descriptors, size) = (self.place.descriptors.all(), self.place.size);
        let (mut cursor, mut left) = (self.shown, &self.pending[..]);
        while let Some(entry) = left.first() {
            let count = match entry.descriptors {
                1 if left.len() < self.pending.len() => {
                    // (C), visible once the first one of the batch is.
                    put_run(&descriptors[cursor.at()..], round(cursor), left)
                }
                1 => 1,
                _ => {
                    if !entry.is_batch {
                        self.mark(cursor, entry.descriptors);
                    }
                    if left.len() < self.pending.len() {
                        descriptors[cursor.at()].store_second_release(entry.rest | round(cursor));
                    }
                    1
                }
            };
            let passed = if count == 1 { entry.descriptors } else { count as u16 };
            (cursor, left) = (cursor.advanced(passed, size), &left[count..]);
        }
        // (C)
        descriptors[self.shown.at()].store_second_release(first.rest | round(self.shown));
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
        if self.options.in_order && !self.is_noted && self.pending.is_empty() && self.inside == 0 {
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
        let flags = if written_bytes > 0 { WRITE } else { 0 };
        let rest = rest(written_bytes, token.id, flags);
        self.pending.push(Entry { rest, descriptors: token.descriptors, is_batch: false });
        self.pass(token.descriptors);
    }

    #[inline]
    fn put_all_used(&mut self, chains: &[Chain]) {
        if self.options.in_order {
            return self.put_batch_used(chains);
        }
        let entry = |chain: &Chain| {
            let Token { id, descriptors } = chain.token();
            Entry { rest: rest(0, id, 0), descriptors, is_batch: false }
        };
        let before = self.pending.len();
        self.pending.extend(chains.iter().map(entry));
        let descriptors = self.pending[before..].iter().map(|entry| entry.descriptors);
        // At most as many as are inside, and thus as the ring has.
        let count = descriptors.fold(0, u16::saturating_add).min(self.place.size);
        self.pass(count);
    }

    #[inline]
    fn publish(&mut self) -> bool {
        let Some(&first) = self.pending.first() else { return false };
        if self.is_noted {
            self.forget();
        }
        if self.skips {
            self.skip();
        }
        let (before, now) = (self.shown, self.used);
        if let Some(table) = &self.place.inflight {
            table.record(now.position(), before.position(), self.gives_back);
        }
        self.show_rest(first);
        if let Some(table) = &self.place.inflight {
            match std::mem::take(&mut self.gives_back) {
                true => table.begin_packed(now.position()),
                false => table.record(now.position(), now.position(), false),
            }
        }
        self.shown = now;
        self.pending.clear();
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

    fn enable_notification_behind(&mut self, descriptors: u16) -> bool {
        self.is_asking = true;
        let size = self.place.size;
        let known = self.next.advanced(descriptors.min(size), size);
        match descriptors {
            0 => self.ask(),
            // The request would take the field of the noted position: all notifications come instead.
            _ if self.options.in_order || !self.options.event_idx => self.device_event.ask(),
            _ => self.device_event.ask_at(known),
        }
        // (F)
        fence(Ordering::SeqCst);
        descriptors >= size
            || made_available(&self.place.descriptors.all()[known.at()], available(known.wrap)).is_none()
    }

    fn disable_notification(&mut self) {
        self.is_asking = false;
        self.device_event.ask_not();
    }

    fn next_avail(&self) -> u32 {
        u32::from(self.next.bits()) | u32::from(self.used.bits()) << 16
    }
}
