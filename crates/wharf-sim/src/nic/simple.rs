//! Modelled NICs for transmission. A NIC has two halves that meet only in memory: a [`Driver`], which is a
//! device and knows no time, and a [`Hardware`], which reads the driver's writes, takes its time, and writes
//! back.
//!
//! The driver's `transmit` writes descriptors, and leaves its write to the tail register in memory. The
//! world's processor passes that on by [`Hardware::doorbell`] when its modelled time has come. The hardware
//! may compute ahead, as long as nothing shows in memory before [`Hardware::write_back`] is called for a time
//! at which it is there.

mod hardware;
mod memory;

pub use hardware::{Costs, Simple, WIRE_OVERHEAD_BYTES};
pub use memory::{Descriptor, Driver, TxMemory};

/// The hardware half of a NIC: registers, descriptor fetches, the wire.
pub trait Hardware {
    /// Handles a write to the tail register of `queue` at `now_ns`; calls come in order of time. Adds the
    /// frames that will leave to `departed`, in that order.
    fn doorbell(&mut self, queue: usize, now_ns: u64, departed: &mut Vec<Departed>);

    /// Makes the hardware's writes up to `now_ns` visible in memory.
    fn write_back(&mut self, queue: usize, now_ns: u64);

    /// Returns the time of the next write-back in flight, which an interrupt waits for.
    fn next_write_back_ns(&self, queue: usize) -> Option<u64>;
}

/// A frame that leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Departed {
    /// The buffer's index, as its descriptor says.
    pub index: u32,
    /// Its length, without checksum.
    pub len_bytes: u32,
    /// The time at which its last bit is on the wire.
    pub at_ns: u64,
}
