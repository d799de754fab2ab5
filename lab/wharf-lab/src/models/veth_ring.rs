//! The path's own `TxEngine` with its byte limit, over a ring of slots that another processor empties: the
//! kernel's veth with a thread for its NAPI.
//!
//! A flood always has packets waiting, and goes packet by packet, as `sendto` does. A probe now and then
//! passes them all, and waits for what is in the ring. The consumer takes a few packets out of the ring
//! (`gro_normal_batch`), then carries them through its stack. What the limit remembers lies in a cache line
//! that both processors write.

use super::waiting::{self, PROBE, Waiting};
use serde::Deserialize;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use wharf_core::bql::Bounds;
use wharf_core::device::{LIMIT_PACKET_BYTES, LimitUnit};
use wharf_core::engine::{Pause, TxEngine};
use wharf_core::pool::PagePool;
use wharf_mem::lock;
use wharf_sim::RunError;
use wharf_sim::engine::cache_line::{CacheLine, LineCosts};
use wharf_sim::engine::{Agenda, Random, VirtualClock, World};
use wharf_sim::harness;
use wharf_sim::nic::simple::{Departed, Descriptor, Driver, TxMemory};

/// Distance of frames in bytes.
const FRAME_BYTES: u32 = 2048;
/// Most probes inside.
const PROBES_MAX: usize = 1000;
/// Slots of the agenda, the first two of them processors.
const PRODUCER: usize = 0;
const CONSUMER: usize = 1;
const PROBES: usize = 2;

/// When the limit sees what has left the ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Completion {
    /// Never: there is no limit.
    #[default]
    Off,
    /// Packet by packet.
    Packet,
    /// At the end of a poll.
    Poll,
    /// Gathered by time.
    Gather,
}

impl Completion {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Off, Self::Packet, Self::Poll, Self::Gather];

    /// Returns its name in labels.
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Packet => "packet",
            Self::Poll => "poll",
            Self::Gather => "gather",
        }
    }
}

/// A run's settings.
#[derive(Debug, Clone, Deserialize)]
pub struct Setup {
    /// When the limit sees completions.
    #[serde(skip)]
    pub completion: Completion,
    /// True if the limit counts packets; else it counts bytes.
    pub by_packets: bool,
    /// True with a second flood, of the shortest packets, which has as many bytes on the way as the first.
    pub tiny_flood: bool,
    /// Slots of the ring.
    pub ring_frames: usize,
    /// Packets of the flood inside.
    pub window_packets: usize,
    /// Length of its packets.
    pub frame_bytes: u32,
    /// Length of the second flood's packets.
    pub tiny_bytes: u32,
    /// Length of a probe.
    pub probe_bytes: u32,
    /// Mean time between two probes.
    pub probe_every_ns: u64,
    /// The limit's hold time.
    pub hold_ns: u64,
    /// Time for which completions are gathered.
    pub gather_ns: u64,
    /// Most packets of a poll.
    pub poll_packets: usize,
    /// Packets that the consumer takes before it carries them on.
    pub gro_packets: usize,
    /// Making a packet and handing it to the ring.
    pub send_ns: u64,
    /// Taking a packet out of the ring.
    pub take_ns: u64,
    /// Carrying it through the consumer's stack.
    pub deliver_ns: u64,
    /// Waking the consumer.
    pub wake_ns: u64,
    /// The line with what the limit remembers.
    pub line: LineCosts,
    /// Time before measuring.
    pub settle_ns: u64,
    /// Time measured.
    pub measure_ns: u64,
    /// Seed of the generator.
    pub seed: u64,
}

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Outcome {
    /// Packets delivered within the measured time.
    pub packets: u64,
    /// Times from a probe's sending until it was delivered.
    pub probes_ns: Vec<u64>,
    /// Probes sent within the measured time.
    pub probes_sent: u64,
    /// The limit as each probe found it, in packets of a flood, or bytes.
    pub limits: Vec<u64>,
    /// Packets of the whole run.
    pub packets_in_all: u64,
}

