//! Wharf's own path on modelled processors: senders with a lane each, one queue, and its owner.
//!
//! All parts are real: `Sender::stage`, the owner word, [`QdiscRun`] one call to the device at a time,
//! `TxEngine`, `Bql`, and return rings. A processor does one step at a time. The step's time is modelled, and
//! the owner word is a cache line that moves between processors. No sender sleeps. A sender that finds no
//! frame, or its lane full, looks again after a while, and runs the queue if no other does. So does a processor whose
//! senders pause while packets are inside, in place of a poller.

mod driven;
mod owning;
mod senders;
mod setup;
mod waits;

pub(crate) use senders::set_up;
pub use setup::{Costs, Outcome, SenderSetup, Setup, Threads};

use super::linux_qdisc::shared::Counts;
use crate::comparators::histogram::Histogram;
use driven::Server;
use senders::{Next, Senders};
use std::sync::Arc;
use wharf_core::host::Clock;
use wharf_core::model::QdiscRun;
use wharf_core::pool::PagePool;
use wharf_core::qdisc::QdiscSetup;
use wharf_core::queue::TxQueue;
use wharf_sim::engine::cache_line::CacheLine;
use wharf_sim::engine::cpu::{Cpu, Mode};
use wharf_sim::engine::{Agenda, CoarseClock, Random, VirtualClock, VirtualPark, World};
use wharf_sim::harness;
use wharf_sim::nic::simple::{self, Departed, Driver, Simple, TxMemory};
use wharf_sim::{ConservationChecker, RunError};

/// Distance of frames in bytes.
const FRAME_BYTES: u32 = 2048;

/// The step that ends at a processor's event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// A burst is made.
    Made,
    /// The burst lies in the lane, and the processor may access the owner word.
    Staged,
    /// A step as owner.
    Owned,
    /// The owner may access the word: what others have written before it is there.
    AtWord,
    /// The device is done with a bulk: the doorbell.
    Driven,
    /// It could not go on: it looks again.
    Again,
    /// A sender has packets.
    Due,
    /// A sender that waits looks on.
    Holds,
}

struct Processor<'q> {
    cpu: Cpu,
    senders: Senders,
    bit: u64,
    run: Option<QdiscRun<'q>>,
    step: Step,
    /// None of its senders can run.
    idles: bool,
    done: Counts,
    /// Packets of the run under way.
    run_packets: u64,
}

struct Path<'q> {
    setup: Setup,
    queue: &'q TxQueue,
    processors: Vec<Processor<'q>>,
    word: CacheLine,
    nic: Simple,
    witness: ConservationChecker,
    departed: Vec<Departed>,
    random: Random,
    /// The dedicated owner or the poller, in the slot behind the others'.
    server: Option<Server<'q>>,
    /// By sender: it has written to its lane since the dedicated owner has looked there.
    is_fresh: Vec<bool>,
    longest_run: u64,
    entered: u64,
    /// The time at which the packet of each frame was made.
    made_ns: Vec<u64>,
    by_sender: Vec<(u64, u64)>,
    /// By sender.
    delays: Vec<Histogram>,
    fault: Option<RunError>,
}

