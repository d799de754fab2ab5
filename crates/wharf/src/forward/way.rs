//! `Way`: what passes on arrivals in place of a sender.

use std::sync::Arc;
use wharf_core::pool::{Burst, PagePool, PoolError};
use wharf_core::sender::{SendError, SendNow, Sender};
use wharf_core::sg_writer::Memory;
use wharf_mem::{Batch, Frame};

type PassOn = Box<dyn FnMut(&mut Burst) -> Result<(), SendError> + Send>;
/// Reports packets by reason.
pub(super) type Drops = dyn Fn(&mut dyn FnMut(&str, u64)) + Send + Sync;

/// What passes on the arrivals of one end, in place of a sender to the other end: a router's.
pub struct Way {
    /// Takes each packet that it has passed on or dropped out of the burst. Those that it leaves wait, and are
    /// shown again; after an error they count as `closed`.
    pub by: PassOn,
    /// Memory for the segments of super-packets that are longer than
    /// [`ForwardSettings::longest_bytes`](super::ForwardSettings::longest_bytes).
    pub memory: Sender,
    /// Reports the packets that it has dropped, by reason.
    pub drops: Arc<Drops>,
}

impl SendNow for Way {
    fn send_now(&mut self, burst: &mut Burst) -> Result<(), SendError> {
        (self.by)(burst)
    }
}

impl Memory for Way {
    fn pool(&self) -> &PagePool {
        self.memory.pool()
    }

    fn take(&mut self, to: &mut Batch, count: usize, len_bytes: u32) -> Result<usize, PoolError> {
        self.memory.take(to, count, len_bytes)
    }

    fn give_one(&mut self, frame: Frame) -> Result<(), (PoolError, Frame)> {
        self.memory.give_one(frame)
    }
}
