//! The bus addresses of a pool's frames, and the number that each packet carries.
//!
//! Of a packet's bytes, only the first eight are modelled: its number, which identifies it from wire to wire.
//! A receiving NIC writes the number beside the buffer. The driver copies it into the frame, and back when it
//! sends.

use super::host_memory::{HostMemory, MemoryFault};
use wharf_mem::{Frame, Region};

/// Bus address of the first buffer; far above the rings.
const FIRST: u64 = 1 << 40;
/// Bytes of a packet's number.
pub const NUMBER_BYTES: usize = 8;

/// The buffers of one pool.
#[derive(Debug, Clone, Copy)]
pub struct Buffers {
    numbers: u64,
    all_bytes: u64,
    frame_bytes: u64,
    /// Bytes per number.
    granule_bytes: u64,
}

impl Buffers {
    /// Creates the buffers of this region, with one packet per frame.
    pub fn new(region: &Region, memory: &mut HostMemory) -> Self {
        Self::with_granule(region, region.spec().frame_bytes, memory)
    }

    /// Creates the buffers of this region, where packets may begin every `granule_bytes` of a frame.
    pub fn with_granule(region: &Region, granule_bytes: u32, memory: &mut HostMemory) -> Self {
        let (frame_bytes, granule_bytes) =
            (u64::from(region.spec().frame_bytes), u64::from(granule_bytes.max(1)));
        let all_bytes = u64::from(region.spec().frames) * frame_bytes;
        let numbers = memory.allocate((all_bytes / granule_bytes) as usize * NUMBER_BYTES);
        Self { numbers, all_bytes, frame_bytes, granule_bytes }
    }

    /// Returns the bus address of a frame.
    #[inline]
    pub fn address(&self, frame: &Frame) -> u64 {
        FIRST + u64::from(frame.index()) * self.frame_bytes
    }

    fn number_at(&self, address: u64) -> Result<u64, MemoryFault> {
        let offset = address.checked_sub(FIRST).filter(|&offset| offset < self.all_bytes);
        let there_bytes = self.all_bytes as usize;
        let fault = MemoryFault { address, len_bytes: NUMBER_BYTES, there_bytes };
        offset.map(|offset| self.numbers + offset / self.granule_bytes * NUMBER_BYTES as u64).ok_or(fault)
    }

    /// Returns the number of the packet at `address`.
    ///
    /// # Errors
    /// There is no buffer.
    #[inline]
    pub fn number(&self, address: u64, memory: &HostMemory) -> Result<u64, MemoryFault> {
        Ok(u64::from_be_bytes(memory.read(self.number_at(address)?)?))
    }

    /// Sets the number of the packet at `address`.
    ///
    /// # Errors
    /// There is no buffer.
    #[inline]
    pub fn set_number(&self, address: u64, number: u64, memory: &mut HostMemory) -> Result<(), MemoryFault> {
        memory.write(self.number_at(address)?, &number.to_be_bytes())
    }
}

/// Returns the number at the start of a packet's bytes.
pub fn number_of(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |first| u64::from_be_bytes(*first))
}

/// Writes the number to the start of a packet's bytes.
pub fn put_number(bytes: &mut [u8], number: u64) {
    if let Some(first) = bytes.first_chunk_mut() {
        *first = number.to_be_bytes();
    }
}
