//! What can be wrong with a queue.

use crate::device::DeviceError;
use crate::pool::PoolError;

/// What can be wrong with a queue.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QueueError {
    /// See [`PoolError`].
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// See [`DeviceError`].
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// A setting out of its bounds.
    #[error("{setting} of {value} cannot be: {why}")]
    Setting {
        /// Which.
        setting: &'static str,
        /// What was asked for.
        value: u64,
        /// The bound.
        why: &'static str,
    },
    /// No further sender fits into a frame's sender field.
    #[error("a queue serves at most {} senders", wharf_mem::frame::SENDERS_MAX)]
    Senders,
    /// A frame of another pool than the queue's.
    #[error("this queue sends frames of pool {ours}, not of pool {theirs}")]
    ForeignPool {
        /// The queue's pool.
        ours: u8,
        /// The frame's.
        theirs: u8,
    },
    /// The queue has been shut down.
    #[error("the queue is shut down")]
    Closed,
    /// A device panicked while its queue was being run.
    #[error("the queue is dead: its owner panicked inside the device {device}")]
    Dead {
        /// Which device.
        device: String,
    },
}
