//! Errors of a run in virtual time.

use wharf_core::device::DeviceError;
use wharf_core::pool::PoolError;
use wharf_core::queue::QueueError;

/// A run that broke a rule of the path, or could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// No memory, or too little of it.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// The modelled device.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The path's queue.
    #[error(transparent)]
    Queue(#[from] QueueError),
    /// It was not to go on.
    #[error("interrupted")]
    Interrupted,
    /// Packets were lost, doubled or reordered.
    #[error("order broken: {what}")]
    Order {
        /// Which packet, and how.
        what: String,
    },
    /// Accepted is not sent + failed + returned.
    #[error("conservation broken in queue {queue}: {accepted} accepted, {left} left")]
    Conservation {
        /// Which queue.
        queue: usize,
        /// Packets that it took.
        accepted: u64,
        /// Packets that left it, sent or not.
        left: u64,
    },
    /// Frames were lost.
    #[error("ledger: {0}")]
    Ledger(String),
}
