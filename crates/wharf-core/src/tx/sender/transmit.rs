//! The ways of a sender's frames into the queue, within room, credit and the turns of waiting senders. Three ways,
//! fastest first:
//!
//! 1. *biased*: alone on the queue, by plain stores, straight to the device;
//! 2. *as owner*: the queue is idle; the sender claims it, and its burst goes to the device past the lane;
//! 3. *by the lane*: another thread owns the queue and pulls the published frames.

use super::{BYPASS_FRAMES, SendError, Sender};
use crate::dscp;
use crate::tx::engine::Source;
use crate::tx::feeding::{self, Feeding};
use crate::tx::queue::waiters::{ALL_BANDS, MEMORY_WANTED};
use crate::tx::queue::{ControlMessage, PassOutcome, QdiscRun, Shared};
use std::sync::Arc;
use wharf_mem::{Batch, Published};

impl Sender {
    /// Sends what fits now, by the fastest way open. The number is the caller's to know, by the batch: to
    /// return it costs a burst of one packet five instructions.
    #[inline]
    pub(super) fn transmit(&mut self, batch: &mut Batch) -> Result<(), SendError> {
        let full = self.shared.full_bands();
        if full != 0 {
            return self.transmit_in_turn(batch, full);
        }
        let bytes = batch.bytes();
        if !self.credit.admits(bytes) {
            let count = self.within_credit(batch);
            if count < batch.len() {
                return self.put(batch, count);
            }
        }
        if batch.len() <= BYPASS_FRAMES {
            if self.transmit_biased(batch, bytes) {
                return Ok(());
            }
            if self.shared.cell().word() == 0 {
                return self.transmit_as_owner(batch);
            }
        }
        self.put(batch, usize::MAX)
    }

    /// Works like [`Sender::transmit`]. Returns true if it has sent some.
    pub(super) fn transmit_some(&mut self, batch: &mut Batch) -> Result<bool, SendError> {
        let offered = batch.len();
        self.transmit(batch)?;
        Ok(batch.len() < offered)
    }

    /// Works like [`Sender::transmit`], while bands are full or waited for: sends up to the first frame of such a band, or
    /// all if the sender was served. Gives up cached buffers while a cache waits for memory.
    #[cold]
    fn transmit_in_turn(&mut self, batch: &mut Batch, full: u32) -> Result<(), SendError> {
        let count = before_full(batch, full).max(self.turn_left());
        let within_credit = self.within_credit(batch);
        let sent = self.put(batch, count.min(within_credit));
        if full & MEMORY_WANTED != 0 {
            self.cache.release_cached();
        }
        sent
    }

    /// Returns the number of packets that the sender may still send past full bands, since it was served.
    pub(super) fn turn_left(&self) -> usize {
        self.turn_end.saturating_sub(self.counters.packets.get()) as usize
    }

    /// The bands that are full or waited for, a bit each.
    pub(super) fn full_bands(&self) -> u32 {
        self.shared.full_bands() & ALL_BANDS
    }

    /// Puts up to `max` frames into the lane, whichever bands are full, and publishes them.
    #[inline]
    pub(super) fn put(&mut self, batch: &mut Batch, max: usize) -> Result<(), SendError> {
        if self.push(batch, max) > 0 { self.publish() } else { Ok(()) }
    }

    /// Puts the frames that full bands and the small queue admit into the lane, to be published later.
    #[cfg(feature = "model")]
    pub(super) fn push_admitted(&mut self, batch: &mut Batch) {
        let full = self.full_bands();
        let count = if full == 0 { usize::MAX } else { before_full(batch, full).max(self.turn_left()) };
        let within_credit = self.within_credit(batch);
        self.push(batch, count.min(within_credit));
    }

    /// Puts up to `max` frames into the lane, to be published later. Returns their number.
    #[inline]
    pub(super) fn push(&mut self, batch: &mut Batch, max: usize) -> usize {
        let bytes = batch.bytes();
        let count = self.lane.push_first(batch, max);
        self.credit.charge(bytes - batch.bytes());
        self.counters.packets.add(count as u64);
        count
    }

    /// Sends a whole burst under the bias, without a locked instruction. Returns false, with nothing done, if
    /// that is not open.
    #[inline(always)]
    fn transmit_biased(&mut self, batch: &mut Batch, bytes: u64) -> bool {
        let shared = &self.shared;
        let Some(entered) = self.biased.try_enter(shared.cell()) else { return false };
        // The bias is released before frames go into the lane.
        debug_assert!(self.lane.is_drained());
        let count = batch.len();
        let quota = shared.setup().policy.quota_packets;
        let (died, mut entered) = (DieOnPanic(shared), entered);
        let passed = entered.with(|state| state.pass(batch, bytes, quota, &mut self.cache));
        std::mem::forget(died);
        entered.leave();
        let Some(PassOutcome { packets, goes_on, returned_bytes }) = passed else {
            self.biased.release(self.shared.cell());
            return false;
        };
        // Equal nearly always: the device has completed what was sent.
        if bytes != returned_bytes {
            self.credit.charge_but(bytes, returned_bytes);
        }
        let counters = &*self.counters;
        counters.drained_packets.add(u64::from(packets));
        counters.packets.add(count as u64);
        if goes_on {
            self.end_biased();
        }
        true
    }

