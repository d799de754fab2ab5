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
    /// It only receives: there is no transmit queue.
    #[error("{device}: it only receives")]
    OnlyReceives {
        /// Name of the device.
        device: String,
    },
    /// It has no receive side.
    #[error("{device}: {what}")]
    OnlySends {
        /// Name of the device.
        device: String,
        /// The reason: its kind only sends, or it was opened to send.
        what: &'static str,
    },
    /// A receiver or a handler has the receive side, until it goes.
    #[error("{device}: its receive side is in use")]
    InUse {
        /// Name of the device.
        device: String,
    },
    /// The receive side is of no use any more: its device or its handler has ended.
    #[error("{device}: its receive side has ended")]
    ReceiveEnded {
        /// Name of the device.
        device: String,
    },
    /// A receiver that polls in its own calls, of a device whose poller must poll it for the senders.
    #[error("{device}: its poller has to receive, too: take served_receiver, or owners that are senders")]
    PollerReceives {
        /// Name of the device.
        device: String,
    },
    /// The device has no other end in this process, or it was taken already.
    #[error("{device}: its other end is not in this process")]
    NoFarEnd {
        /// Name of the device.
        device: String,
    },
    /// No specification says how to open the device again, or its port was built never to reopen it.
    #[error("{device}: it cannot be opened again")]
    CannotReopen {
        /// Name of the device.
        device: String,
    },
    /// The system gives no descriptor, or no thread.
    #[error("{device}: {what}: {source}")]
    System {
        /// Name of the device.
        device: String,
        /// What it does not give.
        what: &'static str,
        /// The system's answer.
        source: std::io::Error,
    },
    /// A setting that does not fit the call, or another setting.
    #[error("{device}: {what}")]
    Misuse {
        /// Name of the device.
        device: String,
        /// The settings, and what is to be called in their place.
        what: String,
    },
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
