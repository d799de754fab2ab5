//! `QueueError`: the errors of queues and senders.

use crate::device::DeviceError;
use crate::pool::PoolError;

/// An error of a queue or a sender.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QueueError {
    /// See [`PoolError`].
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// See [`DeviceError`].
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// A setting is out of its bounds.
    #[error("{setting} of {value} cannot be: {why}")]
    Setting {
        /// Name of the setting.
        setting: &'static str,
        /// The requested value.
        value: u64,
        /// The bounds.
        why: &'static str,
    },
    /// The queue has as many senders as a frame's sender field can name.
    #[error("a queue serves at most {} senders", wharf_mem::frame::SENDERS_MAX)]
    Senders,
    /// A frame belongs to another pool than the queue's.
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
    /// The time given for a wait is over.
    #[error("timed out")]
    TimedOut,
    /// Another thread has ended the wait: see [`crate::sender::Canceller`].
    #[error("the wait was cancelled")]
    Cancelled,
    /// The queue has ended: its device is of no use any more. See [`TxQueue::fail`](crate::queue::TxQueue::fail).
    #[error("the queue of {device} has ended: {why}")]
    Failed {
        /// Name of the device.
        device: String,
        /// The reason.
        why: String,
    },
    /// A device panicked while its queue was being run.
    #[error("the queue is dead: its owner panicked inside the device {device}")]
    Dead {
        /// Name of the device.
        device: String,
    },
}
