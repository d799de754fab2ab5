//! `check`: tries the invariants of a discipline on a random sequence of calls.
//!
//! For tests, ours and a third party's: `contract::check(seed, Box::new(Mine::new(...)))` for some hundred
//! seeds.

use super::{Limit, Qdisc, RootQdisc, set_priority};
use crate::host::Clock;
use crate::pool::{Cache, PagePool};
use crate::random::SplitMix64;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use wharf_mem::{Batch, Frame};

const FRAMES: u32 = 512;
const STEPS: usize = 300;
const BURST_MAX: usize = 64;
const FLOWS: u64 = 20;
/// Ethernet, IPv4 and UDP headers, and the sequence number behind them.
const HEADER_BYTES: usize = 42;
const FRAME_BYTES_MIN: u64 = 64;
const FRAME_BYTES_MAX: u64 = 1514;

/// A clock that the caller moves.
#[derive(Debug, Default)]
pub struct ManualClock(AtomicU64);

impl ManualClock {
    /// Moves it on by `ns`.
    pub fn advance(&self, ns: u64) {
        self.0.fetch_add(ns, Relaxed);
    }
}

impl Clock for ManualClock {
    fn now_ns(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// Writes the headers of an Ethernet, IPv4 and UDP packet of flow `flow` into `bytes`, with the TOS byte
/// `tos`, and `number` behind them as far as there is room.
pub fn write_packet(bytes: &mut [u8], flow: u16, tos: u8, number: u64) {
    let total_bytes = (bytes.len() as u16).saturating_sub(14);
    let mut header = [0; HEADER_BYTES];
    header[12..14].copy_from_slice(&[8, 0]);
    (header[14], header[15], header[22], header[23]) = (0x45, tos, 64, 17);
    header[16..18].copy_from_slice(&total_bytes.to_be_bytes());
    header[26..34].copy_from_slice(&[10, 0, 0, 1, 10, 0, 0, 2]);
    header[34..36].copy_from_slice(&flow.to_be_bytes());
    header[36..38].copy_from_slice(&9u16.to_be_bytes());
    header[38..40].copy_from_slice(&total_bytes.saturating_sub(20).to_be_bytes());
    let sum = !wharf_packet::checksum::fold(wharf_packet::checksum::sum(&header[14..34]));
    header[24..26].copy_from_slice(&sum.to_be_bytes());
    let all = header.into_iter().chain(number.to_be_bytes());
    bytes.iter_mut().zip(all).for_each(|(byte, value)| *byte = value);
}

/// Tries the discipline, which is empty, on a sequence of calls that `seed` gives.
///
/// # Panics
/// If the discipline breaks an invariant. The message names it.
pub fn check(seed: u64, qdisc: Box<dyn Qdisc>) {
    let pool = PagePool::builder().frames(FRAMES).build().expect("memory for 512 frames");
    let clock = Arc::new(ManualClock::default());
    clock.advance(1_000_000_000);
    let mut trial = Trial {
        name: qdisc.name(),
        root: RootQdisc::new(qdisc, pool.region(), clock.clone()),
        clock,
        cache: pool.cache("contract").expect("a new pool has caches"),
        random: SplitMix64::new(seed),
        next_number: 0,
        last: BTreeMap::new(),
        taken: 0,
        left: 0,
        dropped: 0,
    };
    trial.root.reserve(BURST_MAX);
    for _ in 0..STEPS {
        match trial.random.below(8) {
            0..=2 => trial.enqueue(),
            3..=5 => trial.dequeue(),
            6 => trial.clock_advances(),
            _ => trial.trim(),
        }
        trial.look();
    }
    trial.end();
}

struct Trial {
    name: &'static str,
    root: RootQdisc,
    clock: Arc<ManualClock>,
    cache: Cache,
    random: SplitMix64,
    next_number: u64,
    /// By flow and band, the number that left last.
    last: BTreeMap<(u16, u8), u64>,
    taken: u64,
    left: u64,
    dropped: u64,
}

impl Trial {
    fn enqueue(&mut self) {
        let (mut from, count) = (Batch::new(BURST_MAX), 1 + self.random.below(BURST_MAX as u64) as usize);
        for _ in 0..count {
            let len_bytes = FRAME_BYTES_MIN + self.random.below(FRAME_BYTES_MAX - FRAME_BYTES_MIN);
            let mut one = Batch::new(1);
            if !matches!(self.cache.take(&mut one, 1, len_bytes as u32), Ok(1)) {
                break;
            }
            let (flow, tos) = (self.random.below(FLOWS) as u16, self.random.below(4) as u8);
            let priority = self.random.below(8) as u8;
            let Some(mut frame) = one.pop() else { break };
            if let Ok(bytes) = self.cache.pool().region().bytes_mut(&mut frame) {
                write_packet(bytes, flow, tos, self.next_number);
            }
            set_priority(&mut frame, priority);
            self.next_number += 1;
            assert!(from.push(frame).is_ok());
        }
        let (offered, storage) = (from.len(), self.root.storage());
        self.root.begin();
        self.root.enqueue(&mut from);
        let taken = offered - from.len();
        assert!(
            taken >= offered.min(storage),
            "{}: took {taken} of {offered} with storage {storage}",
            self.name
        );
        self.taken += taken as u64;
        assert!(self.cache.give(&mut from).is_ok());
        self.take_dropped();
    }

    fn dequeue(&mut self) {
        let packets = 1 + self.random.below(BURST_MAX as u64) as usize;
        let bytes = if self.random.below(2) == 0 { u64::MAX } else { 1 + self.random.below(10_000) };
        let mut to = Batch::new(BURST_MAX);
        self.root.begin();
        let moved = self.root.dequeue(&mut to, Limit { packets, bytes });
        assert!(moved <= packets && moved == to.len(), "{}: {moved} of at most {packets} packets", self.name);
        let before_last = to.bytes() - to.frames().last().map_or(0, |frame| u64::from(frame.len_bytes()));
        assert!(moved <= 1 || before_last < bytes, "{}: {before_last} bytes, then another", self.name);
        self.take_dropped();
        self.took_out(&mut to);
        if moved == 0 && self.root.held() > 0 {
            self.event_brings_a_frame();
        }
    }

    /// Order within a flow and band.
    fn took_out(&mut self, to: &mut Batch) {
        for frame in to.frames() {
            let (key, number) = self.key_of(frame);
            let last = self.last.insert(key, number);
            assert!(last < Some(number), "{}: {number} of {key:?} leaves after {last:?}", self.name);
        }
        self.left += to.len() as u64;
        assert!(self.cache.give(to).is_ok());
    }

    fn key_of(&self, frame: &Frame) -> ((u16, u8), u64) {
        let bytes = self.cache.pool().region().bytes(frame).unwrap_or_default();
        let number =
            bytes[HEADER_BYTES..HEADER_BYTES + 8].iter().fold(0, |sum, &byte| sum << 8 | u64::from(byte));
        ((u16::from_be_bytes([bytes[34], bytes[35]]), frame.band()), number)
    }

    /// A discipline that holds frames back says until when.
    fn event_brings_a_frame(&mut self) {
        let before = self.root.held();
        for _ in 0..4 {
            let Some(due_ns) = self.root.next_event_ns() else {
                panic!("{}: holds {before} frames back and gives no time", self.name)
            };
            self.clock.advance(due_ns);
            let mut to = Batch::new(BURST_MAX);
            self.root.begin();
            self.root.dequeue(&mut to, Limit::NONE);
            self.took_out(&mut to);
            self.take_dropped();
            if self.root.held() < before {
                return;
            }
        }
        panic!("{}: the time that it gave brings no frame", self.name);
    }

    fn clock_advances(&mut self) {
        let ns = self.random.below(50_000_000);
        self.clock.advance(ns);
    }

    fn trim(&mut self) {
        if self.root.backpressure().full_bands() != 0 {
            self.root.begin();
            self.root.trim();
            self.take_dropped();
        }
    }

    fn take_dropped(&mut self) {
        let (mut to, mut counted, mut taken) = (Batch::new(BURST_MAX), 0, 0);
        loop {
            let count = self.root.take_dropped(&mut to, |(_, count)| counted += count);
            if count == 0 {
                break;
            }
            taken += count as u64;
            assert!(self.cache.give(&mut to).is_ok());
        }
        assert_eq!(counted, taken, "{}: a reason for each dropped frame", self.name);
        self.dropped += taken;
    }

    /// Its own figures agree with each other.
    fn look(&self) {
        let (qdisc, mut seen) = (self.root.qdisc(), 0);
        qdisc.visit(&mut |_| seen += 1);
        assert_eq!((seen, qdisc.is_empty()), (qdisc.len(), seen == 0), "{}: visit, len", self.name);
        let inside = self.taken - self.left - self.dropped;
        assert_eq!(qdisc.len() as u64, inside, "{}: taken = left + dropped + inside", self.name);
        let pressure = qdisc.backpressure();
        for band in 0..wharf_mem::frame::BANDS_MAX {
            let is_full = pressure.full_bands() & 1 << band != 0;
            assert_eq!(is_full, pressure.room(band) == 0, "{}: room of a full band {band}", self.name);
            assert!(!qdisc.is_empty() || pressure.has_drained(band), "{}: empty, so drained", self.name);
        }
        qdisc.stats(&mut |name, _| assert!(!name.is_empty()));
    }

    fn end(mut self) {
        let mut to = Batch::new(BURST_MAX);
        while self.root.purge(&mut to) > 0 {
            self.left += to.len() as u64;
            assert!(self.cache.give(&mut to).is_ok());
        }
        assert_eq!((self.root.held(), self.taken), (0, self.left + self.dropped), "{}: purge", self.name);
        let pool = self.cache.pool().clone();
        drop((self.root, self.cache));
        assert_eq!(pool.audit().out(), 0, "{}: frames did not come back", self.name);
    }
}
