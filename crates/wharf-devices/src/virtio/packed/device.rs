//! The device's side of a packed ring.

use super::super::split::{INDIRECT, NEXT, WRITE, table_size};
use super::super::{Chain, DeviceRing, Layout, Memory, Options, Place, RingError, Token};
use super::{
    AVAILABLE, Cursor, DESCRIPTOR_BYTES, Descriptor, Event, FLAGS_AT, ID_AT, LEN_AT, USED, rest, used,
};
use std::sync::atomic::{Ordering, fence};

/// The device's side of a packed ring.
#[derive(Debug)]
pub struct PackedDevice {
    place: Place,
    options: Options,
    /// The next descriptor that the driver makes available.
    next: Cursor,
    /// Where the next used one is written.
    used: Cursor,
    /// Descriptors popped and not used.
    inside: u16,
    /// The first of a batch that was used: where, and the flags that show it, and with it the batch.
    held_back: Option<(usize, u16)>,
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
            let at = usize::from(index) * DESCRIPTOR_BYTES + FLAGS_AT;
            u16::from_le(place.descriptors.load_u16(at)) & USED != 0
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
            self.place.descriptors.store_u16(cursor.at() + FLAGS_AT, used(cursor.wrap).to_le());
        }
    }

    /// The next descriptor but for its address, if it is available.
    #[inline(always)]
    fn available(&self) -> Option<u64> {
        // (B)
        let rest = u64::from_le(self.place.descriptors.load_u64_acquire(self.next.at() + LEN_AT));
        let flags = (rest >> 48) as u16;
        let (available, used) = (flags & AVAILABLE != 0, flags & USED != 0);
        (available == self.next.wrap && used != self.next.wrap).then_some(rest)
    }

    #[inline(always)]
    fn descriptor(&self, at: usize, rest: u64) -> Descriptor {
        let address = u64::from_le(self.place.descriptors.load_u64(at));
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
            let rest = u64::from_le(self.place.descriptors.load_u64(cursor.at() + LEN_AT));
            descriptor = self.descriptor(cursor.at(), rest);
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
            let at = table.address.checked_add(index * DESCRIPTOR_BYTES as u64).ok_or(fault)?;
            let (mut bytes, mut hint) = ([0; DESCRIPTOR_BYTES], chain.hint);
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
        let Some(rest) = self.available() else { return Ok(false) };
        let first = self.descriptor(self.next.at(), rest);
        let flags = first.flags;
        chain.start(Token { id: first.id, descriptors: 1 });
        if flags & (NEXT | INDIRECT) == 0 {
            chain.push(memory, first.address, first.len_bytes, flags & WRITE != 0)?;
        } else {
            self.walk(first, memory, chain)?;
        }
        let (descriptors, size) = (chain.token().descriptors, self.place.size);
        self.inside = self
            .inside
            .checked_add(descriptors)
            .filter(|&inside| inside <= size)
            .ok_or(RingError::Loop { max: size })?;
        self.next = self.next.advanced(descriptors, size);
        Ok(true)
    }

    fn unpop(&mut self, token: Token) {
        self.inside = self.inside.saturating_sub(token.descriptors);
        self.next = self.next.back(token.descriptors.min(self.place.size), self.place.size);
    }

    #[inline]
    fn put_used(&mut self, token: Token, written_bytes: u32) {
        let (at, view) = (self.used.at(), &self.place.descriptors);
        let flags = used(self.used.wrap) | if written_bytes > 0 { WRITE } else { 0 };
        if self.held_back.is_some() {
            // (C), seen once the first one of the batch is.
            view.store_u64_release(at + LEN_AT, rest(written_bytes, token.id, flags));
        } else {
            view.store_u32(at + LEN_AT, written_bytes.to_le());
            view.store_u16(at + ID_AT, token.id.to_le());
            self.held_back = Some((at + FLAGS_AT, flags));
        }
        if token.descriptors > 1 {
            self.mark(token.descriptors);
        }
        self.used = self.used.advanced(token.descriptors, self.place.size);
        self.inside = self.inside.saturating_sub(token.descriptors);
        self.untold = self.untold.saturating_add(token.descriptors);
    }

    #[inline]
    fn publish(&mut self) -> bool {
        let Some((at, flags)) = self.held_back.take() else { return false };
        // (C)
        self.place.descriptors.store_u16_release(at, flags.to_le());
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
        self.available().is_none()
    }

    fn disable(&mut self) {
        self.device_event.ask_not();
    }

    fn base(&self) -> u32 {
        u32::from(self.next.bits()) | u32::from(self.used.bits()) << 16
    }
}
