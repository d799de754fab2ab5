//! Guest, vhost and peer, and the queues between them.

mod peer;
mod vhost;

use super::ring::{Content, Packet, Ring};
use super::setup::{Outcome, Totals};
use super::{Setup, Traffic};
use peer::Peer;
use std::collections::VecDeque;
use vhost::Vhost;
use wharf_sim::RunError;
use wharf_sim::engine::{Agenda, Random, World};
use wharf_sim::flows::tcp::{Ack, Receiver, Source};
use wharf_sim::flows::udp::UdpSource;

/// Slots of the agenda.
pub(super) const SLOTS: usize = 5;
pub(super) const GUEST: usize = 0;
pub(super) const VHOST: usize = 1;
pub(super) const PEER: usize = 2;
const TIMER: usize = 3;
const FREEING: usize = 4;

/// Interval of the checks of TCP's timeouts.
const TIMER_EVERY_NS: u64 = 10_000_000;
/// Headers of a packet.
pub(super) const HEADER_BYTES: u32 = 66;
/// Bytes that a datagram is charged beyond its payload.
const DATAGRAM_CHARGE_BYTES: u64 = 768;

/// A packet for the guest.
#[derive(Debug, Clone, Copy)]
pub(super) enum Inbound {
    Ack(usize, Ack),
    Answer {
        flow: usize,
        bytes: u32,
    },
    /// A packet without content that matters here, which is carried and received all the same.
    Bare,
}

/// A connection, or a socket.
#[derive(Debug)]
pub(super) struct Flow {
    pub(super) source: Source,
    pub(super) receiver: Receiver,
    pub(super) blast: UdpSource,
    /// True while its program waits for room to write more.
    pub(super) waits: bool,
    /// The time at which its program asked.
    pub(super) asked_ns: Option<u64>,
    /// True if an answer can be read.
    pub(super) answered: bool,
}

impl Flow {
    fn new(setup: &Setup) -> Self {
        let blast = match setup.traffic {
            Traffic::UdpStream { datagram_bytes } => {
                UdpSource::new(u64::from(datagram_bytes) + DATAGRAM_CHARGE_BYTES, setup.send_buffer_bytes)
            }
            _ => UdpSource::new(1, 1),
        };
        let source = Source::new(setup.rules);
        Self { source, receiver: Receiver::default(), blast, waits: false, asked_ns: None, answered: false }
    }
}

/// A thread of execution. Its work ends when its slot is due.
#[derive(Debug, Default)]
pub(super) struct Thread {
    pub(super) busy: bool,
    /// The time since which it is idle.
    idle_since_ns: u64,
    /// The beginning of its work.
    began_ns: u64,
    busy_ns: u64,
}

/// The whole machine.
pub(super) struct Machine {
    pub(super) setup: Setup,
    pub(super) random: Random,
    pub(super) flows: Vec<Flow>,
    pub(super) threads: [Thread; 3],
    pub(super) totals: Totals,
    /// The transmit ring.
    pub(super) ring: Ring,
    pub(super) written: Option<Packet>,
    pub(super) qdisc: VecDeque<Packet>,
    pub(super) stopped: bool,
    /// Packets received by the guest.
    pub(super) received: VecDeque<Inbound>,
    pub(super) receive_armed: bool,
    /// Interrupts to handle, of the transmit ring and of the other: the time of each.
    pub(super) interrupted: [Option<u64>; 2],
    pub(super) polls_transmitted: bool,
    pub(super) polls_received: bool,
    /// True if the timer has come to free buffers.
    pub(super) freeing: bool,
    /// Sockets that the next `epoll_wait` of the program will report.
    pub(super) ready: VecDeque<usize>,
    /// Sockets that the last one has reported, and that the program has not come to.
    pub(super) round: VecDeque<usize>,
    pub(super) told: VecDeque<usize>,
    pub(super) vhost: Vhost,
    pub(super) peer: Peer,
    pub(super) answers_ns: Vec<u64>,
    pub(super) entered: u64,
    pub(super) left: u64,
}

impl Machine {
    pub(super) fn new(setup: Setup) -> Self {
        let flows: Vec<Flow> = (0..setup.flows).map(|_| Flow::new(&setup)).collect();
        Self {
            random: setup.time.random(),
            threads: Default::default(),
            totals: Totals::default(),
            ring: Ring::new(setup.ring_descriptors),
            written: None,
            qdisc: VecDeque::new(),
            stopped: false,
            received: VecDeque::new(),
            receive_armed: true,
            interrupted: [None; 2],
            polls_transmitted: false,
            polls_received: false,
            freeing: false,
            ready: (0..flows.len()).collect(),
            round: VecDeque::new(),
            told: VecDeque::new(),
            vhost: Vhost::default(),
            peer: Peer::default(),
            answers_ns: Vec::new(),
            entered: 0,
            left: 0,
            flows,
            setup,
        }
    }

    pub(super) fn start(&mut self, agenda: &mut Agenda) {
        agenda.set(GUEST, self.random.below(100_000));
        agenda.set(TIMER, TIMER_EVERY_NS);
        if let super::Release::Timer { every_ns } = self.setup.release {
            agenda.set(FREEING, every_ns);
        }
    }

    /// Returns a time that varies by the jitter.
    pub(super) fn around(&mut self, ns: u64) -> u64 {
        self.random.around(ns, self.setup.time.jitter_permille)
    }

