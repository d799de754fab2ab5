//! One qdisc that all processors share, over a dummy device: the system on which dequeue fairness was
//! measured in 2011.
//!
//! Every processor has a process that sends as fast as it can. Its packets get into the qdisc by a
//! [`Discipline`]: by the root lock, with a second lock for contenders, or by a list. A processor that finds
//! none RUNNING runs the qdisc, within the bounds of an owner policy, and comes back in its softirq once they
//! are reached. A full qdisc drops: the process yields, and sends the next one. (Linux 2.6.38,
//! `net/core/dev.c`, `net/sched/sch_generic.c`; facts in our own words.)
//!
//! The decisions are the real ones: `TxEngine`, `Fifo` and [`Owner`](wharf_core::owner::Owner). Modelled are
//! the time of each step and the waiting for locks: `steps.rs`.

mod steps;

use super::FRAME_BYTES;
use super::queue::List;
use super::state::Stock;
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;
use steps::Processor;
use wharf_core::counters::QueueCounters;
use wharf_core::device::{Device, TxSide};
use wharf_core::engine::{Batching, TxEngine};
use wharf_core::owner::Policy;
use wharf_core::pool::PagePool;
use wharf_core::qdisc::{Fifo, FifoLimit};
use wharf_devices::null::Null;
use wharf_sim::engine::cache_line::{CacheLine, LineCosts};
use wharf_sim::engine::cpu::{Cpu, Smt, Tick};
use wharf_sim::engine::lock::{LockCosts, LockKind, SpinLock};
use wharf_sim::engine::{Agenda, Random, VirtualClock};
use wharf_sim::harness::{self, Timing};
use wharf_sim::{ConservationChecker, RunError};

/// The way of packets into the qdisc.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Discipline {
    /// By the root lock; dequeued and handed over one at a time.
    RootLock,
    /// The same; contenders come one by one.
    BusyLock,
    /// By a list. The processor that found it empty enqueues all; bulks are dequeued.
    LocklessList,
}

/// Times of the steps, in nanoseconds.
#[derive(Debug, Clone, Copy, Deserialize)]
pub struct Costs {
    /// Making a packet and sending it, up to the qdisc.
    pub make_ns: u64,
    /// Every lock.
    pub lock: LockCosts,
    /// The order in which spinners get a lock.
    #[serde(skip)]
    pub lock_kind: LockKind,
    /// The list's head.
    pub list: LineCosts,
    /// Enqueueing a packet.
    pub enqueue_ns: u64,
    /// Dequeueing a packet.
    pub dequeue_ns: u64,
    /// The dummy device: the packet is counted and freed.
    pub device_ns: u64,
    /// The extra time for a packet that another processor made: its cache lines, and memory that goes back to
    /// that processor.
    pub remote_ns: u64,
    /// Freeing a packet that was dropped, and sched_yield(2).
    pub drop_ns: u64,
    /// The timer.
    pub tick: Tick,
}

/// The settings of a run.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The way of packets into the qdisc.
    pub discipline: Discipline,
    /// Bounds of one run of the qdisc.
    pub policy: Policy,
    /// True if a further processor runs the qdisc and sends nothing; the others then only enqueue.
    pub dedicated: bool,
    /// Processors that send.
    pub cpus: usize,
    /// Packets that the qdisc holds.
    pub qdisc_packets: usize,
    /// Length of packets, without checksum.
    pub frame_bytes: u32,
    /// Processors that share cores.
    pub smt: Smt,
    /// Times of the steps.
    pub costs: Costs,
    /// Seed and times; the time of making a packet varies.
    pub time: Timing,
}

/// The counts of one processor within the measured time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Packets offered to the qdisc.
    pub offered: u64,
    /// Offered packets that were dropped.
    pub dropped: u64,
    /// Packets handed to the device, from all processors.
    pub drained: u64,
    /// Drained packets of other processors.
    pub for_others: u64,
    /// Time in the dequeue region.
    pub dequeue_ns: u64,
}

impl Counts {
    /// Returns the counts since `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            offered: self.offered - before.offered,
            dropped: self.dropped - before.dropped,
            drained: self.drained - before.drained,
            for_others: self.for_others - before.for_others,
            dequeue_ns: self.dequeue_ns - before.dequeue_ns,
        }
    }
}

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// By sending processor.
    pub by_cpu: Vec<Counts>,
    /// Time measured.
    pub measured_ns: u64,
    /// Packets of the longest run of the qdisc, in the whole time.
    pub longest_run: u64,
    /// Packets that entered in the whole run.
    pub packets_in_all: u64,
}

