//! `Poller`: a thread that runs queues when no sender does (the kernel's NAPI): late completions, waiters, runs that
//! ended by quota, arriving frames. `Dedicated`: a permanent owner, to which senders leave all draining.
//!
//! A poller has many devices, and several pollers may share them. A poller that finds a device taken comes back
//! later, so that no work is done twice; one that stops calls another, so that no device is stranded. [`schedule`]
//! decides; this file is the thread that carries the decisions out.

mod dedicated;
pub(crate) mod poll_target;
pub mod schedule;

pub use dedicated::Dedicated;
pub use schedule::{Mode, Settings};

use crate::host::{ParkWait, PollerWait, Wake};
use crate::metrics::{Measured, Walk, table};
use crate::monitor::{LOOK_NS, Monitor, Watched};
use crate::rx::{PulledTarget, RxQueue};
use crate::tx::queue::TxQueue;
use crate::wakeup::{Bell, Call};
use poll_target::{PollTarget, TxTarget};
use schedule::{Action, Event, IrqChange, PollOutcome, Schedule};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, OnceLock};
use wharf_mem::lock;

/// Rounds of a pause between two polls that found nothing.
const PAUSES: u32 = 24;

table! {
    /// Counters of one poller, written by its thread.
    pub struct PollerCounters, "wharf_poller_" {
        /// Polls of a device.
        polls: Counter "polls",
        /// Polls that found work.
        fruitful_polls: Counter "polls",
        /// Polls that spent their whole budget: the device was polled again after the others.
        full_polls: Counter "polls",
        /// Polls that found the device taken by another thread.
        busy_polls: Counter "polls",
        /// Polls that looked once more, after notifications were unmasked and before the poller sleeps.
        unmasked_polls: Counter "polls",
        /// Polls among these that found work.
        fruitful_unmasked_polls: Counter "polls",
        /// Pauses of less than a microsecond.
        pauses: Counter "pauses",
        /// Sleeps until a notification, a call or a time.
        sleeps: Counter "sleeps",
    }
    beside {
        /// Name of its thread, once it polls.
        name: OnceLock<String>,
    }
}

impl PollerCounters {
    fn count(&self, event: &Event) {
        if let Event::Polled(found) = event {
            self.polls.add(1);
            self.fruitful_polls.add(u64::from(found.worked()));
            self.full_polls.add(u64::from(found.more));
            self.busy_polls.add(u64::from(found.busy));
        }
    }
}

impl Measured for PollerCounters {
    fn measure(&self, walk: &mut Walk<'_>) {
        self.each(&mut walk.with("poller", self.name.get().map_or("", String::as_str)));
    }
}

/// A poller of devices, to be run in a thread of its own.
#[derive(Debug)]
pub struct Poller {
    bell: Arc<Bell>,
    wait: Box<dyn PollerWait>,
    settings: Settings,
    targets: Vec<Arc<dyn PollTarget>>,
    counters: Arc<PollerCounters>,
}

/// A handle that stops a poller.
#[derive(Debug, Clone)]
pub struct PollerStop {
    bell: Arc<Bell>,
}

impl PollerStop {
    /// Makes the poller return from its run.
    pub fn stop(&self) {
        self.bell.stop.store(true, SeqCst);
        // The polling thread registers under this lock before it reads `stop`.
        let wake = lock(&self.bell.wake).clone();
        wake.map(crate::host::wake);
    }
}

impl TxQueue {
    /// Makes a poller for this queue alone, which waits as its senders do, and the handle that stops it.
    #[doc(hidden)]
    pub fn poller(&self) -> (Poller, PollerStop) {
        let wait =
            ParkWait { park: self.shared.setup().park.clone(), clock: self.shared.setup().clock.clone() };
        let mut poller = Poller::new(Box::new(wait), Settings::default());
        poller.add(self);
        let stop = poller.stopper();
        (poller, stop)
    }
}

impl Poller {
    /// Makes a poller without devices, which waits by `wait`. A budget out of bounds is clamped.
    pub fn new(wait: Box<dyn PollerWait>, settings: Settings) -> Self {
        let budget_packets = settings.budget_packets.clamp(1, wharf_mem::batch::BATCH_FRAMES_MAX as u32);
        let settings = Settings { budget_packets, ..settings };
        Self { bell: Arc::default(), wait, settings, targets: Vec::new(), counters: Arc::default() }
    }