struct Path {
    setup: Setup,
    run: TxEngine,
    waiting: Waiting,
    memory: Arc<Mutex<TxMemory>>,
    random: Random,
    line: CacheLine,
    /// The next slot to take.
    head: u32,
    /// Packets taken and not delivered: true for a probe.
    taken: Vec<bool>,
    /// Packets of the poll under way.
    polled: usize,
    is_idle: bool,
    /// The time until which the producer works.
    busy_until_ns: u64,
    /// Times of sending of the probes inside, in order.
    probes_ns: VecDeque<u64>,
    done: Outcome,
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
    let mut agenda = Agenda::new(3);
    agenda.set(PRODUCER, 0);
    agenda.set(PROBES, 0);
    let window_ns = path.window_ns();
    harness::settle_measure_drain(&mut path, &mut agenda, &clock, window_ns, |_, _| (), goes_on)?;
    let Path { run, waiting, done, .. } = path;
    Ok(Outcome { packets_in_all: waiting.finish(run, &pool)?, ..done })
}

impl Path {
    fn new(setup: Setup, pool: &PagePool, clock: &Arc<VirtualClock>) -> Result<Self, RunError> {
        let memory = TxMemory::new(setup.ring_frames);
        let unit = if setup.by_packets { LimitUnit::Packets } else { LimitUnit::Bytes };
        let driver = Driver::new(memory.clone()).limited_by(unit);
        let mut run = waiting::engine(driver, setup.window_packets, setup.hold_ns, pool, clock)?;
        match setup.completion {
            Completion::Off => run.set_bql(None),
            Completion::Gather => {
                run.set_byte_limits(Bounds { gather_ns: setup.gather_ns, ..Bounds::LEARN });
            }
            Completion::Packet | Completion::Poll => {}
        }
        let mut lengths_bytes = vec![setup.frame_bytes];
        if setup.tiny_flood {
            let as_many = setup.frame_bytes / setup.tiny_bytes.max(1);
            lengths_bytes.extend((0..as_many).map(|_| setup.tiny_bytes));
        }
        let window_ns = (setup.settle_ns, setup.settle_ns + setup.measure_ns);
        Ok(Self {
            run,
            waiting: Waiting::new(pool, setup.window_packets, lengths_bytes, window_ns)?,
            memory,
            random: Random::new(setup.seed),
            line: CacheLine::new(setup.line),
            head: 0,
            taken: Vec::new(),
            polled: 0,
            is_idle: true,
            busy_until_ns: 0,
            probes_ns: VecDeque::new(),
            done: Outcome::default(),
            setup,
        })
    }

    fn window_ns(&self) -> (u64, u64) {
        (self.setup.settle_ns, self.setup.settle_ns + self.setup.measure_ns)
    }

    fn is_measured(&self, now_ns: u64) -> bool {
        let (from_ns, to_ns) = self.window_ns();
        (from_ns..to_ns).contains(&now_ns)
    }

    /// Returns the time that `processor` takes to write what the limit remembers.
    fn line_ns(&mut self, processor: usize, now_ns: u64) -> u64 {
        if self.run.bql().is_none() { 0 } else { self.line.write(processor, now_ns) - now_ns }
    }

    /// Hands a packet to the ring, and schedules the next one.
    fn produce(&mut self, now_ns: u64, agenda: &mut Agenda) {
        let (count, pause) = self.run.transmit_bulk(&mut self.waiting, 1);
        if count == 0 {
            return;
        }
        let line_ns = self.line_ns(PRODUCER, now_ns);
        self.busy_until_ns = now_ns + (u64::from(count) * self.setup.send_ns + line_ns).max(1);
        if std::mem::take(&mut self.is_idle) {
            agenda.set(CONSUMER, now_ns + self.setup.wake_ns);
        }
        if pause.is_none_or(|pause| pause == Pause::Quota) {
            agenda.set(PRODUCER, self.busy_until_ns);
        }
    }

