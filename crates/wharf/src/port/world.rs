//! `World`: virtual time, in which the pollers of several ports run by turns on the thread that asks for time
//! to pass.
//!
//! Assumption: one thread uses the ports of a world; then the same calls give the same results. Time passes
//! in waits and in [`World::run`] alone, from one moment at which a poller is due to the next. At each of
//! them the pollers run until all sleep, and each is told of its devices once more after a step of another
//! that did something: no device of a world has notifications.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use wharf_core::host::{Clock, Park, PollerWait, Wake};
use wharf_core::poller::{ActivePoller, Poller, Settings};
use wharf_mem::lock;

/// Rounds of the pollers at one moment, after which time passes all the same: two ports may answer each other
/// for ever.
const ROUNDS_MAX: u32 = 100;
/// Steps of a poller in one round, likewise.
const STEPS_MAX: u32 = 1000;
/// Time that then passes.
const TICK_NS: u64 = 10_000;

/// From this time on, a hundred years, nothing happens.
const NEVER_NS: u64 = 3_200_000_000_000_000_000;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct World {
    now_ns: AtomicU64,
    /// Wakes the thread that waits in [`Park::park`].
    bell: Arc<Plan>,
    seats: Mutex<Vec<Seat>>,
    seated: AtomicU64,
    /// Steps that did something, and moments.
    changes: AtomicU64,
    /// Steps that did something.
    done: AtomicU64,
    /// Waits in [`Park::park`].
    parked: AtomicU64,
}

/// When a poller, or a thread, is to go on.
#[derive(Debug, Default)]
struct Plan {
    due_ns: AtomicU64,
    /// It was called.
    is_rung: AtomicBool,
    /// The changes of the world that it knows.
    seen: AtomicU64,
    /// It waits.
    sleeps: AtomicBool,
}

impl Wake for Plan {
    fn wake(&self) {
        self.is_rung.store(true, SeqCst);
    }
}

/// A poller of the world.
#[derive(Debug)]
struct Seat {
    number: u64,
    plan: Arc<Plan>,
    /// `None` while it runs.
    poller: Option<ActivePoller>,
}

/// A poller's membership, which ends with this value.
#[derive(Debug)]
pub(crate) struct Seated {
    world: Arc<World>,
    number: u64,
}

impl Seated {
    /// True while the poller runs, and may be in a handler.
    pub(crate) fn runs(&self) -> bool {
        let seats = lock(&self.world.seats);
        seats.iter().any(|seat| seat.number == self.number && seat.poller.is_none())
    }
}

impl Drop for Seated {
    fn drop(&mut self) {
        let mut seats = lock(&self.world.seats);
        let at = seats.iter().position(|seat| seat.number == self.number);
        let seat = at.map(|at| seats.remove(at));
        drop(seats);
        // A poller that leaves runs its queues.
        drop(seat);
    }
}

impl World {
    /// Returns a way to wait, for a receiver that polls in its own calls.
    pub(crate) fn wait(self: &Arc<Self>) -> Box<dyn PollerWait> {
        Box::new(WorldWait::new(self, &Arc::default(), false))
    }

    /// Adds a poller of what `fill` gives it.
    pub(crate) fn seat(self: &Arc<Self>, settings: Settings, fill: impl FnOnce(&mut Poller)) -> Seated {
        let plan = Arc::<Plan>::default();
        let wait = WorldWait::new(self, &plan, true);
        let mut poller = Poller::new(Box::new(wait), settings);
        fill(&mut poller);
        let number = self.seated.fetch_add(1, SeqCst);
        lock(&self.seats).push(Seat { number, plan, poller: Some(poller.begin()) });
        Seated { world: self.clone(), number }
    }

    /// Lets time pass until `end_ns`.
    pub(crate) fn run(&self, end_ns: u64) {
        while !self.pass(end_ns) {}
    }

    /// Runs the pollers, and lets time pass to the next moment at which one is due, `end_ns` at most. Returns
    /// true at the end.
    fn pass(&self, end_ns: u64) -> bool {
        self.settle(end_ns);
        if self.now_ns() >= end_ns {
            return true;
        }
        let due_ns = lock(&self.seats).iter().map(|seat| seat.plan.due_ns.load(SeqCst)).min();
        let next_ns = due_ns.unwrap_or(u64::MAX).min(end_ns);
        assert!(next_ns < NEVER_NS, "virtual time: this wait never ends, since no port has anything to do");
        self.now_ns.fetch_max(next_ns, SeqCst);
        self.settle(end_ns);
        false
    }

    /// Works like [`World::pass`], for a wait: time does not pass if `is_called`, or if the pollers have just
    /// done something, which may be what the caller waits for.
    fn pass_unless(&self, end_ns: u64, is_called: impl Fn() -> bool) -> bool {
        if self.settle(end_ns) || is_called() { self.now_ns() >= end_ns } else { self.pass(end_ns) }
    }

