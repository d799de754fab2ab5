//! How a sender waits: for space or memory, as a thread, a task or a poll loop.
//!
//! One mechanism for all: register, look once more (as the owner, if there is none), and sleep, whatever that
//! means, until woken; then look again. Whoever stops waiting before its turn, or in place of using it, lets the
//! owner look who is next.

use super::Sender;
use crate::host::{self, Wake};
use crate::pool::WaitPlace;
use crate::qdisc::classify;
use crate::tx::queue::waiters::{Need, has_reached};
use crate::tx::queue::{QdiscRun, QueueError, Shared};
use crate::tx::small_queue::{Credit, QueueProgress};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use wharf_mem::word::{RUNNING, WAIT};
use wharf_mem::{Batch, Published};

/// Looks at a full lane while somebody else is emptying it, before that thread is given way to: it may have lost its
/// processor to this one.
const SPINS: u32 = 100;
/// How often that is done before waiting in earnest.
const YIELDS: u32 = 32;
/// How long a waiting sender sleeps when no poller will wake it: it must come and look itself. For each that waits before
/// it, and looks sooner, twice as long, and from there on in proportion: one that looks for all is enough.
const SELF_DRIVEN_NAP_NS: u64 = 20_000;
const DOUBLINGS_MAX: usize = 6;

/// A place in the order of those who wait. Dropped, it is given up.
#[derive(Debug)]
pub struct Watch {
    shared: Arc<Shared>,
    need: Need,
    ticket: u64,
    /// The sender's place in the queue.
    place: u16,
    /// Its place in the pool's line, where it waits for memory.
    pool_place: Option<WaitPlace>,
    is_over: bool,
}

impl Drop for Watch {
    fn drop(&mut self) {
        if let Some(place) = self.pool_place.take() {
            place.leave(false);
        }
        if self.is_over {
            return;
        }
        self.shared.waiters.leave(self.ticket, self.place, self.need);
        // It may be a panic that ends this wait: one of the device's on top of it would end the process.
        host::outlive(|| self.pass_on());
    }
}

impl Watch {
    /// How many are served before it; `None` when it has been served.
    fn before(&self) -> Option<usize> {
        match &self.pool_place {
            Some(place) => place.before(),
            None => self.shared.waiters.before(self.ticket, self.place, self.need),
        }
    }

    /// Ends the wait, for good if it was `served`; how many wait on who had come before it.
    fn end(&mut self, served: bool) -> usize {
        self.is_over = true;
        if let Some(place) = self.pool_place.take() {
            place.leave(served);
        }
        self.shared.waiters.leave(self.ticket, self.place, self.need)
    }
}

impl Watch {
    /// Waits anew, where others have what it was handed: it did not come for that in time. Whether it does.
    fn rejoins(&mut self) -> bool {
        let Some(place) = &mut self.pool_place else { return false };
        if !place.rejoin() {
            return false;
        }
        self.shared.waiters.leave(self.ticket, self.place, self.need);
        self.ticket = self.shared.waiters.register(self.place, self.need, place.wake());
        true
    }

    /// Lets the owner look who is next.
    fn pass_on(&self) {
        match self.shared.cell.claim(WAIT) {
            Published::Owner(owned) => {
                QdiscRun::new(&self.shared, owned, WAIT).finish();
            }
            Published::WakeOwner => self.shared.wake_poller(),
            Published::Seen | Published::Dead => {}
        }
    }
}

impl Sender {
    /// Asks for a wake-up, in turn, when there is room for packets of band `band` again, `frames` of them if
    /// possible. Then [`Sender::look`]. For poll loops, whose `wake` writes to a file descriptor.
    pub fn watch(&mut self, band: u8, frames: usize, wake: Arc<dyn Wake>) -> Watch {
        let need = self.held().unwrap_or(Need::Space { band, frames });
        self.register(need, wake)
    }

    /// As [`Sender::watch`], for free memory.
    pub fn watch_memory(&mut self, wake: Arc<dyn Wake>) -> Watch {
        self.register(Need::Memory, wake)
    }

