//! One TCP connection from end to end: a host's wire, a slower wire behind a tail-drop queue, and the way
//! back.
//!
//! It serves to compare the source with others; experiments put the source above a whole host.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use wharf_sim::engine::Random;
use wharf_sim::flows::tcp::{Ack, Piece, Receiver, Rules, Source};

/// Headers and time stamps of a packet, with Ethernet's overhead.
const HEADER_BYTES: u64 = 66 + 24;
/// The longest run.
const NS_MAX: u64 = 3_600_000_000_000;

/// The path between the ends.
#[derive(Debug, Clone, Copy)]
pub struct Way {
    /// The host's own wire, bits a second.
    pub host_bits_per_s: u64,
    /// The slowest wire.
    pub bits_per_s: u64,
    /// The queue before it, bytes.
    pub queue_bytes: u64,
    /// Delay one way, without queueing.
    pub delay_ns: u64,
    /// One packet in so many is lost at random; 0 for none.
    pub lost_one_in: u64,
    /// Seed of the losses.
    pub seed: u64,
}

/// The result of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transfer {
    /// The time at which the last byte had arrived in order.
    pub done_ns: u64,
    /// Bytes in order.
    pub bytes: u64,
    /// Packets on the host's wire.
    pub packets: u64,
    /// Packets sent again.
    pub again: u64,
    /// Packets dropped at the queue's tail, or at random.
    pub lost: u64,
    /// Super-packets.
    pub pieces: u64,
    /// The most bytes that the host held.
    pub held_bytes_max: u64,
    /// Timeouts.
    pub timeouts: u64,
}

impl Transfer {
    /// Returns the goodput in bits a second.
    pub fn bits_per_s(&self) -> u64 {
        (u128::from(self.bytes) * 8_000_000_000 / u128::from(self.done_ns.max(1))) as u64
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The host's wire has sent its piece.
    Sent,
    /// A packet arrives.
    Arrives { from: u64, to: u64, sent_ns: Option<u64> },
    /// An acknowledgement arrives.
    Answered(usize),
    /// The receiver's delayed acknowledgement is due.
    Answer,
    /// The sender's timeout is due.
    Timeout,
}

struct World {
    way: Way,
    mss_bytes: u32,
    source: Source,
    receiver: Receiver,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    sequence: u64,
    on_wire: VecDeque<Piece>,
    host_free_ns: u64,
    slow_free_ns: u64,
    /// The time of the timer event that is scheduled.
    timer_ns: Option<u64>,
    acks: Vec<Option<Ack>>,
    random: Random,
    transfer: Transfer,
}

/// Sends `bytes` by these rules. Returns the result.
pub fn transfer(rules: Rules, way: Way, bytes: u64) -> Transfer {
    let transfer = Transfer {
        done_ns: 0,
        bytes: 0,
        packets: 0,
        again: 0,
        lost: 0,
        pieces: 0,
        held_bytes_max: 0,
        timeouts: 0,
    };
    let mut world = World {
        way,
        mss_bytes: rules.mss_bytes,
        source: Source::new(rules),
        receiver: Receiver::default(),
        events: BinaryHeap::new(),
        sequence: 0,
        on_wire: VecDeque::new(),
        host_free_ns: 0,
        slow_free_ns: 0,
        timer_ns: None,
        acks: Vec::new(),
        random: Random::new(way.seed),
        transfer,
    };
    world.source.write(bytes);
    world.send(0);
    while !world.source.is_done() {
        let Some(Reverse((now_ns, _, event))) = world.events.pop() else { break };
        if now_ns > NS_MAX {
            break;
        }
        world.happens(now_ns, event);
    }
    world.transfer
}

impl World {
    fn at(&mut self, at_ns: u64, event: Event) {
        self.sequence += 1;
        self.events.push(Reverse((at_ns, self.sequence, event)));
    }

