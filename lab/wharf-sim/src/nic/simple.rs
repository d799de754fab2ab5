//! Modelled NICs for transmission. A NIC has two halves that meet only in memory: a [`Driver`], which is a
//! device and knows no time, and a [`Simple`], which reads the driver's writes, takes its time, and writes
//! back.
//!
//! The driver's `transmit` writes descriptors, and leaves its write to the tail register in memory. The
//! world's processor passes that on by [`Simple::doorbell`] when its modelled time has come. The hardware
//! may compute ahead, as long as nothing shows in memory before [`Simple::write_back`] is called for a time
//! at which it is there.

mod hardware;
mod memory;

pub use hardware::{Costs, Simple, WIRE_OVERHEAD_BYTES, wire_bytes};
pub use memory::{Descriptor, Driver, TxMemory};

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