    pub(super) fn register(&mut self, need: Need, wake: Arc<dyn Wake>) -> Watch {
        self.counters.waits.add(1);
        self.biased.release(&self.shared.cell);
        self.served_at = None;
        if self.cache.pool().is_waited_for() {
            // It is about to sleep.
            self.cache.release_cached();
        }
        // In this order: an owner that knows of it finds it in the pool's line, until it is served there.
        let pool_place = (need == Need::Memory).then(|| self.cache.join_wait_list(wake.clone()));
        let (shared, place) = (self.shared.clone(), self.place);
        let ticket = shared.waiters.register(place, need, wake);
        Watch { shared, need, ticket, place, pool_place, is_over: false }
    }

    /// Whether what was waited for is there: `None` for not yet. To be called once after [`Sender::watch`] (it
    /// may be there already, and where nobody owns the queue this runs it), and at each wake-up.
    ///
    /// # Errors
    /// [`QueueError::Closed`], [`QueueError::Dead`].
    pub fn look(&mut self, watch: &mut Watch) -> Option<Result<(), QueueError>> {
        let seen = loop {
            if let Some(seen) = self.look_once(watch) {
                break seen;
            }
            if !watch.rejoins() {
                return None;
            }
        };
        let before = watch.end(seen.is_ok());
        if seen.is_ok() && watch.need == Need::Memory {
            self.cache.keep_granted();
        }
        let is_served = seen.is_ok() && matches!(watch.need, Need::Space { .. });
        self.served_at = is_served.then(|| self.counters.packets.get());
        self.counters.overtakes.add(u64::from(before > 0 && is_served));
        Some(seen)
    }

    fn look_once(&mut self, watch: &Watch) -> Option<Result<(), QueueError>> {
        self.biased.release(&self.shared.cell);
        // The watch's own queue, should a caller mix up two.
        let shared = watch.shared.clone();
        match shared.cell.claim(WAIT) {
            Published::Owner(owned) => {
                let quota = shared.policy.quota_packets;
                let mut run = QdiscRun::for_sender(&shared, owned, WAIT | self.bit, quota, self.place);
                self.counters.drained_packets.add(run.finish());
            }
            Published::Seen => {}
            Published::WakeOwner => shared.wake_poller(),
            Published::Dead => return Some(Err(shared.dead())),
        }
        if self.has_come(watch.need) {
            return Some(Ok(()));
        }
        if watch.need == Need::Memory && shared.pool.peers().has_others() {
            shared.pool.peers().reap(Some(&*shared));
            if self.has_come(watch.need) {
                return Some(Ok(()));
            }
        }
        if shared.closed.load(Ordering::Acquire) {
            return Some(Err(self.closed()));
        }
        (watch.need != Need::Memory && watch.before().is_none()).then_some(Ok(()))
    }

    /// Whether somebody runs the queue who will wake those who wait.
    pub(super) fn is_driven(&self) -> bool {
        self.shared.has_poller.load(Ordering::Relaxed)
    }

    /// Waits until there is a free frame again.
    ///
    /// # Errors
    /// [`QueueError::Closed`], [`QueueError::Dead`].
    pub fn wait_for_memory(&mut self) -> Result<(), QueueError> {
        self.wait(Need::Memory)
    }

    /// Whether what `need` is about is there by now, in turn or not: room in its own lane is nobody else's.
    fn has_come(&mut self, need: Need) -> bool {
        match need {
            Need::Memory => self.cache.has_frames(),
            Need::Credit { returned_bytes } => has_reached(self.lane.returned_bytes(), returned_bytes),
            Need::Space { .. } => {
                let is_open = !self.shared.closed.load(Ordering::Acquire);
                is_open && self.full_bands() == 0 && self.lane.room() > 0
            }
        }
    }

