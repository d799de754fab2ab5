//! `virtio`: a NIC that is a virtio-net device, with split rings.
//!
//! A ring is three tables: descriptors of 16 bytes (address, length, flags, next), what the driver makes available
//! (2 bytes each) and what the NIC has used (8 bytes each). A packet lies behind a header of 12 bytes. The driver
//! kicks by four bytes that carry the index (VIRTIO_F_NOTIFICATION_DATA); the NIC interrupts by a write of four bytes
//! where it is asked to. (virtio 1.2, 2.7 and 5.1.)

pub mod driver;
pub mod formats;
pub mod setup;

#[cfg(test)]
mod tests;

use super::host::{HostMemory, MemoryFault};

/// Before each packet (`struct virtio_net_hdr_v1`).
pub const HEADER_BYTES: u32 = 12;
/// A kick, and an interrupt.
pub const KICK_BYTES: u64 = 4;
/// A descriptor.
pub const DESCRIPTOR_BYTES: usize = 16;
const USED_BYTES: u64 = 8;
const INDEX_AT: u64 = 2;
const ENTRIES_AT: u64 = 4;
/// The NIC writes to the buffer (VIRTQ_DESC_F_WRITE).
const WRITE: u16 = 2;

/// Where one ring lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Split {
    /// Descriptors; a power of two, 16 to 32768.
    pub size: u32,
    descriptors: u64,
    available: u64,
    used: u64,
}

/// One descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Descriptor {
    /// The buffer's first byte.
    pub address: u64,
    /// Its length.
    pub len_bytes: u32,
    /// Whether the NIC writes to it.
    pub write: bool,
}

impl Descriptor {
    fn to_bytes(self) -> [u8; DESCRIPTOR_BYTES] {
        let mut bytes = [0; DESCRIPTOR_BYTES];
        bytes[..8].copy_from_slice(&self.address.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.len_bytes.to_le_bytes());
        bytes[12..14].copy_from_slice(&if self.write { WRITE } else { 0 }.to_le_bytes());
        bytes
    }

    /// Or what is wrong with it: chains and tables of descriptors are not negotiated.
    fn from_bytes(bytes: &[u8; DESCRIPTOR_BYTES]) -> Result<Self, String> {
        let [a, b, c, d, e, f, g, h, i, j, k, l, m, n, ..] = *bytes;
        let flags = u16::from_le_bytes([m, n]);
        if flags & !WRITE != 0 {
            return Err(format!(
                "descriptor flags of {flags:#06x}: chains and indirect tables are not negotiated"
            ));
        }
        let address = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
        let len_bytes = u32::from_le_bytes([i, j, k, l]);
        Ok(Self { address, len_bytes, write: flags == WRITE })
    }
}

impl Split {
    /// Allocates a ring of `size` descriptors.
    pub fn allocate(size: u32, memory: &mut HostMemory) -> Self {
        let entries = size as usize;
        Self {
            size,
            descriptors: memory.allocate(entries * DESCRIPTOR_BYTES),
            // With the place for used_event, and avail_event, at the end.
            available: memory.allocate(6 + entries * 2),
            used: memory.allocate(6 + entries * USED_BYTES as usize),
        }
    }

    /// Both indices are `start` now, as if so many had been used.
    ///
    /// # Errors
    /// The ring is not in memory.
    pub fn start_at(&self, start: u16, memory: &mut HostMemory) -> Result<(), MemoryFault> {
        memory.write(self.available + INDEX_AT, &start.to_le_bytes())?;
        memory.write(self.used + INDEX_AT, &start.to_le_bytes())
    }

    /// Where the ring of what is used begins: for who plays a NIC that lies (fuzz target `virtio_used`).
    pub fn used_address(&self) -> u64 {
        self.used
    }

    fn place(&self, index: u16) -> u64 {
        u64::from(u32::from(index) & (self.size - 1))
    }

    fn descriptor_at(&self, id: u16) -> u64 {
        self.descriptors + u64::from(id) * DESCRIPTOR_BYTES as u64
    }

    fn available_at(&self, index: u16) -> u64 {
        self.available + ENTRIES_AT + self.place(index) * 2
    }

    fn used_at(&self, index: u16) -> u64 {
        self.used + ENTRIES_AT + self.place(index) * USED_BYTES
    }

    /// The descriptor `id`, as the NIC reads it.
    fn read_descriptor(&self, id: u16, memory: &HostMemory) -> Result<Descriptor, String> {
        if u32::from(id) >= self.size {
            return Err(format!("descriptor {id} of a ring of {}", self.size));
        }
        let bytes = memory.read(self.descriptor_at(id)).map_err(|fault: MemoryFault| fault.to_string())?;
        Descriptor::from_bytes(&bytes)
    }
}
