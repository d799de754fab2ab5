//! A sender's processor as the owner: a step at a time, up to a call of the device.

use super::{Path, Step};
use wharf_core::owner::Action;
use wharf_sim::engine::Agenda;

impl Path<'_> {
    /// Does the next step as owner; one that writes the owner word waits for its line.
    pub(super) fn own(&mut self, at: usize, now_ns: u64, agenda: &mut Agenda) {
        let Some(run) = &mut self.processors[at].run else { return };
        let action = run.next();
        if action == Action::StandBy {
            return self.stand_by(at, now_ns, agenda);
        }
        if matches!(action, Action::Leave | Action::HandlePending | Action::HandOver) {
            let word_ns = self.word_ns(at, now_ns);
            self.processors[at].done.dequeue_ns += word_ns;
            return self.work(at, now_ns, word_ns, Step::AtWord, agenda);
        }
        self.step(at, now_ns, agenda);
    }

    /// Does the owner's next step, up to a call of the device.
    pub(super) fn step(&mut self, at: usize, now_ns: u64, agenda: &mut Agenda) {
        let Some(run) = &mut self.processors[at].run else { return };
        let action = run.next();
        if action == Action::Reap {
            self.nic.write_back(0, now_ns - now_ns % self.setup.completion_gap_ns.max(1));
        }
        let clock_ns = self.clock_ns(now_ns);
        let Some(run) = &mut self.processors[at].run else { return };
        let counters = self.queue.counters();
        let count = || [counters.packets.get(), counters.sent.get(), counters.doorbells.get()];
        let before = count();
        let goes_on = run.step_bulk(clock_ns);
        let [packets, sent, doorbells] = std::array::from_fn(|n| count()[n] - before[n]);
        let costs = &self.setup.costs;
        let work_ns = packets * (costs.pull_ns + costs.driver_ns) + sent * costs.reclaim_ns;
        let processor = &mut self.processors[at];
        processor.done.drained += packets;
        processor.done.dequeue_ns += work_ns;
        processor.run_packets += packets;
        if !goes_on {
            processor.run = None;
        }
        if !goes_on || action == Action::HandOver {
            self.longest_run = self.longest_run.max(std::mem::take(&mut processor.run_packets));
        }
        let step = if doorbells > 0 { Step::Driven } else { Step::Owned };
        self.work(at, now_ns, work_ns, step, agenda);
    }

    /// Looks whether another processor has taken the offered queue. If none does, takes it back.
    pub(super) fn stand_by(&mut self, at: usize, now_ns: u64, agenda: &mut Agenda) {
        let Some(run) = &mut self.processors[at].run else { return };
        if !run.step_bulk(now_ns) {
            self.processors[at].run = None;
        }
        self.work(at, now_ns, self.setup.costs.look_ns, Step::Owned, agenda);
    }

    /// Rings the doorbell of what the owner has given to the device.
    pub(super) fn ring(&mut self, at: usize, now_ns: u64, agenda: &mut Agenda) {
        self.depart(at, now_ns);
        self.processors[at].done.dequeue_ns += self.setup.costs.doorbell_drain_ns;
        self.work(at, now_ns, self.setup.costs.doorbell_drain_ns, Step::Owned, agenda);
    }
}
