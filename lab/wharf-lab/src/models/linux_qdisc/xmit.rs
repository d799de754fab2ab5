//! A packet's way through the locks: root lock, qdisc, queue lock, driver, doorbell, root lock again.
//!
//! ```text
//! want root ─► enqueue ─► another runs it: release, done
//!                    └──► ours: dequeue a bulk ─► release root ─► driver ─► doorbell ─► want root ─┐
//!                                   ▲                                                              │
//!                                   └──────────────── more, and quota left ────────────────────────┤
//!                                                         empty, stopped or spent: release, done ◄─┘
//! ```
//! The doorbell is a write to uncached memory, and the next locked instruction waits for it. That time shows
//! in the root lock that follows, and is the reason why bulk dequeue took load off `_raw_spin_lock`.

use super::Kernel;
use super::queue::TxQueue;
use super::state::{Phase, Processor, Work, Xmit};
use wharf_core::engine::Batching;
use wharf_core::owner::{Action, Event, Owner, Policy};
use wharf_mem::Frame;
use wharf_sim::engine::Agenda;
use wharf_sim::engine::lock::HandedOver;

impl Kernel {
    /// Enqueues `frame`, if there is one, into `queue` on processor `at`, and runs that.
    #[inline]
    pub(super) fn start_xmit(
        &mut self, at: usize, queue: usize, frame: Option<Frame>, now_ns: u64, agenda: &mut Agenda,
    ) {
        self.processors[at].xmit = Xmit { queue, woken: frame.is_none(), frame, ..Xmit::default() };
        self.want_root(at, now_ns, agenda);
    }

    fn want_root(&mut self, at: usize, now_ns: u64, agenda: &mut Agenda) {
        let processor = &mut self.processors[at];
        match self.queues[processor.xmit.queue].root.acquire(at, now_ns) {
            Some(taking_ns) => {
                let mode = processor.mode();
                let have_ns = processor.cpu.lock(now_ns, taking_ns, mode);
                self.with_root(at, now_ns, have_ns, agenda);
            }
            None => processor.doing = Work::Spinning,
        }
    }

    #[inline]
    pub(super) fn xmit_step(&mut self, at: usize, now_ns: u64, agenda: &mut Agenda) {
        match self.processors[at].xmit.phase {
            Phase::HaveRoot => self.with_root(at, now_ns, now_ns, agenda),
            Phase::Dequeued => self.drive(at, now_ns, agenda),
            Phase::Driven => self.ring(at, now_ns, agenda),
            Phase::Rung => self.want_root(at, now_ns, agenda),
            Phase::Leaving => {
                self.release_root(at, now_ns, agenda);
                self.proceed(at, now_ns, agenda);
            }
        }
    }

    /// Enqueues the packet under the root lock, and dequeues a bulk if the qdisc is this processor's to run.
    /// That takes time from `from_ns` on.
    #[inline]
    fn with_root(&mut self, at: usize, now_ns: u64, from_ns: u64, agenda: &mut Agenda) {
        let Processor { xmit, softirq, .. } = &mut self.processors[at];
        let queue = &mut self.queues[xmit.queue];
        let mut work_ns = 0;
        if let Some(frame) = xmit.frame.take() {
            self.witness.fits(queue.has_room());
            queue.list.0.push_back(frame);
            work_ns += self.setup.costs.enqueue_ns;
        }
        let action = xmit.decide(queue, self.setup.policy, now_ns);
        if action == Action::HandOver {
            softirq.run_later(xmit.queue);
        }
        xmit.phase = Phase::Leaving;
        if action == Action::Transmit {
            if self.setup.wake_only {
                queue.run.set_batching(if xmit.woken { self.setup.batching } else { Batching::Off });
            }
            work_ns += u64::from(xmit.dequeue(queue)) * self.setup.costs.dequeue_ns;
        }
        self.work(at, from_ns, work_ns, Work::Xmit, agenda);
    }

