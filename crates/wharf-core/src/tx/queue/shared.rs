//! `Shared`: the part of a queue that all its threads share: the owner cell, and messages for its owner.

use super::QdiscRun;
use super::changes::PendingChanges;
use super::sender_settings::SenderSettings;
use super::sender_slots::SenderSlots;
use super::state::{PollerState, QueueState};
use crate::counters::{Inside, QueueCounters};
use crate::device::{ModeReason, TxSide};
use crate::host::{Clock, Park, Wake};
use crate::metrics::{Measured, Walk};
use crate::pool::{PagePool, PeerQueue};
use crate::qdisc::DscpBands;
use crate::tx::engine::TxEngine;
use crate::tx::owner::Policy;
use crate::tx::queue::lanes::{Lane, Lanes};
use crate::tx::queue::waiters::Waiters;
use crate::tx::run_observer::RunObserver;
use crate::tx::small_queue::TsqWindow;
use crate::wakeup::{Call, Callers};
use arc_swap::{ArcSwap, ArcSwapOption};
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use wharf_mem::inbox::Inbox;
use wharf_mem::return_ring::ReturnConsumer;
use wharf_mem::word::{CONTROL, DEAD, RESERVED, WAIT};
use wharf_mem::{OwnerCell, Published, lock};

/// Nap between two looks at a queue that another thread owns.
pub(super) const OWNED_NAP_NS: u64 = 20_000;
/// Naps to wait for an owner's answer, between two looks at a deadline.
const PENDING_TRIES: u32 = 50;
/// Waits for an owner's answer that a closing thread takes, each of [`PENDING_TRIES`] naps: a second at
/// least.
const OWNER_TRIES: u32 = 1000;
/// Naps to wait for an owner to leave, for an audit.
pub(super) const AUDIT_TRIES: u32 = 2000;

pub(crate) struct Shared {
    pub(crate) cell: OwnerCell<QueueState>,
    pub(crate) name: String,
    pub(crate) mode: Option<&'static str>,
    pub(crate) mode_reason: Option<ModeReason>,
    pub(crate) pool: PagePool,
    pub(crate) policy: Policy,
    pub(crate) lane_frames: u32,
    pub(crate) sender_settings: SenderSettings,
    pub(crate) tsq_window: TsqWindow,
    pub(crate) index_start: u32,
    pub(crate) uses_bands: bool,
    /// The band of each DSCP, for senders that classify.
    pub(crate) dscp_bands: ArcSwap<DscpBands>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) park: Arc<dyn Park>,
    pub(crate) counters: Arc<QueueCounters>,
    /// An observer of the senders' runs.
    pub(crate) run_observer: Option<Arc<dyn RunObserver>>,
    /// Bit n: band n is full or waited for; and [`MEMORY_WANTED`](crate::tx::queue::waiters::MEMORY_WANTED).
    pub(crate) full_bands: AtomicU32,
    pub(crate) waiters: Waiters,
    /// The descriptor that the device notifies by.
    pub(crate) wait_fd: Option<RawFd>,
    pub(crate) receives: bool,
    pub(super) wakers: Wakers,
    pub(crate) has_poller: AtomicBool,
    pub(crate) closed: AtomicBool,
    /// Why it was closed, if its device is of no use any more.
    pub(super) failure: OnceLock<String>,
    pub(super) control: Inbox<ControlMessage>,
    pub(super) changes: PendingChanges,
    pub(super) senders: Mutex<SenderSlots>,
    /// Senders that live.
    pub(super) living: AtomicUsize,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TxQueue({}, {:?})", self.name, self.cell)
    }
}

/// The threads that come when called. A caller takes no lock.
#[derive(Debug, Default)]
pub(crate) struct Wakers {
    /// The queue's pollers.
    pollers: Callers,
    /// A dedicated owner's wake-up: while there is one, it is called in place of the pollers.
    owner: ArcSwapOption<Arc<dyn Wake>>,
    /// The threads that may own the queue; locked by those that come and go.
    claimants: Mutex<Claimants>,
}

/// The threads that may own a queue which has pollers. Without one, senders do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Claimants {
    /// Senders and pollers.
    #[default]
    All,
    /// Pollers. Senders only publish: one that is stopped or has a low priority holds up no other.
    Pollers,
    /// A sole sender and pollers; pollers alone while there are more senders.
    PollersOrSoleSender,
}

impl Claimants {
    fn reserves(self, senders: usize) -> bool {
        match self {
            Claimants::All => false,
            Claimants::Pollers => true,
            Claimants::PollersOrSoleSender => senders > 1,
        }
    }
}

/// A message that the owner carries out.
pub(crate) enum ControlMessage {
    Add(usize, Lane),
    Orphan(usize, ReturnConsumer),
    /// There are changes of settings.
    Changes,
    Apply(Box<dyn FnOnce(&mut TxEngine) + Send>),
    /// The set of pollers has changed; one of them is about to look.
    Pollers,
    /// Give back all frames inside and those that still arrive, and close the device.
    Shut,
    /// Answer true if frames are inside.
    IsPending(Arc<OnceLock<bool>>),
}

