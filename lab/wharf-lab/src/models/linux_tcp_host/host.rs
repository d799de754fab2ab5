//! The host: one processor, an interrupt, and the packets on their way back.
//!
//! `poll.rs` chooses the processor's next work; `xmit.rs` runs the qdisc.

mod poll;

use super::Setup;
use super::nic::{FarHost, Nic};
use super::setup::{Outcome, Probe, Totals};
use poll::{Kind, Tasks};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use wharf_core::bql::Bql;
use wharf_core::pool::{Cache, PagePool};
use wharf_core::qdisc::{Prio, RootQdisc};
use wharf_mem::{Batch, Frame};
use wharf_sim::engine::{Agenda, Random, VirtualClock, World};
use wharf_sim::flows::tcp::{Ack, Piece, Receiver, Rules, Source};
use wharf_sim::{RunError, harness};

/// Distance of buffers in bytes: a super-packet with its headers.
const FRAME_BYTES: u32 = 65_536;
/// Most super-packets inside.
const FRAMES: u32 = 8192;

/// Slots of the agenda.
pub(super) const SLOTS: usize = PROBES + Kind::ALL.len();
const CPU: usize = 0;
const INTERRUPT: usize = 1;
const TIMER: usize = 2;
/// The first slot of the probes.
pub(super) const PROBES: usize = 3;

/// Bands: `pfifo_fast`'s first and second.
pub(super) const HIGH: u8 = 0;
pub(super) const NORMAL: u8 = 1;

/// The contents of a buffer.
#[derive(Debug, Clone, Copy)]
pub(super) enum Info {
    Free,
    Probe {
        kind: Kind,
        sent_ns: u64,
    },
    Stream {
        number: usize,
        piece: Piece,
        /// The time at which TCP sent it.
        sent_ns: u64,
        /// Packets segmented so far.
        cut: u32,
    },
}

/// An incoming packet.
#[derive(Debug, Clone, Copy)]
pub(super) enum Answer {
    Ack(usize, Ack),
    Probe(Kind, Probe),
}

pub(super) struct Stream {
    pub(super) source: Source,
    receiver: Receiver,
    /// Position of the next super-packet to leave, if none is sent again.
    next_out: u64,
}

impl Stream {
    /// Creates a stream with more data than there is time for.
    fn new(rules: Rules) -> Self {
        let mut source = Source::new(rules);
        source.write(u64::MAX >> 1);
        Self { source, receiver: Receiver::default(), next_out: 0 }
    }
}

/// The modelled host.
pub(super) struct Host {
    pub(super) setup: Setup,
    pub(super) qdisc: RootQdisc,
    pub(super) bql: Bql,
    /// The bulk under way, or the rest that the driver left.
    pub(super) batch: Batch,
    pub(super) nic: Nic,
    /// Super-packets of which the driver has the last packet.
    pub(super) in_nic: VecDeque<Frame>,
    pub(super) infos: Vec<Info>,
    pub(super) totals: Totals,
    pub(super) streams: Vec<Stream>,
    cache: Cache,
    pool: PagePool,
    pub(super) random: Random,
    far: FarHost,
    pub(super) answers: VecDeque<(u64, Answer)>,
    pub(super) probes: Vec<Probe>,
    pub(super) limits: Vec<(u64, u32)>,
    passing: Batch,
    /// True while the processor works; the doorbell follows.
    busy: bool,
    pub(super) tasks: Tasks,
    entered: u64,
    left: u64,
    pub(super) fault: Option<RunError>,
}

impl Host {
    pub(super) fn new(setup: Setup, clock: &Arc<VirtualClock>) -> Result<Self, RunError> {
        let pool = harness::pool(FRAMES, FRAME_BYTES, clock)?;
        let mut random = setup.time.random();
        let far = FarHost::new(&setup, &mut random);
        let nic =
            Nic::new(setup.wire_ps_per_byte, setup.fetch_ns, setup.ring_descriptors, setup.interrupt_gap_ns);
        Ok(Self {
            qdisc: RootQdisc::new(Box::new(Prio::new(setup.qdisc_packets)), pool.region(), clock.clone()),
            bql: Bql::new(Duration::from_nanos(setup.hold_ns)),
            batch: Batch::new(64),
            nic,
            in_nic: VecDeque::new(),
            infos: vec![Info::Free; FRAMES as usize],
            totals: Totals::default(),
            streams: (0..setup.streams).map(|_| Stream::new(setup.rules)).collect(),
            cache: pool.cache("host")?,
            pool,
            random,
            far,
            answers: VecDeque::new(),
            probes: Vec::new(),
            limits: Vec::new(),
            passing: Batch::new(1),
            busy: false,
            tasks: Tasks::default(),
            entered: 0,
            left: 0,
            fault: None,
            setup,
        })
    }

