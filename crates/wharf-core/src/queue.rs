//! `TxQueue`: one transmit queue of a device, and the senders that share it.
//!
//! Its inside (the `Run` and the owner's ends of all lanes) lies in an `OwnerCell`: whichever thread becomes
//! the owner works on it, for itself and for others, and leaves. What changes it from outside (a new sender,
//! another setting) is a control message that the owner carries out, so that the hot path looks at nothing
//! but the owner word.

mod build;
mod places;
mod turn;

pub use build::QueueBuilder;
pub use turn::Turn;
pub(crate) use turn::{Calls, LOOKS_MAX, Leaving, attend, close_up};

use crate::bql::Bounds;
use crate::counters::{QueueCounters, SenderCounters};
use crate::credit::Horizon;
use crate::device::{DeviceError, Signals};
use crate::host::{Clock, Park, Wake};
use crate::lanes::{Lane, Lanes};
use crate::owner::Policy;
use crate::poller::Callers;
use crate::pool::{Audit, Holder, PagePool, PoolError, Reaps, lock};
use crate::run::{Batching, Run};
use crate::run_log::RunLog;
use crate::sender::Sender;
use crate::wait::Waiters;
use places::Places;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use wharf_mem::home::HomeOut;
use wharf_mem::word::{CONTROL, WAIT};
use wharf_mem::{OwnerCell, Published};

/// What can be wrong with a queue.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum QueueError {
    /// See [`PoolError`].
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// See [`DeviceError`].
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// A setting out of its bounds.
    #[error("{setting} of {value} cannot be: {why}")]
    Setting {
        /// Which.
        setting: &'static str,
        /// What was asked for.
        value: u64,
        /// The bound.
        why: &'static str,
    },
    /// No further sender fits into a frame's sender field.
    #[error("a queue serves at most {} senders", wharf_mem::frame::SENDERS_MAX)]
    Senders,
    /// A frame of another pool than the queue's.
    #[error("this queue sends frames of pool {ours}, not of pool {theirs}")]
    ForeignPool {
        /// The queue's pool.
        ours: u8,
        /// The frame's.
        theirs: u8,
    },
    /// The queue has been shut down.
    #[error("the queue is shut down")]
    Closed,
    /// A device panicked while its queue was being run.
    #[error("the queue is dead: its owner panicked inside the device {device}")]
    Dead {
        /// Which device.
        device: String,
    },
}

/// A transmit queue. Cloning gives another handle to the same queue.
#[derive(Debug, Clone)]
pub struct TxQueue {
    pub(crate) shared: Arc<Shared>,
}

/// What the owner alone touches.
pub(crate) struct Inside {
    pub(crate) run: Run,
    pub(crate) lanes: Lanes,
    /// Somebody is, or may be, on the waiters' list.
    pub(crate) waiting: bool,
    /// What those who wait keep marked as full, as it was when they were last served.
    pub(crate) waited_bands: u32,
    pub(crate) poller: PollerState,
    /// How often who offers the queue looks whether somebody takes it.
    pub(crate) offer_looks: u32,
    /// Shut down: what still comes is given back.
    pub(crate) shut: bool,
}

/// What the poller was about when it last left the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PollerState {
    /// There is none.
    None,
    /// It will look again by itself, soon.
    Awake,
    /// It will look again by itself, later, or when the device tells of a completion.
    Away,
    /// It sleeps until woken.
    Asleep,
}