impl Shared {
    /// Leaves `message` for the owner; without one, this thread becomes the owner.
    pub(crate) fn control(&self, message: ControlMessage) {
        self.control.push(message);
        match self.cell.claim_unreserved(CONTROL) {
            Published::Owner(owned) => {
                QdiscRun::new(self, owned, CONTROL).finish();
            }
            Published::WakeOwner => self.wake_poller(),
            Published::Seen => {}
            // No owner comes any more.
            Published::Dead => drop(self.control.take()),
        }
    }

    /// Carries out the control messages. Returns their number.
    pub(crate) fn apply_control(&self, state: &mut QueueState) -> u32 {
        let mut messages = 0;
        for message in self.control.take() {
            messages += 1;
            match message {
                ControlMessage::Add(at, lane) => {
                    if state.lanes.add(at, lane) {
                        state.engine.reserve(self.lane_frames as usize);
                    }
                }
                ControlMessage::Orphan(at, ring) => {
                    state.lanes.orphan(at, ring);
                    if state.waiting {
                        state.lanes.note_returned(at as u16);
                    }
                }
                ControlMessage::Changes => self.changes.take().make(&mut state.engine, self.uses_bands),
                ControlMessage::Apply(change) => self.apply(change, &mut state.engine),
                ControlMessage::Pollers => state.poller = self.poller_state(),
                ControlMessage::Shut => self.shut(state),
                ControlMessage::IsPending(answer) => {
                    state.engine.force_completion();
                    _ = answer.set(state.is_pending() || state.lanes.len() > 0);
                }
            }
        }
        // A thread that makes a sender may be stopped: its next message is another chance.
        if let Ok(mut senders) = self.senders.try_lock() {
            state.lanes.sweep(|at| senders.give_back(at));
        }
        messages
    }

    /// Runs a user's `change`. Its panic is counted and does not end the queue.
    fn apply(&self, change: Box<dyn FnOnce(&mut TxEngine) + Send>, engine: &mut TxEngine) {
        if crate::host::outlive(|| change(engine)).is_none() {
            self.counters.panics.add_shared(1);
        }
    }

    fn shut(&self, state: &mut QueueState) {
        state.shut = true;
        self.drain_unsent(state);
        state.engine.close(&mut Lanes::new(self.pool.clone()));
    }

    /// Returns all frames that the device has not taken to their pool.
    #[cold]
    pub(crate) fn drain_unsent(&self, state: &mut QueueState) {
        state.lanes.announce_all();
        let QueueState { engine, lanes, .. } = state;
        engine.drain_unsent(lanes, &mut Lanes::new(self.pool.clone()));
    }

    /// Runs `look` on the state, as the owner. Returns `None` if the owner died or stays for longer than `tries`
    /// naps.
    pub(crate) fn inspect<R>(&self, tries: u32, look: impl FnOnce(&mut QueueState) -> R) -> Option<R> {
        for _ in 0..tries {
            match self.cell.claim(0) {
                Published::Owner(owned) => {
                    let mut run = QdiscRun::new(self, owned, 0);
                    let seen = run.look(look);
                    run.finish();
                    return Some(seen);
                }
                Published::Dead => return None,
                Published::Seen | Published::WakeOwner => self.park.park(OWNED_NAP_NS),
            }
        }
        None
    }

    /// Runs `look` on the device, as the owner; not if the owner died or never leaves.
    pub(crate) fn look_at_device(&self, look: impl FnOnce(&mut TxSide)) {
        self.inspect(AUDIT_TRIES, |state| look(state.engine.device_mut()));
    }

    /// True if frames are inside. The owner (this thread, the present one, or a dedicated one) answers after all
    /// earlier messages. An owner that does not answer counts as true: `asked` keeps the question for the next call. A
    /// dead one counts as false, since its frames never leave.
    pub(super) fn pending(&self, asked: &mut Option<Arc<OnceLock<bool>>>) -> bool {
        let answer = asked.get_or_insert_with(|| {
            let answer = Arc::new(OnceLock::new());
            self.control(ControlMessage::IsPending(answer.clone()));
            answer
        });
        for _ in 0..PENDING_TRIES {
            match answer.get() {
                Some(&pending) => {
                    *asked = None;
                    return pending;
                }
                None if self.cell.word() & DEAD != 0 => break,
                None => self.park.park(OWNED_NAP_NS),
            }
        }
        self.cell.word() & DEAD == 0
    }

    /// Waits until the owner, which another thread may be, has carried out all messages so far: not if it
    /// died, or for longer than a preempted thread stays away.
    pub(super) fn await_owner(&self) {
        let mut asked = None;
        for _ in 0..OWNER_TRIES {
            self.pending(&mut asked);
            if asked.is_none() || self.cell.word() & DEAD != 0 {
                break;
            }
        }
    }