    /// Releases the root lock while the driver writes the bulk's descriptors.
    fn drive(&mut self, at: usize, now_ns: u64, agenda: &mut Agenda) {
        self.release_root(at, now_ns, agenda);
        let processor = &mut self.processors[at];
        let queue = &mut self.queues[processor.xmit.queue];
        // Only the runner takes this lock, so it is free.
        let taking_ns = queue.txq.acquire(at, now_ns).unwrap_or(0);
        let mode = processor.mode();
        let have_ns = processor.cpu.lock(now_ns, taking_ns, mode);
        processor.xmit.phase = Phase::Driven;
        queue.calls.push_back(processor.xmit.taken);
        let work_ns = u64::from(processor.xmit.taken) * self.setup.costs.driver_ns;
        self.work(at, have_ns, work_ns, Work::Xmit, agenda);
    }

    /// Rings one doorbell for the bulk. The next step waits until it has left the processor.
    fn ring(&mut self, at: usize, now_ns: u64, agenda: &mut Agenda) {
        let processor = &mut self.processors[at];
        let number = processor.xmit.queue;
        self.nic.doorbell(number, now_ns, &mut self.departed);
        for frame in self.departed.drain(..) {
            self.witness.leaves(&frame);
        }
        let released = self.queues[number].txq.release(now_ns, &mut self.random);
        debug_assert_eq!(released, None);
        let mode = processor.mode();
        let end_ns = processor.cpu.lock(now_ns, self.setup.costs.doorbell_drain_ns, mode);
        (processor.doing, processor.xmit.phase) = (Work::Xmit, Phase::Rung);
        agenda.set(at, end_ns);
        self.arm(number, now_ns, agenda);
    }

    /// Releases the root lock, to a spinner if there is one.
    fn release_root(&mut self, at: usize, now_ns: u64, agenda: &mut Agenda) {
        let number = self.processors[at].xmit.queue;
        let Some(HandedOver { cpu, since_ns, at_ns }) =
            self.queues[number].root.release(now_ns, &mut self.random)
        else {
            return;
        };
        let next = &mut self.processors[cpu];
        let mode = next.mode();
        next.cpu.spun(since_ns, at_ns, mode);
        (next.doing, next.xmit.phase) = (Work::Xmit, Phase::HaveRoot);
        agenda.set(cpu, at_ns);
    }
}

impl Xmit {
    /// True if this transmit has more to do here, by the owner's own decisions.
    #[inline]
    fn decide(&mut self, queue: &mut TxQueue, policy: Policy, now_ns: u64) -> Action {
        let Some(owner) = &mut self.owner else {
            if queue.running || queue.is_stopped() {
                return Action::Leave;
            }
            queue.running = true;
            return self.owner.insert(Owner::new(policy, true, now_ns)).step(now_ns, Event::Claimed);
        };
        let Some(pause) = self.pause else {
            owner.sent_some(self.taken);
            return Action::Transmit;
        };
        owner.step(now_ns, Event::Transmitted { packets: self.taken, pause });
        // The softirq takes completions; here the owner only sees the result.
        let open = queue.is_open();
        let mut action = owner.step(now_ns, Event::Reaped { packets: u32::from(open), open });
        if action == Action::Leave && open && queue.has_backlog() {
            // It was enqueued while this processor was in the driver.
            owner.step(now_ns, Event::Refused);
            action = owner.step(now_ns, Event::PendingHandled);
        }
        queue.running = action == Action::Transmit;
        action
    }

    /// Dequeues one bulk and has the driver write it. Returns the number of packets.
    #[inline]
    fn dequeue(&mut self, queue: &mut TxQueue) -> u32 {
        let quota = self.owner.as_ref().map_or(0, Owner::quota_left);
        (self.taken, self.pause) = queue.run.transmit_bulk(&mut queue.list, quota);
        if self.taken > 0 {
            self.phase = Phase::Dequeued;
        } else {
            queue.running = false;
        }
        self.taken
    }
}
