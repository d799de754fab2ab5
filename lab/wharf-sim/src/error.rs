//! Errors of a run in virtual time.

use crate::nic::host_memory::MemoryFault;
use crate::nic::ring::NicFault;
use wharf_core::device::DeviceError;
use wharf_core::pool::PoolError;
use wharf_core::queue::QueueError;
use wharf_core::sender::SendError;

/// A run that could not be made, or that broke a rule of the path or of a NIC.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The pool has too little memory.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// A driver failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The path's queue failed.
    #[error(transparent)]
    Queue(#[from] QueueError),
    /// A sender of the path failed.
    #[error(transparent)]
    Send(#[from] SendError),
    /// A NIC accessed memory that is not there.
    #[error(transparent)]
    Memory(#[from] MemoryFault),
    /// A NIC read a descriptor that makes no sense.
    #[error(transparent)]
    Nic(#[from] NicFault),
    /// The caller ended the run.
    #[error("interrupted")]
    Interrupted,
    /// Packets were lost, doubled or reordered.
    #[error("order broken: {what}")]
    Order {
        /// The packets and the fault.
        what: String,
    },
    /// Accepted is not sent + failed + returned.
    #[error("conservation broken in queue {queue}: {accepted} accepted, {left} left")]
    Conservation {
        /// The queue's number.
        queue: usize,
        /// Packets that it accepted.
        accepted: u64,
        /// Packets that left it, sent or not.
        left: u64,
    },
    /// Frames were lost.
    #[error("ledger: {0}")]
    Ledger(String),
    /// Packets of a NIC were lost, doubled or reordered.
    #[error("{0}")]
    Broken(String),
}
