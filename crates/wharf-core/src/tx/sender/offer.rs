//! How frames go in: past the lane where nobody owns the queue, else into it, to be published; as far as there is room, credit, and
//! nobody who came before.

use super::{BYPASS_FRAMES, Sender};
use crate::qdisc::classify;
use crate::tx::engine::Source;
use crate::tx::queue::waiters::{ALL_BANDS, MEMORY_WANTED};
use crate::tx::queue::{OwnCache, PassOutcome, QdiscRun, QueueError, Shared};

use std::sync::atomic::Ordering;
use wharf_mem::{Batch, Published};

impl Sender {
    /// Puts what fits into the lane and publishes it; how many.
    #[inline]
    pub(super) fn offer(&mut self, batch: &mut Batch) -> Result<usize, QueueError> {
        let full = self.shared.full_bands.load(Ordering::Relaxed);
        if full != 0 {
            return self.offer_in_turn(batch, full);
        }
        let bytes = batch.bytes();
        if !self.credit.admits(bytes) {
            let count = self.within_credit(batch);
            if count < batch.len() {
                return self.put(batch, count);
            }
        }
        if batch.len() <= BYPASS_FRAMES {
            if let Some(sent) = self.offer_alone(batch, bytes) {
                return Ok(sent);
            }
            if self.shared.cell.word() == 0 {
                return self.offer_idle(batch);
            }
        }
        self.put(batch, usize::MAX)
    }

    /// Some band is full, or others wait for it: up to the first frame of such a band, unless it is our turn. Or somebody waits
    /// for memory.
    #[cold]
    fn offer_in_turn(&mut self, batch: &mut Batch, full: u32) -> Result<usize, QueueError> {
        let count = if self.take_turn() { usize::MAX } else { before_full(batch, full) };
        let within_credit = self.within_credit(batch);
        let sent = self.put(batch, count.min(within_credit));
        if full & MEMORY_WANTED != 0 {
            self.cache.release_cached();
        }
        sent
    }

    /// Whether its turn had come, and it has sent nothing since.
    pub(super) fn take_turn(&mut self) -> bool {
        self.served_at.take().is_some_and(|packets| packets == self.counters.packets.get())
    }

    /// The bands that are full, or that others wait for.
    pub(super) fn full_bands(&self) -> u32 {
        self.shared.full_bands.load(Ordering::Relaxed) & ALL_BANDS
    }

    /// Puts up to `max` frames into the lane, whatever is full, and publishes them.
    #[inline]
    pub(super) fn put(&mut self, batch: &mut Batch, max: usize) -> Result<usize, QueueError> {
        let count = self.push(batch, max);
        if count > 0 {
            self.publish()?;
        }
        Ok(count)
    }

    /// Puts up to `max` frames into the lane, to be announced later; how many.
    #[inline]
    pub(super) fn push(&mut self, batch: &mut Batch, max: usize) -> usize {
        let bytes = batch.bytes();
        let count = self.lane.push_first(batch, max);
        self.credit.charge(bytes - batch.bytes());
        self.counters.packets.add(count as u64);
        count
    }

    /// Alone on an idle queue: a burst goes to the device without a locked instruction. `None`: nothing was done.
    #[inline(always)]
    fn offer_alone(&mut self, batch: &mut Batch, bytes: u64) -> Option<usize> {
        let shared = &self.shared;
        let entered = self.biased.try_enter(&shared.cell)?;
        // Whatever goes into the lane lets go of the bias first.
        debug_assert!(self.lane.is_drained());
        let count = batch.len();
        let quota = shared.policy.quota_packets;
        let own = OwnCache { cache: &mut self.cache, place: self.place };
        let (died, mut entered) = (DieOnPanic(shared), entered);
        let passed = entered.with(|state| state.pass(batch, quota, own));
        std::mem::forget(died);
        entered.leave();
        let Some(PassOutcome { packets, goes_on, returned_bytes }) = passed else {
            self.biased.release(&self.shared.cell);
            return None;
        };
        // As nearly always: what went in has come home.
        if bytes != returned_bytes {
            self.credit.charge_but(bytes, returned_bytes);
        }
        self.counters.drained_packets.add(u64::from(packets));
        self.counters.packets.add(count as u64);
        if goes_on {
            self.end_alone();
        }
        Some(count)
    }

