//! The path's own `TxEngine` with its byte limit, over a NIC whose wire changes its speed.
//!
//! One sender always has packets waiting in `prio`. A probe in the first band comes now and then, passes them
//! all, and waits for the bytes in the NIC; the limit is there to bound that delay. One processor; interrupts
//! a least time apart.

use super::waiting::{self, PROBE, Waiting};
use serde::Deserialize;
use std::collections::VecDeque;
use std::sync::Arc;
use wharf_core::engine::TxEngine;
use wharf_core::pool::PagePool;
use wharf_sim::RunError;
use wharf_sim::engine::{Agenda, Random, VirtualClock, World};
use wharf_sim::harness;
use wharf_sim::nic::simple::{Costs, Departed, Driver, Simple, TxMemory, WIRE_OVERHEAD_BYTES};

const FRAME_BYTES: u32 = 2048;
/// Packets handed over before other events are handled.
const QUOTA: u32 = 64;
/// Most probes inside, a band of the kernel's. Probes that the slowest wire cannot carry are not made.
const PROBES_MAX: usize = 1000;
/// Slots of the agenda.
const CPU_SLOT: usize = 0;
const INTERRUPT_SLOT: usize = 1;
const PROBE_SLOT: usize = 2;
const SAMPLE_SLOT: usize = 3;

/// A run's settings.
#[derive(Debug, Clone, Deserialize)]
pub struct Setup {
    /// True with the byte limit; else the ring alone limits.
    pub limited: bool,
    /// The phases of the wire: picoseconds a byte, and their length in nanoseconds.
    #[serde(skip)]
    pub phases: Vec<(u64, u64)>,
    /// Descriptors.
    pub ring_frames: usize,
    /// Most packets of the sender inside.
    pub window_packets: usize,
    /// Length of its packets.
    pub frame_bytes: u32,
    /// Length of a probe.
    pub probe_bytes: u32,
    /// Mean time between two probes.
    pub probe_every_ns: u64,
    /// Time between two samples of the limit.
    pub sample_every_ns: u64,
    /// The limit's hold time.
    pub hold_ns: u64,
    /// Least time between two interrupts.
    pub interrupt_gap_ns: u64,
    /// Time of a packet in the driver.
    pub driver_ns: u64,
    /// Time of an interrupt with its completions.
    pub interrupt_ns: u64,
    /// The NIC without its wire.
    pub nic: Costs,
    /// Seed of the generator.
    pub seed: u64,
}

/// The result of one phase.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Phase {
    /// Samples: time, limit, and bytes in the NIC.
    pub samples: Vec<(u64, u32, u64)>,
    /// Probes: time of sending, and delay until on the wire.
    pub probes: Vec<(u64, u64)>,
    /// Millionths of the wire's time in use.
    pub used_ppm: u64,
    /// Packets that left.
    pub packets: u64,
}

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// By phase.
    pub phases: Vec<Phase>,
    /// Packets of the whole run.
    pub packets_in_all: u64,
}

struct Path {
    setup: Setup,
    run: TxEngine,
    waiting: Waiting,
    nic: Simple,
    random: Random,
    departed: Vec<Departed>,
    /// Times of sending of the probes inside, in order.
    probes_ns: VecDeque<u64>,
    last_interrupt_ns: u64,
    phases: Vec<Phase>,
    /// The end of each phase.
    ends_ns: Vec<u64>,
}

/// Runs a setup. Asks `goes_on` after each slice of time.
///
/// # Errors
/// [`RunError`]: a rule of the path was broken, there was too little memory, or `goes_on` returned false.
pub fn run(setup: Setup, goes_on: &mut dyn FnMut() -> bool) -> Result<Outcome, RunError> {
    let clock = Arc::new(VirtualClock::default());
    let frames = (setup.window_packets + (setup.ring_frames + PROBES_MAX).next_multiple_of(4096)) as u32;
    let pool = harness::pool(frames, FRAME_BYTES, &clock)?;
    let mut path = Path::new(setup, &pool, &clock)?;
    let mut agenda = Agenda::new(4);
    [CPU_SLOT, PROBE_SLOT, SAMPLE_SLOT].into_iter().for_each(|slot| agenda.set(slot, 0));
    let end_ns = path.ends_ns.last().copied().unwrap_or(0);
    harness::settle_measure_drain(&mut path, &mut agenda, &clock, (0, end_ns), |_, _| (), goes_on)?;
    path.finish(&pool)
}

impl Path {
    fn new(setup: Setup, pool: &PagePool, clock: &Arc<VirtualClock>) -> Result<Self, RunError> {
        let memory = TxMemory::new(setup.ring_frames);
        let driver = Driver::new(memory.clone());
        let mut run = waiting::engine(driver, setup.window_packets, setup.hold_ns, pool, clock)?;
        run.reserve(QUOTA as usize);
        if !setup.limited {
            run.set_bql(None);
        }
        let mut ends_ns = Vec::new();
        let mut changes = Vec::new();
        let mut at_ns = 0;
        for &(wire_ps_per_byte, long_ns) in &setup.phases {
            changes.push((at_ns, wire_ps_per_byte));
            at_ns += long_ns;
            ends_ns.push(at_ns);
        }
        Ok(Self {
            run,
            waiting: Waiting::new(pool, setup.window_packets, vec![setup.frame_bytes], (0, at_ns))?,
            nic: Simple::new(setup.nic, vec![memory], FRAME_BYTES).changing(changes),
            random: Random::new(setup.seed),
            departed: Vec::new(),
            probes_ns: VecDeque::new(),
            last_interrupt_ns: 0,
            phases: vec![Phase::default(); setup.phases.len()],
            ends_ns,
            setup,
        })
    }