    fn happens(&mut self, now_ns: u64, event: Event) {
        match event {
            Event::Sent => {
                if let Some(piece) = self.on_wire.pop_front() {
                    self.source.completed(&piece);
                }
                self.send(now_ns);
            }
            Event::Arrives { from, to, sent_ns } => self.arrives(now_ns, (from, to), sent_ns),
            Event::Answered(at) => {
                if let Some(ack) = self.acks[at].take() {
                    self.source.acked(now_ns, &ack);
                }
                self.send(now_ns);
            }
            Event::Answer => {
                if self.receiver.answer_at_ns().is_some_and(|at_ns| at_ns <= now_ns) {
                    let ack = self.receiver.answer(None);
                    self.answers(now_ns, ack);
                }
            }
            Event::Timeout => {
                self.timer_ns = None;
                if self.source.timeout_at_ns().is_some_and(|at_ns| at_ns <= now_ns) {
                    self.transfer.timeouts += 1;
                    self.source.timed_out(now_ns);
                }
                self.send(now_ns);
            }
        }
    }

    fn arrives(&mut self, now_ns: u64, range: (u64, u64), sent_ns: Option<u64>) {
        let before = self.receiver.next();
        let ack = self.receiver.received(now_ns, range, sent_ns, self.mss_bytes);
        if self.receiver.next() > before {
            (self.transfer.bytes, self.transfer.done_ns) = (self.receiver.next(), now_ns);
        }
        match (ack, self.receiver.answer_at_ns()) {
            (Some(ack), _) => self.answers(now_ns, ack),
            (None, Some(at_ns)) => self.at(at_ns, Event::Answer),
            (None, None) => {}
        }
    }

    fn answers(&mut self, now_ns: u64, ack: Ack) {
        self.acks.push(Some(ack));
        self.at(now_ns + self.way.delay_ns, Event::Answered(self.acks.len() - 1));
    }

    /// Sends all that may leave now.
    fn send(&mut self, now_ns: u64) {
        while let Some(piece) = self.source.next(now_ns) {
            self.transfer.pieces += 1;
            self.transfer.again += u64::from(piece.again);
            self.transfer.held_bytes_max = self.transfer.held_bytes_max.max(self.source.queued_bytes());
            self.leaves(now_ns, &piece);
            self.on_wire.push_back(piece);
            self.at(self.host_free_ns, Event::Sent);
        }
        // One timer event at a time: when it comes, it checks whether the timeout has moved.
        if let Some(at_ns) = self.source.timeout_at_ns()
            && self.timer_ns.is_none_or(|timer_ns| timer_ns > at_ns)
        {
            self.timer_ns = Some(at_ns);
            self.at(at_ns, Event::Timeout);
        }
    }

    /// Sends a piece over the host's wire and, packet by packet, into the queue before the slow wire.
    fn leaves(&mut self, now_ns: u64, piece: &Piece) {
        self.host_free_ns = self.host_free_ns.max(now_ns);
        let mut from = piece.from;
        while from < piece.to() {
            let to = piece.to().min(from + u64::from(self.mss_bytes));
            let bits = (to - from + HEADER_BYTES) * 8;
            let time_ns = |rate: u64| bits * 1_000_000_000 / rate.max(1);
            self.host_free_ns += time_ns(self.way.host_bits_per_s);
            self.transfer.packets += 1;
            let begins_ns = self.slow_free_ns.max(self.host_free_ns);
            let waiting = u128::from(begins_ns - self.host_free_ns) * u128::from(self.way.bits_per_s);
            let unlucky = self.way.lost_one_in > 0 && self.random.below(self.way.lost_one_in) == 0;
            if unlucky || waiting / 8_000_000_000 > u128::from(self.way.queue_bytes) {
                self.transfer.lost += 1;
            } else {
                self.slow_free_ns = begins_ns + time_ns(self.way.bits_per_s);
                let sent_ns = (!piece.again).then_some(now_ns);
                self.at(self.slow_free_ns + self.way.delay_ns, Event::Arrives { from, to, sent_ns });
            }
            from = to;
        }
    }
}