    /// Not idle any more: what is left to do is an ordinary owner's.
    #[cold]
    fn end_alone(&mut self) {
        self.biased.release(&self.shared.cell);
        if let Published::Owner(owned) = self.shared.cell.claim(0) {
            self.counters.drained_packets.add(QdiscRun::new(&self.shared, owned, 0).finish());
        }
    }

    /// Nobody owns the queue: as its owner, a burst can go to the device without the lane.
    #[inline]
    fn offer_idle(&mut self, batch: &mut Batch) -> Result<usize, QueueError> {
        let (offered, bytes) = (batch.len(), batch.bytes());
        let (lane, bit) = (&mut self.lane, self.bit);
        let drained = lane.is_drained();
        let Published::Owner(owned) = self.shared.cell.claim(0) else {
            return self.put(batch, usize::MAX);
        };
        let quota = self.balance.quota(&self.counters, || offered, self.shared.policy.quota_packets);
        let bits = if drained { 0 } else { bit };
        let mut run = QdiscRun::for_sender(&self.shared, owned, bits, quota, self.place);
        let (mut is_sole, mut has_passed) = (false, false);
        if drained {
            run.transmit_first(|state, quota| {
                is_sole = state.is_sole();
                if state.shut || !state.lanes.is_empty() {
                    return state.engine.transmit(&mut state.lanes, quota);
                }
                if let Some(done) = state.engine.pass(batch, quota) {
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
            self.biased.after_sole_run(&self.shared.cell);
        }
        let sent = offered - batch.len();
        self.credit.charge(bytes - batch.bytes());
        self.counters.packets.add(sent as u64);
        if batch.is_empty() { Ok(sent) } else { Ok(sent + self.put(batch, usize::MAX)?) }
    }

    /// Offers again what there was no room for, once it has run the queue: where nobody looks after that, it would stay full for
    /// ever.
    #[cold]
    pub(super) fn offer_driven(&mut self, batch: &mut Batch) -> Result<usize, QueueError> {
        if !self.is_driven() && self.drive() { self.offer(batch) } else { Ok(0) }
    }

    /// Runs the queue, if nobody does; whether it was run.
    fn drive(&mut self) -> bool {
        self.biased.release(&self.shared.cell);
        let Published::Owner(owned) = self.shared.cell.claim(0) else { return false };
        self.counters.drained_packets.add(QdiscRun::new(&self.shared, owned, self.bit).finish());
        true
    }

    /// A band that is full, or else 0 while the lane is.
    pub(super) fn full_band(&mut self) -> Option<u8> {
        match self.full_bands() {
            0 if self.lane.room() > 0 => None,
            0 => Some(0),
            full => Some(full.trailing_zeros() as u8),
        }
    }

    #[inline]
    pub(super) fn publish(&mut self) -> Result<(), QueueError> {
        self.biased.release(&self.shared.cell);
        match self.shared.cell.publish(self.bit) {
            Published::Owner(owned) => {
                let own = || self.lane.capacity() - self.lane.room();
                let quota = self.balance.quota(&self.counters, own, self.shared.policy.quota_packets);
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

/// Dropped only by a panic of the device.
struct DieOnPanic<'a>(&'a Shared);

impl Drop for DieOnPanic<'_> {
    fn drop(&mut self) {
        self.0.die();
    }
}

/// How many frames from the front are in bands that are not full.
fn before_full(batch: &Batch, full: u32) -> usize {
    batch.frames().iter().take_while(|frame| full & 1 << classify::band_of(frame) == 0).count()
}
