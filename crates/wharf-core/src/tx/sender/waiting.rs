//! The wait of a sender for space or memory, as a thread, a task or a poll loop.
//!
//! One mechanism serves all three: register, look once more (as the owner of a queue that has none), sleep until
//! woken, look again. A sender that stops waiting before it is served, or does not use its turn, lets the owner serve
//! the next.

use super::cancel::Canceller;
use super::{SendError, Sender, Sent, Watch, wait};
use crate::dscp;
use crate::host::Wake;
use crate::tx::feeding::note_held;
use crate::tx::queue::QdiscRun;
use crate::tx::queue::waiters::{Need, has_reached};
use crate::tx::small_queue::{Credit, QueueProgress};
use crate::wait::Deadline;
use std::sync::Arc;
use wharf_mem::word::{RUNNING, WAIT};
use wharf_mem::{Batch, Published};

/// Looks at a full lane while another thread empties it, before this one yields its processor: the other thread may
/// have lost its own.
const SPINS: u32 = 100;
/// The least and the most looks before the sender registers and sleeps. On a device whose transmit calls cost, a sender that
/// looks for longer takes the processor from the owner.
const LOOKS_MIN: u32 = 4 * SPINS;
pub(super) const LOOKS_MAX: u32 = 32 * SPINS;
/// The time of a sleep and a wake-up, about: a thread that sleeps for less has lost by it.
const SLEEP_NS: u64 = 10_000;
/// Nap of a waiting sender on a queue without a poller, which must look itself. The nap doubles with each sender that
/// waits before it, and grows in proportion beyond [`DOUBLINGS_MAX`]: one sender that looks for all is enough.
const SELF_DRIVEN_NAP_NS: u64 = 20_000;
const DOUBLINGS_MAX: usize = 6;

impl Sender {
    /// Returns a handle that ends a wait of this sender, as a thread or as a task, from another thread. A wait then looks at one
    /// more lock: a sender without a canceller does not.
    pub fn canceller(&mut self) -> Canceller {
        self.cancel.get_or_insert_with(Canceller::default).clone()
    }

    /// Registers for a wake-up, in turn, once there is room for packets of `band`, for `frames` of them if possible;
    /// then call [`Sender::look`]. For poll loops, whose `wake` writes to a file descriptor.
    #[doc(hidden)]
    pub fn watch(&mut self, band: u8, frames: usize, wake: Arc<dyn Wake>) -> Watch {
        let need = self.held().unwrap_or(Need::Space { band, frames });
        self.register(need, wake)
    }

    /// Works like [`Sender::watch`], for free memory.
    #[doc(hidden)]
    pub fn watch_memory(&mut self, wake: Arc<dyn Wake>) -> Watch {
        self.register(Need::Memory, wake)
    }

    pub(super) fn register(&mut self, need: Need, wake: Arc<dyn Wake>) -> Watch {
        if self.ready_watch.take().is_some() {
            // One place for one sender: its handles ask again.
            self.readiness.wake();
        }
        self.counters.waits.add(1);
        self.biased.release(self.shared.cell());
        if matches!(need, Need::Space { .. }) {
            self.turn_end = 0;
        }
        if self.cache.pool().is_waited_for() {
            // This thread is about to sleep.
            self.cache.release_cached();
        }
        // In this order: an owner that knows of the waiter then finds it on the pool's wait list, until it is served
        // there.
        let pool_place = (need == Need::Memory).then(|| self.cache.join_wait_list(wake.clone()));
        let (shared, place) = (self.shared.clone(), self.place);
        let waiter = shared.waiters().register(place, need, wake);
        Watch { shared, waiter, pool_place, is_over: false }
    }

    /// Looks whether the need of `watch` is met; `None` for not yet. To be called once after [`Sender::watch`] (the
    /// need may be met already, and this runs a queue that has no owner), and at each wake-up.
    ///
    /// # Errors
    /// [`SendError::Closed`], [`SendError::Ended`].
    #[doc(hidden)]
    pub fn look(&mut self, watch: &mut Watch) -> Option<Result<(), SendError>> {
        let seen = loop {
            if let Some(seen) = self.look_once(watch) {
                break seen;
            }
            if !watch.rejoins() {
                return None;
            }
        };
        let before = watch.end(seen.is_ok());
        if seen.is_ok() && watch.need() == Need::Memory {
            self.cache.keep_granted();
        }
        let is_served = seen.is_ok() && matches!(watch.need(), Need::Space { .. });
        if is_served {
            let frames = watch.need().frames().max(self.lane.capacity());
            self.turn_end = self.counters.packets.get().saturating_add(frames as u64);
        }
        self.counters.overtakes.add(u64::from(before > 0 && is_served));
        Some(seen)
    }

