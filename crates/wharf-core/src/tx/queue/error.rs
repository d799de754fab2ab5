//! `QueueError`: the errors of building a queue, its senders and its receivers, and of their settings.

use crate::device::DeviceError;
use crate::pool::PoolError;
use std::sync::Arc;

/// An error of building a queue, its senders or its receivers, or of their settings.
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
    /// The queue has ended: see [`SendError::Ended`](crate::sender::SendError::Ended).
    #[error("{why}")]
    Ended {
        /// The device, and the reason.
        why: Arc<str>,
    },
}
