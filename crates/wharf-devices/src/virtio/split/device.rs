//! The device's side of a split ring.

use super::super::notify::needs_event;
use super::super::{Chain, DeviceRing, Layout, Memory, Options, Place, RingError, Token};
use super::{
    DESCRIPTOR_BYTES, Descriptor, FLAGS_AT, INDEX_AT, INDIRECT, NEXT, NO_TELLING, WRITE, available_at, load,
    store, table_size, used_at,
};
use std::sync::atomic::{Ordering, fence};

/// The device's side of a split ring.
#[derive(Debug)]
pub struct SplitDevice {
    place: Place,
    options: Options,
    mask: u16,
    /// Index of the next available entry to be popped.
    next: u16,
    /// The available index when it was read last.
    seen: u16,
    /// Index of the next used entry to be written.
    used: u16,
    /// The used index as the driver may see it.
    published: u16,
    /// As it was when it was last asked whether the driver wants to be told; `None` before.
    told: Option<u16>,
}

impl SplitDevice {
    /// Goes on with buffer `base`; the used index is where the ring says.
    ///
    /// # Errors
    /// [`RingError::Size`] for a place of another layout, [`RingError::Base`].
    pub fn new(place: Place, options: Options, base: u32) -> Result<Self, RingError> {
        if place.layout != Layout::Split {
            return Err(RingError::Size { layout: Layout::Split, size: place.size.into() });
        }
        let next = u16::try_from(base).map_err(|_| RingError::Base { base, size: place.size })?;
        let (mask, used) = (place.size - 1, load(&place.device, INDEX_AT));
        Ok(Self { place, options, mask, next, seen: next, used, published: used, told: None })
    }

    /// The used index as the ring has it: of a device that uses buffers in order and at once, that is where to go on, whatever
    /// became of the one before.
    pub fn used_index(place: &Place) -> u16 {
        load(&place.device, INDEX_AT)
    }

    /// Looks how far the driver is; whether there is anything.
    #[inline]
    fn look(&mut self) -> Result<bool, RingError> {
        // (B)
        let index = u16::from_le(self.place.driver.load_u16_acquire(INDEX_AT));
        let size = self.place.size;
        let last = [self.next, self.used].into_iter().find(|&last| index.wrapping_sub(last) > size);
        if let Some(last) = last {
            return Err(RingError::IndexJump { area: "available", index, last, size });
        }
        self.seen = index;
        Ok(index != self.next)
    }

    /// All of a chain but its first descriptor, `first`, which has more to it.
    #[inline(never)]
    fn walk(&self, first: Descriptor, memory: &Memory, chain: &mut Chain) -> Result<(), RingError> {
        let (mut descriptor, mut count) = (first, 1);
        loop {
            if descriptor.flags & INDIRECT != 0 {
                return self.walk_table(&descriptor, memory, chain);
            }
            chain.push(memory, descriptor.address, descriptor.len_bytes, descriptor.flags & WRITE != 0)?;
            if descriptor.flags & NEXT == 0 {
                return Ok(());
            }
            if count == self.place.size {
                return Err(RingError::Loop { max: count });
            }
            count += 1;
            descriptor = self.descriptor(descriptor.next)?;
        }
    }

