//! Super-packets longer than a token bucket, before the queue.

use proptest::prelude::*;
use std::collections::VecDeque;
use wharf_core::gso::GsoLimiter;
use wharf_core::pool::{Burst, Cache, PagePool, PoolError};
use wharf_core::sender::{SendError, SendNow};
use wharf_core::sg_writer::Memory;
use wharf_mem::{Batch, Frame, Meta};
use wharf_packet::gso::{GSO_UDP, GsoPlan};

const HEADER_BYTES: usize = 14 + 20 + 8;

/// A sender that takes a given number of frames per call, and keeps their bytes.
struct Taker {
    cache: Cache,
    rooms: VecDeque<usize>,
    inside: Batch,
    seen: Vec<Vec<u8>>,
    is_closed: bool,
}

impl Taker {
    fn new(pool: &PagePool, rooms: &[usize]) -> Self {
        let (cache, rooms) = (pool.cache("taker").unwrap(), rooms.iter().copied().collect());
        Self { cache, rooms, inside: Batch::new(256), seen: Vec::new(), is_closed: false }
    }

    /// Completes all frames inside.
    fn complete(&mut self) {
        self.cache.give(&mut self.inside).unwrap();
    }
}

impl Memory for Taker {
    fn pool(&self) -> &PagePool {
        self.cache.pool()
    }

    fn take(&mut self, to: &mut Batch, count: usize, len_bytes: u32) -> Result<usize, PoolError> {
        self.cache.take(to, count, len_bytes)
    }

    fn give_one(&mut self, frame: Frame) -> Result<(), (PoolError, Frame)> {
        self.cache.give_one(frame)
    }
}

impl SendNow for Taker {
    fn send_now(&mut self, burst: &mut Burst) -> Result<(), SendError> {
        if self.is_closed {
            return Err(SendError::Closed);
        }
        let room = self.rooms.pop_front().unwrap_or(usize::MAX).min(self.inside.room());
        let region = self.cache.pool().region().clone();
        for frame in burst.frames().iter().take(room) {
            self.seen.push(region.chunks(frame).unwrap().flatten().copied().collect());
        }
        let taken = std::iter::from_fn(|| burst.pop_frame()).take(room);
        taken.for_each(|frame| self.inside.push(frame).unwrap());
        Ok(())
    }
}

/// A UDP packet with `payload_bytes`.
fn packet(number: u8, payload_bytes: usize) -> Vec<u8> {
    let mut bytes = vec![number; HEADER_BYTES + payload_bytes];
    let ip_bytes = (payload_bytes + 28) as u16;
    bytes[12..14].copy_from_slice(&[8, 0]);
    bytes[14..24].copy_from_slice(&[0x45, 0, (ip_bytes >> 8) as u8, ip_bytes as u8, 0, number, 0, 0, 64, 17]);
    bytes[38..40].copy_from_slice(&(payload_bytes as u16 + 8).to_be_bytes());
    bytes
}

fn put(cache: &mut Cache, burst: &mut Burst, bytes: &[u8], gso_bytes: Option<u16>) {
    let mut packet = cache.packet(bytes.len() as u32).unwrap();
    packet.bytes_mut().copy_from_slice(bytes);
    if let Some(gso_bytes) = gso_bytes {
        let meta =
            Meta { gso_kind: GSO_UDP, gso_bytes, checksum_start: 34, checksum_offset: 6, ..Meta::default() };
        packet.set_meta(&meta);
    }
    burst.push(packet).unwrap();
}

/// The packets that should leave in place of one.
fn expected(bytes: &[u8], gso_bytes: Option<u16>, longest_bytes: u64) -> Vec<Vec<u8>> {
    let Some(gso_bytes) = gso_bytes else { return vec![bytes.to_vec()] };
    let Ok(plan) = GsoPlan::new(bytes, GSO_UDP, gso_bytes) else { return vec![bytes.to_vec()] };
    let wire_bytes = bytes.len() + (plan.segments() - 1) * HEADER_BYTES;
    if wire_bytes as u64 <= longest_bytes || plan.segments() == 1 {
        return vec![bytes.to_vec()];
    }
    let piece = |at| {
        let mut piece = vec![0; plan.segment_bytes(at)];
        plan.write(bytes, at, &mut piece);
        piece
    };
    (0..plan.segments()).map(piece).collect()
}

