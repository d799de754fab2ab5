//! The driver's side of both rings.

use super::{Descriptor, HEADER_BYTES, INDEX_AT, KICK_BYTES, Split};
use crate::nic::host::{HostMemory, MemoryFault};
use crate::nic::pair::{Kick, Lie, RingBytes};

/// One ring, from the driver's side.
#[derive(Debug)]
struct Side {
    ring: Split,
    /// Descriptors that nobody uses, last in first out.
    free: Vec<u16>,
    next_available: u16,
    told: u16,
    next_used: u16,
}

impl Side {
    fn new(ring: Split, start: u16) -> Self {
        let free = (0..ring.size as u16).rev().collect();
        Self { ring, free, next_available: start, told: start, next_used: start }
    }

    fn make_available(
        &mut self, descriptor: Descriptor, memory: &mut HostMemory,
    ) -> Result<Option<u16>, MemoryFault> {
        let Some(id) = self.free.pop() else { return Ok(None) };
        memory.write(self.ring.descriptor_at(id), &descriptor.to_bytes())?;
        memory.write(self.ring.available_at(self.next_available), &id.to_le_bytes())?;
        self.next_available = self.next_available.wrapping_add(1);
        Ok(Some(id))
    }

    fn ring(&mut self, queue: u16, memory: &mut HostMemory) -> Result<Option<Kick>, MemoryFault> {
        if self.told == self.next_available {
            return Ok(None);
        }
        self.told = self.next_available;
        memory.write(self.ring.available + INDEX_AT, &self.told.to_le_bytes())?;
        // The NIC may say that it looks by itself (VIRTQ_USED_F_NO_NOTIFY).
        let flags = u16::from_le_bytes(memory.read(self.ring.used)?);
        let value = u32::from(self.told) << 16 | u32::from(queue);
        Ok((flags & 1 == 0).then_some((value, KICK_BYTES)))
    }

    /// The next element used: descriptor and length.
    fn next_used(&mut self, memory: &HostMemory) -> Result<Option<(u16, u32)>, Lie> {
        let index = u16::from_le_bytes(memory.read(self.ring.used + INDEX_AT)?);
        let new = index.wrapping_sub(self.next_used);
        if new == 0 {
            return Ok(None);
        }
        let outstanding = self.told.wrapping_sub(self.next_used);
        if new > outstanding {
            return Err(Lie(format!("a used index of {index}: {new} new of {outstanding} available")));
        }
        let [a, b, c, d, e, f, g, h] = memory.read(self.ring.used_at(self.next_used))?;
        self.next_used = self.next_used.wrapping_add(1);
        let (id, len_bytes) = (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]));
        match u16::try_from(id) {
            Ok(id) if u32::from(id) < self.ring.size && !self.free.contains(&id) => {
                self.free.push(id);
                Ok(Some((id, len_bytes)))
            }
            _ => {
                Err(Lie(format!("descriptor {id} used, which is not available (ring of {})", self.ring.size)))
            }
        }
    }
}

/// Both rings of a queue pair.
#[derive(Debug)]
pub struct Rings {
    send: Side,
    receive: Side,
}

impl Rings {
    /// Of these rings; indices start at `start`, so that they wrap early in tests.
    pub fn new(send: Split, receive: Split, start: u16) -> Self {
        Self { send: Side::new(send, start), receive: Side::new(receive, start) }
    }
}

impl RingBytes for Rings {
    fn places(&self) -> usize {
        self.send.ring.size as usize
    }

    fn has_room(&self) -> bool {
        !self.send.free.is_empty()
    }

    fn send(&mut self, address: u64, len_bytes: u32, memory: &mut HostMemory) -> Result<usize, MemoryFault> {
        let address = address - u64::from(HEADER_BYTES);
        let descriptor = Descriptor { address, len_bytes: len_bytes + HEADER_BYTES, write: false };
        Ok(self.send.make_available(descriptor, memory)?.unwrap_or_default().into())
    }

    fn ring(&mut self, memory: &mut HostMemory) -> Result<Option<Kick>, MemoryFault> {
        self.send.ring(1, memory)
    }

    fn next_sent(&mut self, memory: &mut HostMemory) -> Result<Option<usize>, Lie> {
        Ok(self.send.next_used(memory)?.map(|(id, _)| id.into()))
    }

    fn post(
        &mut self, address: u64, len_bytes: u32, memory: &mut HostMemory,
    ) -> Result<Option<usize>, MemoryFault> {
        let address = address - u64::from(HEADER_BYTES);
        let descriptor = Descriptor { address, len_bytes: len_bytes + HEADER_BYTES, write: true };
        Ok(self.receive.make_available(descriptor, memory)?.map(usize::from))
    }

    fn ring_posted(&mut self, memory: &mut HostMemory) -> Result<Option<Kick>, MemoryFault> {
        self.receive.ring(0, memory)
    }

    fn next_received(&mut self, memory: &mut HostMemory) -> Result<Option<(usize, u32)>, Lie> {
        let used = self.receive.next_used(memory)?;
        Ok(used.map(|(id, len_bytes)| (id.into(), len_bytes.saturating_sub(HEADER_BYTES))))
    }
}