pub(crate) struct Shared {
    pub(crate) cell: OwnerCell<Inside>,
    pub(crate) name: String,
    pub(crate) mode: Option<&'static str>,
    pub(crate) pool: PagePool,
    pub(crate) policy: Policy,
    pub(crate) lane_frames: u32,
    /// See [`QueueBuilder::small_queues`].
    pub(crate) small_queue_bytes: Option<u32>,
    pub(crate) horizon: Horizon,
    pub(crate) index_start: u32,
    pub(crate) uses_bands: bool,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) park: Arc<dyn Park>,
    pub(crate) counters: Arc<QueueCounters>,
    /// Set where senders keep a log of their runs: the clock for it.
    pub(crate) log_clock: Option<Arc<dyn Clock>>,
    /// Bit n: band n is full, or others wait for it; and [`MEMORY_WANTED`](crate::wait::MEMORY_WANTED).
    pub(crate) full_bands: AtomicU32,
    pub(crate) waiters: Waiters,
    /// What the device tells by, if anything.
    pub(crate) wait_fd: Option<RawFd>,
    wakers: Mutex<Wakers>,
    pub(crate) has_poller: AtomicBool,
    pub(crate) closed: AtomicBool,
    control: Mutex<Vec<Control>>,
    senders: Mutex<Places>,
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
pub(crate) enum Control {
    Add(usize, Lane),
    Orphan(usize, HomeOut),
    SetBatching(Batching),
    Apply(Box<dyn FnOnce(&mut Run) + Send>),
    /// The pollers are others now; one of them is about to look.
    Pollers,
    /// Give back what is inside and what still comes, and close the device.
    Shut,
    /// Say whether anything is inside.
    IsPending(Arc<OnceLock<bool>>),
}

impl TxQueue {
    /// A sender of this queue; `name` is what the ledger calls its memory.
    ///
    /// # Errors
    /// [`QueueError::Senders`], [`QueueError::Pool`], [`QueueError::Closed`].
    pub fn sender(&self, name: &str) -> Result<Sender, QueueError> {
        if self.shared.closed.load(Ordering::Acquire) {
            return Err(QueueError::Closed);
        }
        let at = lock(&self.shared.senders).take()?;
        let runs = self.shared.log_clock.as_ref().map(|_| Box::new(RunLog::new(at)));
        let counters = Arc::new(SenderCounters { runs, ..SenderCounters::default() });
        lock(&self.shared.senders).keep(&counters);
        let made = Sender::new(&self.shared, at, name, counters);
        let (sender, lane) = made.inspect_err(|_| lock(&self.shared.senders).give_back(at))?;
        self.shared.control(Control::Add(at, lane));
        Ok(sender)
    }

    /// Sets the batching switch, under traffic if need be.
    pub fn set_batching(&self, batching: Batching) {
        self.shared.control(Control::SetBatching(batching));
    }

    /// Bounds the byte limit, under traffic if need be: in force from the next completion.
    pub fn set_byte_limits(&self, bounds: Bounds) {
        self.apply(move |run| run.set_byte_limits(bounds));
    }

    /// Runs `change` on the queue's inside as its owner, between two bulks.
    pub fn apply(&self, change: impl FnOnce(&mut Run) + Send + 'static) {
        self.shared.control(Control::Apply(Box::new(change)));
    }

