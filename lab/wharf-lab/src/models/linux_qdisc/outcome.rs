//! The result of a run, and its checks.

use super::{CompletionSink, Kernel, Setup};
use crate::models::rounded;
use wharf_core::counters::Counter;
use wharf_core::pool::PagePool;
use wharf_sim::RunError;
use wharf_sim::engine::cpu::Spent;
use wharf_sim::harness::{self, Course};

/// Sums over all processors and queues up to some time.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Totals {
    spent: Spent,
    packets: u64,
    doorbells: u64,
    sent: (u64, u64),
    failed: u64,
}

/// The result of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// Time measured.
    pub measured_ns: u64,
    /// Packets that left in it.
    pub packets: u64,
    /// Their bytes, without checksums.
    pub bytes: u64,
    /// Time of all processors together.
    pub processors_ns: u64,
    /// Part of it in programs.
    pub user_ns: u64,
    /// Part of it in the kernel, for processes.
    pub system_ns: u64,
    /// Part of it in softirqs.
    pub soft_ns: u64,
    /// Part of it spent taking locks.
    pub locking_ns: u64,
    /// Failed packets.
    pub failed: u64,
    /// Packets given to devices.
    pub given: u64,
    /// Doorbells rung for them.
    pub doorbells: u64,
    /// Packets of the whole run, a measure of the model's speed.
    pub packets_in_all: u64,
    /// Events of the whole run.
    pub events: u64,
}

impl Outcome {
    pub(super) fn between(setup: &Setup, course: &Course<Totals>, packets_in_all: u64) -> Self {
        let Course { before, after, events } = *course;
        let [user_ns, system_ns, soft_ns] =
            std::array::from_fn(|n| after.spent.modes_ns[n] - before.spent.modes_ns[n]);
        Self {
            measured_ns: setup.time.measure_ns,
            // These left in the measured time, at whatever time the NIC got them.
            packets: after.sent.0,
            bytes: after.sent.1,
            processors_ns: setup.time.measure_ns * setup.cpus as u64,
            user_ns,
            system_ns,
            soft_ns,
            locking_ns: after.spent.locking_ns - before.spent.locking_ns,
            failed: after.failed - before.failed,
            given: after.packets - before.packets,
            doorbells: after.doorbells - before.doorbells,
            packets_in_all,
            events,
        }
    }

    /// Returns the packets per second that left.
    pub fn packets_per_s(&self) -> u64 {
        rounded(self.packets, 1_000_000_000, self.measured_ns)
    }

    /// Returns thousandths of a packet per doorbell.
    pub fn packets_per_doorbell_permille(&self) -> u64 {
        rounded(self.given, 1000, self.doorbells)
    }

    /// Returns `ns` as a share of the busy time of all processors, in millionths.
    pub fn busy_ppm(&self, ns: u64) -> u64 {
        rounded(ns, 1_000_000, self.user_ns + self.system_ns + self.soft_ns)
    }

    /// Returns `ns` as a share of all time of all processors, in millionths.
    pub fn ppm(&self, ns: u64) -> u64 {
        rounded(ns, 1_000_000, self.processors_ns)
    }

    /// Returns the idle time of all processors.
    pub fn idle_ns(&self) -> u64 {
        self.processors_ns.saturating_sub(self.user_ns + self.system_ns + self.soft_ns)
    }
}

impl Kernel {
    /// Returns the sums up to `now_ns`.
    pub(super) fn totals(&self, now_ns: u64) -> Totals {
        let sum = |counter: fn(&wharf_core::counters::QueueCounters) -> &Counter| {
            self.queues.iter().map(|queue| counter(&queue.counters).get()).sum()
        };
        Totals {
            spent: self.spent_until(now_ns),
            packets: sum(|counters| &counters.packets),
            doorbells: sum(|counters| &counters.doorbells),
            sent: self.witness.measured(),
            failed: sum(|counters| &counters.failed),
        }
    }

    /// Returns the time spent up to `now_ns` by all processors.
    fn spent_until(&self, now_ns: u64) -> Spent {
        let mut spent = Spent::default();
        self.processors.iter().for_each(|processor| spent += processor.spent_until(now_ns));
        for (at, since_ns) in self.queues.iter().flat_map(|queue| queue.root.spinning()) {
            let ns = now_ns.saturating_sub(since_ns);
            spent.modes_ns[self.processors[at].mode() as usize] += ns;
            spent.locking_ns += ns;
        }
        spent
    }

    /// Checks conservation, order and the ledger after draining.
    pub(super) fn check(&mut self, pool: &PagePool) -> Result<(), RunError> {
        self.stock.close()?;
        let mut failed = 0;
        for (number, queue) in self.queues.iter_mut().enumerate() {
            let mut home = CompletionSink { cache: &mut self.stock.cache, counts: &mut self.home };
            // No interrupt reports the last failures.
            queue.run.reap(&mut home);
            queue.run.close(&mut home);
            let counters = &queue.counters;
            let accepted = counters.accepted.get();
            let all_sent = self.setup.errors.is_some() || counters.sent.get() == accepted;
            failed += accepted - counters.sent.get();
            if accepted != counters.gone() || !all_sent || queue.has_backlog() {
                return Err(RunError::Conservation { queue: number, accepted, left: counters.sent.get() });
            }
        }
        self.witness.check(failed)?;
        harness::check_ledger(pool)
    }
}
