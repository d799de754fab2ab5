//! The steps of the processors.
//!
//! ```text
//! Making ─► [Busy ─►] Root ─► put in ─► another runs it, or full: Release ─► Making
//!             list: Push ─┘     └─► ours: take out ─► Dequeued ─► Driven ─► Root …
//!                                                       bounds reached, or empty: Release ─► back once ─► Making
//! ```

use super::{Discipline, Machine, Setup, account};
use crate::models::linux_qdisc::shared::Counts;
use wharf_core::engine::{Pause, Sink};
use wharf_core::owner::Owner;
use wharf_mem::{Batch, Frame};
use wharf_sim::engine::cpu::{Cpu, Mode};
use wharf_sim::engine::lock::HandedOver;
use wharf_sim::engine::{Agenda, World};
use wharf_sim::nic::simple::Departed;

/// The step that ends at a processor's event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// A packet is made.
    Making,
    /// It may write the list's head.
    Push,
    /// It has the second lock.
    Busy,
    /// It has the root lock.
    Root,
    /// It spins: no event.
    Spinning,
    /// A bulk is out of the qdisc.
    Dequeued,
    /// The device is done with it.
    Driven,
    /// It is done with the root lock.
    Release,
    /// A processor that only runs the qdisc found nothing.
    Idle,
}

/// One processor.
#[derive(Debug)]
pub(super) struct Processor {
    cpu: Cpu,
    step: Step,
    /// The step that follows once it has the lock that it spins for.
    wanted: Step,
    packet: Option<Frame>,
    /// True while it holds the second lock.
    has_busy: bool,
    /// Set while it runs the qdisc, since `began_ns`.
    owner: Option<Owner>,
    began_ns: u64,
    taken: u32,
    pause: Option<Pause>,
    /// True if it must come back: its bounds were reached.
    comes_back: bool,
    yields: bool,
    serves: bool,
    done: Counts,
}

impl Processor {
    pub(super) fn new(number: usize, setup: &Setup) -> Self {
        let serves = number >= setup.cpus;
        Self {
            cpu: account(number, setup),
            step: if serves { Step::Idle } else { Step::Making },
            wanted: Step::Root,
            packet: None,
            has_busy: false,
            owner: None,
            began_ns: 0,
            taken: 0,
            pause: None,
            comes_back: false,
            yields: false,
            serves,
            done: Counts::default(),
        }
    }

    /// Returns its counts up to `now_ns`.
    pub(super) fn done(&self, now_ns: u64) -> Counts {
        let running_ns = if self.owner.is_some() { now_ns.saturating_sub(self.began_ns) } else { 0 };
        Counts { dequeue_ns: self.done.dequeue_ns + running_ns, ..self.done }
    }
}

impl World for Machine {
    fn act(&mut self, at: usize, now_ns: u64, agenda: &mut Agenda) {
        match self.processors[at].step {
            Step::Making => self.made(at, now_ns, agenda),
            Step::Push => self.push(at, now_ns, agenda),
            Step::Busy => {
                self.processors[at].has_busy = true;
                self.want(at, Step::Root, now_ns, agenda);
            }
            Step::Root => self.with_root(at, now_ns, agenda),
            Step::Dequeued => self.drive(at, now_ns, agenda),
            Step::Driven => self.driven(at, now_ns, agenda),
            Step::Release => self.release(at, now_ns, agenda),
            Step::Idle => self.want(at, Step::Root, now_ns, agenda),
            Step::Spinning => debug_assert!(false, "a spinning processor has no event"),
        }
    }
}

impl Machine {
    /// Lets processor `at` work from `from_ns` on, and then be done with `step`.
    fn work(&mut self, at: usize, from_ns: u64, work_ns: u64, step: Step, agenda: &mut Agenda) {
        let processor = &mut self.processors[at];
        processor.step = step;
        agenda.set(at, processor.cpu.work(from_ns, work_ns, Mode::System));
    }

    fn lock_for(&mut self, step: Step) -> &mut wharf_sim::engine::lock::SpinLock {
        match step {
            Step::Busy => &mut self.busy,
            _ => &mut self.root,
        }
    }

    /// Takes the lock for `step`, or spins for it.
    fn want(&mut self, at: usize, step: Step, now_ns: u64, agenda: &mut Agenda) {
        let taking_ns = self.lock_for(step).acquire(at, now_ns);
        let processor = &mut self.processors[at];
        processor.wanted = step;
        processor.step = Step::Spinning;
        if let Some(taking_ns) = taking_ns {
            processor.step = step;
            agenda.set(at, processor.cpu.lock(now_ns, taking_ns, Mode::System));
        }
    }