    /// Returns the phase at `at_ns`.
    fn phase_at(&self, at_ns: u64) -> Option<usize> {
        self.ends_ns.iter().position(|&end_ns| at_ns < end_ns)
    }

    /// Calls the device, and schedules the end of the call.
    fn transmit(&mut self, now_ns: u64, agenda: &mut Agenda) {
        let (taken, pause) = self.run.transmit_bulk(&mut self.waiting, QUOTA);
        let Self { nic, departed, .. } = self;
        nic.doorbell(0, now_ns, departed);
        let mut departed = std::mem::take(&mut self.departed);
        departed.drain(..).for_each(|frame| self.leaves(&frame));
        self.departed = departed;
        self.interrupt_due(agenda);
        if pause.is_none_or(|pause| pause == wharf_core::engine::Pause::Quota) {
            agenda.set(CPU_SLOT, now_ns + (u64::from(taken) * self.setup.driver_ns).max(1));
        }
    }

    fn leaves(&mut self, frame: &Departed) {
        let stream = self.waiting.witness.leaves(frame);
        let phase = self.phase_at(frame.at_ns);
        if let Some(phase) = phase {
            let (wire_ps, _) = self.setup.phases[phase];
            let wire_bytes = u64::from(frame.len_bytes).max(60) + WIRE_OVERHEAD_BYTES;
            // Picoseconds; made a share at the end.
            self.phases[phase].used_ppm += wire_bytes * wire_ps;
            self.phases[phase].packets += 1;
        }
        if stream == Some(PROBE)
            && let Some(sent_ns) = self.probes_ns.pop_front()
            && let Some(phase) = self.phase_at(sent_ns)
        {
            self.phases[phase].probes.push((sent_ns, frame.at_ns - sent_ns));
        }
    }

    fn interrupt_due(&mut self, agenda: &mut Agenda) {
        if let Some(back_ns) = self.nic.next_write_back_ns(0) {
            let gap_ns = self.last_interrupt_ns + self.setup.interrupt_gap_ns;
            agenda.set_no_later(INTERRUPT_SLOT, back_ns.max(gap_ns));
        }
    }

    fn interrupt(&mut self, now_ns: u64, agenda: &mut Agenda) {
        self.last_interrupt_ns = now_ns;
        self.nic.write_back(0, now_ns);
        while self.run.reap(&mut self.waiting).0 > 0 {}
        if self.phase_at(now_ns).is_none() {
            self.waiting.window = 0;
        }
        self.interrupt_due(agenda);
        agenda.set_no_later(CPU_SLOT, now_ns + self.setup.interrupt_ns);
    }

    fn probe(&mut self, now_ns: u64, agenda: &mut Agenda) {
        if self.probes_ns.len() < PROBES_MAX
            && let Some(frame) = self.waiting.take(PROBE, self.setup.probe_bytes)
        {
            self.waiting.probes.push_back(frame);
            self.probes_ns.push_back(now_ns);
        }
        agenda.set_no_later(CPU_SLOT, now_ns + 1);
        agenda.set(PROBE_SLOT, now_ns + self.random.around(self.setup.probe_every_ns, 500).max(1));
    }

    fn sample(&mut self, now_ns: u64, agenda: &mut Agenda) {
        let Some(phase) = self.phase_at(now_ns) else { return };
        let limit = self.run.bql().map_or(0, |bql| bql.limit());
        let inside = self.run.in_device() as u64 * u64::from(self.setup.frame_bytes);
        let inside = self.run.bql().map_or(inside, |bql| bql.in_flight().into());
        self.phases[phase].samples.push((now_ns, limit, inside));
        agenda.set(SAMPLE_SLOT, now_ns + self.setup.sample_every_ns);
    }

    /// Checks the rules. Returns the result.
    fn finish(mut self, pool: &PagePool) -> Result<Outcome, RunError> {
        let accepted = self.waiting.finish(self.run, pool)?;
        for (phase, &(_, long_ns)) in self.phases.iter_mut().zip(&self.setup.phases) {
            phase.used_ppm = (u128::from(phase.used_ppm) * 1000 / u128::from(long_ns.max(1))) as u64;
        }
        Ok(Outcome { phases: self.phases, packets_in_all: accepted })
    }
}

impl World for Path {
    fn act(&mut self, slot: usize, now_ns: u64, agenda: &mut Agenda) {
        match slot {
            CPU_SLOT => self.transmit(now_ns, agenda),
            INTERRUPT_SLOT => self.interrupt(now_ns, agenda),
            PROBE_SLOT if self.phase_at(now_ns).is_some() => self.probe(now_ns, agenda),
            SAMPLE_SLOT => self.sample(now_ns, agenda),
            _ => {}
        }
    }
}