    pub(super) fn start(&mut self, agenda: &mut Agenda) {
        agenda.set(TIMER, self.random.below(1_000_000));
        for kind in Kind::ALL {
            agenda.set(PROBES + kind as usize, 1 + self.random.below(1_000_000));
        }
    }

    /// Enqueues a packet. True if there was room.
    fn enqueue(&mut self, info: Info, band: u8, len_bytes: u32) -> bool {
        if self.qdisc.backpressure().room(band) == 0 {
            return false;
        }
        if !matches!(self.cache.take(&mut self.passing, 1, len_bytes), Ok(1)) {
            self.passing = Batch::new(1);
            return false;
        }
        let Some(mut frame) = self.passing.pop() else { return false };
        frame.set_band(band + 1);
        self.infos[frame.index() as usize] = info;
        let pushed = self.passing.push(frame);
        debug_assert!(pushed.is_ok(), "it was empty");
        let bypasses = self.qdisc.held() == 0 && self.batch.is_empty();
        self.qdisc.enqueue(&mut self.passing);
        self.entered += 1;
        if bypasses {
            self.bypasses();
        }
        self.tasks.runs = true;
        true
    }

    /// Enqueues all that stream `number` may send now. Returns TCP's time for it.
    pub(super) fn pump(&mut self, number: usize, now_ns: u64) -> u64 {
        let mut work_ns = 0;
        while !self.setup.time.is_over(now_ns)
            && let Some(piece) = self.streams[number].source.next(now_ns)
        {
            work_ns += self.random.around(self.setup.costs.send_ns, self.setup.time.jitter_permille);
            let len_bytes = piece.len_bytes + self.setup.header_bytes;
            if !self.enqueue(Info::Stream { number, piece, sent_ns: now_ns, cut: 0 }, NORMAL, len_bytes) {
                // Dropped at the tail; recovery will find out.
                self.streams[number].source.completed(&piece);
                break;
            }
        }
        work_ns
    }

    /// Sends a probe, unless its band is full. Its program then waits for ever; that of high priority never
    /// does.
    fn asks(&mut self, kind: Kind, now_ns: u64, agenda: &mut Agenda) {
        if self.setup.time.is_over(now_ns) {
            return;
        }
        self.enqueue(Info::Probe { kind, sent_ns: now_ns }, kind.band(), kind.bytes(&self.setup));
        if !kind.follows() {
            agenda.set(PROBES + kind as usize, now_ns + self.setup.ping_every_ns);
        }
    }

    /// Frees the buffer of a super-packet that has left. Returns its stream, if that may go on.
    pub(super) fn frees(&mut self, index: u32) -> Option<usize> {
        self.left += 1;
        match self.in_nic.pop_front() {
            Some(frame) if frame.index() == index => {
                let given = self.cache.give_one(frame);
                debug_assert!(given.is_ok(), "there is only one pool");
            }
            other => {
                let what = format!("buffer {index} has left before {other:?}");
                self.fault = Some(RunError::Order { what });
            }
        }
        match std::mem::replace(&mut self.infos[index as usize], Info::Free) {
            Info::Stream { number, piece, .. } => {
                self.streams[number].source.completed(&piece).then_some(number)
            }
            Info::Probe { .. } | Info::Free => None,
        }
    }