    fn look_once(&mut self, watch: &Watch) -> Option<Result<(), SendError>> {
        self.biased.release(self.shared.cell());
        // The watch's own queue: a caller may mix up two.
        let shared = watch.shared.clone();
        match shared.cell().claim_unreserved(WAIT) {
            Published::Owner(owned) => {
                let quota = shared.setup().policy.quota_packets;
                let mut run = QdiscRun::for_sender(&shared, owned, WAIT | self.bit, quota, self.place);
                self.counters.drained_packets.add(run.finish());
            }
            Published::Seen => {}
            Published::WakeOwner => shared.wake_poller(),
            Published::Dead => return Some(Err(shared.dead())),
        }
        if self.has_come(watch.need()) {
            return Some(Ok(()));
        }
        if watch.need() == Need::Memory && shared.setup().pool.peers().has_others() {
            shared.setup().pool.peers().reap(Some(&*shared));
            if self.has_come(watch.need()) {
                return Some(Ok(()));
            }
        }
        if shared.is_closed() {
            return Some(Err(self.shared.closed_error()));
        }
        (watch.need() != Need::Memory && watch.before().is_none()).then_some(Ok(()))
    }

    /// True if a poller or a dedicated owner runs the queue and wakes waiters.
    pub(super) fn is_driven(&self) -> bool {
        self.shared.has_poller()
    }

    /// True if the need is met, in turn or not: room in the own lane is no other sender's.
    pub(super) fn has_come(&mut self, need: Need) -> bool {
        match need {
            Need::Memory => self.cache.has_frames(),
            Need::Credit { returned_bytes } => has_reached(self.lane.returned_bytes(), returned_bytes),
            Need::Space { .. } => {
                let is_open = !self.shared.is_closed();
                let room = if self.is_queue_fast { 1 } else { self.lane.capacity().div_ceil(2) };
                is_open && self.full_bands() == 0 && self.lane.room() >= room
            }
        }
    }

    /// The slow part of `send`, which was offered so many packets: waits in turn, then sends what there is
    /// room for.
    #[cold]
    pub(super) fn send_rest(
        &mut self, batch: &mut Batch, offered: usize, deadline: Deadline,
    ) -> Result<Sent, SendError> {
        if deadline.is_never() {
            self.send_rest_now(batch, batch.len() < offered)?;
        } else {
            self.send_rest_by(batch, deadline)?;
        }
        Ok(Sent { accepted: offered - batch.len(), dropped: 0, left: batch.len() })
    }

    /// Runs a queue without a poller unless `some_fitted`, and has handles woken for what does not fit.
    fn send_rest_now(&mut self, batch: &mut Batch, some_fitted: bool) -> Result<(), SendError> {
        if !some_fitted {
            self.transmit_driven(batch)?;
        }
        if let Some(need) = self.need(batch)
            && self.blocks(need)
        {
            self.transmit_served(batch)?;
        }
        if !batch.is_empty() && self.full_bands() == 0 && self.lane.room() == 0 {
            note_held();
        }
        Ok(())
    }

    pub(super) fn send_rest_by(&mut self, batch: &mut Batch, deadline: Deadline) -> Result<(), SendError> {
        let deadline = deadline.started(&*self.shared.setup().clock);
        while let Some(need) = self.need(batch) {
            if self.spin(need) && self.transmit_some(batch)? {
                continue;
            }
            let (began_ns, gone) = (self.shared.setup().clock.now_ns(), self.shared.counters().gone());
            if !wait::wait(&mut [(self, need)], deadline)? {
                return Ok(());
            }
            self.learn_from_sleep(began_ns, gone);
            self.transmit_served(batch)?;
        }
        Ok(())
    }

    /// Sends what there is room for after a wait: past a full band's mark only if the sender has waited for space in
    /// turn, not for its own completions.
    pub(super) fn transmit_served(&mut self, batch: &mut Batch) -> Result<(), SendError> {
        let left = self.turn_left();
        if left > 0 {
            let count = self.within_credit(batch).min(left);
            self.put(batch, count)?;
        } else {
            self.transmit(batch)?;
        }
        if self.shared.is_closed() && !batch.is_empty() {
            return Err(self.shared.closed_error());
        }
        Ok(())
    }

    /// Gives an owner at work the time to meet `need`. Returns true if it has. The next spin may take twice as long as
    /// one that succeeded, and half as long as one that failed. Full bands, which only waiting opens, teach nothing.
    pub(super) fn spin(&mut self, need: Need) -> bool {
        let Some(looks_max) = self.spin_looks_max() else { return false };
        let (looks, is_met) = self.spin_for(need, looks_max);
        self.learn_from_spin(looks, is_met);
        is_met
    }