    /// The slow part of `send`: wait in turn, then put in what there is room for.
    #[cold]
    pub(super) fn send_rest(&mut self, batch: &mut Batch) -> Result<(), QueueError> {
        while let Some(need) = self.need(batch) {
            if self.spin(need) && self.offer(batch)? > 0 {
                continue;
            }
            self.wait(need)?;
            self.offer_served(batch)?;
        }
        Ok(())
    }

    /// Puts in what there is room for, when its wait is over: past a mark that keeps others waiting only if it has
    /// waited for space in turn, and not for its own frames to leave.
    pub(super) fn offer_served(&mut self, batch: &mut Batch) -> Result<(), QueueError> {
        if self.take_turn() {
            let count = self.within_credit(batch);
            self.put(batch, count)?;
        } else {
            self.offer(batch)?;
        }
        if self.shared.closed.load(Ordering::Relaxed) && !batch.is_empty() {
            return Err(self.closed());
        }
        Ok(())
    }

    /// Gives an owner at work the time to do what `need` is about; whether it has.
    fn spin(&mut self, need: Need) -> bool {
        for look in 1..=SPINS * YIELDS {
            if self.full_bands() != 0 {
                return false;
            }
            if self.shared.cell.word() & RUNNING == 0 {
                // Left, or on offer: it is ours to run.
                return self.publish().is_ok() && self.has_come(need);
            }
            if self.has_come(need) {
                return true;
            }
            if look % SPINS == 0 { self.shared.park.give_way() } else { std::hint::spin_loop() }
        }
        false
    }

    pub(super) fn nap_ns(&self, watch: &Watch) -> u64 {
        if self.is_driven() {
            return u64::MAX;
        }
        let before = watch.before().unwrap_or(0);
        (SELF_DRIVEN_NAP_NS << before.min(DOUBLINGS_MAX)) * (before / DOUBLINGS_MAX).max(1) as u64
    }

    /// Registers and sleeps until served, as a thread.
    #[cold]
    fn wait(&mut self, need: Need) -> Result<(), QueueError> {
        let park = self.shared.park.clone();
        let mut watch = self.register(need, park.waker());
        loop {
            if let Some(seen) = self.look(&mut watch) {
                return seen;
            }
            park.park(self.nap_ns(&watch));
        }
    }
}

impl Sender {
    /// What the frames of `batch` wait for; `None` when there is none.
    pub(super) fn need(&mut self, batch: &Batch) -> Option<Need> {
        let band = classify::band_of(batch.frames().first()?);
        let space = Need::Space { band, frames: batch.len() };
        if self.within_credit(batch) > 0 { Some(space) } else { Some(self.credit_need()) }
    }

    /// What it waits for if it has as much inside as it may.
    pub(super) fn held(&mut self) -> Option<Need> {
        (self.credit.is_short() && self.renewed_credit().is_short()).then(|| self.credit_need())
    }

    fn credit_need(&mut self) -> Need {
        Need::Credit { returned_bytes: self.credit.hold() }
    }

    /// How many frames from the front of `batch` are within what this sender may have inside.
    #[inline]
    pub(super) fn within_credit(&mut self, batch: &Batch) -> usize {
        if self.credit.admits(batch.bytes()) { batch.len() } else { self.within_renewed_credit(batch) }
    }

    #[cold]
    fn within_renewed_credit(&mut self, batch: &Batch) -> usize {
        let has_bands = self.shared.uses_bands;
        self.renewed_credit().admitted(batch, |frame| has_bands && classify::band_of(frame) == 0)
    }

    /// The account as it is now.
    #[cold]
    fn renewed_credit(&mut self) -> &mut Credit {
        let counters = &self.shared.counters;
        let queue = QueueProgress {
            taken_bytes: counters.bytes.get(),
            limit_bytes: counters.bql_limit_bytes.get(),
            is_dry: counters.gone() >= counters.accepted.get(),
            tsq_window: &self.shared.tsq_window,
        };
        self.credit.look(self.lane.returned_bytes(), queue, self.shared.clock.now_ns());
        self.counters.small_queue_bytes.set(self.credit.limit_bytes().into());
        &mut self.credit
    }
}