    /// How its device works on this machine: see [`Device::mode`](crate::device::Device::mode).
    pub fn device_mode(&self) -> Option<&'static str> {
        self.shared.mode
    }

    /// What the queue has done.
    pub fn counters(&self) -> &QueueCounters {
        &self.shared.counters
    }

    /// What each sender has done, in order of their making: of all that live, and of the last thousand that are
    /// gone.
    pub fn senders(&self) -> Vec<Arc<SenderCounters>> {
        lock(&self.shared.senders).counters().to_vec()
    }

    /// What those senders have done together that [`TxQueue::senders`] no longer names.
    pub fn past_senders(&self) -> SenderCounters {
        lock(&self.shared.senders).past()
    }

    /// The pool that its frames come from.
    pub fn pool(&self) -> &PagePool {
        &self.shared.pool
    }

    /// What its device counts of notifications, if it does: see [`Device::signals`](crate::device::Device::signals).
    pub fn signals(&self) -> Option<Signals> {
        let mut signals = None;
        self.shared.look_at_device(|device| signals = device.signals());
        signals
    }

    /// Becomes the owner, if there is none, and does what there is to do.
    pub fn poll(&self) {
        if let Published::Owner(owned) = self.shared.cell.claim(0) {
            Turn::new(&self.shared, owned, 0).finish();
        }
    }

    /// As [`TxQueue::poll`], for somebody who waits for what has left.
    pub(crate) fn poll_for_memory(&self) {
        if let Published::Owner(owned) = self.shared.cell.claim(0) {
            let mut turn = Turn::new(&self.shared, owned, 0);
            turn.look(|inside| inside.run.hurry());
            turn.finish();
        }
    }

    /// Becomes the owner for `bits` of the owner word, to be stepped by the caller: what a modelled
    /// processor does. `None` when somebody owns the queue.
    pub fn claim(&self, bits: u64) -> Option<Turn<'_>> {
        match self.shared.cell.claim(bits) {
            Published::Owner(owned) => Some(Turn::new(&self.shared, owned, bits).stepped_by_others()),
            _ => None,
        }
    }

    /// Ends the queue: senders get [`QueueError::Closed`]; what is inside is sent until `deadline_ns` of the
    /// queue's clock; what is left then comes back unsent, is counted as returned, and goes to its pool. Beside a
    /// dedicated owner that is that one's work: it has to go on polling until then.
    /// Frames that the device still holds then stay with it. Says who holds frames of the pool at the end.
    pub fn shutdown(&self, deadline_ns: u64) -> Audit {
        self.shared.closed.store(true, Ordering::Release);
        self.shared.waiters.wake_all();
        while self.shared.pending() && self.shared.clock.now_ns() < deadline_ns {
            self.poll();
            self.shared.park.park(SHUTDOWN_NAP_NS);
        }
        self.shared.control(Control::Shut);
        // Whoever has the queue may be another: not before it has carried that out.
        self.shared.pending();
        self.audit()
    }

    /// Who holds frames of the queue's pool. Becomes the owner to look; while another one stays for good, where
    /// frames are is not known, only who took them.
    pub fn audit(&self) -> Audit {
        // Completions first, or what they bring home would still count as out.
        self.poll();
        let looked = self.shared.inspect(AUDIT_TRIES, |inside| {
            let mut places: Vec<(u32, Holder)> = Vec::new();
            inside.run.visit(&mut |frame, place| places.push((frame.index(), place)));
            (places, inside.lanes.going_home())
        });
        let mut audit = self.shared.pool.audit();
        if let Ok((places, going_home)) = looked {
            places.into_iter().for_each(|(index, place)| audit.found(index, place));
            audit.going_home = going_home;
        }
        audit
    }

    /// Waits until everything sent so far has left, or `deadline_ns` of the queue's clock; whether it has.
    pub fn drain(&self, deadline_ns: u64) -> bool {
        while self.shared.pending() {
            if self.shared.clock.now_ns() >= deadline_ns {
                return false;
            }
            self.poll();
            self.shared.park.park(SHUTDOWN_NAP_NS);
        }
        true
    }
}

const SHUTDOWN_NAP_NS: u64 = 20_000;
/// Naps to wait for the owner: to answer, between two looks at a deadline; and to leave, for an audit.
const PENDING_TRIES: u32 = 50;
const AUDIT_TRIES: u32 = 2000;

/// Why a look at the inside failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NotOwner {
    /// Somebody else has owned the queue all the time.
    Busy,
    /// Its owner died.
    Dead,
}

impl Shared {
    /// Leaves `message` for the owner, and becomes it if there is none.
    pub(crate) fn control(&self, message: Control) {
        lock(&self.control).push(message);
        match self.cell.claim(CONTROL) {
            Published::Owner(owned) => {
                Turn::new(self, owned, CONTROL).finish();
            }
            Published::WakeOwner => self.wake_poller(),
            Published::Seen | Published::Dead => {}
        }
    }

    /// Carries out the messages that lie ready.
    pub(crate) fn obey(&self, inside: &mut Inside) {
        let messages = std::mem::take(&mut *lock(&self.control));
        for message in messages {
            match message {
                Control::Add(at, lane) => {
                    if inside.lanes.add(at, lane) {
                        inside.run.reserve(self.lane_frames as usize);
                    }
                }
                Control::Orphan(at, home) => {
                    inside.lanes.orphan(at, home);
                    if inside.waiting {
                        inside.lanes.note_returned(at as u16);
                    }
                }
                Control::SetBatching(batching) => inside.run.set_batching(batching),
                Control::Apply(change) => self.apply(change, &mut inside.run),
                Control::Pollers => inside.poller = self.poller_state(),
                Control::Shut => self.shut(inside),
                Control::IsPending(answer) => {
                    inside.run.hurry();
                    _ = answer.set(inside.is_pending() || inside.lanes.len() > 0);
                }
            }
        }
        let mut senders = lock(&self.senders);
        inside.lanes.sweep(|at| senders.give_back(at));
    }