    /// Returns the most looks of a spin that begins now; `None` while bands are full.
    pub(super) fn spin_looks_max(&self) -> Option<u32> {
        let looks_max = if self.is_queue_fast { LOOKS_MAX } else { self.looks_max };
        (self.full_bands() == 0).then_some(looks_max)
    }

    pub(super) fn learn_from_spin(&mut self, looks: u32, is_met: bool) {
        let looks_max = if is_met { 2 * looks } else { self.looks_max / 2 };
        self.looks_max = looks_max.clamp(LOOKS_MIN, LOOKS_MAX);
    }

    /// Learns whether the queue is fast: since `began_ns`, when `gone` packets had left, it has needed less than a sleep's
    /// time for half a lane of packets. Then the next spins are as long as any, and end at the first room.
    pub(super) fn learn_from_sleep(&mut self, began_ns: u64, gone: u64) {
        let slept_ns = self.shared.setup().clock.now_ns().saturating_sub(began_ns);
        let packets = self.shared.counters().gone().saturating_sub(gone);
        let half_lane = self.lane.capacity() as u64 / 2;
        self.is_queue_fast = slept_ns.saturating_mul(half_lane) < packets.saturating_mul(SLEEP_NS);
    }

    /// Looks up to `looks_max` times. Returns the number of looks, and true if the need is met.
    fn spin_for(&mut self, need: Need, looks_max: u32) -> (u32, bool) {
        for look in 1..=looks_max {
            if self.full_bands() != 0 {
                return (look, false);
            }
            if self.shared.cell().word() & RUNNING == 0 {
                // Released or offered: this sender runs it.
                return (look, self.publish().is_ok() && self.has_come(need));
            }
            if self.has_come(need) {
                return (look, true);
            }
            if look % SPINS == 0 { self.shared.setup().park.give_way() } else { std::hint::spin_loop() }
        }
        (looks_max, false)
    }

    pub(super) fn nap_ns(&self, watch: &Watch) -> u64 {
        if self.is_driven() {
            return u64::MAX;
        }
        let before = watch.before().unwrap_or(0);
        (SELF_DRIVEN_NAP_NS << before.min(DOUBLINGS_MAX)) * (before / DOUBLINGS_MAX).max(1) as u64
    }

    /// Returns the need of the frames of `batch`; `None` if it is empty.
    pub(super) fn need(&mut self, batch: &Batch) -> Option<Need> {
        let band = dscp::band_of(batch.frames().first()?);
        let space = Need::Space { band, frames: batch.len().max(self.lane.capacity()) };
        if self.within_credit(batch) > 0 { Some(space) } else { Some(self.credit_need()) }
    }

    /// Returns the need of a sender that has as many bytes inside as it may; else `None`.
    pub(super) fn held(&mut self) -> Option<Need> {
        self.is_held().then(|| self.credit_need())
    }

    /// True if the sender has as many bytes inside as it may.
    pub(super) fn is_held(&mut self) -> bool {
        self.credit.is_short() && self.renewed_credit().is_short()
    }

    fn credit_need(&mut self) -> Need {
        Need::Credit { returned_bytes: self.credit.hold() }
    }

    /// Returns the number of frames at the front of `batch` that this sender's credit covers.
    #[inline]
    pub(super) fn within_credit(&mut self, batch: &Batch) -> usize {
        if self.credit.admits(batch.bytes()) { batch.len() } else { self.within_renewed_credit(batch) }
    }

    #[cold]
    fn within_renewed_credit(&mut self, batch: &Batch) -> usize {
        if self.credit.is_waived() {
            return batch.len();
        }
        let has_bands = self.uses_bands;
        self.renewed_credit().admitted(batch, |frame| has_bands && dscp::band_of(frame) == 0)
    }

    /// Renews the credit from the queue's counters.
    #[cold]
    fn renewed_credit(&mut self) -> &mut Credit {
        let counters = self.shared.counters();
        let queue = QueueProgress {
            taken_bytes: counters.bytes.get(),
            taken_packets: counters.packets.get(),
            limit_bytes: counters.bql_limit_bytes.get(),
            limit_packets: counters.bql_limit_packets.get(),
            is_dry: counters.gone() >= counters.accepted.get(),
            tsq_window: self.shared.tsq_window(),
        };
        self.credit.look(self.lane.returned_bytes(), queue, self.shared.setup().clock.now_ns());
        self.counters.small_queue_bytes.set(self.credit.limit_bytes().into());
        &mut self.credit
    }
}
