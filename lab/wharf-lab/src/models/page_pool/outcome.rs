//! The result of a run.

use super::{Machine, Setup};
use wharf_core::pool::PageCounters;
use wharf_sim::RunError;
use wharf_sim::engine::cpu::Mode;
use wharf_sim::harness::Course;

/// Sums up to some time: of all channels, and of all applications.
#[derive(Debug, Clone, Default)]
pub(super) struct Totals {
    busy_ns: [u64; 2],
    spinning_ns: [u64; 2],
    counters: [PageCounters; 2],
    /// Frames taken or freed, by processor.
    pages_by_cpu: Vec<u64>,
    packets: u64,
}

/// The result of a run; pairs are of all channels, and of all applications.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Time measured.
    pub measured_ns: u64,
    /// Packets that were read in it.
    pub packets: u64,
    /// Time that processors worked or spun.
    pub busy_ns: [u64; 2],
    /// Part of it spent spinning for a lock.
    pub spinning_ns: [u64; 2],
    /// Frames taken by channels, and freed by applications.
    pub pages: [u64; 2],
    /// The same by processor: channels, then applications.
    pub pages_by_cpu: Vec<u64>,
    /// Frames taken that had come back by the policy's own way.
    pub recycled: u64,
    /// Times that a channel's cache had too few pages.
    pub slow_paths: u64,
    /// Locks taken by all.
    pub locks: u64,
    /// Frames freed that went back by the policy's own way.
    pub remote_returns: u64,
    /// Looks at the head of a FIFO that found it in use.
    pub head_blocked: u64,
    /// Packets of the whole run.
    pub packets_in_all: u64,
}

impl Outcome {
    pub(super) fn between(setup: &Setup, course: &Course<Totals>, packets_in_all: u64) -> Self {
        let Course { before, after, .. } = course;
        let pair = |of: fn(&Totals) -> [u64; 2]| std::array::from_fn(|n| of(after)[n] - of(before)[n]);
        let one = |of: fn(&Totals) -> u64| of(after) - of(before);
        Self {
            measured_ns: setup.time.measure_ns,
            packets: one(|totals| totals.packets),
            busy_ns: pair(|totals| totals.busy_ns),
            spinning_ns: pair(|totals| totals.spinning_ns),
            pages: pair(|totals| [totals.counters[0].allocations, totals.counters[1].frees]),
            pages_by_cpu: after
                .pages_by_cpu
                .iter()
                .zip(&before.pages_by_cpu)
                .map(|(to, from)| to - from)
                .collect(),
            recycled: one(|totals| totals.counters[0].recycled),
            slow_paths: one(|totals| totals.counters[0].slow_paths),
            locks: one(|totals| totals.counters.iter().map(|counters| counters.locks.taken).sum()),
            remote_returns: one(|totals| totals.counters[1].remote_returns),
            head_blocked: one(|totals| totals.counters[0].head_blocked),
            packets_in_all,
        }
    }

    /// Returns packets per second.
    pub fn packets_per_s(&self) -> u64 {
        (u128::from(self.packets) * 1_000_000_000 / u128::from(self.measured_ns.max(1))) as u64
    }
}

impl Machine {
    /// Returns the sums up to now.
    pub(super) fn totals(&self, _: u64) -> Totals {
        let mut totals = Totals { packets: self.witness.measured().0, ..Totals::default() };
        for (at, processor) in self.processors.iter().enumerate() {
            let side = usize::from(!self.is_channel(at));
            totals.busy_ns[side] += processor.cpu.spent_ns(Mode::Soft) + processor.cpu.spent_ns(Mode::System);
            totals.spinning_ns[side] += processor.cpu.locking_ns();
            let counters = processor.cache.counters();
            totals.counters[side].add(&counters);
            totals.pages_by_cpu.push([counters.allocations, counters.frees][side]);
        }
        totals
    }

    /// Checks, once all is read, that every packet came out once and in order, and that no page was out
    /// twice.
    pub(super) fn check(&self) -> Result<(), RunError> {
        self.witness.check(0)?;
        if let Some(index) = self.doubled {
            return Err(RunError::Ledger(format!("frame {index} was handed out twice")));
        }
        match self.out.iter().filter(|&&out| out).count() {
            0 => Ok(()),
            out => Err(RunError::Ledger(format!("{out} frames were never freed"))),
        }
    }
}
