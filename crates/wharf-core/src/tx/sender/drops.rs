//! Drop policies: calls that drop packets in place of waiting.
//!
//! Assumption: a program that drops has no use for packets that it holds back. So its small-queue limit,
//! which is there to hold packets back, is waived: a packet is dropped only because its band or the lane is
//! full, or its time is over. [`SenderCounters`] counts each apart.

use super::{Burst, SendError, Sender, Sent};
use crate::counters::{Counter, SenderCounters};
use crate::dscp;
use crate::tx::feeding::note_drops;
use crate::wait::{Deadline, Wait};
use wharf_mem::Batch;

/// Looks at a full lane while bands are full, before packets of another band are dropped.
const FULL_LANE_LOOKS: u32 = 8;

impl Sender {
    /// Works like [`Sender::send`], and drops the packets that find no room in that time: `deadline_drops`.
    /// With [`Wait::Never`] it drops those of full bands, and sends the others: `full_drops`. The sender's
    /// small-queue limit does not count.
    ///
    /// # Errors
    /// The errors of [`Sender::send`]; unsent packets are then still in the burst.
    #[inline]
    pub fn send_or_drop(&mut self, burst: &mut Burst, wait: impl Into<Wait>) -> Result<Sent, SendError> {
        self.send_or_drop_by(burst, Deadline::Of(wait.into()))
    }

    #[inline]
    pub(super) fn send_or_drop_by(
        &mut self, burst: &mut Burst, deadline: Deadline,
    ) -> Result<Sent, SendError> {
        let offered = burst.len();
        let dropped = self.past_share(|sender| {
            sender.admit(burst)?;
            let batch = burst.batch_mut();
            sender.transmit(batch)?;
            if batch.is_empty() { Ok(0) } else { sender.drop_rest(batch, deadline) }
        })?;
        Ok(Sent { accepted: offered - dropped, dropped, left: 0 })
    }

    /// Sends by the queue's policy: by [`Sender::send`], or, once [`TxQueue::set_drop_tail`] has said so, by
    /// [`Sender::send_or_drop`] without waiting.
    ///
    /// # Errors
    /// The errors of [`Sender::send`]; unsent packets are then still in the burst.
    ///
    /// [`TxQueue::set_drop_tail`]: crate::queue::TxQueue::set_drop_tail
    #[doc(hidden)]
    #[inline]
    pub fn submit(&mut self, burst: &mut Burst, wait: impl Into<Wait>) -> Result<Sent, SendError> {
        if self.is_drop_tail { self.send_or_drop(burst, Wait::Never) } else { self.send(burst, wait) }
    }

    /// Runs `send` with the small-queue limit waived.
    #[inline(always)]
    pub(super) fn past_share<R>(&mut self, send: impl FnOnce(&mut Self) -> R) -> R {
        self.credit.waive(true);
        let sent = send(self);
        self.credit.waive(false);
        sent
    }

    /// Sends packets as long as there is room for some, and drops those of full bands, or what is left at
    /// the deadline. Returns the number of packets dropped.
    #[cold]
    fn drop_rest(&mut self, batch: &mut Batch, deadline: Deadline) -> Result<usize, SendError> {
        if !deadline.is_never() {
            self.send_rest_by(batch, deadline)?;
            return self.discard(batch, batch.len(), |counters| &counters.deadline_drops);
        }
        let (mut dropped, mut looks) = (0, FULL_LANE_LOOKS);
        while let Some(need) = self.need(batch) {
            // The lane alone is full: an owner at work is given the time to empty it.
            let has_room = self.spin(need) && self.transmit_some(batch)?;
            if has_room || self.transmit_driven(batch)? {
                continue;
            }
            let count = match (self.full_bands(), self.lane.room()) {
                (0, 0) => batch.len(),
                (full, 0) if front_of(batch, full) == 0 => {
                    // The band has room, and the lane none: this thread may be the one that would empty it.
                    self.shared.setup().park.give_way();
                    looks -= 1;
                    if looks == 0 { batch.len() } else { 0 }
                }
                (full, _) => front_of(batch, full),
            };
            dropped += self.discard(batch, count, |counters| &counters.full_drops)?;
            // Behind them may be packets of bands with room.
            self.transmit(batch)?;
        }
        Ok(dropped)
    }

    /// Works like [`Sender::send`], and drops what it would leave.
    pub(super) fn send_whole(&mut self, burst: &mut Burst, deadline: Deadline) -> Result<Sent, SendError> {
        let Sent { accepted, left, .. } = self.send_by(burst, || deadline)?;
        let batch = burst.batch_mut();
        let dropped = match deadline.is_never() {
            _ if left == 0 => 0,
            true => self.discard(batch, left, |counters| &counters.full_drops)?,
            false => self.discard(batch, left, |counters| &counters.deadline_drops)?,
        };
        Ok(Sent { accepted, dropped, left: 0 })
    }

    fn discard(
        &mut self, batch: &mut Batch, count: usize, reason: impl Fn(&SenderCounters) -> &Counter,
    ) -> Result<usize, SendError> {
        note_drops(&batch.frames()[..count], self.cache.pool().region());
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
