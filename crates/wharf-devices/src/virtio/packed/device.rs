//! The device's side of a packed ring.

use super::super::memory::Hand;
use super::super::split::{INDIRECT, NEXT, WRITE, table_size};
use super::super::{Chain, DeviceRing, Layout, Memory, Options, Place, RingError, Token};
use super::{AVAILABLE, Cursor, Descriptor, Event, USED, available, rest, turn, used};
use std::sync::atomic::{Ordering, fence};
use wharf_sys::shared::Record;

/// Descriptors of a line.
const LINE: usize = 4;
/// Lines are asked for so many descriptors ahead.
const COMING_SOON: usize = 16;

/// The device's side of a packed ring.
#[derive(Debug)]
pub struct PackedDevice {
    place: Place,
    options: Options,
    /// The next descriptor that the driver makes available.
    next: Cursor,
    /// Where the next used one is written.
    used: Cursor,
    /// The region in which a buffer was found last.
    hint: u32,
    /// Descriptors popped and not used.
    inside: u16,
    /// The first of a batch that was used: where, and the word that shows it, and with it the batch.
    held_back: Option<(usize, u64)>,
    /// Descriptors used since it was last asked whether the driver wants to be told.
    untold: u16,
    driver_event: Event,
    device_event: Event,
}

impl PackedDevice {
    /// Goes on at `base`: bits 0 to 14 are the place of the next available descriptor, bit 15 its wrap counter, and so in the upper
    /// half for the used side; 0 there stands for the same. A new ring begins at 0x8000.
    ///
    /// # Errors
    /// [`RingError::Size`] for a place of another layout, [`RingError::Base`].
    pub fn new(place: Place, options: Options, base: u32) -> Result<Self, RingError> {
        let size = place.size;
        if place.layout != Layout::Packed {
            return Err(RingError::Size { layout: Layout::Packed, size: size.into() });
        }
        let next = Cursor::of_bits(base as u16);
        let used = if base >> 16 == 0 { next } else { Cursor::of_bits((base >> 16) as u16) };
        if next.index >= size || used.index >= size {
            return Err(RingError::Base { base, size });
        }
        let (driver_event, device_event) = (Event(place.driver.clone()), Event(place.device.clone()));
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
        })
    }

    /// Where the device stands in a ring that one of these has left, used buffers being published in order: told `base`, which is
    /// believed unless it is the beginning; some drivers say that after their device has gone and come back (QEMU 7.2
    /// does). `None` where the ring does not show it.
    ///
    /// In each descriptor the flag USED is that of the device's last round over it, whoever wrote it last: the driver, that means
    /// to go on there, writes the opposite of its own round. So it changes at most once on the way through the ring, where
    /// the device stands; see `mark`.
    pub fn resume(place: &Place, base: u32) -> Option<u32> {
        if Cursor::of_bits(base as u16) != Cursor::START {
            return Some(base);
        }
        let is_used = |index: u16| {
            let [_, rest] = place.descriptors.all()[usize::from(index)].load();
            turn(u64::from_le(rest)) & USED != 0
        };
        let first = is_used(0);
        let cursor = match (1..place.size).find(|&index| is_used(index) != first) {
            None => Cursor { index: 0, wrap: !first },
            Some(index) if (index..place.size).all(|index| is_used(index) != first) => {
                Cursor { index, wrap: first }
            }
            Some(_) => return None,
        };
        Some(u32::from(cursor.bits()) | u32::from(cursor.bits()) << 16)
    }

    /// Marks the descriptors of a chain that was used, but for the first. No driver looks at them; [`PackedDevice::resume`] does.
    #[inline(never)]
    fn mark(&self, first: Cursor, descriptors: u16) {
        for count in 1..descriptors {
            let cursor = first.advanced(count, self.place.size);
            self.place.descriptors.all()[cursor.at()].store_last_u16_release(used(cursor.wrap).to_le());
        }
    }

    /// All of a chain, whose first descriptor has more to it (sections 2.8.6 and 2.8.7).
    #[inline(never)]
    fn walk(&self, first: Descriptor, memory: &Memory, chain: &mut Chain) -> Result<(), RingError> {
        let (mut descriptor, mut cursor, mut count) = (first, self.next, 1);
        loop {
            if descriptor.flags & INDIRECT != 0 {
                self.walk_table(&descriptor, memory, chain)?;
                break;
            }
            chain.push(memory, descriptor.address, descriptor.len_bytes, descriptor.flags & WRITE != 0)?;
            if descriptor.flags & NEXT == 0 {
                break;
            }
            if count == self.place.size {
                return Err(RingError::Loop { max: count });
            }
            count += 1;
            cursor = cursor.advanced(1, self.place.size);
            let record = &self.place.descriptors.all()[cursor.at()];
            let [_, rest] = record.load();
            descriptor = Descriptor::of(record, u64::from_le(rest));
        }
        // The last one names the buffer (section 2.8.6).
        chain.name(Token { id: descriptor.id, descriptors: count });
        Ok(())
    }

    /// An indirect table (section 2.8.7): its descriptors follow each other, and of their flags only one counts.
    fn walk_table(&self, table: &Descriptor, memory: &Memory, chain: &mut Chain) -> Result<(), RingError> {
        if !self.options.indirect {
            return Err(RingError::NoIndirect);
        }
        if table.flags & NEXT != 0 {
            return Err(RingError::IndirectNext);
        }
        let size = table_size(table.len_bytes)?;
        for index in 0..u64::from(size) {
            let fault = RingError::Outside { address: table.address, len_bytes: table.len_bytes };
            let at = table.address.checked_add(index * Record::BYTES as u64).ok_or(fault)?;
            let (mut bytes, mut hint) = ([0; Record::BYTES], chain.hint);
            memory.read(at, &mut bytes, &mut hint)?;
            chain.hint = hint;
            let [address, rest] = bytes.as_chunks::<8>().0 else { return Err(fault) };
            let (address, rest) = (u64::from_le_bytes(*address), u64::from_le_bytes(*rest));
            let flags = (rest >> 48) as u16;
            if flags & INDIRECT != 0 {
                return Err(RingError::NestedIndirect);
            }
            chain.push(memory, address, rest as u32, flags & WRITE != 0)?;
        }
        Ok(())
    }
}