    /// Releases the lock for `step`, to a spinner if there is one.
    fn give(&mut self, step: Step, now_ns: u64, agenda: &mut Agenda) {
        let lock = match step {
            Step::Busy => &mut self.busy,
            _ => &mut self.root,
        };
        let Some(HandedOver { cpu, since_ns, at_ns }) = lock.release(now_ns, &mut self.random) else {
            return;
        };
        let next = &mut self.processors[cpu];
        next.cpu.spun(since_ns, at_ns, Mode::System);
        next.step = next.wanted;
        agenda.set(cpu, at_ns);
    }

    /// Makes the next packet, or ends.
    fn next(&mut self, at: usize, now_ns: u64, agenda: &mut Agenda) {
        if self.processors[at].serves {
            let more = !self.setup.time.is_over(now_ns) || self.has_backlog() || !self.pushed.0.is_empty();
            if more {
                self.work(at, now_ns, self.setup.costs.lock.pair_ns.max(1), Step::Idle, agenda);
            }
            return;
        }
        if self.setup.time.is_over(now_ns) {
            return;
        }
        let costs = &self.setup.costs;
        let drop_ns = if std::mem::take(&mut self.processors[at].yields) { costs.drop_ns } else { 0 };
        let make_ns = self.random.around(costs.make_ns, self.setup.time.jitter_permille);
        self.work(at, now_ns, drop_ns + make_ns, Step::Making, agenda);
    }

    /// Enqueues the packet that was made.
    fn made(&mut self, at: usize, now_ns: u64, agenda: &mut Agenda) {
        let processor = &mut self.processors[at];
        if processor.packet.is_none() {
            let Some(frame) = self.stock.take(at, self.setup.frame_bytes) else {
                return self.next(at, now_ns, agenda);
            };
            processor.packet = Some(frame);
            processor.done.offered += 1;
        }
        match self.setup.discipline {
            Discipline::RootLock => self.want(at, Step::Root, now_ns, agenda),
            Discipline::BusyLock if self.running => self.want(at, Step::Busy, now_ns, agenda),
            Discipline::BusyLock => self.want(at, Step::Root, now_ns, agenda),
            Discipline::LocklessList => {
                let pushed_ns = self.head.write(at, now_ns) - now_ns;
                self.work(at, now_ns, pushed_ns, Step::Push, agenda);
            }
        }
    }

    /// Pushes onto the list. The processor that found it empty takes the root lock.
    fn push(&mut self, at: usize, now_ns: u64, agenda: &mut Agenda) {
        let was_empty = self.pushed.0.is_empty();
        if self.pushed.0.len() >= self.setup.qdisc_packets {
            self.drop_one(at);
            return self.next(at, now_ns, agenda);
        }
        self.pushed.0.extend(self.processors[at].packet.take());
        if was_empty { self.want(at, Step::Root, now_ns, agenda) } else { self.next(at, now_ns, agenda) }
    }

    fn drop_one(&mut self, at: usize) {
        let frame = self.processors[at].packet.take();
        self.give_dropped(frame);
    }

    fn give_dropped(&mut self, frame: Option<Frame>) {
        let Some(frame) = frame else { return };
        let owner = &mut self.processors[usize::from(frame.sender())];
        owner.done.dropped += 1;
        owner.yields = true;
        let given = self.stock.cache.give_one(frame);
        debug_assert!(given.is_ok(), "there is only one pool");
    }

    fn has_backlog(&self) -> bool {
        !self.list.0.is_empty() || self.run.backlog() > 0
    }

    /// Puts a packet into the qdisc, if there is room.
    fn enqueue(&mut self, frame: Frame) {
        if self.list.0.len() + self.run.backlog() >= self.setup.qdisc_packets {
            return self.give_dropped(Some(frame));
        }
        self.witness.enters(usize::from(frame.sender()), frame.index());
        self.entered += 1;
        self.list.0.push_back(frame);
    }

    /// Enqueues under the root lock, and dequeues a bulk if the qdisc is this processor's to run.
    fn with_root(&mut self, at: usize, now_ns: u64, agenda: &mut Agenda) {
        let mut work_ns = 0;
        if self.processors[at].owner.is_none() {
            let frames: Vec<Frame> = self.processors[at].packet.take().into_iter().collect();
            work_ns += (frames.len() + self.pushed.0.len()) as u64 * self.setup.costs.enqueue_ns;
            let pushed = std::mem::take(&mut self.pushed.0);
            frames.into_iter().chain(pushed).for_each(|frame| self.enqueue(frame));
        }
        if self.goes_on(at, now_ns) {
            work_ns += self.dequeue(at);
        }
        let step = if self.processors[at].taken > 0 { Step::Dequeued } else { Step::Release };
        self.work(at, now_ns, work_ns, step, agenda);
    }

