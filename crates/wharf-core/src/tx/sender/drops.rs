//! Drop policies: calls that drop packets in place of waiting.
//!
//! Assumption: a program that drops has no use for packets that it holds back. So its small-queue limit, which is there to
//! hold packets back, is waived: a packet is dropped only because its band or the lane is full, its time is over, or there
//! is no memory. [`SenderCounters`] counts each apart.

use super::wait::{self, Deadline, Fill};
use super::{Burst, PoolError, QueueError, Sender};
use crate::counters::{Counter, SenderCounters};
use crate::dscp;
use std::slice::from_mut;
use std::time::Duration;
use wharf_mem::Batch;

impl Sender {
    /// Works like [`Sender::fill`], and counts packets for which there is no memory as `memory_drops`, in place of the error.
    /// Returns the number of packets added.
    ///
    /// # Errors
    /// [`PoolError::Memory`] for a length too long.
    pub fn fill_or_drop(
        &mut self, burst: &mut Burst, count: usize, len_bytes: u32,
    ) -> Result<usize, PoolError> {
        wait::fill_or_drop(from_mut(self), burst, Fill { first: 0, count, len_bytes })
    }

    /// Sends the packets that fit now and drops those of full bands, without waiting. Returns the number of packets dropped:
    /// `full_drops`. The sender's small-queue limit does not count.
    ///
    /// # Errors
    /// The errors of [`Sender::send`]; unsent packets are then still in the burst.
    #[inline]
    pub fn send_or_drop(&mut self, burst: &mut Burst) -> Result<usize, QueueError> {
        self.past_share(|sender| {
            sender.admit(burst)?;
            let batch = burst.batch_mut();
            sender.transmit(batch)?;
            if batch.is_empty() { Ok(0) } else { sender.drop_rest(batch) }
        })
    }

    /// Works like [`Sender::send_or_drop`], but waits up to `time` for room. Packets that it has not accepted by then are
    /// `deadline_drops`.
    ///
    /// # Errors
    /// The errors of [`Sender::send`]; unsent packets are then still in the burst.
    pub fn send_or_drop_within(&mut self, burst: &mut Burst, time: Duration) -> Result<usize, QueueError> {
        self.send_or_drop_by(burst, Deadline::Within(time))
    }

    pub(super) fn send_or_drop_by(
        &mut self, burst: &mut Burst, deadline: Deadline,
    ) -> Result<usize, QueueError> {
        match self.past_share(|sender| sender.send_by(burst, deadline)) {
            Err(QueueError::TimedOut) => {
                let batch = burst.batch_mut();
                self.discard(batch, batch.len(), |counters| &counters.deadline_drops)
            }
            sent => sent.map(|()| 0),
        }
    }

    /// Sends by the sender's policy: by [`Sender::send`], or by [`Sender::send_or_drop`] after [`Sender::set_drop_tail`].
    ///
    /// # Errors
    /// The errors of [`Sender::send`]; unsent packets are then still in the burst.
    #[inline]
    pub fn submit(&mut self, burst: &mut Burst) -> Result<(), QueueError> {
        if self.is_drop_tail { self.send_or_drop(burst).map(drop) } else { self.send(burst) }
    }

    /// Sets the policy of [`Sender::submit`] and of a forwarder: true to drop packets that do not fit, in place of waiting.
    pub fn set_drop_tail(&mut self, is_drop_tail: bool) {
        self.is_drop_tail = is_drop_tail;
    }

    /// Runs `send` with the small-queue limit waived.
    #[inline(always)]
    pub(super) fn past_share<R>(&mut self, send: impl FnOnce(&mut Self) -> R) -> R {
        self.credit.waive(true);
        let sent = send(self);
        self.credit.waive(false);
        sent
    }

    /// Sends packets as long as there is room for some, and drops those of full bands.
    #[cold]
    fn drop_rest(&mut self, batch: &mut Batch) -> Result<usize, QueueError> {
        let mut dropped = 0;
        while let Some(need) = self.need(batch) {
            // The lane alone is full: an owner at work is given the time to empty it.
            let has_room = self.spin(need) && self.transmit(batch)? > 0;
            if has_room || self.transmit_driven(batch)? > 0 {
                continue;
            }
            let count = match (self.full_bands(), self.lane.room()) {
                (0, 0) => batch.len(),
                (full, _) => front_of(batch, full),
            };
            dropped += self.discard(batch, count, |counters| &counters.full_drops)?;
            // Behind them may be packets of bands with room.
            self.transmit(batch)?;
        }
        Ok(dropped)
    }

    fn discard(
        &mut self, batch: &mut Batch, count: usize, reason: impl Fn(&SenderCounters) -> &Counter,
    ) -> Result<usize, QueueError> {
        self.cache.give_first(batch, count)?;
        self.counters.drops.add(count as u64);
        reason(&self.counters).add(count as u64);
        Ok(count)
    }
}

/// Returns the number of frames before the first one of a band that is not full.
fn front_of(batch: &Batch, full: u32) -> usize {
    batch.frames().iter().take_while(|frame| full & 1 << dscp::band_of(frame) != 0).count()
}