/// Runs a setup over a NIC of these costs. Asks `goes_on` after each slice of time.
///
/// # Errors
/// [`RunError`]: a rule of the path was broken, there was too little memory, or `goes_on` returned false.
pub fn run(setup: Setup, nic: simple::Costs, goes_on: &mut dyn FnMut() -> bool) -> Result<Outcome, RunError> {
    let setup = Setup { cpus: setup.cpus.min(setup.senders.len()), ..setup };
    let clock = Arc::new(VirtualClock::default());
    let pool = harness::pool(setup.pool_frames, FRAME_BYTES, &clock)?;
    let memory = TxMemory::new(setup.ring_frames);
    let park = Arc::new(VirtualPark::new(clock.clone()));
    let driver = Driver::new(memory.clone());
    let driver = Box::new(if setup.threads.is_some() { driver.knowing_times() } else { driver });
    let queue_clock: Arc<dyn Clock> = match setup.threads {
        Some(threads) => Arc::new(CoarseClock::new(clock.clone(), threads.clock_ns)),
        None => clock.clone(),
    };
    let mut builder = TxQueue::builder(&pool, driver, queue_clock, park)
        .batching(setup.batching)
        .byte_limits(setup.byte_limits)
        .policy(setup.policy);
    if let Some(qdisc) = &setup.qdisc {
        builder = builder.qdisc(qdisc.build(QdiscSetup::default()));
    }
    if let Some(most) = setup.small_queues {
        builder = builder.small_queues(most);
    }
    let queue = builder.build()?;
    let mut path = Path::new(setup, &queue, &pool, Simple::new(nic, vec![memory], FRAME_BYTES))?;
    if path.setup.threads.is_some_and(|threads| threads.polled) {
        path.server = Some(Server::poller(&queue, &clock));
    }
    let slots = path.setup.cpus + usize::from(path.server.is_some());
    let mut agenda = Agenda::new(slots);
    (0..slots).for_each(|cpu| agenda.set(cpu, path.random.below(2000)));
    let window = path.setup.time.window();
    let limit_bytes = |path: &Path<'_>, _| path.queue.counters().bql_limit_bytes.get();
    let course = harness::settle_measure_drain(&mut path, &mut agenda, &clock, window, limit_bytes, goes_on)?;
    Ok(Outcome { limit_bytes: course.after, ..path.finish(&pool)? })
}