    /// Adds a transmit queue.
    pub fn add(&mut self, queue: &TxQueue) {
        self.targets.push(Arc::new(TxTarget(queue.clone())));
    }

    /// Adds a receive queue, and the transmit side of its device if there is one.
    pub fn add_receiver(&mut self, queue: &RxQueue) {
        self.targets.push(queue.shared.clone());
    }

    /// Adds a receive queue that the poller's thread polls only now and then: see [`PulledTarget`].
    pub(crate) fn add_pulled(&mut self, queue: &RxQueue) {
        self.targets.push(Arc::new(PulledTarget(queue.shared.clone())));
    }

    /// Returns a handle that stops the poller.
    pub fn stopper(&self) -> PollerStop {
        PollerStop { bell: self.bell.clone() }
    }

    /// Returns the poller's counters.
    pub fn counters(&self) -> Arc<PollerCounters> {
        self.counters.clone()
    }

    /// Registers the calling thread and polls until stopped. A device that panics is not polled again; the others
    /// are, and so is the transmit side of one whose handler panics.
    pub fn run(self) {
        self.begin().run();
    }

    /// Registers the calling thread, which then calls [`ActivePoller::step`]: for a thread with other work.
    pub fn begin(self) -> ActivePoller {
        let Self { bell, mut wait, settings, targets, counters } = self;
        let wake = wait.waker();
        _ = counters.name.set(std::thread::current().name().unwrap_or_default().into());
        *lock(&bell.wake) = Some(wake.clone());
        let may_sleep = settings.mode != Mode::Busy;
        let tells = |(at, poll_target): (usize, &Arc<dyn PollTarget>)| {
            may_sleep && poll_target.wait_fd().map_or(wait.watch_without_fd(at), |fd| wait.watch(at, fd))
        };
        let tells: Vec<bool> = targets.iter().enumerate().map(tells).collect();
        let schedule = Schedule::new(settings, tells);
        let enrolled = Enrollment::new(&bell, &wake, targets);
        let (looks_ns, wakes_ns, is_stale) = (0, u64::MAX, true);
        let event = Event::Began;
        ActivePoller {
            bell,
            wait,
            settings,
            schedule,
            enrolled,
            event,
            counters,
            looks_ns,
            wakes_ns,
            is_stale,
        }
    }
}

/// A poller at work, registered at its devices until it is dropped.
#[derive(Debug)]
pub struct ActivePoller {
    bell: Arc<Bell>,
    wait: Box<dyn PollerWait>,
    settings: Settings,
    schedule: Schedule,
    enrolled: Enrollment,
    event: Event,
    counters: Arc<PollerCounters>,
    /// When the next look at the devices' health is due while it polls, and when if it sleeps.
    looks_ns: u64,
    wakes_ns: u64,
    /// It has polled since the last look.
    is_stale: bool,
}

impl ActivePoller {
    /// Polls until stopped.
    pub fn run(&mut self) {
        while !self.bell.stop.load(SeqCst) {
            self.step(u64::MAX);
        }
    }

    /// Does the next step: polls one device, pauses for less than a microsecond, or waits for a notification, for at
    /// most `wait_max_ns`. Returns true if it polled.
    pub fn step(&mut self, wait_max_ns: u64) -> bool {
        let now_ns = self.wait.now_ns();
        self.enrolled.take_calls(&self.bell, |at| self.schedule.called(now_ns, at));
        self.event = match self.schedule.step(now_ns, self.event) {
            Action::Poll { at, irq, away } => {
                let found = self.poll(at, irq, away);
                self.is_stale = true;
                if now_ns >= self.looks_ns {
                    self.watch(now_ns);
                }
                Event::Polled(found)
            }
            Action::Pause => {
                self.counters.pauses.add(1);
                (0..PAUSES).for_each(|_| std::hint::spin_loop());
                Event::Rested
            }
            Action::Sleep { for_ns } => {
                self.counters.sleeps.add(u64::from(for_ns > 0));
                let wants_look = || self.monitored().any(|(monitor, _)| monitor.wants_look());
                if now_ns >= self.wakes_ns || self.is_stale && for_ns > LOOK_NS && wants_look() {
                    self.watch(now_ns);
                }
                let watch_ns = self.wakes_ns.saturating_sub(now_ns);
                self.sleep(for_ns.min(wait_max_ns).min(watch_ns));
                Event::Rested
            }
        };
        self.counters.count(&self.event);
        matches!(self.event, Event::Polled(_))
    }

