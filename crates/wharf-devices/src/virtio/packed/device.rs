//! The device's side of a packed ring.

use super::super::split::{INDIRECT, NEXT, WRITE, table_size};
use super::super::{Chain, DeviceRing, Layout, Memory, Options, Place, RingError, Token};
use super::{Cursor, Descriptor, Event, USED, available, rest, turn, used};
use std::sync::atomic::{Ordering, fence};
use wharf_sys::shared::Records;

/// Descriptors of a line.
const LINE: usize = 4;
/// Lines are asked for so many descriptors ahead.
const COMING_SOON: u16 = 16;

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
            let [_, rest] = place.descriptors.load(index.into());
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
    fn mark(&mut self, descriptors: u16) {
        for count in 1..descriptors {
            let cursor = self.used.advanced(count, self.place.size);
            self.place.descriptors.store_last_u16_release(cursor.at(), used(cursor.wrap).to_le());
        }
    }

    /// Has the lines of descriptors behind this one, which is available, brought here, to be written: what they say is read, and
    /// then that they were used. Lines that the driver has not come to are here from the round before.
    #[inline(always)]
    fn prefetch(&self, next: Cursor, is_first: bool) {
        let size = self.place.size;
        if size <= COMING_SOON || !(is_first || next.at().is_multiple_of(LINE)) {
            return;
        }
        if is_first {
            for ahead in (LINE as u16..COMING_SOON).step_by(LINE) {
                self.place.descriptors.prefetch_to_write(next.advanced(ahead, size).at());
            }
        }
        self.place.descriptors.prefetch_to_write(next.advanced(COMING_SOON, size).at());
    }

    /// The descriptor there, but for its address, if it is available.
    #[inline(always)]
    fn available(&self, next: Cursor) -> Option<u64> {
        // (B)
        let rest = u64::from_le(self.place.descriptors.load_second_acquire(next.at()));
        (turn(rest) == available(next.wrap)).then_some(rest)
    }

    #[inline(always)]
    fn descriptor(&self, at: usize, rest: u64) -> Descriptor {
        let address = u64::from_le(self.place.descriptors.load_first(at));
        Descriptor { address, len_bytes: rest as u32, id: (rest >> 32) as u16, flags: (rest >> 48) as u16 }
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
            let [_, rest] = self.place.descriptors.load(cursor.at());
            descriptor = self.descriptor(cursor.at(), u64::from_le(rest));
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
            let at = table.address.checked_add(index * Records::RECORD_BYTES as u64).ok_or(fault)?;
            let (mut bytes, mut hint) = ([0; Records::RECORD_BYTES], chain.hint);
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
        let Some(rest) = self.available(self.next) else { return Ok(false) };
        let first = self.descriptor(self.next.at(), rest);
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
        let (mut next, mut hint, mut count) = (self.next, self.hint, 0);
        let room = chains.len().min((self.place.size - self.inside).into());
        for chain in &mut chains[..room] {
            let Some(rest) = self.available(next) else { break };
            self.prefetch(next, count == 0 && room > 1);
            let only = self.descriptor(next.at(), rest);
            let part = memory.find(only.address, only.len_bytes, &mut hint);
            let Some(part) = part.filter(|part| part.is_all_of(only.len_bytes)) else { break };
            if only.flags & (NEXT | INDIRECT) != 0 {
                break;
            }
            chain.set_only(Token { id: only.id, descriptors: 1 }, part, only.flags & WRITE != 0);
            (next, count) = (next.advanced(1, self.place.size), count + 1);
        }
        (self.next, self.hint) = (next, hint);
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
            self.place.descriptors.store_second_release(at, rest);
        } else {
            self.held_back = Some((at, rest));
        }
        if token.descriptors > 1 {
            self.mark(token.descriptors);
        }
        self.used = self.used.advanced(token.descriptors, self.place.size);
        self.inside = self.inside.saturating_sub(token.descriptors);
        self.untold = self.untold.saturating_add(token.descriptors);
    }

    #[inline]
    fn put_all_used(&mut self, chains: &[Chain]) {
        let Some((first, others)) = chains.split_first() else { return };
        // It is held back, or shown to be behind one that is: so that those behind it are.
        self.put_used(first.token(), 0);
        let (mut cursor, mut count) = (self.used, 0);
        for token in others.iter().map(Chain::token) {
            // (C), seen once the first one of the batch is.
            let rest = rest(0, token.id, used(cursor.wrap));
            self.place.descriptors.store_second_release(cursor.at(), rest);
            self.used = cursor;
            if token.descriptors > 1 {
                self.mark(token.descriptors);
            }
            cursor = cursor.advanced(token.descriptors, self.place.size);
            count += token.descriptors;
        }
        self.used = cursor;
        self.inside = self.inside.saturating_sub(count);
        self.untold = self.untold.saturating_add(count);
    }

    #[inline]
    fn publish(&mut self) -> bool {
        let Some((at, rest)) = self.held_back.take() else { return false };
        // (C)
        self.place.descriptors.store_second_release(at, rest);
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
        self.available(self.next).is_none()
    }

    fn disable(&mut self) {
        self.device_event.ask_not();
    }

    fn base(&self) -> u32 {
        u32::from(self.next.bits()) | u32::from(self.used.bits()) << 16
    }
}
