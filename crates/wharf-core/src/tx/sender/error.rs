//! `SendError` and `Sent`: what a sender's call returns.

use crate::pool::PoolError;
use std::sync::Arc;
use wharf_mem::MemError;

/// The packets of a call, by what became of them. A time that is over is no error: `left` says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[must_use = "packets that are left are still in the burst"]
#[non_exhaustive]
pub struct Sent {
    /// Packets that the queue has taken.
    pub accepted: usize,
    /// Packets that were dropped, and counted by reason.
    pub dropped: usize,
    /// Packets that found no room in time: they are still in the burst.
    pub left: usize,
}

impl std::ops::AddAssign for Sent {
    fn add_assign(&mut self, other: Self) {
        self.accepted += other.accepted;
        self.dropped += other.dropped;
        self.left += other.left;
    }
}

/// The reason that a sender cannot send, or has no packet to fill. Unsent packets are still in the burst.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// The queue has been shut down.
    #[error("the queue is shut down")]
    Closed,
    /// The queue has ended: its device is of no use any more, or has panicked. See
    /// [`TxQueue::fail`](crate::queue::TxQueue::fail).
    #[error("{why}")]
    Ended {
        /// The device, and the reason.
        why: Arc<str>,
    },
    /// Another thread has ended the wait: see [`crate::sender::Canceller`].
    #[error("the wait was cancelled")]
    Cancelled,
    /// A frame belongs to another pool than the queue's.
    #[error("this queue sends frames of pool {ours}, not of pool {theirs}")]
    ForeignPool {
        /// The queue's pool.
        ours: u8,
        /// The frame's.
        theirs: u8,
    },
    /// No packet is this long.
    #[error("{len_bytes} B do not fit: at most {max_bytes} B")]
    TooLong {
        /// Bytes asked for.
        len_bytes: u32,
        /// The upper bound, bytes.
        max_bytes: u32,
    },
    /// All frames are in use, and none came back in time: see
    /// [`Sender::packet`](crate::sender::Sender::packet).
    #[error("the pool is empty: all {frames} frames are in use")]
    NoMemory {
        /// Frames of the pool.
        frames: u32,
    },
    /// Another error of the pool.
    #[error(transparent)]
    Pool(PoolError),
}

impl From<PoolError> for SendError {
    fn from(error: PoolError) -> Self {
        match error {
            PoolError::Exhausted { frames } => Self::NoMemory { frames },
            PoolError::Memory(MemError::TooLong { len_bytes, max_bytes }) => {
                Self::TooLong { len_bytes, max_bytes }
            }
            PoolError::Memory(MemError::Foreign { ours, theirs, .. }) => Self::ForeignPool { ours, theirs },
            other => Self::Pool(other),
        }
    }
}