impl Descriptor {
    /// What is there, of which `rest` was read.
    #[inline(always)]
    fn of(record: &Record, rest: u64) -> Self {
        let address = u64::from_le(record.load_first());
        Self { address, len_bytes: rest as u32, id: (rest >> 32) as u16, flags: (rest >> 48) as u16 }
    }
}

/// What is there, but for its address, if its flags say `available`.
#[inline(always)]
fn made_available(record: &Record, available: u16) -> Option<u64> {
    // (B)
    let rest = u64::from_le(record.load_second_acquire());
    (turn(rest) == available).then_some(rest)
}

/// Pops plain buffers of one region into `chains`, from place `first` on up to `end`; how many.
// All that the loop looks at is at hand: what is behind a reference is read anew after each word of the ring.
#[inline(always)]
fn pop_run(descriptors: &[Record], first: Cursor, end: usize, hand: Hand, chains: &mut [Chain]) -> usize {
    let turn = available(first.wrap);
    let run = descriptors.get(first.at()..end).unwrap_or_default();
    for (at, (record, chain)) in run.iter().zip(chains).enumerate() {
        let Some(only) = plain(record, turn) else { return at };
        if (first.at() + at).is_multiple_of(LINE) {
            prefetch_ahead(descriptors, first.at() + at, COMING_SOON);
        }
        let Some(part) = hand.find(only.address, only.len_bytes) else { return at };
        chain.set_only(Token { id: only.id, descriptors: 1 }, part, only.flags & WRITE != 0);
    }
    run.len()
}

/// What is there, if its flags say `available`, and that it is all of its buffer.
#[inline(always)]
fn plain(record: &Record, available: u16) -> Option<Descriptor> {
    const LOOKED_AT: u16 = AVAILABLE | USED | NEXT | INDIRECT;
    // (B)
    let rest = u64::from_le(record.load_second_acquire());
    ((rest >> 48) as u16 & LOOKED_AT == available).then(|| Descriptor::of(record, rest))
}

/// Says of buffers of one descriptor each, the first of `chains`, that they were used, with these flags; how many: as far as
/// the ring goes on, and there are such.
#[inline(always)]
fn put_run(run: &[Record], flags: u16, chains: &[Chain]) -> usize {
    for (at, (record, chain)) in run.iter().zip(chains).enumerate() {
        let token = chain.token();
        if token.descriptors != 1 {
            return at;
        }
        // (C), seen once the first one of the batch is.
        record.store_second_release(rest(0, token.id, flags));
    }
    run.len().min(chains.len())
}

/// Has the lines of the descriptors from `at` on, which is available, brought here, to be written: what they say is read, and
/// then that they were used. Lines that the driver has not come to are here from the round before.
#[inline(always)]
fn prefetch_first(descriptors: &[Record], at: usize) {
    for ahead in (LINE..COMING_SOON).step_by(LINE) {
        prefetch_ahead(descriptors, at, ahead);
    }
}

