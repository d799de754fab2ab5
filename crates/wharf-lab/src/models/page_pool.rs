//! Receive channels and applications over one pool: who takes pages, who frees them, and what they wait for.
//!
//! A channel's processor polls: it takes a page for each packet, makes the packet of it, and puts it into the backlog of
//! the application's processor, which reads and frees it there. The pool is the real one, with a real policy
//! ([`PageCache`]) driven a step at a time; what is modelled is how long each
//! step takes, and who waits for the lock of a place. Nothing but processors, windows and locks limits the rate.
//!
//! `processor`: what a processor does next. `places`: the locks. `outcome`: what is counted and checked.

mod kind;
mod outcome;
mod places;
mod processor;

pub use kind::{PolicyKind, UsePolicy};
pub use outcome::Outcome;

use crate::comparators::page_policy::{PageCache, Policy};
use places::Places;
use processor::Processor;
use std::sync::Arc;
use wharf_sim::ConservationChecker;
use wharf_sim::RunError;
use wharf_sim::engine::lock::LockCosts;
use wharf_sim::engine::{Agenda, Random, VirtualClock, World};
use wharf_sim::harness;

/// Frames lie so many bytes apart; nobody writes them.
const FRAME_BYTES: u32 = 128;
/// Frames for what lists hold back, per processor: more than seven batches of two frames a page.
const FRAMES_PER_CPU: usize = 1100;
/// What steps take.
#[derive(Debug, Clone, Copy)]
pub struct Costs {
    /// The locks of depot and mailboxes.
    pub lock: LockCosts,
    /// A packet received, apart from its page.
    pub receive_ns: u64,
    /// A packet read by its application, apart from its page.
    pub read_ns: u64,
    /// A page taken from what lies here, or given to it.
    pub page_ns: u64,
    /// A look at a word that another processor wrote last.
    pub look_miss_ns: u64,
    /// A look at a word that this one wrote last.
    pub look_hit_ns: u64,
    /// A page through the depot, under its lock.
    pub depot_page_ps: u64,
    /// A frame through a mailbox, under its lock.
    pub mail_frame_ps: u64,
    /// Until an idle processor has begun what it was woken for.
    pub wake_ns: u64,
}

/// What is run.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The policy.
    pub kind: PolicyKind,
    /// Pages that a FIFO of [`PolicyKind::RecycleHead`] and its like holds.
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
    /// Packets of one stream that may be anywhere between channel and freeing.
    pub window_packets: u32,
    /// Packets of one stream that come one after the other.
    pub burst_packets: u32,
    /// What the steps cost.
    pub costs: Costs,
    /// Thousandths by which the times of receiving and reading vary, either way.
    pub jitter_permille: u64,
    /// Of the generator.
    pub seed: u64,
    /// Time before measuring.
    pub settle_ns: u64,
    /// Time measured.
    pub measure_ns: u64,
}

impl Setup {
    fn cpus(&self) -> usize {
        self.channels + self.applications
    }

    /// Frames that cannot run out: all windows, and what lists hold back.
    fn frames(&self) -> u32 {
        let fifos = self.channels * self.fifo_pages;
        let frames = self.streams * self.window_packets as usize + self.cpus() * FRAMES_PER_CPU + fifos;
        frames.next_multiple_of(2) as u32
    }

    /// The processor of a stream's channel.
    fn channel_of(&self, stream: usize) -> usize {
        stream % self.channels
    }

    /// The processor of a stream's application: those of one channel are spread, and those of one application.
    fn application_of(&self, stream: usize) -> usize {
        self.channels + (stream + stream / self.channels) % self.applications
    }
}

/// The modelled machine.
struct Machine<C> {
    setup: Setup,
    /// Channels first.
    processors: Vec<Processor<C>>,
    places: Places,
    /// Packets of each stream between channel and freeing.
    inside: Vec<u32>,
    witness: ConservationChecker,
    /// By frame: whether it is out.
    out: Vec<bool>,
    /// A page that was handed out twice.
    doubled: Option<u32>,
    random: Random,
    /// Channels receive no more, so that all is read.
    ending: bool,
}

/// Runs a setup; what came of it. `goes_on` is asked now and then whether to go on.
///
/// # Errors
/// [`RunError`]: a page or a packet was lost or doubled, there was no memory, or it was not to go on.
pub fn run(setup: &Setup, goes_on: &mut dyn FnMut() -> bool) -> Result<Outcome, RunError> {
    let clock = Arc::new(VirtualClock::default());
    let pool = harness::pool(setup.frames(), FRAME_BYTES, &clock)?;
    let run = Run { setup, clock: &clock, goes_on };
    let outcome = setup.kind.with(&pool, setup.fifo_pages, run)?;
    let audit = pool.audit();
    if audit.out() > 0 || pool.free() != pool.frames() as usize {
        return Err(RunError::Ledger(format!("{audit}; {} of {} frames free", pool.free(), pool.frames())));
    }
    Ok(outcome)
}

struct Run<'a> {
    setup: &'a Setup,
    clock: &'a VirtualClock,
    goes_on: &'a mut dyn FnMut() -> bool,
}

impl UsePolicy for Run<'_> {
    type Output = Result<Outcome, RunError>;

    fn with<P: Policy>(self, policy: &P) -> Self::Output {
        let Self { setup, clock, goes_on } = self;
        let mut machine = Machine::new(setup, policy)?;
        let mut agenda = Agenda::new(setup.cpus());
        (0..setup.channels).for_each(|cpu| agenda.set(cpu, machine.random.below(1000)));
        let window = (setup.settle_ns, setup.measure_ns);
        let course = harness::settle_measure_drain(&mut machine, &mut agenda, clock, window, goes_on)?;
        machine.check()?;
        Ok(Outcome::between(setup, &course, machine.witness.packets()))
    }
}

impl<C: PageCache> Machine<C> {
    fn new(setup: &Setup, policy: &impl Policy<Cache = C>) -> Result<Self, RunError> {
        let frames = policy.pool().frames();
        let processor =
            |cpu: usize| Ok(Processor::new(policy.cache(&format!("cpu{cpu}"))?, cpu < setup.channels));
        Ok(Self {
            processors: (0..setup.cpus()).map(processor).collect::<Result<_, RunError>>()?,
            places: Places::new(setup.cpus(), setup.costs),
            inside: vec![0; setup.streams],
            witness: ConservationChecker::new(
                setup.streams,
                frames,
                (setup.settle_ns, setup.settle_ns + setup.measure_ns),
            ),
            out: vec![false; frames as usize],
            doubled: None,
            random: Random::new(setup.seed),
            ending: false,
            setup: setup.clone(),
        })
    }
}

impl<C: PageCache> World for Machine<C> {
    #[inline]
    fn act(&mut self, slot: usize, now_ns: u64, agenda: &mut Agenda) {
        self.processor_acts(slot, now_ns, agenda);
    }
}
