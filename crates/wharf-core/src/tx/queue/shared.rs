//! What all threads of a queue have of it: the owner cell with its inside, and what is left for whoever owns it.

use super::sender_slots::SenderSlots;
use super::state::{PollerState, QueueState};
use super::{QdiscRun, QueueError};
use crate::counters::QueueCounters;
use crate::device::TxSide;
use crate::host::{Clock, Park, Wake};
use crate::pool::{PagePool, PeerQueue, lock};
use crate::tx::engine::{Batching, TxEngine};
use crate::tx::owner::Policy;
use crate::tx::queue::lanes::{Lane, Lanes};
use crate::tx::queue::waiters::Waiters;
use crate::tx::run_observer::RunObserver;
use crate::tx::small_queue::TsqWindow;
use crate::wakeup::{Call, Callers};
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use wharf_mem::return_ring::ReturnConsumer;
use wharf_mem::word::{CONTROL, DEAD, WAIT};
use wharf_mem::{OwnerCell, Published};

/// Between two looks at a queue that somebody else owns.
pub(super) const OWNED_NAP_NS: u64 = 20_000;
/// Naps to wait for the owner: to answer, between two looks at a deadline; and to leave, for an audit.
const PENDING_TRIES: u32 = 50;
pub(super) const AUDIT_TRIES: u32 = 2000;

pub(crate) struct Shared {
    pub(crate) cell: OwnerCell<QueueState>,
    pub(crate) name: String,
    pub(crate) mode: Option<&'static str>,
    pub(crate) pool: PagePool,
    pub(crate) policy: Policy,
    pub(crate) lane_frames: u32,
    /// See [`QueueBuilder::small_queues`].
    pub(crate) small_queue_bytes: Option<u32>,
    pub(crate) tsq_window: TsqWindow,
    pub(crate) index_start: u32,
    pub(crate) uses_bands: bool,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) park: Arc<dyn Park>,
    pub(crate) counters: Arc<QueueCounters>,
    /// An observer of the senders' runs.
    pub(crate) run_observer: Option<Arc<dyn RunObserver>>,
    /// Bit n: band n is full, or others wait for it; and [`MEMORY_WANTED`](crate::tx::queue::waiters::MEMORY_WANTED).
    pub(crate) full_bands: AtomicU32,
    pub(crate) waiters: Waiters,
    /// What the device tells by, if anything.
    pub(crate) wait_fd: Option<RawFd>,
    /// True if the device receives as well.
    pub(crate) receives: bool,
    pub(super) wakers: Mutex<Wakers>,
    pub(crate) has_poller: AtomicBool,
    pub(crate) closed: AtomicBool,
    pub(super) control: Mutex<Vec<ControlMessage>>,
    pub(super) senders: Mutex<SenderSlots>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TxQueue({}, {:?})", self.name, self.cell)
    }
}

/// Who comes when called.
#[derive(Debug, Default)]
pub(crate) struct Wakers {
    /// The pollers.
    pub(crate) pollers: Callers,
    /// That of a dedicated owner: while there is one, it is the one to call.
    pub(crate) owner: Option<Arc<dyn Wake>>,
}

/// What the owner is asked to do.
pub(crate) enum ControlMessage {
    Add(usize, Lane),
    Orphan(usize, ReturnConsumer),
    SetBatching(Batching),
    Apply(Box<dyn FnOnce(&mut TxEngine) + Send>),
    /// The pollers are others now; one of them is about to look.
    Pollers,
    /// Give back what is inside and what still comes, and close the device.
    Shut,
    /// Say whether anything is inside.
    IsPending(Arc<OnceLock<bool>>),
}

impl Shared {
    /// Leaves `message` for the owner, and becomes it if there is none.
    pub(crate) fn control(&self, message: ControlMessage) {
        lock(&self.control).push(message);
        match self.cell.claim(CONTROL) {
            Published::Owner(owned) => {
                QdiscRun::new(self, owned, CONTROL).finish();
            }
            Published::WakeOwner => self.wake_poller(),
            Published::Seen | Published::Dead => {}
        }
    }