/// Asks for the line of the descriptor so many further on, to be written; of a ring as short as that, for none.
#[inline(always)]
fn prefetch_ahead(descriptors: &[Record], at: usize, ahead: usize) {
    let (there, len) = (at + ahead, descriptors.len());
    let there = if there >= len { there - len } else { there };
    if let Some(descriptor) = descriptors.get(there) {
        descriptor.prefetch_to_write();
    }
}

impl DeviceRing for PackedDevice {
    fn size(&self) -> u16 {
        self.place.size
    }

    fn layout(&self) -> Layout {
        Layout::Packed
    }

    #[inline]
    fn pop(&mut self, memory: &Memory, chain: &mut Chain) -> Result<bool, RingError> {
        if self.pop_plain(memory, std::slice::from_mut(chain)) == 1 {
            return Ok(true);
        }
        let record = &self.place.descriptors.all()[self.next.at()];
        let Some(rest) = made_available(record, available(self.next.wrap)) else { return Ok(false) };
        let first = Descriptor::of(record, rest);
        chain.start(Token { id: first.id, descriptors: 1 });
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
        if room > 1 && made_available(&descriptors[next.at()], available(next.wrap)).is_some() {
            prefetch_first(descriptors, next.at());
        }
        // Up to the end of the ring, and perhaps from its beginning on; and on in another region.
        let mut is_other = false;
        while count < room {
            let end = descriptors.len().min(next.at() + (room - count));
            let popped = pop_run(descriptors, next, end, hand, &mut chains[count..]);
            let ended = next.at() + popped < end;
            count += popped;
            next = next.advanced(popped as u16, size);
            if !ended {
                continue;
            }
            let first = plain(&descriptors[next.at()], available(next.wrap));
            let other = first.and_then(|first| memory.other_hand(first.address, first.len_bytes, hand));
            // Whoever writes another address meanwhile is not followed for ever.
            let Some(other) = other.filter(|_| popped > 0 || !is_other) else { break };
            (hand, is_other) = (other, true);
        }
        (self.next, self.hint) = (next, hand.index);
        self.inside += count as u16;
        count
    }

    fn unpop(&mut self, token: Token) {
        self.inside = self.inside.saturating_sub(token.descriptors);
        self.next = self.next.back(token.descriptors.min(self.place.size), self.place.size);
    }

    #[inline]
    fn put_used(&mut self, token: Token, written_bytes: u32) {
        let flags = used(self.used.wrap) | if written_bytes > 0 { WRITE } else { 0 };
        let (at, rest) = (self.used.at(), rest(written_bytes, token.id, flags));
        if self.held_back.is_some() {
            // (C), seen once the first one of the batch is.
            self.place.descriptors.all()[at].store_second_release(rest);
        } else {
            self.held_back = Some((at, rest));
        }
        if token.descriptors > 1 {
            self.mark(self.used, token.descriptors);
        }
        self.used = self.used.advanced(token.descriptors, self.place.size);
        self.inside = self.inside.saturating_sub(token.descriptors);
        self.untold = self.untold.saturating_add(token.descriptors);
    }

    #[inline]
    fn put_all_used(&mut self, chains: &[Chain]) {
        let mut left = chains.iter();
        // The first is held back, or shown to be behind one that is: so that those behind it are.
        while let Some(chain) = left.next() {
            self.put_used(chain.token(), 0);
            let run = self.place.descriptors.all().get(self.used.at()..).unwrap_or_default();
            let count = put_run(run, used(self.used.wrap), left.as_slice());
            left = left.as_slice()[count..].iter();
            self.used = self.used.advanced(count as u16, self.place.size);
            self.inside = self.inside.saturating_sub(count as u16);
            self.untold = self.untold.saturating_add(count as u16);
        }
    }

    #[inline]
    fn publish(&mut self) -> bool {
        let Some((at, rest)) = self.held_back.take() else { return false };
        // (C)
        self.place.descriptors.all()[at].store_second_release(rest);
        true
    }

    fn wants_call(&mut self) -> bool {
        // (E)
        fence(Ordering::SeqCst);
        self.driver_event.wants(self.used, std::mem::take(&mut self.untold), self.place.size)
    }

    fn enable(&mut self) -> bool {
        if self.options.event_idx {
            self.device_event.ask_at(self.next);
        } else {
            self.device_event.ask();
        }
        // (F)
        fence(Ordering::SeqCst);
        made_available(&self.place.descriptors.all()[self.next.at()], available(self.next.wrap)).is_none()
    }

    fn disable(&mut self) {
        self.device_event.ask_not();
    }

    fn base(&self) -> u32 {
        u32::from(self.next.bits()) | u32::from(self.used.bits()) << 16
    }
}
