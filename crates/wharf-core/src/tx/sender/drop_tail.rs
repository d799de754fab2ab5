//! `DropTail`: a sender that drops what does not fit, in place of waiting.

use super::{Burst, Packet, QueueError, SendNow, Sender};
use crate::pool::{PagePool, PoolError};
use crate::sg_writer::Memory;
use wharf_mem::{Batch, Frame};

/// Why packets are dropped that do not fit. They never enter the queue: only [`crate::counters::SenderCounters`] has
/// them.
pub const DROP_TAIL: &str = "drop-tail";

/// See the module. Memory is another matter: where there is none, there is no packet to drop yet.
#[derive(Debug)]
pub struct DropTail {
    sender: Sender,
}

impl Sender {
    /// The same sender, dropping what does not fit.
    #[must_use]
    pub fn into_drop_tail(self) -> DropTail {
        DropTail { sender: self }
    }
}

impl DropTail {
    /// The sender, for what drops nothing: `fill`, `wait_for_memory`, counters.
    pub fn sender(&mut self) -> &mut Sender {
        &mut self.sender
    }

    /// The sender back.
    #[must_use]
    pub fn into_sender(self) -> Sender {
        self.sender
    }

    /// Sends what fits now, and drops the rest of `burst`, which is empty then: how many were dropped. Never waits.
    ///
    /// # Errors
    /// As [`Sender::send`]; what was not sent is then still in the burst.
    #[inline]
    pub fn send(&mut self, burst: &mut Burst) -> Result<usize, QueueError> {
        let sent = self.sender.try_send(burst)?;
        if burst.is_empty() { Ok(0) } else { self.drop_rest(burst, sent > 0) }
    }

    /// Sends one packet, or drops it; whether it was sent.
    ///
    /// # Errors
    /// As [`Sender::send`]; the packet then goes back to its pool, and counts as neither.
    pub fn send_packet(&mut self, packet: Packet) -> Result<bool, QueueError> {
        let mut burst = Burst::new(packet.pool(), 1);
        let pushed = burst.push(packet);
        debug_assert!(pushed.is_ok(), "an empty burst of the packet's own pool takes it");
        self.send(&mut burst).map(|dropped| dropped == 0)
    }

    #[cold]
    fn drop_rest(&mut self, burst: &mut Burst, some_went: bool) -> Result<usize, QueueError> {
        if some_went {
            // Those may have left at once, and made room.
            self.sender.offer_driven(burst.batch_mut())?;
        }
        let dropped = burst.len();
        self.sender.cache.give(burst.batch_mut())?;
        self.sender.counters.drops.add(dropped as u64);
        Ok(dropped)
    }
}

impl SendNow for DropTail {
    fn send_now(&mut self, burst: &mut Burst) -> Result<(), QueueError> {
        self.send(burst).map(drop)
    }
}

impl Memory for DropTail {
    fn pool(&self) -> &PagePool {
        self.sender.pool()
    }

    fn take(&mut self, to: &mut Batch, count: usize, len_bytes: u32) -> Result<usize, PoolError> {
        self.sender.take(to, count, len_bytes)
    }

    fn give_one(&mut self, frame: Frame) -> Result<(), (PoolError, Frame)> {
        self.sender.give_one(frame)
    }
}
