//! Receive channels and applications over one page pool: allocations, frees, and the waits for locks.
//!
//! A channel's processor polls. It takes a page for each packet, makes the packet, and puts it into the
//! backlog of the application's processor, which reads and frees it. The pool is the real one, with a real
//! policy ([`PageCache`](crate::comparators::page_policy::PageCache)) driven step by step. Modelled are the time of each
//! step, and the waiting for the lock of a place. Only processors, windows and locks limit the rate.
//! If there is a wire, it limits the rate too: then channels send, and applications handle completions.
//!
//! `processor` has the steps of a processor and the locks, `outcome` the counts and checks.

mod kind;
mod outcome;
mod processor;

pub use kind::PolicyKind;
pub use outcome::Outcome;

use crate::comparators::page_policy::Policy;
use processor::{Places, Processor};
use serde::Deserialize;
use std::sync::Arc;
use wharf_sim::engine::lock::LockCosts;
use wharf_sim::engine::{Agenda, Random, VirtualClock, World};
use wharf_sim::harness::{self, Timing};
use wharf_sim::{ConservationChecker, RunError};

/// Distance of frames in bytes; no data are written.
const FRAME_BYTES: u32 = 128;
/// Frames that lists hold back, per processor: more than seven batches of two frames a page.
const FRAMES_PER_CPU: usize = 1100;
/// Times of the steps.
#[derive(Debug, Clone, Copy, Deserialize)]
pub struct Costs {
    /// The locks of depot and mailboxes.
    pub lock: LockCosts,
    /// Receiving a packet, without its page.
    pub receive_ns: u64,
    /// Reading a packet in its application, without its page.
    pub read_ns: u64,
    /// Taking a page from the cache, or giving it back.
    pub page_ns: u64,
    /// An access to a word that another processor wrote last.
    pub look_miss_ns: u64,
    /// An access to a word that this processor wrote last.
    pub look_hit_ns: u64,
    /// Moving a page to or from the depot, under its lock.
    pub depot_page_ps: u64,
    /// Moving a frame to or from a mailbox, under its lock.
    pub mail_frame_ps: u64,
    /// The time until a woken idle processor begins to work.
    pub wake_ns: u64,
}

/// The settings of a run.
#[derive(Debug, Clone, Deserialize)]
pub struct Setup {
    /// The policy.
    #[serde(skip)]
    pub kind: PolicyKind,
    /// Pages in the FIFO of [`PolicyKind::RecycleHead`] and the like.
    pub fifo_pages: usize,
    /// Processors that receive, a channel each.
    pub channels: usize,
    /// Processors that read.
    pub applications: usize,
    /// Streams, each from one channel to one application.
    pub streams: usize,
    /// Those among them whose packets stay with their application for `slow_ns`.
    pub slow_streams: usize,
    /// See `slow_streams`.
    pub slow_ns: u64,
    /// Packets of one stream between channel and freeing.
    pub window_packets: u32,
    /// Packets of one stream that come one after the other.
    pub burst_packets: u32,
    /// Rate of a wire between channels and applications, which packets pass one after the other; 0 for none.
    pub wire_bits_per_s: u64,
    /// Times of the steps.
    pub costs: Costs,
    /// Seed and times; the times of receiving and reading vary.
    pub time: Timing,
}

impl Setup {
    fn cpus(&self) -> usize {
        self.channels + self.applications
    }

    /// Returns the number of frames, enough for all windows and for the lists.
    fn frames(&self) -> u32 {
        let fifos = self.channels * self.fifo_pages;
        let frames = self.streams * self.window_packets as usize + self.cpus() * FRAMES_PER_CPU + fifos;
        frames.next_multiple_of(2) as u32
    }

    /// Returns the processor of a stream's channel.
    fn channel_of(&self, stream: usize) -> usize {
        stream % self.channels
    }

    /// Returns the processor of a stream's application. The streams of one channel are spread, and those of
    /// one application.
    fn application_of(&self, stream: usize) -> usize {
        self.channels + (stream + stream / self.channels) % self.applications
    }
}

/// The modelled machine.
struct Machine {
    setup: Setup,
    /// Channels first.
    processors: Vec<Processor>,
    places: Places,
    /// Packets of each stream between channel and freeing.
    inside: Vec<u32>,
    /// The time at which the wire is free, in picoseconds.
    wire_free_ps: u128,
    witness: ConservationChecker,
    /// True for each frame that is out, by index.
    out: Vec<bool>,
    /// A page that was handed out twice.
    doubled: Option<u32>,
    random: Random,
}

/// Runs a setup. Asks `goes_on` after each slice of time.
///
/// # Errors
/// [`RunError`]: a page or a packet was lost or doubled, there was too little memory, or `goes_on` returned
/// false.
pub fn run(setup: &Setup, goes_on: &mut dyn FnMut() -> bool) -> Result<Outcome, RunError> {
    let clock = Arc::new(VirtualClock::default());
    let pool = harness::pool(setup.frames(), FRAME_BYTES, &clock)?;
    let mut machine = Machine::new(setup, &*setup.kind.over(&pool, setup.fifo_pages), pool.frames())?;
    let mut agenda = Agenda::new(setup.cpus());
    (0..setup.channels).for_each(|cpu| agenda.set(cpu, machine.random.below(1000)));
    let window = setup.time.window();
    let course =
        harness::settle_measure_drain(&mut machine, &mut agenda, &clock, window, Machine::totals, goes_on)?;
    machine.check()?;
    let outcome = Outcome::between(setup, &course, machine.witness.packets());
    // The caches and the policy give their pages back.
    drop(machine);
    let audit = pool.audit();
    if audit.out() > 0 || pool.free() != pool.frames() as usize {
        return Err(RunError::Ledger(format!("{audit}; {} of {} frames free", pool.free(), pool.frames())));
    }
    Ok(outcome)
}

impl Machine {
    fn new(setup: &Setup, policy: &dyn Policy, frames: u32) -> Result<Self, RunError> {
        let processor =
            |cpu: usize| Ok(Processor::new(policy.cache(&format!("cpu{cpu}"))?, cpu < setup.channels));
        Ok(Self {
            processors: (0..setup.cpus()).map(processor).collect::<Result<_, RunError>>()?,
            places: Places::new(setup.cpus(), setup.costs),
            inside: vec![0; setup.streams],
            wire_free_ps: 0,
            witness: ConservationChecker::new(setup.streams, frames, setup.time.window()),
            out: vec![false; frames as usize],
            doubled: None,
            random: setup.time.random(),
            setup: setup.clone(),
        })
    }
}

impl World for Machine {
    #[inline]
    fn act(&mut self, slot: usize, now_ns: u64, agenda: &mut Agenda) {
        self.processor_acts(slot, now_ns, agenda);
    }
}
