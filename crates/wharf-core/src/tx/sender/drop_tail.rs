//! `DropTail`: a sender that drops packets that do not fit, in place of waiting.

use super::{Burst, Packet, QueueError, SendNow, Sender};
use crate::pool::{PagePool, PoolError};
use crate::sg_writer::Memory;
use wharf_mem::{Batch, Frame};

/// The reason of these drops. The packets never enter the queue: only [`crate::counters::SenderCounters`] counts
/// them.
pub const DROP_TAIL: &str = "drop-tail";

/// A sender that drops packets that do not fit. Without free memory there is no packet to drop: `fill` then fails.
#[derive(Debug)]
pub struct DropTail {
    sender: Sender,
}

impl DropTail {
    pub(super) fn new(sender: Sender) -> Self {
        Self { sender }
    }

    /// The sender, for calls that drop nothing: `fill`, `wait_for_memory`, counters.
    pub fn sender(&mut self) -> &mut Sender {
        &mut self.sender
    }

    /// Turns back into a sender that waits.
    #[must_use]
    pub fn into_sender(self) -> Sender {
        self.sender
    }

    /// Sends the packets that fit now and drops the rest of `burst`, without waiting. Returns the number of packets dropped.
    ///
    /// # Errors
    /// The errors of [`Sender::send`]; unsent packets are then still in the burst.
    #[inline]
    pub fn send(&mut self, burst: &mut Burst) -> Result<usize, QueueError> {
        let sent = self.sender.try_send(burst)?;
        if burst.is_empty() { Ok(0) } else { self.drop_rest(burst, sent > 0) }
    }

    /// Sends one packet or drops it. Returns true if it was sent.
    ///
    /// # Errors
    /// The errors of [`Sender::send`]; the packet then goes back to its pool, and counts as neither.
    pub fn send_packet(&mut self, packet: Packet) -> Result<bool, QueueError> {
        let mut burst = Burst::new(packet.pool(), 1);
        let pushed = burst.push(packet);
        debug_assert!(pushed.is_ok(), "an empty burst of the packet's own pool takes it");
        self.send(&mut burst).map(|dropped| dropped == 0)
    }

    #[cold]
    fn drop_rest(&mut self, burst: &mut Burst, some_went: bool) -> Result<usize, QueueError> {
        if some_went {
            // The packets sent may have left at once and made room.
            self.sender.transmit_driven(burst.batch_mut())?;
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