    /// Runs the pollers until all sleep. A device may have handed frames on in a poll that found nothing: all
    /// are polled twice. Returns true if one did something.
    fn settle(&self, end_ns: u64) -> bool {
        let done = self.done.load(SeqCst);
        for _ in 0..2 {
            self.changes.fetch_add(1, SeqCst);
            self.run_pollers(end_ns);
        }
        self.done.load(SeqCst) != done
    }

    /// Runs the pollers until all sleep, or lets a little time pass, up to `end_ns`.
    fn run_pollers(&self, end_ns: u64) {
        for _ in 0..ROUNDS_MAX {
            let numbers: Vec<u64> = lock(&self.seats).iter().map(|seat| seat.number).collect();
            let ran = numbers.into_iter().filter(|number| self.step(*number)).count();
            if ran == 0 {
                return;
            }
        }
        self.now_ns.fetch_max(self.now_ns().saturating_add(TICK_NS).min(end_ns), SeqCst);
    }

    /// Runs poller `number` until it sleeps, if it is due. Returns true if it ran.
    fn step(&self, number: u64) -> bool {
        let mut seats = lock(&self.seats);
        let Some(seat) = seats.iter_mut().find(|seat| seat.number == number) else { return false };
        let plan = seat.plan.clone();
        let is_called = plan.is_rung.swap(false, SeqCst);
        let has_news = plan.seen.load(SeqCst) != self.changes.load(SeqCst);
        if !is_called && !has_news && plan.due_ns.load(SeqCst) > self.now_ns() {
            return false;
        }
        let Some(mut poller) = seat.poller.take() else { return false };
        drop(seats);
        plan.sleeps.store(false, SeqCst);
        // A handler that waits has time pass: this poller is due when that is over.
        plan.due_ns.store(u64::MAX, SeqCst);
        let before = poller.counters().fruitful_polls.get();
        for _ in 0..STEPS_MAX {
            poller.step(u64::MAX);
            if plan.sleeps.load(SeqCst) {
                break;
            }
        }
        if !plan.sleeps.load(SeqCst) {
            plan.due_ns.store(self.now_ns(), SeqCst);
        }
        if poller.counters().fruitful_polls.get() != before {
            self.changes.fetch_add(1, SeqCst);
            self.done.fetch_add(1, SeqCst);
        }
        // Its port may have let go of it meanwhile.
        let mut seats = lock(&self.seats);
        match seats.iter_mut().find(|seat| seat.number == number) {
            Some(seat) => seat.poller = Some(poller),
            None => drop((seats, poller)),
        }
        true
    }
}

impl Clock for World {
    fn now_ns(&self) -> u64 {
        self.now_ns.load(SeqCst)
    }
}

impl Park for World {
    fn waker(&self) -> Arc<dyn Wake> {
        self.bell.clone()
    }

    fn park(&self, timeout_ns: u64) {
        let end_ns = self.now_ns().saturating_add(timeout_ns);
        self.parked.fetch_add(1, SeqCst);
        let is_rung = || self.bell.is_rung.load(SeqCst);
        while !is_rung() && !self.pass_unless(end_ns, is_rung) {}
        // One that waits in a handler leaves the call to the wait further out.
        if self.parked.fetch_sub(1, SeqCst) == 1 {
            self.bell.is_rung.store(false, SeqCst);
        }
    }
}

/// Waits for virtual time: a poller's own, or that of a thread which has the others run meanwhile.
#[derive(Debug)]
struct WorldWait {
    world: Arc<World>,
    plan: Arc<Plan>,
    is_seated: bool,
    watched: Vec<usize>,
}

impl WorldWait {
    fn new(world: &Arc<World>, plan: &Arc<Plan>, is_seated: bool) -> Self {
        Self { world: world.clone(), plan: plan.clone(), is_seated, watched: Vec::new() }
    }
}

impl PollerWait for WorldWait {
    fn waker(&self) -> Arc<dyn Wake> {
        self.plan.clone()
    }

    fn now_ns(&self) -> u64 {
        self.world.now_ns()
    }

    fn watch(&mut self, _at: usize, _fd: std::os::fd::RawFd) -> bool {
        false
    }

    fn watch_without_fd(&mut self, at: usize) -> bool {
        self.watched.push(at);
        true
    }

    fn unmask(&mut self, _at: usize) {}

    fn mask(&mut self, _at: usize) {}

    fn wait(&mut self, timeout_ns: u64, told: &mut dyn FnMut(usize)) {
        let changes = self.world.changes.load(SeqCst);
        if self.plan.seen.swap(changes, SeqCst) != changes {
            return self.watched.iter().copied().for_each(told);
        }
        let end_ns = self.now_ns().saturating_add(timeout_ns);
        match (timeout_ns, self.is_seated) {
            (0, _) => {}
            (_, true) => {
                self.plan.due_ns.store(end_ns, SeqCst);
                self.plan.sleeps.store(true, SeqCst);
            }
            (_, false) => {
                if !self.plan.is_rung.swap(false, SeqCst) {
                    let plan = self.plan.clone();
                    self.world.pass_unless(end_ns, || plan.is_rung.load(SeqCst));
                }
                self.watched.iter().copied().for_each(told);
            }
        }
    }
}
