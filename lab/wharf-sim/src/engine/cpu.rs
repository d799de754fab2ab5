//! A processor's time, by mode, and the time that timer ticks take.

use serde::Deserialize;

/// The mode in which a processor spends its time, as `mpstat` reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// A program.
    User,
    /// The kernel, on behalf of a program.
    System,
    /// The kernel, on behalf of a device or a timer: interrupts, completions, softirqs.
    Soft,
}

const MODES: usize = 3;

/// The timer tick: every `every_ns` it takes `cost_ns` and asks for a reschedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct Tick {
    /// Time between two ticks; 0 for no tick.
    pub every_ns: u64,
    /// Time of a tick; at most half of `every_ns`, or no work would ever be done.
    pub cost_ns: u64,
}

/// The account of one processor. Idle time is the rest of the time that passed. An idle processor has no
/// tick.
#[derive(Debug, Clone)]
pub struct Cpu {
    tick: Tick,
    next_tick_ns: u64,
    spent_ns: [u64; MODES],
    /// Part of it in `_raw_spin_lock` and the like.
    locking_ns: u64,
    resched: bool,
    /// The end of the work begun last, and the part of it, and of the work right before, in each mode.
    until_ns: u64,
    begun: (Mode, u64),
    /// The same for taking a lock.
    lock_until_ns: u64,
    lock_begun_ns: u64,
    /// Thousandths by which its work takes longer.
    slowdown_permille: u64,
}

/// Processors that share cores by simultaneous multithreading. Each of two at work on a core is slower.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
pub struct Smt {
    /// Cores of the smallest machine.
    pub cores: u64,
    /// Processors of a core on larger ones; 0 or 1 for none that share.
    pub threads_per_core: u64,
    /// Thousandths by which work takes longer on a shared core.
    pub smt_slowdown_permille: u64,
}

impl Smt {
    /// Returns the slowdown of processor `number` while `processors` are at work: each core has one before any has
    /// two.
    pub fn slowdown_permille(&self, number: usize, processors: usize) -> u64 {
        let processors = processors as u64;
        let cores = self.cores.max(processors.div_ceil(self.threads_per_core.max(1)));
        let shares = number as u64 >= cores || number as u64 + cores < processors;
        if shares { self.smt_slowdown_permille } else { 0 }
    }
}

/// A processor's time up to some moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Spent {
    /// By [`Mode`].
    pub modes_ns: [u64; MODES],
    /// Part of it spent taking locks.
    pub locking_ns: u64,
}

impl std::ops::AddAssign for Spent {
    fn add_assign(&mut self, other: Self) {
        self.modes_ns.iter_mut().zip(other.modes_ns).for_each(|(sum, ns)| *sum += ns);
        self.locking_ns += other.locking_ns;
    }
}

impl Cpu {
    /// Creates an account whose first tick is at `first_tick_ns`.
    pub fn new(tick: Tick, first_tick_ns: u64) -> Self {
        let tick = Tick { cost_ns: tick.cost_ns.min(tick.every_ns / 2), ..tick };
        let next_tick_ns = if tick.every_ns == 0 { u64::MAX } else { first_tick_ns };
        Self {
            tick,
            next_tick_ns,
            spent_ns: [0; MODES],
            locking_ns: 0,
            resched: false,
            until_ns: 0,
            begun: (Mode::System, 0),
            lock_until_ns: 0,
            lock_begun_ns: 0,
            slowdown_permille: 0,
        }
    }

    /// Makes its work take longer by so many thousandths.
    #[must_use]
    pub fn slower_by(self, slowdown_permille: u64) -> Self {
        Self { slowdown_permille, ..self }
    }

    /// Works for `work_ns` from `now_ns` on. Returns the end, which each tick in that time makes later.
    #[inline]
    pub fn work(&mut self, now_ns: u64, work_ns: u64, mode: Mode) -> u64 {
        let work_ns = work_ns + work_ns * self.slowdown_permille / 1000;
        self.spent_ns[mode as usize] += work_ns;
        let end_ns = now_ns + work_ns;
        let end_ns =
            if end_ns < self.next_tick_ns { end_ns } else { self.work_through_ticks(now_ns, end_ns) };
        self.begin(now_ns, end_ns, work_ns, mode);
        end_ns
    }

