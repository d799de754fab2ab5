//! A sender's wait for room or for its completions: it looks for a while, as it would on a processor of its
//! own, then sleeps until it is
//! served.

use super::driven::Nap;
use super::senders::Hold;
use super::{Path, Processor, Step};
use std::sync::Arc;
use wharf_core::model::Wanted;
use wharf_sim::engine::Agenda;

/// Looks between two events of the model.
const LOOKS: u32 = 20;
/// Looks after which a sender yields its processor.
const YIELD_EVERY: u32 = 100;

impl Path<'_> {
    /// Goes on with the sender that runs: with its wait, or with its burst.
    pub(super) fn resume(&mut self, at: usize, now_ns: u64, agenda: &mut Agenda) {
        if !self.goes_on_holding(at, now_ns, agenda) {
            self.stage(at, now_ns, agenda);
        }
    }

    /// Lets the sender that runs on processor `at` wait for what its packets need.
    pub(super) fn hold(&mut self, at: usize, now_ns: u64, agenda: &mut Agenda) {
        let one = self.processors[at].senders.one();
        let Some(wanted) = one.sender.wanted(&mut one.burst) else {
            return self.work(at, now_ns, self.setup.costs.again_ns, Step::Again, agenda);
        };
        match one.sender.looks_of_spin() {
            Some(most) => {
                one.hold = Hold::Looks { wanted, done: 0, most };
                self.look_on(at, now_ns, agenda);
            }
            None => self.sleep(at, wanted, now_ns, agenda),
        }
    }

    /// Goes on with the wait of the sender that runs on processor `at`. False if it does not wait.
    fn goes_on_holding(&mut self, at: usize, now_ns: u64, agenda: &mut Agenda) -> bool {
        let one = self.processors[at].senders.one();
        match std::mem::take(&mut one.hold) {
            Hold::Nothing => return false,
            Hold::Looks { wanted, done, most } => {
                let done = done + LOOKS;
                one.hold = Hold::Looks { wanted, done, most };
                let senders = &mut self.processors[at].senders;
                if done.is_multiple_of(YIELD_EVERY) && senders.others_could_run(now_ns) {
                    senders.rotate();
                    self.make(at, now_ns, agenda);
                } else {
                    self.look_on(at, now_ns, agenda);
                }
            }
            Hold::Runs(wanted, looks) => {
                let is_met = one.sender.has(wanted);
                one.sender.end_spin(looks, is_met);
                if is_met { self.stage(at, now_ns, agenda) } else { self.sleep(at, wanted, now_ns, agenda) }
            }
            Hold::Sleeps { watch, nap, since_ns, gone } => {
                one.hold = Hold::Sleeps { watch, nap, since_ns, gone };
                self.look_up(at, now_ns, agenda);
            }
        }
        true
    }

    /// Looks once: whether the queue has no owner, and whether the need is met.
    fn look_on(&mut self, at: usize, now_ns: u64, agenda: &mut Agenda) {
        let (is_owned, look_ns) = (self.queue.is_owned(), self.setup.costs.look_ns);
        let Processor { senders, bit, .. } = &mut self.processors[at];
        let (one, bit) = (senders.one(), *bit);
        let Hold::Looks { wanted, done, most } = one.hold else { return };
        if !is_owned {
            one.hold = Hold::Runs(wanted, done);
            return self.claim(at, bit, now_ns, agenda);
        }
        if one.sender.has(wanted) {
            one.hold = Hold::Nothing;
            one.sender.end_spin(done, true);
            return self.stage(at, now_ns, agenda);
        }
        if done >= most || one.sender.looks_of_spin().is_none() {
            one.sender.end_spin(done, false);
            return self.sleep(at, wanted, now_ns, agenda);
        }
        self.work(at, now_ns, u64::from(LOOKS) * look_ns, Step::Holds, agenda);
    }

    /// Registers the sender that runs for a wake-up, and lets it look once more.
    fn sleep(&mut self, at: usize, wanted: Wanted, now_ns: u64, agenda: &mut Agenda) {
        let (nap, gone) = (Arc::new(Nap::default()), self.queue.counters().gone());
        let since_ns = self.clock_ns(now_ns);
        let one = self.processors[at].senders.one();
        let watch = one.sender.sleep(wanted, nap.clone());
        one.hold = Hold::Sleeps { watch, nap, since_ns, gone };
        self.look_up(at, now_ns, agenda);
    }

    /// Looks once more, as a sender does that has registered or was woken: it runs the queue if no thread
    /// owns it.
    fn look_up(&mut self, at: usize, now_ns: u64, agenda: &mut Agenda) {
        self.nic.write_back(0, now_ns);
        let counters = self.queue.counters();
        let count = || [counters.packets.get(), counters.sent.get(), counters.doorbells.get()];
        let before = count();
        let processor = &mut self.processors[at];
        let one = processor.senders.one();
        let Hold::Sleeps { watch, nap, since_ns, gone } = &mut one.hold else { return };
        nap.take_rung();
        let (seen, since_ns, gone) = (one.sender.look(watch), *since_ns, *gone);
        if let Some(seen) = seen {
            one.hold = Hold::Nothing;
            one.sender.end_sleep(since_ns, gone);
            if let Err(error) = seen {
                self.fault = Some(error.into());
            }
        }
        let is_served = !one.sleeps();
        let [packets, sent, rung] = std::array::from_fn(|n| count()[n] - before[n]);
        processor.done.drained += packets;
        (0..rung).for_each(|_| self.depart(at, now_ns));
        let costs = &self.setup.costs;
        let work_ns = packets * (costs.pull_ns + costs.driver_ns)
            + sent * costs.reclaim_ns
            + rung * costs.doorbell_drain_ns;
        let step = if is_served { Step::Owned } else { Step::Due };
        self.work(at, now_ns, work_ns.max(1), step, agenda);
    }
}