    /// Wakes served senders, and reaps peer queues for memory that others still wait for.
    #[cold]
    pub(crate) fn wake_served(&self) {
        self.waiters.wake_served();
        if self.pool.has_served() {
            self.pool.wake_served();
        }
        if self.pool.is_waited_for() && self.pool.peers().has_others() {
            self.pool.peers().reap(Some(self));
        }
    }

    /// Wakes the dedicated owner, or else a poller.
    pub(crate) fn wake_poller(&self) {
        match &*self.wakers.owner.load() {
            Some(owner) => _ = crate::host::wake(Arc::clone(owner)),
            None => _ = self.wakers.pollers.call_one(),
        }
    }

    /// Wakes all pollers, also beside a dedicated owner. Returns true if there is any.
    pub(crate) fn wake_pollers(&self) -> bool {
        self.wakers.pollers.call_all();
        !self.wakers.pollers.is_empty()
    }

    /// Returns the state of changed pollers: those there are about to look.
    fn poller_state(&self) -> PollerState {
        if self.wakers.pollers.is_empty() { PollerState::None } else { PollerState::Awake }
    }

    /// Changes the threads that come when called, in turn with other changes.
    fn set_wakers(&self, change: impl FnOnce(&Wakers, &mut Claimants)) {
        let claimants = &mut *lock(&self.wakers.claimants);
        change(&self.wakers, claimants);
        let is_any = !self.wakers.pollers.is_empty() || self.wakers.owner.load().is_some();
        self.has_poller.store(is_any, Ordering::Release);
        self.reserve(*claimants);
    }

    /// Sets the threads that may own the queue.
    pub(crate) fn set_claimants(&self, claimants: Claimants) {
        self.set_wakers(|_, before| *before = claimants);
    }

    /// Sets the dedicated owner's wake-up.
    pub(crate) fn set_dedicated(&self, wake: Option<Arc<dyn Wake>>) {
        self.set_wakers(|wakers, _| wakers.owner.store(wake.map(Arc::new)));
    }

    /// Counts a sender that comes (1) or goes (-1).
    pub(crate) fn count_sender(&self, change: isize) {
        let claimants = lock(&self.wakers.claimants);
        self.living.store(self.living.load(Ordering::Relaxed).wrapping_add_signed(change), Ordering::Relaxed);
        self.reserve(*claimants);
    }

    /// Reserves the queue for pollers, or ends that, as `claimants` and the number of senders say.
    fn reserve(&self, claimants: Claimants) {
        let is_reserved = self.cell.word() & RESERVED != 0;
        let senders = self.living.load(Ordering::Relaxed);
        match claimants.reserves(senders) && !self.wakers.pollers.is_empty() {
            wanted if wanted == is_reserved => {}
            true => self.cell.reserve(),
            false => {
                self.cell.unreserve();
                // For what was announced to a poller that does not come any more, or comes later than a sender.
                _ = self.wakers.pollers.call_one();
            }
        }
    }

    /// Adds a poller to those that are called for this queue.
    pub(crate) fn add_poller(&self, call: &Arc<Call>) {
        self.set_wakers(|wakers, _| wakers.pollers.add(call));
        self.control(ControlMessage::Pollers);
    }

    /// Removes a poller. Without another one, waiting senders look for themselves.
    pub(crate) fn remove_poller(&self, call: &Arc<Call>) {
        self.set_wakers(|wakers, _| wakers.pollers.remove(call));
        self.control(ControlMessage::Pollers);
        if self.wake_pollers() {
            return;
        }
        self.waiters.nudge_all();
        if let Published::Owner(owned) = self.cell.claim(0) {
            QdiscRun::new(self, owned, 0).finish();
        }
    }
}

impl PeerQueue for Shared {
    fn reap_for_waiters(&self) {
        if self.has_poller.load(Ordering::Relaxed) {
            return;
        }
        // The owner finds a waiting sender announced, so completed frames go to the pool's wait list.
        if let Published::Owner(owned) = self.cell.claim(WAIT) {
            QdiscRun::new(self, owned, WAIT).finish();
        }
    }

    fn inside(&self) -> Inside {
        self.counters.inside(|| lock(&self.senders).totals().packets.get())
    }
}

impl Measured for Shared {
    fn measure(&self, walk: &mut Walk<'_>) {
        let walk = &mut walk.with("queue", &self.name);
        self.counters.measure(self.inside(), walk);
        let by_name = lock(&self.senders).by_name();
        by_name.iter().for_each(|(name, sum)| sum.each(&mut walk.with("sender", name)));
    }
}

impl Drop for Shared {
    /// Gives the frames of a queue that was not shut down back to their pool. The state of a dead queue may be
    /// half-changed and stays as it is.
    fn drop(&mut self) {
        if self.cell.word() & DEAD != 0 {
            return;
        }
        let QueueState { engine, lanes, shut, .. } = self.cell.get_mut();
        let mut nowhere = Lanes::new(self.pool.clone());
        if !*shut {
            lanes.announce_all();
            engine.drain_unsent(lanes, &mut nowhere);
            engine.close(&mut nowhere);
        }
        // A device that was closed earlier may have given more back since.
        engine.reap(&mut nowhere);
    }
}