    /// Ends the bias: work is left, for an ordinary run.
    #[cold]
    fn end_biased(&mut self) {
        self.biased.release(self.shared.cell());
        if let Published::Owner(owned) = self.shared.cell().claim(0) {
            self.counters.drained_packets.add(QdiscRun::new(&self.shared, owned, 0).finish());
        }
    }

    /// Claims the idle queue and sends the burst as its owner, past the lane; by the lane if another thread was
    /// faster.
    #[inline]
    fn transmit_as_owner(&mut self, batch: &mut Batch) -> Result<(), SendError> {
        let (offered, bytes) = (batch.len(), batch.bytes());
        let (lane, bit) = (&mut self.lane, self.bit);
        let drained = lane.is_drained();
        let Published::Owner(owned) = self.shared.cell().claim_unreserved(0) else {
            return self.put(batch, usize::MAX);
        };
        let quota = self.balance.quota(&self.counters, || offered, self.shared.setup().policy.quota_packets);
        let bits = if drained { 0 } else { bit };
        let mut run = QdiscRun::for_sender(&self.shared, owned, bits, quota, self.place);
        let (mut is_sole, mut has_passed) = (false, false);
        if drained {
            run.transmit_first(|state, quota| {
                is_sole = state.is_sole();
                if state.shut || !state.lanes.is_empty() {
                    return state.engine.transmit(&mut state.lanes, quota);
                }
                if let Some(done) = state.engine.pass(batch, bytes, quota) {
                    has_passed = true;
                    return done;
                }
                lane.push(batch);
                state.lanes.announce(bit);
                state.engine.transmit(&mut state.lanes, quota)
            });
        }
        if has_passed {
            run.passed_own(offered);
        }
        self.counters.drained_packets.add(run.finish());
        drop(run);
        if is_sole && self.lane.is_drained() {
            self.biased.after_sole_run(self.shared.cell());
        }
        self.credit.charge(bytes - batch.bytes());
        self.counters.packets.add((offered - batch.len()) as u64);
        if batch.is_empty() { Ok(()) } else { self.put(batch, usize::MAX) }
    }

    /// Runs a queue without a poller and sends again: otherwise a full queue would stay full for ever.
    /// Returns true if it has sent some.
    #[cold]
    pub(super) fn transmit_driven(&mut self, batch: &mut Batch) -> Result<bool, SendError> {
        if !self.is_driven() && self.drive() { self.transmit_some(batch) } else { Ok(false) }
    }

    /// Runs the queue, unless another thread owns it. Returns true if it ran.
    pub(super) fn drive(&mut self) -> bool {
        self.biased.release(self.shared.cell());
        let Published::Owner(owned) = self.shared.cell().claim_unreserved(0) else { return false };
        self.counters.drained_packets.add(QdiscRun::new(&self.shared, owned, self.bit).finish());
        true
    }

    /// Returns a full band, or 0 while the lane is full; `None` while there is room.
    pub(super) fn full_band(&mut self) -> Option<u8> {
        match self.full_bands() {
            0 if self.lane.room() > 0 => None,
            0 => Some(0),
            full => Some(full.trailing_zeros() as u8),
        }
    }

    /// Tells the queue of the flood that this thread handles: another one may transmit, and drop, its packets.
    #[cold]
    fn tell_flood(&mut self) {
        let Some(drops) = feeding::drops() else { return };
        if self.flood.as_ref().is_none_or(|known| !Arc::ptr_eq(known, &drops)) {
            self.shared.control(ControlMessage::Flood(self.place, drops.clone()));
            self.flood = Some(drops);
        }
    }

    #[inline]
    pub(super) fn publish(&mut self) -> Result<(), SendError> {
        self.biased.release(self.shared.cell());
        if Feeding::now() == Feeding::Flood {
            self.tell_flood();
        }
        match self.shared.cell().publish(self.bit) {
            Published::Owner(owned) => {
                let own = || self.lane.capacity() - self.lane.room();
                let quota = self.balance.quota(&self.counters, own, self.shared.setup().policy.quota_packets);
                let mut run = QdiscRun::for_sender(&self.shared, owned, self.bit, quota, self.place);
                self.counters.drained_packets.add(run.finish());
            }
            Published::Seen => {}
            Published::WakeOwner => self.shared.wake_poller(),
            Published::Dead => return Err(self.shared.dead()),
        }
        Ok(())
    }
}

/// Marks the queue dead if the device panics; forgotten otherwise.
struct DieOnPanic<'a>(&'a Shared);

impl Drop for DieOnPanic<'_> {
    fn drop(&mut self) {
        self.0.die();
    }
}

/// Returns the number of frames before the first one of a full band.
fn before_full(batch: &Batch, full: u32) -> usize {
    batch.frames().iter().take_while(|frame| full & 1 << dscp::band_of(frame) == 0).count()
}
