//! Modelled NICs. A NIC has two halves that meet in memory and nowhere else: a [`Device`](wharf_core::device::Device),
//! which is the driver and knows no time, and a [`Hardware`], which reads what the driver wrote, takes its time over
//! it, and writes back.
//!
//! The driver's call to `transmit` writes descriptors, and leaves its write to the tail register in memory; the
//! world's processor, when its modelled time has come, lets it through by [`Hardware::doorbell`]. What the hardware
//! does then it may reckon ahead, as long as nothing shows in memory before [`Hardware::write_back`] is called for a
//! time at which it is there.

mod hardware;
mod memory;

pub use hardware::{Costs, Simple, WIRE_OVERHEAD_BYTES};
pub use memory::{Descriptor, Driver, TxMemory};

/// The far half of a NIC: registers, descriptor fetches, the wire.
pub trait Hardware {
    /// The tail register of `queue` is written at `now_ns`; calls come in order of time. What will leave because of
    /// that is put into `departed`, in the order in which it will.
    fn doorbell(&mut self, queue: usize, now_ns: u64, departed: &mut Vec<Departed>);

    /// Makes visible in memory what the hardware has written back by `now_ns`.
    fn write_back(&mut self, queue: usize, now_ns: u64);

    /// When the next write-back will be there, if one is under way: what an interrupt waits for.
    fn next_write_back_ns(&self, queue: usize) -> Option<u64>;
}

/// A frame on its way out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Departed {
    /// Which buffer, as its descriptor says.
    pub index: u32,
    /// Its length, without checksum.
    pub len_bytes: u32,
    /// When its last bit is on the wire.
    pub at_ns: u64,
}