    /// Sends the driver's packets, and schedules the answers to them.
    fn doorbell(&mut self, now_ns: u64) {
        let Self { nic, infos, streams, answers, setup, far, fault, .. } = self;
        nic.doorbell(now_ns, &mut |at_ns, packet| {
            let seen_ns = far.interrupt_after_ns(at_ns);
            match &infos[packet.index as usize] {
                Info::Probe { kind, sent_ns } => {
                    let seen_ns = if setup.far_shared { seen_ns } else { at_ns };
                    let probe = Probe { sent_ns: *sent_ns, transaction_ns: 0 };
                    come(answers, seen_ns + setup.round_trip_ns, Answer::Probe(*kind, probe));
                }
                Info::Stream { number, piece, sent_ns, .. } if packet.last => {
                    let stream = &mut streams[*number];
                    if !piece.again && piece.from < stream.next_out {
                        let what = format!("stream {number}: {piece:?} after {}", stream.next_out);
                        *fault = Some(RunError::Order { what });
                    }
                    stream.next_out = stream.next_out.max(piece.to());
                    let sent_ns = (!piece.again).then_some(*sent_ns);
                    let range = (piece.from, piece.to());
                    let ack = stream.receiver.received(at_ns, range, sent_ns, setup.rules.mss_bytes);
                    if let Some(ack) = ack {
                        come(answers, seen_ns + setup.round_trip_ns, Answer::Ack(*number, ack));
                    }
                }
                Info::Stream { .. } => {}
                Info::Free => *fault = Some(RunError::Order { what: format!("{packet:?} is nothing") }),
            }
        });
    }

    /// Begins the processor's next work.
    fn next_work(&mut self, now_ns: u64, agenda: &mut Agenda) {
        let work_ns = self.next_step(now_ns, agenda);
        self.busy = work_ns.is_some();
        if let Some(work_ns) = work_ns {
            agenda.set(CPU, now_ns + work_ns.max(1));
        }
        self.interrupt_due(now_ns, agenda);
    }

    fn interrupt_due(&mut self, now_ns: u64, agenda: &mut Agenda) {
        let answer_ns = self.answers.front().map(|&(at_ns, _)| at_ns);
        match self.nic.interrupt_at_ns(answer_ns) {
            // Interrupts due while they were masked come now.
            Some(at_ns) => agenda.set(INTERRUPT, at_ns.max(now_ns)),
            None => agenda.clear(INTERRUPT),
        }
    }

    /// Handles the timeouts of streams, and schedules the next look.
    fn timers(&mut self, now_ns: u64, agenda: &mut Agenda) {
        for number in 0..self.streams.len() {
            self.streams[number].source.timed_out(now_ns);
            // TCP's time for it is charged with the next poll: it is rare.
            self.pump(number, now_ns);
        }
        if !self.setup.time.is_over(now_ns) {
            agenda.set(TIMER, now_ns + 10_000_000);
        }
    }

    /// Returns the sums up to now.
    pub(super) fn totals(&self, _: u64) -> Totals {
        Totals {
            packets: self.nic.packets,
            probes: self.probes.len(),
            limits: self.limits.len(),
            ..self.totals
        }
    }

    /// Checks the rules. Returns the result.
    pub(super) fn finish(self, before: Totals, after: Totals) -> Result<Outcome, RunError> {
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        let (accepted, left) = (self.entered, self.left);
        if accepted != left || !self.nic.is_empty() || self.bql.in_flight() != 0 {
            return Err(RunError::Conservation { queue: 0, accepted, left });
        }
        let packets_in_all = self.nic.packets;
        drop(self.cache);
        harness::check_ledger(&self.pool)?;
        Ok(Outcome {
            from_ns: self.setup.time.settle_ns,
            measured_ns: self.setup.time.measure_ns,
            packets: after.packets - before.packets,
            requeues: after.requeues - before.requeues,
            bulks: after.bulks - before.bulks,
            super_packets: after.super_packets - before.super_packets,
            probes: self.probes[before.probes..after.probes].to_vec(),
            limits: self.limits[before.limits.saturating_sub(1)..after.limits].to_vec(),
            packets_in_all,
        })
    }
}

/// Inserts `answer`, in order of arrival.
fn come(answers: &mut VecDeque<(u64, Answer)>, at_ns: u64, answer: Answer) {
    let behind = answers.iter().rev().take_while(|(other_ns, _)| *other_ns > at_ns).count();
    answers.insert(answers.len() - behind, (at_ns, answer));
}

impl World for Host {
    fn act(&mut self, slot: usize, now_ns: u64, agenda: &mut Agenda) {
        match slot {
            CPU => {
                self.doorbell(now_ns);
                self.busy = false;
            }
            INTERRUPT => {
                self.nic.interrupts(now_ns);
                self.tasks.polls = true;
            }
            TIMER => self.timers(now_ns, agenda),
            _ => self.asks(Kind::ALL[slot - PROBES], now_ns, agenda),
        }
        if !self.busy {
            self.next_work(now_ns, agenda);
        }
    }
}
