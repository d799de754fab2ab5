//! Arrivals from outside: frames are counted, and generated packets are checked by their stamps.

mod find;
mod host;
mod sequence;

pub use sequence::SequenceCounts;

use super::{Arrival, Check, Clocks, Latencies};
use find::{Ends, Found, stamp_in};
use host::is_of_host;
use sequence::Sequence;
use serde::Serialize;
use std::collections::HashMap;
use std::net::IpAddr;

/// Most senders told apart; packets of further ones count as unstamped.
pub const STREAMS_MAX: usize = 4096;
/// Longest one-way latency: beyond it the clocks of the two ends are unrelated.
const LATENCY_NS_MAX: i64 = 3_600_000_000_000;
/// Most by which a packet may seem to arrive before it was made: clocks are compared no more exactly.
const LATENCY_NS_MIN: i64 = -1_000_000;

/// The packets of one sender between two addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct StreamReport {
    /// IP source address.
    pub source: IpAddr,
    /// IP destination address.
    pub destination: IpAddr,
    /// Number of the sender.
    pub sender: u16,
    /// Number of the run that the sender is of, by its stamps.
    pub run: u8,
    /// Fates of its packets.
    #[serde(flatten)]
    pub counts: SequenceCounts,
}

/// The ends, the run and the sender.
type Key = (Ends, u8, u16);

/// Frames and bytes that arrived, and the time that they took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Amount {
    /// Frames.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Nanoseconds of CLOCK_MONOTONIC, negative before the machine started. Those of a file may step back.
    first_ns: i64,
    last_ns: i64,
}

impl Amount {
    /// Returns the nanoseconds from the first to the last arrival.
    pub fn span_ns(&self) -> u64 {
        self.last_ns.abs_diff(self.first_ns)
    }

    #[inline]
    fn add(&mut self, bytes: usize, now_ns: i64) {
        (self.first_ns, self.last_ns) = match self.packets {
            0 => (now_ns, now_ns),
            _ => (self.first_ns.min(now_ns), self.last_ns.max(now_ns)),
        };
        self.packets += 1;
        self.bytes += bytes as u64;
    }

    /// Returns both together.
    fn and(self, other: Self) -> Self {
        match (self.packets, other.packets) {
            (_, 0) => self,
            (0, _) => other,
            _ => Self {
                packets: self.packets + other.packets,
                bytes: self.bytes + other.bytes,
                first_ns: self.first_ns.min(other.first_ns),
                last_ns: self.last_ns.max(other.last_ns),
            },
        }
    }
}

/// All arrivals of a receiver.
///
/// Generated packets are recognised by their stamp, and each sender's numbers are followed (see [`SequenceCounts`]). All others are
/// counted. Allocates only when a sender appears for the first time.
#[derive(Debug, Default)]
pub struct Arrivals {
    all: Amount,
    /// Frames that carry a stamp.
    stamped: Amount,
    /// Frames that hosts send by themselves.
    of_hosts: Amount,
    /// Frames that are neither.
    others: Amount,
    streams: Vec<(Key, Sequence)>,
    places: HashMap<Key, usize>,
    /// Stream of the last packet: the next one is most likely of the same.
    last_place: usize,
    latencies: Latencies,
    clocks_differ: bool,
}

impl Arrivals {
    /// Returns the count of all frames.
    pub fn all(&self) -> Amount {
        self.all
    }

    /// Returns the count of the frames that carry a stamp. Traffic of others, which may begin long before, is not in its time.
    pub fn stamped(&self) -> Amount {
        self.stamped
    }

    /// Returns the count of the frames that hosts send by themselves: ARP, neighbour discovery, IGMP, LLDP and the like.
    pub fn of_hosts(&self) -> Amount {
        self.of_hosts
    }

    /// Returns the count of the traffic: all frames but those that hosts send by themselves, which may come long before it and after.
    pub fn traffic(&self) -> Amount {
        self.stamped.and(self.others)
    }

    /// Returns the number of frames without a stamp.
    pub fn unstamped(&self) -> u64 {
        self.all.packets - self.stamped.packets
    }

    /// Returns the fates of the packets of all senders together.
    pub fn counts(&self) -> SequenceCounts {
        let sum = |a: SequenceCounts, b: SequenceCounts| SequenceCounts {
            packets: a.packets + b.packets,
            lost: a.lost.saturating_add(b.lost),
            reordered: a.reordered + b.reordered,
            duplicated: a.duplicated + b.duplicated,
            lost_before_first: a.lost_before_first.saturating_add(b.lost_before_first),
        };
        self.streams.iter().map(|(_, sequence)| sequence.counts()).fold(SequenceCounts::default(), sum)
    }

    /// Returns the senders, in the order in which they appeared.
    pub fn streams(&self) -> impl Iterator<Item = StreamReport> {
        self.streams.iter().map(|((ends, run, sender), sequence)| StreamReport {
            source: ends.source,
            destination: ends.destination,
            sender: *sender,
            run: *run,
            counts: sequence.counts(),
        })
    }

    /// Returns the latencies from stamp to arrival. `None` without stamped packets, and if the stamps are of another machine, whose clock
    /// counts from another start.
    pub fn latencies(&self) -> Option<&Latencies> {
        (!self.clocks_differ && self.latencies.packets() > 0).then_some(&self.latencies)
    }

    #[inline]
    fn place(&mut self, key: Key) -> Option<usize> {
        match self.streams.get(self.last_place) {
            Some((last, _)) if *last == key => Some(self.last_place),
            _ => self.other_place(key),
        }
    }

    fn other_place(&mut self, key: Key) -> Option<usize> {
        let place = match self.places.get(&key) {
            Some(&place) => place,
            None if self.streams.len() == STREAMS_MAX => return None,
            None => {
                self.streams.push((key, Sequence::new()));
                self.places.insert(key, self.streams.len() - 1);
                self.streams.len() - 1
            }
        };
        self.last_place = place;
        Some(place)
    }

    #[inline]
    fn note_latency(&mut self, tos: u8, made_ns: u64, arrived_ns: u64) {
        match arrived_ns.wrapping_sub(made_ns) as i64 {
            latency_ns @ LATENCY_NS_MIN..=LATENCY_NS_MAX => {
                self.latencies.record(tos, latency_ns.max(0) as u64)
            }
            _ => self.clocks_differ = true,
        }
    }
}

impl Check for Arrivals {
    #[inline]
    fn check(&mut self, frame: &[u8], at: Arrival) {
        let now_ns = at.monotonic_ns as i64;
        self.all.add(frame.len(), now_ns);
        let found = stamp_in(frame).and_then(|Found { ends, tos, stamp }| {
            Some((self.place((ends, stamp.run, stamp.sender))?, tos, stamp))
        });
        let Some((place, tos, stamp)) = found else {
            let unstamped = if is_of_host(frame) { &mut self.of_hosts } else { &mut self.others };
            return unstamped.add(frame.len(), now_ns);
        };
        self.stamped.add(frame.len(), now_ns);
        self.streams[place].1.arrived(stamp.number, stamp.time_ns);
        self.note_latency(tos, stamp.time_ns, at.monotonic_ns);
    }

    fn clocks(&self) -> Clocks {
        Clocks::Both
    }
}