    /// A user's code: what it panics about is not the queue's end.
    fn apply(&self, change: Box<dyn FnOnce(&mut Run) + Send>, run: &mut Run) {
        if crate::host::outlive(|| change(run)).is_none() {
            self.counters.panics.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn shut(&self, inside: &mut Inside) {
        inside.shut = true;
        self.give_up(inside);
        inside.run.close(&mut Lanes::new(self.pool.clone()));
    }

    /// Gives back what the device has not taken.
    #[cold]
    pub(crate) fn give_up(&self, inside: &mut Inside) {
        inside.lanes.announce_all();
        let Inside { run, lanes, .. } = inside;
        run.give_up(lanes, &mut Lanes::new(self.pool.clone()));
    }

    /// Becomes the owner and looks; after `tries` naps, or with an owner that died, it gives up.
    fn inspect<R>(&self, tries: u32, look: impl FnOnce(&mut Inside) -> R) -> Result<R, NotOwner> {
        for _ in 0..tries {
            match self.cell.claim(0) {
                Published::Owner(owned) => {
                    let mut turn = Turn::new(self, owned, 0);
                    let seen = turn.look(look);
                    turn.finish();
                    return Ok(seen);
                }
                Published::Dead => return Err(NotOwner::Dead),
                Published::Seen | Published::WakeOwner => self.park.park(SHUTDOWN_NAP_NS),
            }
        }
        Err(NotOwner::Busy)
    }

    /// Lets `look` at the device, as the owner; not at that of a queue whose owner died or never leaves.
    pub(crate) fn look_at_device(&self, look: impl FnOnce(&mut dyn crate::device::Device)) {
        let _ = self.inspect(AUDIT_TRIES, |inside| look(inside.run.device_mut()));
    }

    /// Whether frames are inside, as its owner says, all messages before carried out: this thread, or whoever has the
    /// queue now or for good. One that does not answer has some for all we know; one that died, none that ever leave.
    fn pending(&self) -> bool {
        let answer = Arc::new(OnceLock::new());
        self.control(Control::IsPending(answer.clone()));
        for _ in 0..PENDING_TRIES {
            match answer.get() {
                Some(&pending) => return pending,
                None if self.cell.word() & wharf_mem::word::DEAD != 0 => break,
                None => self.park.park(SHUTDOWN_NAP_NS),
            }
        }
        let is_ours =
            |message: &Control| matches!(message, Control::IsPending(ours) if Arc::ptr_eq(ours, &answer));
        lock(&self.control).retain(|message| !is_ours(message));
        self.cell.word() & wharf_mem::word::DEAD == 0
    }

    /// Wakes those who were served, and looks elsewhere for memory that they still wait for.
    #[cold]
    pub(crate) fn wake_served(&self) {
        self.waiters.wake_served();
        self.pool.wake_served();
        if self.pool.is_waited_for() && self.pool.has_queues_elsewhere() {
            self.pool.reap_elsewhere(Some(self));
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

impl Reaps for Shared {
    fn reap_for_waiters(&self) {
        if self.has_poller.load(Ordering::Relaxed) {
            return;
        }
        // As for somebody who waits here: what comes home goes to the pool's line.
        if let Published::Owner(owned) = self.cell.claim(WAIT) {
            Turn::new(self, owned, WAIT).finish();
        }
    }
}

impl Drop for Shared {
    /// A queue dropped without a shutdown gives its frames back all the same: its pool would never be whole. The
    /// inside of a dead one may be half-changed, and stays as it is.
    fn drop(&mut self) {
        if self.cell.word() & wharf_mem::word::DEAD != 0 {
            return;
        }
        let Inside { run, lanes, shut, .. } = self.cell.get_mut();
        if !*shut {
            lanes.announce_all();
            let mut nowhere = Lanes::new(self.pool.clone());
            run.give_up(lanes, &mut nowhere);
            run.close(&mut nowhere);
        }
    }
}

impl std::fmt::Debug for Inside {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Inside({:?}, {:?})", self.run, self.poller)
    }
}

impl Inside {
    /// Whether there is anything that somebody must come back for.
    pub(crate) fn is_pending(&self) -> bool {
        use crate::run::Source;
        self.run.in_device() > 0 || self.run.backlog() > 0 || !self.lanes.is_empty()
    }
}