    /// Carries out the messages that lie ready.
    pub(crate) fn apply_control(&self, state: &mut QueueState) {
        let messages = std::mem::take(&mut *lock(&self.control));
        for message in messages {
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
                ControlMessage::SetBatching(batching) => state.engine.set_batching(batching),
                ControlMessage::Apply(change) => self.apply(change, &mut state.engine),
                ControlMessage::Pollers => state.poller = self.poller_state(),
                ControlMessage::Shut => self.shut(state),
                ControlMessage::IsPending(answer) => {
                    state.engine.force_completion();
                    _ = answer.set(state.is_pending() || state.lanes.len() > 0);
                }
            }
        }
        let mut senders = lock(&self.senders);
        state.lanes.sweep(|at| senders.give_back(at));
    }

    /// A user's code: what it panics about is not the queue's end.
    fn apply(&self, change: Box<dyn FnOnce(&mut TxEngine) + Send>, engine: &mut TxEngine) {
        if crate::host::outlive(|| change(engine)).is_none() {
            self.counters.panics.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn shut(&self, state: &mut QueueState) {
        state.shut = true;
        self.drain_unsent(state);
        state.engine.close(&mut Lanes::new(self.pool.clone()));
    }

    /// Gives back what the device has not taken.
    #[cold]
    pub(crate) fn drain_unsent(&self, state: &mut QueueState) {
        state.lanes.announce_all();
        let QueueState { engine, lanes, .. } = state;
        engine.drain_unsent(lanes, &mut Lanes::new(self.pool.clone()));
    }

    /// Becomes the owner and looks; after `tries` naps, or with an owner that died, it gives up.
    pub(super) fn inspect<R>(&self, tries: u32, look: impl FnOnce(&mut QueueState) -> R) -> Option<R> {
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

    /// Lets `look` at the device, as the owner; not at that of a queue whose owner died or never leaves.
    pub(crate) fn look_at_device(&self, look: impl FnOnce(&mut TxSide)) {
        self.inspect(AUDIT_TRIES, |state| look(state.engine.device_mut()));
    }

    /// Whether frames are inside, as its owner says, all messages before carried out: this thread, or whoever has the
    /// queue now or for good. One that does not answer has some for all we know; one that died, none that ever leave.
    pub(super) fn pending(&self) -> bool {
        let answer = Arc::new(OnceLock::new());
        self.control(ControlMessage::IsPending(answer.clone()));
        for _ in 0..PENDING_TRIES {
            match answer.get() {
                Some(&pending) => return pending,
                None if self.cell.word() & DEAD != 0 => break,
                None => self.park.park(OWNED_NAP_NS),
            }
        }
        let is_ours = |message: &ControlMessage| matches!(message, ControlMessage::IsPending(ours) if Arc::ptr_eq(ours, &answer));
        lock(&self.control).retain(|message| !is_ours(message));
        self.cell.word() & DEAD == 0
    }

    /// Wakes those who were served, and looks elsewhere for memory that they still wait for.
    #[cold]
    pub(crate) fn wake_served(&self) {
        self.waiters.wake_served();
        self.pool.wake_served();
        if self.pool.is_waited_for() && self.pool.peers().has_others() {
            self.pool.peers().reap(Some(self));
        }
    }

    /// Wakes whoever looks after the queue: a dedicated owner, else a poller.
    pub(crate) fn wake_poller(&self) {
        let wakers = lock(&self.wakers);
        match &wakers.owner {
            Some(owner) => _ = crate::host::wake(owner.clone()),
            None => _ = wakers.pollers.call_one(),
        }
    }

    /// Wakes the pollers themselves, even beside a dedicated owner; whether there is any.
    pub(crate) fn wake_pollers(&self) -> bool {
        let wakers = lock(&self.wakers);
        wakers.pollers.call_all();
        !wakers.pollers.is_empty()
    }

    /// What to take the pollers for when they have changed: whoever is there is about to look.
    fn poller_state(&self) -> PollerState {
        if lock(&self.wakers).pollers.is_empty() { PollerState::None } else { PollerState::Awake }
    }

    /// Changes who comes when called.
    pub(crate) fn set_wakers(&self, change: impl FnOnce(&mut Wakers)) {
        let mut wakers = lock(&self.wakers);
        change(&mut wakers);
        let is_any = !wakers.pollers.is_empty() || wakers.owner.is_some();
        self.has_poller.store(is_any, Ordering::Release);
    }

    /// Adds a poller to those that are called for this queue.
    pub(crate) fn add_poller(&self, call: &Arc<Call>) {
        self.set_wakers(|wakers| wakers.pollers.add(call));
        self.control(ControlMessage::Pollers);
    }

    /// Removes a poller. Without another one, waiting senders look for themselves.
    pub(crate) fn remove_poller(&self, call: &Arc<Call>) {
        self.set_wakers(|wakers| wakers.pollers.remove(call));
        self.control(ControlMessage::Pollers);
        if self.wake_pollers() {
            return;
        }
        self.waiters.nudge_all();
        if let Published::Owner(owned) = self.cell.claim(0) {
            QdiscRun::new(self, owned, 0).finish();
        }
    }

    /// Whoever ran the queue is gone in the middle of it: whoever waits would wait for ever.
    #[cold]
    pub(crate) fn die(&self) {
        self.closed.store(true, Ordering::Release);
        self.waiters.wake_all();
        self.pool.wake_served();
    }

    #[cold]
    pub(crate) fn dead(&self) -> QueueError {
        QueueError::Dead { device: self.name.clone() }
    }
}

impl PeerQueue for Shared {
    fn reap_for_waiters(&self) {
        if self.has_poller.load(Ordering::Relaxed) {
            return;
        }
        // As for somebody who waits here: what comes home goes to the pool's line.
        if let Published::Owner(owned) = self.cell.claim(WAIT) {
            QdiscRun::new(self, owned, WAIT).finish();
        }
    }
}

impl Drop for Shared {
    /// A queue dropped without a shutdown gives its frames back all the same: its pool would never be whole. The
    /// inside of a dead one may be half-changed, and stays as it is.
    fn drop(&mut self) {
        if self.cell.word() & DEAD != 0 {
            return;
        }
        let QueueState { engine, lanes, shut, .. } = self.cell.get_mut();
        if !*shut {
            lanes.announce_all();
            let mut nowhere = Lanes::new(self.pool.clone());
            engine.drain_unsent(lanes, &mut nowhere);
            engine.close(&mut nowhere);
        }
    }
}
