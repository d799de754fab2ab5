use super::*;
use crate::pool::{Cache, PoolError};
use crate::sg_writer::Memory;
use proptest::prelude::*;
use std::collections::VecDeque;
use wharf_mem::{Batch, Meta};
use wharf_packet::gso::GSO_UDP;
use wharf_packet::gso::GsoPlan;

const HEADER_BYTES: usize = 14 + 20 + 8;

/// Takes as many frames at a time as it was told, and keeps their bytes.
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

    /// What is inside has left.
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
    fn send_now(&mut self, burst: &mut Burst) -> Result<(), QueueError> {
        if self.is_closed {
            return Err(QueueError::Closed);
        }
        let room = self.rooms.pop_front().unwrap_or(usize::MAX).min(self.inside.room());
        let region = self.cache.pool().region().clone();
        for frame in burst.frames().iter().take(room) {
            self.seen.push(region.chunks(frame).unwrap().flatten().copied().collect());
        }
        self.inside.append(burst.batch_mut(), room);
        Ok(())
    }
}

/// A datagram of so many bytes of payload, in segments of `gso_bytes`.
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

/// What is to leave of a packet.
fn expected(bytes: &[u8], gso_bytes: Option<u16>, longest_bytes: u64) -> Vec<Vec<u8>> {
    let Some(gso_bytes) = gso_bytes else { return vec![bytes.to_vec()] };
    let Ok(cut) = GsoPlan::new(bytes, GSO_UDP, gso_bytes) else { return vec![bytes.to_vec()] };
    let wire_bytes = bytes.len() + (cut.segments() - 1) * HEADER_BYTES;
    if wire_bytes as u64 <= longest_bytes || cut.segments() == 1 {
        return vec![bytes.to_vec()];
    }
    let piece = |at| {
        let mut piece = vec![0; cut.segment_bytes(at)];
        cut.write(bytes, at, &mut piece);
        piece
    };
    (0..cut.segments()).map(piece).collect()
}

proptest! {
    #[test]
    fn pieces_and_others_leave_in_order_whatever_fits_at_a_time(
        packets in prop::collection::vec((0usize..1400, prop::option::of(prop::sample::select(vec![0, 100, 300]))), 1..30),
        rooms in prop::collection::vec(0usize..9, 0..60), longest_bytes in 42u64..1600,
    ) {
        let pool = PagePool::builder().frames(1024).huge_pages(false).build().unwrap();
        let (mut taker, mut cache) = (Taker::new(&pool, &rooms), pool.cache("source").unwrap());
        let (mut shortener, mut burst) = (GsoLimiter::new(&pool, longest_bytes), pool.burst(64));
        let mut wanted = Vec::new();
        for (number, &(payload_bytes, gso_bytes)) in packets.iter().enumerate() {
            let bytes = packet(number as u8, payload_bytes);
            put(&mut cache, &mut burst, &bytes, gso_bytes);
            wanted.extend(expected(&bytes, gso_bytes, longest_bytes));
        }
        for _ in 0..=rooms.len() + packets.len() {
            shortener.send(&mut burst, &mut taker).unwrap();
            let (cut, pieces) = shortener.counts();
            prop_assert_eq!(packets.len() - burst.len() + pieces as usize, taker.seen.len() + cut as usize);
            taker.complete();
        }
        prop_assert!(burst.is_empty());
        prop_assert_eq!(&taker.seen, &wanted);
        drop((shortener, burst, taker));
        prop_assert_eq!(pool.audit().out(), 0);
    }
}

/// All but the packet's own memory is somebody else's, at first.
#[test]
fn without_memory_a_packet_goes_whole_and_one_that_has_begun_waits() {
    let pool = PagePool::builder().frames(32).huge_pages(false).build().unwrap();
    let (mut taker, mut cache) = (Taker::new(&pool, &[]), pool.cache("source").unwrap());
    let (mut shortener, mut burst) = (GsoLimiter::new(&pool, 500), pool.burst(8));
    let bytes = packet(1, 1000);
    put(&mut cache, &mut burst, &bytes, Some(100));
    let mut others = pool.burst(64);
    while cache.fill(&mut others, 1, 60).is_ok() {}
    shortener.send(&mut burst, &mut taker).unwrap();
    assert_eq!((taker.seen.len(), taker.seen[0].len(), shortener.counts()), (1, bytes.len(), (0, 0)));
    assert!(burst.is_empty());
    taker.complete();
    put_back(&mut cache, &mut others);
    put(&mut cache, &mut burst, &bytes, Some(100));
    let mut its_own = Batch::new(4);
    taker.cache.take(&mut its_own, 4, 60).unwrap();
    while cache.fill(&mut others, 1, 60).is_ok() {}
    while taker.cache.fill(&mut others, 1, 60).is_ok() {}
    taker.cache.give(&mut its_own).unwrap();
    shortener.send(&mut burst, &mut taker).unwrap();
    let first = shortener.counts();
    assert!(first.0 == 0 && (1..10).contains(&first.1), "{first:?}");
    assert_eq!(burst.len(), 1, "it counts as one until it has gone");
    while !burst.is_empty() {
        taker.complete();
        shortener.send(&mut burst, &mut taker).unwrap();
    }
    assert_eq!(shortener.counts(), (1, 10));
    assert_eq!(taker.seen[1..], expected(&bytes, Some(100), 500));
}

fn put_back(cache: &mut Cache, burst: &mut Burst) {
    cache.give(burst.batch_mut()).unwrap();
}

#[test]
fn a_closed_queue_leaves_the_packet_and_frees_the_pieces() {
    let pool = PagePool::builder().frames(64).huge_pages(false).build().unwrap();
    let (mut taker, mut cache) = (Taker::new(&pool, &[3]), pool.cache("source").unwrap());
    let (mut shortener, mut burst) = (GsoLimiter::new(&pool, 500), pool.burst(8));
    put(&mut cache, &mut burst, &packet(1, 1000), Some(100));
    shortener.send(&mut burst, &mut taker).unwrap();
    assert_eq!((taker.seen.len(), burst.len()), (3, 1));
    taker.is_closed = true;
    assert!(shortener.send(&mut burst, &mut taker).is_err());
    assert_eq!(burst.len(), 1);
    taker.complete();
    drop((burst, taker));
    assert_eq!(pool.audit().out(), 0, "the shortener keeps nothing");
}
