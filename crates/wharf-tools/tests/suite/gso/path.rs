//! Super-packets through the whole path, over a device that has to be helped: one packet each until they are cut.

use super::plain::{Plain, Seen};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use wharf_core::gso::{SegmentJob, SoftwareGso};
use wharf_core::pool::{Packet, PagePool};
use wharf_core::queue::{QueueBuilder, TxQueue};
use wharf_core::sender::Sender;
use wharf_core::wait::Wait;
use wharf_devices::host::{HostClock, HostPark, PollerThread};
use wharf_mem::{Batch, Meta};
use wharf_testkit::packets::{Shape, cut, frame_of, packet_of};
use wharf_testkit::threads::within_a_minute;
use wharf_testkit::{assert_conserved, pool};

const PACKETS: u32 = 300;

fn builder(pool: &PagePool, ring: usize) -> (QueueBuilder, Arc<Mutex<Seen>>) {
    let plain = Plain::new(ring, 1);
    let seen = plain.seen.clone();
    (TxQueue::builder(pool, Box::new(plain), Arc::new(HostClock), Arc::new(HostPark)), seen)
}

/// Packet `number` of sender `who`, which its address says: mostly super-packets, some ordinary ones.
fn numbered(who: u8, number: u32) -> (Vec<u8>, Option<Meta>) {
    let shape = Shape { payload: 1500 + number as usize % 5000, sequence: number << 16, ..Shape::default() };
    let (mut bytes, meta) = match number % 4 {
        0 => (vec![number as u8; 60 + number as usize % 900], None),
        _ => {
            let (bytes, meta) = shape.packet();
            (bytes, Some(meta))
        }
    };
    bytes[11] = who;
    (bytes, meta)
}

/// Waits for memory as long as it takes.
fn taken(sender: &mut Sender, len_bytes: u32) -> Packet {
    sender.packet(len_bytes, Wait::Forever).unwrap()
}

fn pieces_of(who: u8) -> Vec<Vec<u8>> {
    let pieces = |number| match numbered(who, number) {
        (bytes, None) => vec![bytes],
        (bytes, Some(meta)) => cut(&bytes, &meta),
    };
    (0..PACKETS).flat_map(pieces).collect()
}

/// Over a pool that the senders can fill with packets all of which wait to be cut.
#[test]
fn senders_that_hold_all_memory_still_send() {
    for (frames, ring) in [(64, 8), (64, 200), (1000, 64)] {
        within_a_minute(move || {
            let pool = pool(frames);
            let (builder, seen) = builder(&pool, ring);
            let queue = builder.build().unwrap();
            let poller = PollerThread::start(&queue).unwrap();
            std::thread::scope(|scope| {
                for who in 0..3 {
                    let mut sender = queue.sender("sends").unwrap();
                    scope.spawn(move || {
                        for number in 0..PACKETS {
                            let (bytes, meta) = numbered(who, number);
                            let packet = packet_of(&bytes, meta.as_ref(), |len| taken(&mut sender, len));
                            _ = sender.send_packet(packet, Wait::Forever).unwrap();
                        }
                    });
                }
            });
            assert!(queue.drain(Duration::MAX));
            queue.shutdown(Duration::ZERO);
            drop(poller);
            assert_conserved(&queue);
            let counters = queue.counters();
            let lens =
                (0..3).flat_map(|who| (0..PACKETS).map(move |number| numbered(who, number).0.len() as u64));
            // Packets count as they were sent: no counter has the headers of their segments.
            assert_eq!((counters.sent.get(), counters.bytes.get()), (3 * u64::from(PACKETS), lens.sum()));
            for who in 0..3 {
                let seen = seen.lock().unwrap();
                let theirs: Vec<_> =
                    seen.frames.iter().map(|frame| &frame.0).filter(|bytes| bytes[11] == who).collect();
                assert!(theirs.into_iter().eq(&pieces_of(who)), "sender {who}");
            }
        });
    }
}

/// Three of them: one call, one bulk, one doorbell; three packets of the quota.
#[test]
fn segments_count_as_packets_of_a_bulk() {
    let pool = pool(512);
    let (builder, seen) = builder(&pool, 512);
    let mut direct = builder.build_direct().unwrap();
    let mut cache = pool.cache("test").unwrap();
    let (bytes, meta) = Shape::default().packet();
    let mut burst = pool.burst(8);
    let mut counts = [0; 4];
    // The byte limit learns first.
    for _ in 0..10 {
        for _ in 0..3 {
            let packet = packet_of(&bytes, Some(&meta), |len| cache.packet(len).unwrap());
            burst.push(packet).unwrap();
        }
        let counters = direct.counters();
        let all = [&counters.packets, &counters.batches, &counters.doorbells, &counters.sent];
        counts = all.map(|counter| counter.get());
        assert_eq!(direct.send(&mut burst, Wait::Never).unwrap().accepted, 3);
        direct.poll();
    }
    let counters = direct.counters();
    let all = [&counters.packets, &counters.batches, &counters.doorbells, &counters.sent];
    let last: Vec<u64> = all.iter().zip(counts).map(|(counter, before)| counter.get() - before).collect();
    assert_eq!(last, [3, 1, 1, 3]);
    assert_eq!(seen.lock().unwrap().frames.len(), 30 * cut(&bytes, &meta).len());
    drop(burst);
    drop(direct.close());
    assert_eq!(pool.audit().out(), 0);
}

/// Segments by hand, before queueing: as far as there is room, and then on.
#[test]
fn room_ends_half_way_then_the_next_call_continues() {
    let pool = pool(64);
    let mut cache = pool.cache("test").unwrap();
    let (bytes, meta) = Shape::default().packet();
    let frame = frame_of(&mut cache, &bytes, 1500, Some(&meta)).unwrap();
    let (mut software, mut job) =
        (SoftwareGso::default(), SegmentJob::segment(&frame, pool.region()).unwrap());
    let expected = cut(&bytes, &meta);
    assert_eq!((job.pieces(), job.piece_bytes_max()), (expected.len(), expected[0].len()));
    let (mut to, mut pieces) = (Batch::new(4), Vec::new());
    while !job.is_done() {
        assert!(software.segment(&mut job, &frame, &mut cache, &mut to).unwrap() > 0);
        pieces.extend(to.frames().iter().map(|frame| pool.region().bytes(frame).unwrap().to_vec()));
        cache.give(&mut to).unwrap();
    }
    assert!(pieces == expected);
    // And not at all where there is no memory.
    let mut job = SegmentJob::segment(&frame, pool.region()).unwrap();
    let mut hoard = Batch::new(256);
    while cache.take(&mut hoard, 64, 60).is_ok() {}
    assert_eq!(software.segment(&mut job, &frame, &mut cache, &mut to).unwrap(), 0);
    cache.give(&mut hoard).unwrap();
    cache.give_one(frame).unwrap();
    assert_eq!(pool.audit().out(), 0);
}