    /// Returns the poller's counters.
    pub fn counters(&self) -> &Arc<PollerCounters> {
        &self.counters
    }

    /// Returns the time of the poller's clock, ns.
    pub fn now_ns(&self) -> u64 {
        self.wait.now_ns()
    }

    fn poll(&mut self, at: usize, irq: IrqChange, away: bool) -> PollOutcome {
        match irq {
            IrqChange::Keep => {}
            IrqChange::Mask => self.wait.mask(at),
            IrqChange::Unmask => self.wait.unmask(at),
        }
        let (poll_target, budget) = (&self.enrolled.targets[at], self.settings.budget_packets);
        // A device or a handler that panicked has marked its queue dead and reported the panic. The next poll
        // finds that, and whether there is another side to poll on.
        let found = catch_unwind(AssertUnwindSafe(|| poll_target.poll(irq, away, budget)))
            .unwrap_or(PollOutcome { more: true, ..PollOutcome::default() });
        if irq == IrqChange::Unmask {
            self.counters.unmasked_polls.add(1);
            self.counters.fruitful_unmasked_polls.add(u64::from(found.worked() || found.unarmed));
        }
        found
    }

    fn monitored(&self) -> impl Iterator<Item = (&dyn Monitor, &dyn Watched)> {
        self.enrolled.targets.iter().filter_map(|poll_target| poll_target.monitored())
    }

    /// Looks whether the devices are well.
    #[cold]
    fn watch(&mut self, now_ns: u64) {
        let looks = self.monitored().map(|(monitor, at)| monitor.look(now_ns, at));
        let next_ns = looks.min().unwrap_or(u64::MAX);
        (self.looks_ns, self.is_stale) = (now_ns.saturating_add(LOOK_NS), false);
        self.wakes_ns = next_ns.max(self.looks_ns);
    }

    fn sleep(&mut self, for_ns: u64) {
        let schedule = &mut self.schedule;
        self.bell.asleep.store(true, SeqCst);
        let mut told = Vec::new();
        self.wait.wait(for_ns, &mut |at| told.push(at));
        self.bell.asleep.store(false, SeqCst);
        let now_ns = self.wait.now_ns();
        told.into_iter().for_each(|at| schedule.called(now_ns, at));
    }
}

/// A poller's devices, at which it is registered until this is dropped.
#[derive(Debug)]
struct Enrollment {
    targets: Vec<Arc<dyn PollTarget>>,
    calls: Vec<Arc<Call>>,
}

impl Enrollment {
    fn new(bell: &Arc<Bell>, wake: &Arc<dyn Wake>, targets: Vec<Arc<dyn PollTarget>>) -> Self {
        let calls: Vec<_> = targets.iter().map(|_| Arc::new(Call::new(bell, wake))).collect();
        let enrolled = Self { targets, calls };
        enrolled.each(|poll_target, call| poll_target.enroll(call));
        enrolled
    }

    fn each(&self, mut work: impl FnMut(&dyn PollTarget, &Arc<Call>)) {
        self.targets.iter().zip(&self.calls).for_each(|(poll_target, call)| work(&**poll_target, call));
    }

    /// Takes the pending calls; runs `called` for the device of each.
    fn take_calls(&self, bell: &Bell, mut called: impl FnMut(usize)) {
        if bell.called.load(SeqCst) && bell.called.swap(false, SeqCst) {
            let calls = self.calls.iter().enumerate().filter(|(_, call)| call.take());
            calls.for_each(|(at, _)| called(at));
        }
    }
}

impl Drop for Enrollment {
    fn drop(&mut self) {
        self.each(|poll_target, call| poll_target.leave(call));
    }
}