    /// Takes the next packet out of the ring. False if it is empty.
    fn take(&mut self, now_ns: u64) -> bool {
        let mut memory = lock(&self.memory);
        if self.head == memory.tail {
            return false;
        }
        let slot = std::mem::replace(memory.at(self.head), Descriptor::done());
        self.head = self.head.wrapping_add(1);
        let index = (slot.address() / u64::from(FRAME_BYTES)) as u32;
        let frame = Departed { index, len_bytes: slot.len_bytes(), at_ns: now_ns };
        self.taken.push(self.waiting.witness.leaves(&frame) == Some(PROBE));
        self.polled += 1;
        true
    }

    /// Completes what was taken. Returns the time that this takes.
    fn complete(&mut self, now_ns: u64, agenda: &mut Agenda) -> u64 {
        let in_flight = |run: &TxEngine| run.bql().map_or(0, wharf_core::bql::Bql::in_flight);
        let before = in_flight(&self.run);
        while self.run.reap(&mut self.waiting).0 > 0 {}
        if now_ns >= self.window_ns().1 {
            self.waiting.window = 0;
        }
        agenda.set_no_later(PRODUCER, now_ns.max(self.busy_until_ns));
        if in_flight(&self.run) == before { 0 } else { self.line_ns(CONSUMER, now_ns) }
    }

    fn consume(&mut self, now_ns: u64, agenda: &mut Agenda) {
        let goes_on = self.polled < self.setup.poll_packets;
        let by_poll = self.setup.completion == Completion::Poll;
        if goes_on && self.taken.len() < self.setup.gro_packets && self.take(now_ns) {
            let complete_ns = if by_poll { 0 } else { self.complete(now_ns, agenda) };
            return agenda.set(CONSUMER, now_ns + (self.setup.take_ns + complete_ns).max(1));
        }
        if !self.taken.is_empty() {
            let until_ns = self.deliver(now_ns);
            return agenda.set(CONSUMER, until_ns.max(now_ns + 1));
        }
        self.is_idle = goes_on;
        let had_any = std::mem::take(&mut self.polled) > 0;
        let complete_ns = if by_poll && had_any { self.complete(now_ns, agenda) } else { 0 };
        if !goes_on {
            agenda.set(CONSUMER, now_ns + complete_ns.max(1));
        }
    }

    /// Carries the packets taken through the stack. Returns the time at which that is done.
    fn deliver(&mut self, now_ns: u64) -> u64 {
        let mut at_ns = now_ns;
        for is_probe in std::mem::take(&mut self.taken) {
            at_ns += self.setup.deliver_ns;
            self.done.packets += u64::from(self.is_measured(at_ns));
            if is_probe
                && let Some(sent_ns) = self.probes_ns.pop_front()
                && self.is_measured(sent_ns)
            {
                self.done.probes_ns.push(at_ns - sent_ns);
            }
        }
        at_ns
    }

    fn probe(&mut self, now_ns: u64, agenda: &mut Agenda) {
        if now_ns >= self.window_ns().1 {
            return;
        }
        if self.probes_ns.len() < PROBES_MAX
            && let Some(frame) = self.waiting.take(PROBE, self.setup.probe_bytes)
        {
            self.waiting.probes.push_back(frame);
            self.probes_ns.push_back(now_ns);
            if self.is_measured(now_ns) {
                let unit = if self.setup.by_packets { LIMIT_PACKET_BYTES } else { 1 };
                self.done.limits.push(self.run.bql().map_or(0, |bql| u64::from(bql.limit() / unit)));
                self.done.probes_sent += 1;
            }
        }
        agenda.set_no_later(PRODUCER, now_ns.max(self.busy_until_ns));
        agenda.set(PROBES, now_ns + self.random.around(self.setup.probe_every_ns, 500).max(1));
    }
}

impl World for Path {
    fn act(&mut self, slot: usize, now_ns: u64, agenda: &mut Agenda) {
        match slot {
            PRODUCER => self.produce(now_ns, agenda),
            CONSUMER => self.consume(now_ns, agenda),
            _ => self.probe(now_ns, agenda),
        }
    }
}