    /// Notes time that is charged already and ends at `end_ns`. Work that follows in the same mode without a
    /// gap is one piece.
    #[inline]
    fn begin(&mut self, now_ns: u64, end_ns: u64, work_ns: u64, mode: Mode) {
        let before_ns = if self.begun.0 == mode && self.until_ns == now_ns { self.begun.1 } else { 0 };
        (self.until_ns, self.begun) = (end_ns, (mode, before_ns + work_ns));
    }

    /// Continues with `left_ns` of work that was charged when it began.
    pub fn goes_on(&mut self, now_ns: u64, left_ns: u64, mode: Mode) {
        (self.until_ns, self.begun) = (now_ns + left_ns, (mode, left_ns));
    }

    #[cold]
    fn work_through_ticks(&mut self, now_ns: u64, end_ns: u64) -> u64 {
        if self.next_tick_ns < now_ns {
            // The processor was idle at these ticks.
            let missed = (now_ns - self.next_tick_ns).div_ceil(self.tick.every_ns);
            self.next_tick_ns += missed * self.tick.every_ns;
        }
        let mut end_ns = end_ns;
        while self.next_tick_ns <= end_ns {
            self.spent_ns[Mode::Soft as usize] += self.tick.cost_ns;
            end_ns += self.tick.cost_ns;
            self.next_tick_ns += self.tick.every_ns;
            self.resched = true;
        }
        end_ns
    }

    /// Works like [`Cpu::work`], for taking a lock.
    #[inline]
    pub fn lock(&mut self, now_ns: u64, taking_ns: u64, mode: Mode) -> u64 {
        self.locking_ns += taking_ns;
        (self.lock_until_ns, self.lock_begun_ns) = (now_ns + taking_ns, taking_ns);
        self.work(now_ns, taking_ns, mode)
    }

    /// Notes that it spun for a lock from `since_ns` to `until_ns`.
    #[inline]
    pub fn spun(&mut self, since_ns: u64, until_ns: u64, mode: Mode) {
        let ns = until_ns - since_ns;
        self.spent_ns[mode as usize] += ns;
        self.locking_ns += ns;
        (self.lock_until_ns, self.lock_begun_ns) = (until_ns, ns);
        self.begin(since_ns, until_ns, ns, mode);
    }

    /// True if a tick has come since the last call: the running process should yield.
    #[inline]
    pub fn take_resched(&mut self) -> bool {
        std::mem::take(&mut self.resched)
    }

    /// Returns the time spent up to `now_ns`, without the part of the work under way that is still to come.
    /// (The rest of a piece that a tick lengthens is taken to be work, then tick.)
    pub fn spent_until(&self, now_ns: u64) -> Spent {
        let mut modes_ns = self.spent_ns;
        let to_come_ns = self.until_ns.saturating_sub(now_ns);
        let (mode, begun_ns) = self.begun;
        let work_ns = to_come_ns.min(begun_ns);
        modes_ns[mode as usize] -= work_ns;
        let ticks_ns = &mut modes_ns[Mode::Soft as usize];
        *ticks_ns = ticks_ns.saturating_sub(to_come_ns - work_ns);
        let locks_to_come_ns = self.lock_until_ns.saturating_sub(now_ns).min(self.lock_begun_ns);
        Spent { modes_ns, locking_ns: self.locking_ns - locks_to_come_ns }
    }

    /// Returns the time spent in `mode`.
    pub fn spent_ns(&self, mode: Mode) -> u64 {
        self.spent_ns[mode as usize]
    }

    /// Returns the time spent taking locks, a part of the others.
    pub fn locking_ns(&self) -> u64 {
        self.locking_ns
    }
}