    /// True if the qdisc is this processor's to run, or to run on.
    fn goes_on(&mut self, at: usize, now_ns: u64) -> bool {
        let others_only =
            self.setup.dedicated && !self.processors[at].serves && !self.setup.time.is_over(now_ns);
        let processor = &mut self.processors[at];
        let Some(owner) = &mut processor.owner else {
            if self.running || others_only || (self.list.0.is_empty() && self.run.backlog() == 0) {
                return false;
            }
            self.running = true;
            processor.owner = Some(Owner::new(self.setup.policy, true, now_ns));
            processor.began_ns = now_ns;
            return true;
        };
        owner.sent_some(std::mem::take(&mut processor.taken));
        let is_over = owner.is_spent(|| now_ns);
        let is_empty = self.list.0.is_empty() && self.run.backlog() == 0;
        if is_over || is_empty {
            self.longest_run = self.longest_run.max(owner.longest_packets());
            processor.done.dequeue_ns += now_ns - processor.began_ns;
            (processor.owner, processor.comes_back, self.running) = (None, !is_empty, false);
            return false;
        }
        true
    }

    /// Dequeues one bulk, which the device takes in the next step. Returns the time of the first part.
    fn dequeue(&mut self, at: usize) -> u64 {
        let quota = self.processors[at].owner.as_ref().map_or(0, Owner::quota_left);
        let (taken, pause) = self.run.transmit_bulk(&mut self.list, quota);
        (self.processors[at].taken, self.processors[at].pause) = (taken, pause);
        u64::from(taken) * self.setup.costs.dequeue_ns
    }

    /// Releases the root lock while the device has the bulk.
    fn drive(&mut self, at: usize, now_ns: u64, agenda: &mut Agenda) {
        self.give(Step::Root, now_ns, agenda);
        if std::mem::take(&mut self.processors[at].has_busy) {
            self.give(Step::Busy, now_ns, agenda);
        }
        // Only the runner takes this lock, so it is free.
        let taking_ns = self.txq.acquire(at, now_ns).unwrap_or(0);
        let have_ns = self.processors[at].cpu.lock(now_ns, taking_ns, Mode::System);
        let mut home = CompletionSink { machine_cpu: at, now_ns, of_others: 0, freed: Vec::new() };
        self.run.reap(&mut home);
        let CompletionSink { of_others, freed, .. } = home;
        let count = freed.len() as u64;
        for (frame, departed) in freed {
            self.witness.leaves(&departed);
            let given = self.stock.cache.give_one(frame);
            debug_assert!(given.is_ok(), "there is only one pool");
        }
        let done = &mut self.processors[at].done;
        (done.drained, done.for_others) = (done.drained + count, done.for_others + of_others);
        let work_ns = count * self.setup.costs.device_ns + of_others * self.setup.costs.remote_ns;
        self.work(at, have_ns, work_ns, Step::Driven, agenda);
    }

    /// Takes the root lock again after the device has taken the bulk.
    fn driven(&mut self, at: usize, now_ns: u64, agenda: &mut Agenda) {
        let released = self.txq.release(now_ns, &mut self.random);
        debug_assert_eq!(released, None);
        self.want(at, Step::Root, now_ns, agenda);
    }

    /// Releases the locks. A processor that must come back does so in its softirq, before its process goes
    /// on.
    fn release(&mut self, at: usize, now_ns: u64, agenda: &mut Agenda) {
        self.give(Step::Root, now_ns, agenda);
        if std::mem::take(&mut self.processors[at].has_busy) {
            self.give(Step::Busy, now_ns, agenda);
        }
        if std::mem::take(&mut self.processors[at].comes_back) && !self.running {
            return self.want(at, Step::Root, now_ns, agenda);
        }
        self.next(at, now_ns, agenda);
    }
}

/// The sink of completed packets.
struct CompletionSink {
    machine_cpu: usize,
    now_ns: u64,
    of_others: u64,
    freed: Vec<(Frame, Departed)>,
}

impl Sink for CompletionSink {
    fn recycle(&mut self, done: &mut Batch) {
        while let Some(frame) = done.pop() {
            self.of_others += u64::from(usize::from(frame.sender()) != self.machine_cpu);
            let (index, len_bytes) = (frame.index(), frame.len_bytes());
            self.freed.push((frame, Departed { index, len_bytes, at_ns: self.now_ns }));
        }
    }
}