impl<'q> Path<'q> {
    fn new(setup: Setup, queue: &'q TxQueue, pool: &PagePool, nic: Simple) -> Result<Self, RunError> {
        let processor = |number: usize| -> Result<Processor<'q>, RunError> {
            let senders = Senders::new(queue, &setup, number)?;
            let first_ns = setup.costs.tick.every_ns * (number as u64 + 1) / (setup.cpus as u64 + 1);
            let processors = setup.cpus + usize::from(setup.dedicated);
            let slowdown_permille = setup.smt.slowdown_permille(number, processors);
            let cpu = Cpu::new(setup.costs.tick, first_ns).slower_by(slowdown_permille);
            let step = if senders.is_due() { Step::Made } else { Step::Due };
            let (run, done, run_packets) = (None, Counts::default(), 0);
            Ok(Processor { cpu, senders, bit: 0, run, step, idles: false, done, run_packets })
        };
        Ok(Self {
            processors: (0..setup.cpus).map(processor).collect::<Result<_, _>>()?,
            word: CacheLine::new(setup.costs.word),
            witness: ConservationChecker::new(setup.senders.len(), pool.frames(), setup.time.window()),
            made_ns: vec![0; pool.frames() as usize],
            by_sender: vec![(0, 0); setup.senders.len()],
            delays: setup.senders.iter().map(|_| Histogram::default()).collect(),
            departed: Vec::new(),
            random: setup.time.random(),
            server: if setup.dedicated { Some(Server::Dedicated(queue.dedicate()?)) } else { None },
            is_fresh: vec![false; setup.senders.len()],
            longest_run: 0,
            entered: 0,
            fault: None,
            queue,
            nic,
            setup,
        })
    }

    /// Lets processor `at` work from `from_ns` on, and then be done with `step`.
    fn work(&mut self, at: usize, from_ns: u64, work_ns: u64, step: Step, agenda: &mut Agenda) {
        let processor = &mut self.processors[at];
        processor.step = step;
        agenda.set(at, processor.cpu.work(from_ns, work_ns, Mode::User));
    }

    /// Makes the next burst, or the rest of the last one.
    fn make(&mut self, at: usize, now_ns: u64, agenda: &mut Agenda) {
        if self.setup.time.is_over(now_ns) {
            // Bursts of senders that share the processor have been begun.
            if self.processors[at].senders.has_begun() {
                return self.resume(at, now_ns, agenda);
            }
            // The first processor stays until all has left, unless another thread looks after that.
            if self.setup.threads.is_some() && self.server.is_some() {
                return self.idle(at, agenda);
            }
            if self.queue.counters().gone() < self.entered {
                self.work(at, now_ns, self.setup.costs.again_ns, Step::Again, agenda);
            }
            return;
        }
        let (next, switch_ns) = self.processors[at].senders.next(now_ns, self.setup.slice_ns);
        match next {
            Next::Burst(packets) => {
                let mean_ns = self.setup.costs.make_ns * packets as u64;
                let jitter_permille = self.setup.time.jitter_permille;
                let reads_ns = self.reads_ns(at) * u64::from(packets > 0);
                let make_ns = self.random.around(mean_ns, jitter_permille) + reads_ns;
                self.work(at, now_ns, switch_ns * self.setup.switch_ns + make_ns, Step::Made, agenda);
            }
            Next::Held => {
                self.work(at, now_ns, (switch_ns * self.setup.switch_ns).max(1), Step::Holds, agenda)
            }
            Next::Pause(until_ns) => self.pause(at, now_ns, until_ns, agenda),
        }
    }

    /// Lets a processor idle until a sender has packets. While packets are inside it looks whether they can go on.
    fn pause(&mut self, at: usize, now_ns: u64, until_ns: u64, agenda: &mut Agenda) {
        if until_ns == u64::MAX {
            return self.idle(at, agenda);
        }
        self.processors[at].idles = true;
        let look_ns = now_ns + self.setup.costs.again_ns;
        let is_polled = self.setup.threads.is_some() && self.server.is_some();
        let looks = !is_polled && self.queue.counters().gone() < self.entered && look_ns < until_ns;
        self.processors[at].step = if looks { Step::Again } else { Step::Due };
        agenda.set(at, if looks { look_ns } else { until_ns }.max(now_ns + 1));
    }

    /// Fills a burst with frames, and puts it into the lane.
    fn made(&mut self, at: usize, now_ns: u64, agenda: &mut Agenda) {
        let given = || self.queue.counters().packets.get();
        let before = given();
        let one = self.processors[at].senders.one();
        // An empty pool leaves the burst empty: look again.
        if one.burst.is_empty() {
            let filled = one.fill();
            for frame in one.burst.frames() {
                self.witness.enters(one.number, frame.index());
                self.made_ns[frame.index() as usize] = now_ns;
            }
            self.entered += filled as u64;
        }
        // A sender without memory runs a queue that has no owner, for what has completed.
        self.processors[at].done.drained += given() - before;
        self.stage(at, now_ns, agenda);
    }

    fn stage(&mut self, at: usize, now_ns: u64, agenda: &mut Agenda) {
        let Processor { senders, bit, .. } = &mut self.processors[at];
        let one = senders.one();
        let (number, before) = (one.number, one.burst.len());
        match one.sender.stage(&mut one.burst) {
            Ok(announced) => *bit = announced,
            Err(error) => self.fault = Some(error.into()),
        }
        let staged = before - one.burst.len();
        if staged == 0 && before > 0 && self.setup.threads.is_some() && self.server.is_some() {
            return self.hold(at, now_ns, agenda);
        }
        if staged == 0 {
            return self.work(at, now_ns, self.setup.costs.again_ns, Step::Again, agenda);
        }
        let stage_ns = staged as u64 * self.setup.costs.stage_ns;
        // Senders of a dedicated owner set no bits: they read the word. The owner may have the lane's lines.
        let word_ns = if matches!(self.server, Some(Server::Dedicated(_))) {
            let is_own = std::mem::replace(&mut self.is_fresh[number], true);
            self.setup.costs.word.hit_ns + if is_own { 0 } else { self.setup.costs.lane_ns }
        } else {
            self.word_ns(at, now_ns + stage_ns)
        };
        self.work(at, now_ns, stage_ns + word_ns, Step::Staged, agenda);
    }

    /// Returns the time from `now_ns` until processor `at` has written the owner word.
    fn word_ns(&mut self, at: usize, now_ns: u64) -> u64 {
        let (random, jitter_permille) = (&mut self.random, self.setup.time.jitter_permille);
        self.word.write_by(at, now_ns, |cost_ns| random.around(cost_ns, jitter_permille)) - now_ns
    }

    /// Announces the lane. The processor becomes the owner if there is none.
    fn claim(&mut self, at: usize, bit: u64, now_ns: u64, agenda: &mut Agenda) {
        self.processors[at].run = self.queue.claim(bit);
        self.next(at, now_ns, agenda);
    }

    /// Does the next step as owner, or other work.
    fn next(&mut self, at: usize, now_ns: u64, agenda: &mut Agenda) {
        if self.processors[at].run.is_some() {
            return self.own(at, now_ns, agenda);
        }
        if self.processors[at].senders.one().burst.is_empty() {
            return self.make(at, now_ns, agenda);
        }
        self.resume(at, now_ns, agenda);
    }

    /// Returns the time in which the sender that runs reads the clock for a burst.
    fn reads_ns(&mut self, at: usize) -> u64 {
        let pauses = self.processors[at].senders.one().setup.schedule.pauses();
        (u64::from(self.nic.has_line()) + 2 * u64::from(pauses)) * self.setup.costs.clock_ns
    }

    /// Returns what the queue's clock shows.
    fn clock_ns(&self, now_ns: u64) -> u64 {
        now_ns - self.setup.threads.map_or(0, |threads| now_ns % threads.clock_ns.max(1))
    }

    /// Sends the frames of a doorbell, rung by processor `at`.
    fn depart(&mut self, at: usize, now_ns: u64) {
        self.nic.doorbell(0, now_ns, &mut self.departed);
        let (from_ns, to_ns) = self.setup.time.window();
        for frame in self.departed.drain(..) {
            let stream = self.witness.leaves(&frame);
            if let (Some(sender), true) = (stream, (from_ns..to_ns).contains(&frame.at_ns)) {
                let (packets, bytes) = &mut self.by_sender[sender];
                (*packets, *bytes) = (*packets + 1, *bytes + simple::wire_bytes(frame.len_bytes));
                self.delays[sender].record(frame.at_ns.saturating_sub(self.made_ns[frame.index as usize]));
            }
            if let Some(processor) = self.processors.get_mut(at) {
                let is_own = stream.is_some_and(|stream| stream % self.setup.cpus == at);
                processor.done.for_others += u64::from(!is_own);
            }
        }
    }

    /// Checks conservation, order and the ledger after draining.
    fn finish(self, pool: &PagePool) -> Result<Outcome, RunError> {
        let Self { processors, queue, witness, setup, fault, longest_run, server, by_sender, delays, .. } =
            self;
        drop(server);
        fault.map_or(Ok(()), Err)?;
        let offered = |one: &Processor<'_>| one.senders.offered();
        let by_cpu = processors.iter().map(|one| Counts { offered: offered(one), ..one.done }).collect();
        drop(processors);
        let counters = queue.counters();
        // A discipline may drop packets.
        let (accepted, left) = (counters.accepted.get(), counters.gone());
        if accepted != left || accepted != witness.packets() {
            return Err(RunError::Conservation { queue: 0, accepted, left });
        }
        witness.check(left - counters.sent.get())?;
        let doorbells = counters.doorbells.get();
        let outcome = Outcome {
            packets: witness.measured().0,
            measured_ns: setup.time.measure_ns,
            packets_in_all: accepted,
            doorbells,
            by_cpu,
            longest_run,
            by_sender,
            limit_bytes: 0,
            delays,
        };
        harness::check_ledger(pool)?;
        Ok(outcome)
    }
}

impl World for Path<'_> {
    fn act(&mut self, at: usize, now_ns: u64, agenda: &mut Agenda) {
        self.do_step(at, now_ns, agenda);
        if self.setup.threads.is_some() {
            self.wake_up(now_ns, agenda);
        }
    }
}

impl Path<'_> {
    fn do_step(&mut self, at: usize, now_ns: u64, agenda: &mut Agenda) {
        if at >= self.processors.len() {
            return self.serve(at, now_ns, agenda);
        }
        self.processors[at].idles = false;
        match self.processors[at].step {
            Step::Made => self.made(at, now_ns, agenda),
            Step::Staged => self.claim(at, self.processors[at].bit, now_ns, agenda),
            Step::Owned => self.next(at, now_ns, agenda),
            Step::AtWord => self.step(at, now_ns, agenda),
            Step::Driven => self.ring(at, now_ns, agenda),
            Step::Again => {
                self.processors[at].senders.rotate();
                self.claim(at, 0, now_ns, agenda);
            }
            Step::Due => self.make(at, now_ns, agenda),
            Step::Holds => self.next(at, now_ns, agenda),
        }
    }
}
