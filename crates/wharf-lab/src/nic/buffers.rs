//! Where the frames of a pool lie for a NIC, and the number that each packet carries.
//!
//! Of a packet's bytes, only the first eight are modelled: its number, by which it is known from wire to wire. A NIC
//! that receives writes it beside the buffer; the driver copies it into the frame, and back when it sends.

use super::host::{HostMemory, MemoryFault};
use wharf_mem::{Frame, Region};

/// Bus address of the first buffer; far above the rings.
const FIRST: u64 = 1 << 40;
/// Bytes of a packet's number.
pub const NUMBER_BYTES: usize = 8;

/// The buffers of one pool.
#[derive(Debug, Clone, Copy)]
pub struct Buffers {
    numbers: u64,
    frames: u32,
    frame_bytes: u64,
}

impl Buffers {
    /// Of this region.
    pub fn new(region: &Region, memory: &mut HostMemory) -> Self {
        let spec = region.spec();
        let numbers = memory.allocate(spec.frames as usize * NUMBER_BYTES);
        Self { numbers, frames: spec.frames, frame_bytes: spec.frame_bytes.into() }
    }

    /// Where a frame lies.
    #[inline]
    pub fn address(&self, frame: &Frame) -> u64 {
        FIRST + u64::from(frame.index()) * self.frame_bytes
    }

    fn number_at(&self, address: u64) -> Result<u64, MemoryFault> {
        let index = address.checked_sub(FIRST).map(|offset| offset / self.frame_bytes);
        let index = index.filter(|&index| index < u64::from(self.frames));
        let there_bytes = self.frames as usize * self.frame_bytes as usize;
        let fault = MemoryFault { address, len_bytes: NUMBER_BYTES, there_bytes };
        index.map(|index| self.numbers + index * NUMBER_BYTES as u64).ok_or(fault)
    }

    /// The number of the packet at `address`.
    ///
    /// # Errors
    /// There is no buffer.
    #[inline]
    pub fn number(&self, address: u64, memory: &HostMemory) -> Result<u64, MemoryFault> {
        Ok(u64::from_be_bytes(memory.read(self.number_at(address)?)?))
    }

    /// Sets it.
    ///
    /// # Errors
    /// There is no buffer.
    #[inline]
    pub fn set_number(&self, address: u64, number: u64, memory: &mut HostMemory) -> Result<(), MemoryFault> {
        memory.write(self.number_at(address)?, &number.to_be_bytes())
    }
}

/// The number that a packet's bytes begin with.
pub fn number_of(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |first| u64::from_be_bytes(*first))
}

/// Writes it there.
pub fn put_number(bytes: &mut [u8], number: u64) {
    if let Some(first) = bytes.first_chunk_mut() {
        *first = number.to_be_bytes();
    }
}