/// The modelled machine.
struct Machine {
    setup: Setup,
    processors: Vec<Processor>,
    busy: SpinLock,
    root: SpinLock,
    /// The device's lock.
    txq: SpinLock,
    head: CacheLine,
    /// Packets on the list, not enqueued.
    pushed: List,
    /// Packets enqueued that the engine has not seen yet: a part of the qdisc.
    list: List,
    run: TxEngine,
    running: bool,
    stock: Stock,
    witness: ConservationChecker,
    random: Random,
    longest_run: u32,
    entered: u64,
}

/// Runs a setup. Asks `goes_on` after each slice of time.
///
/// # Errors
/// [`RunError`]: a rule of the path was broken, there was too little memory, or `goes_on` returned false.
pub fn run(setup: Setup, goes_on: &mut dyn FnMut() -> bool) -> Result<Outcome, RunError> {
    let clock = Arc::new(VirtualClock::default());
    let frames = setup.qdisc_packets as u32 + 64 * (setup.cpus as u32 + 2) + 4096;
    let pool = harness::pool(frames, FRAME_BYTES, &clock)?;
    let mut agenda = Agenda::new(setup.cpus + 1);
    let window = setup.time.window();
    let mut machine = Machine::new(setup, &pool, clock.clone())?;
    for cpu in 0..machine.processors.len() {
        agenda.set(cpu, machine.random.below(2000));
    }
    let course =
        harness::settle_measure_drain(&mut machine, &mut agenda, &clock, window, Machine::totals, goes_on)?;
    machine.check(&pool)?;
    let by_cpu = course.after.iter().zip(&course.before).take(machine.setup.cpus);
    Ok(Outcome {
        by_cpu: by_cpu.map(|(after, before)| after.since(before)).collect(),
        measured_ns: machine.setup.time.measure_ns,
        longest_run: machine.longest_run.into(),
        packets_in_all: machine.entered,
    })
}

impl Machine {
    fn new(setup: Setup, pool: &PagePool, clock: Arc<VirtualClock>) -> Result<Self, RunError> {
        let mut device = Null::default();
        device.attach(pool.region().clone())?;
        let qdisc = Box::new(Fifo::new(FifoLimit::Packets(setup.qdisc_packets)));
        let counters = Arc::new(QueueCounters::default());
        let mut run = TxEngine::new(
            pool.region(),
            TxSide::Tx(Box::new(device)),
            qdisc,
            Duration::from_secs(1),
            clock,
            counters,
        );
        // A dummy device has no byte limit.
        run.set_bql(None);
        let is_bulk = setup.discipline == Discipline::LocklessList;
        run.set_batching(if is_bulk { Batching::On } else { Batching::Off });
        let lock = || SpinLock::new(setup.costs.lock_kind, setup.costs.lock);
        Ok(Self {
            processors: (0..setup.cpus + usize::from(setup.dedicated))
                .map(|n| Processor::new(n, &setup))
                .collect(),
            busy: lock(),
            root: lock(),
            txq: lock(),
            head: CacheLine::new(setup.costs.list),
            pushed: List::default(),
            list: List::default(),
            run,
            running: false,
            stock: Stock::new(pool.cache("processes")?),
            witness: ConservationChecker::new(setup.cpus, pool.frames(), setup.time.window()),
            random: setup.time.random(),
            longest_run: 0,
            entered: 0,
            setup,
        })
    }

    /// Checks conservation, order and the ledger after draining.
    fn totals(&self, now_ns: u64) -> Vec<Counts> {
        self.processors.iter().map(|processor| processor.done(now_ns)).collect()
    }

    fn check(&mut self, pool: &PagePool) -> Result<(), RunError> {
        self.stock.close()?;
        let inside = self.run.backlog() + self.run.in_device() + self.list.0.len() + self.pushed.0.len();
        if inside > 0 {
            let left = self.entered - inside as u64;
            return Err(RunError::Conservation { queue: 0, accepted: self.entered, left });
        }
        self.witness.check(0)?;
        harness::check_ledger(pool)
    }
}

/// Returns an empty account of a processor's time.
fn account(number: usize, setup: &Setup) -> Cpu {
    let (tick, processors) = (setup.costs.tick, setup.cpus + usize::from(setup.dedicated));
    Cpu::new(tick, tick.every_ns * (number as u64 + 1) / (setup.cpus as u64 + 2))
        .slower_by(setup.smt.slowdown_permille(number, processors))
}
