//! A processor's time: what it went into, and what the timer's tick takes of it.

/// What a processor spends its time on, as mpstat tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// A program of its own.
    User,
    /// The kernel, for a program.
    System,
    /// The kernel, for a device or a timer: interrupts, completions, what was deferred to them.
    Soft,
}

const MODES: usize = 3;

/// The timer: every `every_ns` it takes `cost_ns`, and asks for another process to be looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tick {
    /// Time between two; 0 for no tick at all.
    pub every_ns: u64,
    /// What each takes; half of `every_ns` at most, or nothing else would ever get done.
    pub cost_ns: u64,
}

/// The account of one processor. Idle time is what is left of the time that passed; an idle one has no tick.
#[derive(Debug, Clone)]
pub struct Cpu {
    tick: Tick,
    next_tick_ns: u64,
    spent_ns: [u64; MODES],
    /// Of that, in `_raw_spin_lock` and its like.
    locking_ns: u64,
    resched: bool,
}

impl Cpu {
    /// One whose first tick is at `first_tick_ns`.
    pub fn new(tick: Tick, first_tick_ns: u64) -> Self {
        let tick = Tick { cost_ns: tick.cost_ns.min(tick.every_ns / 2), ..tick };
        let next_tick_ns = if tick.every_ns == 0 { u64::MAX } else { first_tick_ns };
        Self { tick, next_tick_ns, spent_ns: [0; MODES], locking_ns: 0, resched: false }
    }

    /// Works for `work_ns` from `now_ns` on; when it is done: later by every tick that falls into that time.
    #[inline]
    pub fn work(&mut self, now_ns: u64, work_ns: u64, mode: Mode) -> u64 {
        self.spent_ns[mode as usize] += work_ns;
        let end_ns = now_ns + work_ns;
        if end_ns < self.next_tick_ns { end_ns } else { self.work_through_ticks(now_ns, end_ns) }
    }

    #[cold]
    fn work_through_ticks(&mut self, now_ns: u64, end_ns: u64) -> u64 {
        if self.next_tick_ns < now_ns {
            // It was idle when they would have come.
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

    /// As [`Cpu::work`], in taking a lock.
    #[inline]
    pub fn lock(&mut self, now_ns: u64, taking_ns: u64, mode: Mode) -> u64 {
        self.locking_ns += taking_ns;
        self.work(now_ns, taking_ns, mode)
    }

    /// Notes time that has passed already, spinning for a lock.
    #[inline]
    pub fn spun(&mut self, ns: u64, mode: Mode) {
        self.spent_ns[mode as usize] += ns;
        self.locking_ns += ns;
    }

    /// Whether a tick has come since this was last asked: the process that runs should make way for another.
    #[inline]
    pub fn take_resched(&mut self) -> bool {
        std::mem::take(&mut self.resched)
    }

    /// Time spent in `mode`.
    pub fn spent_ns(&self, mode: Mode) -> u64 {
        self.spent_ns[mode as usize]
    }

    /// Time spent in any mode.
    pub fn busy_ns(&self) -> u64 {
        self.spent_ns.iter().sum()
    }

    /// Time spent taking locks; part of the others.
    pub fn locking_ns(&self) -> u64 {
        self.locking_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_lengthen_work_and_are_not_owed_by_an_idle_processor() {
        let mut cpu = Cpu::new(Tick { every_ns: 1000, cost_ns: 10 }, 500);
        assert_eq!((cpu.work(0, 499, Mode::System), cpu.take_resched()), (499, false));
        assert_eq!((cpu.work(499, 1, Mode::System), cpu.take_resched()), (510, true));
        assert_eq!(cpu.work(510, 2000, Mode::User), 2530);
        assert_eq!((cpu.work(10_600, 100, Mode::Soft), cpu.take_resched()), (10_700, true));
        assert_eq!((cpu.work(10_700, 100, Mode::Soft), cpu.take_resched()), (10_800, false));
        cpu.lock(10_800, 16, Mode::System);
        cpu.spun(84, Mode::System);
        let spent = [Mode::User, Mode::System, Mode::Soft].map(|mode| cpu.spent_ns(mode));
        assert_eq!((spent, cpu.locking_ns(), cpu.busy_ns()), ([2000, 600, 230], 100, 2830));
    }

    #[test]
    fn without_a_tick_nothing_is_lengthened() {
        let mut cpu = Cpu::new(Tick { every_ns: 0, cost_ns: 10 }, 0);
        assert_eq!((cpu.work(0, 1 << 40, Mode::User), cpu.take_resched()), (1 << 40, false));
    }
}