    /// Lets thread `at` work for `work_ns` from `now_ns` on.
    pub(super) fn work(&mut self, at: usize, now_ns: u64, work_ns: u64, agenda: &mut Agenda) {
        let work_ns = self.around(work_ns).max(1);
        let thread = &mut self.threads[at];
        if !thread.busy {
            thread.began_ns = now_ns;
        }
        thread.busy = true;
        agenda.set(at, now_ns + work_ns);
    }

    /// Ends the work of thread `at`.
    fn ends(&mut self, at: usize, now_ns: u64) {
        let thread = &mut self.threads[at];
        if thread.busy {
            thread.busy_ns += now_ns - thread.began_ns;
            (thread.busy, thread.idle_since_ns) = (false, now_ns);
        }
    }

    /// Wakes thread `at` if it is idle.
    pub(super) fn wakes(&mut self, at: usize, now_ns: u64, agenda: &mut Agenda) {
        if self.threads[at].busy || agenda.due_ns(at).is_some() {
            return;
        }
        let costs = self.setup.costs;
        let idle_ns = now_ns - self.threads[at].idle_since_ns;
        let latency_ns = match at {
            GUEST if idle_ns <= costs.halt_poll_ns => costs.poll_exit_ns,
            GUEST => costs.halt_exit_ns,
            _ => costs.wake_latency_ns,
        };
        if at == GUEST {
            self.threads[at].busy_ns += idle_ns.min(costs.halt_poll_ns);
        }
        let latency_ns = self.around(latency_ns);
        // A processor that leaves its sleep is at work.
        self.threads[at].busy_ns += latency_ns;
        agenda.set(at, now_ns + latency_ns);
    }

    /// True if thread `at` sleeps and was not woken.
    pub(super) fn sleeps(&self, at: usize, agenda: &Agenda) -> bool {
        !self.threads[at].busy && agenda.due_ns(at).is_none()
    }

    fn timers(&mut self, now_ns: u64, agenda: &mut Agenda) {
        if matches!(self.setup.traffic, Traffic::TcpStream { .. }) {
            for flow in 0..self.flows.len() {
                self.flows[flow].source.timed_out(now_ns);
                self.told.push_back(flow);
            }
            self.wakes(GUEST, now_ns, agenda);
        }
        if !self.setup.time.is_over(now_ns) {
            agenda.set(TIMER, now_ns + TIMER_EVERY_NS);
        }
    }

    fn frees(&mut self, now_ns: u64, agenda: &mut Agenda) {
        let super::Release::Timer { every_ns } = self.setup.release else { return };
        self.freeing = true;
        self.wakes(GUEST, now_ns, agenda);
        let under_way = self.entered != self.left + self.totals.dropped || self.ring.in_flight() > 0;
        if !self.setup.time.is_over(now_ns) || under_way {
            agenda.set(FREEING, now_ns + every_ns);
        }
    }

    /// Checks the rules. Returns the result.
    pub(super) fn finish(mut self, before: Totals, after: Totals) -> Result<Outcome, RunError> {
        // With `upstream` the last ones wait for a transmit that never comes.
        while self.ring.free_one().is_some() {}
        let inside =
            usize::from(self.written.is_some()) + self.qdisc.len() + usize::from(self.ring.in_flight());
        let inside = inside + self.received.len() + self.vhost.inbound.len() + self.peer.waiting();
        let (accepted, left) = (self.entered, self.left + self.totals.dropped);
        if inside > 0 || accepted != left {
            return Err(RunError::Conservation { queue: 0, accepted, left });
        }
        let charged = |flow: &Flow| flow.source.queued_bytes() > 0 || flow.blast.inside() > 0;
        if let Some(at) = self.flows.iter().position(charged) {
            return Err(RunError::Order { what: format!("flow {at} is charged for packets that have left") });
        }
        let measured_ns = self.setup.time.measure_ns;
        Ok(Outcome::between(measured_ns, &before, &after, &self.answers_ns, self.entered))
    }

    /// Returns the sums up to `now_ns`.
    pub(super) fn totals(&self, now_ns: u64) -> Totals {
        let busy = |thread: &Thread| {
            let now = if thread.busy { now_ns - thread.began_ns } else { 0 };
            thread.busy_ns + now
        };
        let mut busy_ns = [0, 1, 2].map(|at| busy(&self.threads[at]));
        let guest = &self.threads[GUEST];
        if !guest.busy {
            busy_ns[GUEST] += (now_ns - guest.idle_since_ns).min(self.setup.costs.halt_poll_ns);
        }
        Totals { busy_ns, answers: self.answers_ns.len(), ..self.totals }
    }
}

impl World for Machine {
    fn act(&mut self, slot: usize, now_ns: u64, agenda: &mut Agenda) {
        match slot {
            GUEST => {
                self.ends(GUEST, now_ns);
                self.guest_written(now_ns, agenda);
                self.guest_next(now_ns, agenda);
            }
            VHOST => {
                self.ends(VHOST, now_ns);
                self.vhost_carried(now_ns, agenda);
                self.vhost_next(now_ns, agenda);
            }
            PEER => {
                self.ends(PEER, now_ns);
                self.peer_called(now_ns, agenda);
                self.peer_next(now_ns, agenda);
            }
            TIMER => self.timers(now_ns, agenda),
            FREEING => self.frees(now_ns, agenda),
            _ => {}
        }
    }
}

/// Returns a packet's bytes on the way, headers included.
pub(super) fn carried_bytes(packet: &Packet) -> u32 {
    match packet.content {
        Content::Ack => HEADER_BYTES,
        _ => packet.bytes + HEADER_BYTES,
    }
}