    /// An indirect table (section 2.7.5.3), in the driver's memory.
    fn walk_table(&self, table: &Descriptor, memory: &Memory, chain: &mut Chain) -> Result<(), RingError> {
        if !self.options.indirect {
            return Err(RingError::NoIndirect);
        }
        if table.flags & NEXT != 0 {
            return Err(RingError::IndirectNext);
        }
        let size = table_size(table.len_bytes)?;
        let (mut index, mut count) = (0, 0);
        loop {
            let fault = RingError::Outside { address: table.address, len_bytes: table.len_bytes };
            let at = table.address.checked_add(u64::from(index) * DESCRIPTOR_BYTES as u64).ok_or(fault)?;
            let (mut bytes, mut hint) = ([0; DESCRIPTOR_BYTES], chain.hint);
            memory.read(at, &mut bytes, &mut hint)?;
            chain.hint = hint;
            let descriptor = Descriptor::of_bytes(&bytes);
            if descriptor.flags & INDIRECT != 0 {
                return Err(RingError::NestedIndirect);
            }
            chain.push(memory, descriptor.address, descriptor.len_bytes, descriptor.flags & WRITE != 0)?;
            count += 1;
            match descriptor.flags & NEXT {
                0 => return Ok(()),
                _ if count == size => return Err(RingError::Loop { max: size }),
                _ if descriptor.next >= size => {
                    return Err(RingError::NoDescriptor { index: descriptor.next, size });
                }
                _ => index = descriptor.next,
            }
        }
    }

    #[inline(always)]
    fn descriptor(&self, index: u16) -> Result<Descriptor, RingError> {
        let size = self.place.size;
        if index >= size {
            return Err(RingError::NoDescriptor { index, size });
        }
        Ok(Descriptor::read(&self.place.descriptors, index))
    }
}

impl DeviceRing for SplitDevice {
    fn size(&self) -> u16 {
        self.place.size
    }

    fn layout(&self) -> Layout {
        Layout::Split
    }

    #[inline]
    fn pop(&mut self, memory: &Memory, chain: &mut Chain) -> Result<bool, RingError> {
        if self.next == self.seen && !self.look()? {
            return Ok(false);
        }
        let head = load(&self.place.driver, available_at(self.next & self.mask));
        chain.start(Token { id: head, descriptors: 1 });
        let first = self.descriptor(head)?;
        if first.flags & (NEXT | INDIRECT) == 0 {
            chain.push(memory, first.address, first.len_bytes, first.flags & WRITE != 0)?;
        } else {
            self.walk(first, memory, chain)?;
        }
        self.next = self.next.wrapping_add(1);
        Ok(true)
    }

    fn unpop(&mut self, _token: Token) {
        self.next = self.next.wrapping_sub(1);
    }

    #[inline]
    fn put_used(&mut self, token: Token, written_bytes: u32) {
        let at = used_at(self.used & self.mask);
        // Where buffers come in order, most entries say what they said the round before: a line that is not written need not
        // travel to the driver again.
        for (at, word) in [(at, u32::from(token.id).to_le()), (at + 4, written_bytes.to_le())] {
            if self.place.device.load_u32(at) != word {
                self.place.device.store_u32(at, word);
            }
        }
        self.used = self.used.wrapping_add(1);
    }

    #[inline]
    fn publish(&mut self) -> bool {
        if self.used == self.published {
            return false;
        }
        // (C)
        self.place.device.store_u16_release(INDEX_AT, self.used.to_le());
        self.published = self.used;
        true
    }

    fn wants_call(&mut self) -> bool {
        // (E)
        fence(Ordering::SeqCst);
        let told = self.told.replace(self.published);
        if !self.options.event_idx {
            return told != Some(self.published) && load(&self.place.driver, FLAGS_AT) & NO_TELLING == 0;
        }
        let event = load(&self.place.driver, available_at(self.place.size));
        // The first time it is not known of what the driver was told.
        told.is_none_or(|told| needs_event(event, self.published, told))
    }

    fn enable(&mut self) -> bool {
        if self.options.event_idx {
            store(&self.place.device, used_at(self.place.size), self.next);
        } else {
            store(&self.place.device, FLAGS_AT, 0);
        }
        // (F)
        fence(Ordering::SeqCst);
        load(&self.place.driver, INDEX_AT) == self.next
    }

    fn disable(&mut self) {
        if !self.options.event_idx {
            store(&self.place.device, FLAGS_AT, NO_TELLING);
        }
    }

    fn base(&self) -> u32 {
        self.next.into()
    }
}
