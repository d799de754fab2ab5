//! Host memory as a NIC sees it: bytes at bus addresses. Rings, completions and doorbell records lie here.
//!
//! Packets themselves stay in the pool's region. Only their address and length cross the bus of the model, or
//! their bytes if the driver copies them into an entry.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

/// The lowest address: address 0 is invalid, so that a pointer never written is an error.
const BASE: u64 = 0x1000;
const ALIGN_BYTES: u64 = 4096;

/// An access beyond memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no host memory at {address:#x}, {len_bytes} bytes: there are {there_bytes} from {BASE:#x}")]
pub struct MemoryFault {
    /// The address.
    pub address: u64,
    /// The length.
    pub len_bytes: usize,
    /// Bytes of memory.
    pub there_bytes: usize,
}

/// A write of the driver to a register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Doorbell {
    /// The queue.
    pub queue: usize,
    /// True for a receive register.
    pub receive: bool,
    /// The value.
    pub value: u32,
    /// Bytes of the write on the bus.
    pub len_bytes: u64,
}

/// Memory that driver and NIC share, and the driver's register writes that have not left the processor yet.
#[derive(Debug, Default)]
pub struct HostMemory {
    bytes: Vec<u8>,
    /// Writes to registers, oldest first.
    pub doorbells: VecDeque<Doorbell>,
}

/// The memory as both halves hold it. Each is done with it before the other begins.
pub type SharedMemory = Arc<Mutex<HostMemory>>;

impl HostMemory {
    /// Creates an empty shared memory.
    pub fn shared() -> SharedMemory {
        Arc::default()
    }

    /// Allocates `bytes` zeros from a page's start on. Returns their address.
    pub fn allocate(&mut self, bytes: usize) -> u64 {
        let at = (self.bytes.len() as u64).next_multiple_of(ALIGN_BYTES);
        self.bytes.resize(at as usize + bytes, 0);
        BASE + at
    }

    /// Returns the `len_bytes` from `address` on.
    ///
    /// # Errors
    /// [`MemoryFault`].
    #[inline]
    pub fn bytes(&self, address: u64, len_bytes: usize) -> Result<&[u8], MemoryFault> {
        let at = address.checked_sub(BASE).and_then(|at| usize::try_from(at).ok());
        let found = at.and_then(|at| self.bytes.get(at..at.checked_add(len_bytes)?));
        found.ok_or(MemoryFault { address, len_bytes, there_bytes: self.bytes.len() })
    }

    /// Returns the `N` bytes from `address` on.
    ///
    /// # Errors
    /// [`MemoryFault`].
    #[inline]
    pub fn read<const N: usize>(&self, address: u64) -> Result<[u8; N], MemoryFault> {
        let mut to = [0; N];
        to.copy_from_slice(self.bytes(address, N)?);
        Ok(to)
    }

    /// Writes `from` to `address`.
    ///
    /// # Errors
    /// [`MemoryFault`]; nothing is written.
    #[inline]
    pub fn write(&mut self, address: u64, from: &[u8]) -> Result<(), MemoryFault> {
        self.bytes(address, from.len())?;
        let at = (address - BASE) as usize;
        self.bytes[at..at + from.len()].copy_from_slice(from);
        Ok(())
    }
}

/// A way for a NIC's writes to memory: immediate in tests, over the bus in a model.
pub trait Post {
    /// Writes `bytes` to `address`.
    ///
    /// # Errors
    /// [`MemoryFault`].
    fn post(&mut self, address: u64, bytes: &[u8]) -> Result<(), MemoryFault>;
}

impl Post for HostMemory {
    fn post(&mut self, address: u64, bytes: &[u8]) -> Result<(), MemoryFault> {
        self.write(address, bytes)
    }
}