proptest! {
    #[test]
    fn any_room_per_call_then_segments_and_packets_leave_in_order(
        packets in prop::collection::vec((0usize..1400, prop::option::of(prop::sample::select(vec![0, 100, 300]))), 1..30),
        rooms in prop::collection::vec(0usize..9, 0..60), longest_bytes in 42u64..1600,
    ) {
        let pool = PagePool::builder().frames(1024).huge_pages(false).build().unwrap();
        let (mut taker, mut cache) = (Taker::new(&pool, &rooms), pool.cache("source").unwrap());
        let (mut limiter, mut burst) = (GsoLimiter::new(&pool, longest_bytes), pool.burst(64));
        let mut wanted = Vec::new();
        for (number, &(payload_bytes, gso_bytes)) in packets.iter().enumerate() {
            let bytes = packet(number as u8, payload_bytes);
            put(&mut cache, &mut burst, &bytes, gso_bytes);
            wanted.extend(expected(&bytes, gso_bytes, longest_bytes));
        }
        for _ in 0..=rooms.len() + packets.len() {
            limiter.send(&mut burst, &mut taker).unwrap();
            let (cut, pieces) = limiter.counts();
            prop_assert_eq!(packets.len() - burst.len() + pieces as usize, taker.seen.len() + cut as usize);
            taker.complete();
        }
        prop_assert!(burst.is_empty());
        prop_assert_eq!(&taker.seen, &wanted);
        drop((limiter, burst, taker));
        prop_assert_eq!(pool.audit().out(), 0);
    }
}

/// At first the others hold all memory but the packet's own.
#[test]
fn no_memory_then_a_packet_goes_whole_and_a_begun_one_waits() {
    let pool = PagePool::builder().frames(32).huge_pages(false).build().unwrap();
    let (mut taker, mut cache) = (Taker::new(&pool, &[]), pool.cache("source").unwrap());
    let (mut limiter, mut burst) = (GsoLimiter::new(&pool, 500), pool.burst(8));
    let bytes = packet(1, 1000);
    put(&mut cache, &mut burst, &bytes, Some(100));
    let mut others = pool.burst(64);
    while cache.fill(&mut others, 1, 60).is_ok() {}
    limiter.send(&mut burst, &mut taker).unwrap();
    assert_eq!((taker.seen.len(), taker.seen[0].len(), limiter.counts()), (1, bytes.len(), (0, 0)));
    assert!(burst.is_empty());
    taker.complete();
    put_back(&mut cache, &mut others);
    put(&mut cache, &mut burst, &bytes, Some(100));
    let mut its_own = Batch::new(4);
    taker.cache.take(&mut its_own, 4, 60).unwrap();
    while cache.fill(&mut others, 1, 60).is_ok() {}
    while taker.cache.fill(&mut others, 1, 60).is_ok() {}
    taker.cache.give(&mut its_own).unwrap();
    limiter.send(&mut burst, &mut taker).unwrap();
    let first = limiter.counts();
    assert!(first.0 == 0 && (1..10).contains(&first.1), "{first:?}");
    assert_eq!(burst.len(), 1, "it counts as one until it has gone");
    while !burst.is_empty() {
        taker.complete();
        limiter.send(&mut burst, &mut taker).unwrap();
    }
    assert_eq!(limiter.counts(), (1, 10));
    assert_eq!(taker.seen[1..], expected(&bytes, Some(100), 500));
}

fn put_back(cache: &mut Cache, burst: &mut Burst) {
    std::iter::from_fn(|| burst.pop_frame()).for_each(|frame| cache.give_one(frame).unwrap());
}

#[test]
fn queue_closes_then_the_packet_stays_and_segments_are_freed() {
    let pool = PagePool::builder().frames(64).huge_pages(false).build().unwrap();
    let (mut taker, mut cache) = (Taker::new(&pool, &[3]), pool.cache("source").unwrap());
    let (mut limiter, mut burst) = (GsoLimiter::new(&pool, 500), pool.burst(8));
    put(&mut cache, &mut burst, &packet(1, 1000), Some(100));
    limiter.send(&mut burst, &mut taker).unwrap();
    assert_eq!((taker.seen.len(), burst.len()), (3, 1));
    taker.is_closed = true;
    assert!(limiter.send(&mut burst, &mut taker).is_err());
    assert_eq!(burst.len(), 1);
    taker.complete();
    drop((burst, taker));
    assert_eq!(pool.audit().out(), 0, "the limiter keeps nothing");
}
