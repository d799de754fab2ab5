//! `tbf` over a clock that the test moves.

use proptest::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use wharf_core::host::Clock;
use wharf_core::pool::{Cache, PagePool};
use wharf_core::qdisc::{
    Fifo, FifoLimit, FqCodel, FqCodelOptions, Limit, Prio, Qdisc, Rate, RateGroup, RootQdisc, TBF_RATE_MAX,
    Tbf, WhenFull, set_priority, wire_bytes, wire_packets,
};
use wharf_mem::{Batch, Meta};
use wharf_packet::gso::GSO_TCPV4;

const NS_PER_SECOND: u64 = 1_000_000_000;
/// Tokens of a byte.
const BYTE: u64 = 8 * NS_PER_SECOND;

#[derive(Debug, Default)]
struct Time(AtomicU64);

impl Clock for Time {
    fn now_ns(&self) -> u64 {
        self.0.load(SeqCst)
    }
}

struct Rig {
    clock: Arc<Time>,
    cache: Cache,
    tbf: RootQdisc,
    out: Batch,
}

impl Rig {
    fn new(rate: Rate) -> Self {
        Self::of(Tbf::new(Fifo::new(FifoLimit::Packets(256)), rate), Arc::default())
    }

    fn of(tbf: Tbf<impl Qdisc + 'static>, clock: Arc<Time>) -> Self {
        let pool = PagePool::builder().frames(512).huge_pages(false).build().unwrap();
        let tbf = RootQdisc::new(Box::new(tbf), pool.region(), clock.clone());
        Self { clock, cache: pool.cache("test").unwrap(), tbf, out: Batch::new(256) }
    }

    fn put(&mut self, len_bytes: u32) {
        let mut batch = Batch::new(1);
        self.cache.take(&mut batch, 1, len_bytes).unwrap();
        self.tbf.enqueue(&mut batch);
        assert!(batch.is_empty());
    }

    /// Takes out what may leave now; returns its bytes on a wire.
    fn leave(&mut self) -> u64 {
        let count = {
            self.tbf.begin();
            self.tbf.dequeue(&mut self.out, Limit::packets(64))
        };
        assert_eq!(count, self.out.len());
        let region = self.cache.pool().region().clone();
        let bytes = self.out.frames().iter().map(|frame| wire_bytes(frame, &region)).sum();
        self.cache.give(&mut self.out).unwrap();
        bytes
    }
}

#[test]
fn ten_seconds_at_a_rate_are_exact() {
    for (len_bytes, rate) in [(64, 1_000_000), (590, 100_000_000), (1514, 100_000_000), (1514, 1_000_000)] {
        let mut rig = Rig::new(Rate::new(rate));
        let (mut sent, end_ns) = (0, 10 * NS_PER_SECOND);
        loop {
            while rig.tbf.held() < 100 {
                rig.put(len_bytes);
            }
            sent += rig.leave();
            let next_ns = rig.clock.now_ns() + rig.tbf.next_event_ns().unwrap();
            if next_ns > end_ns {
                break;
            }
            // A poller comes late, by less than the burst lasts.
            rig.clock.0.store(next_ns + 500_000, SeqCst);
        }
        let wanted = rate / 8 * 10;
        let burst = Rate::new(rate).burst_bytes();
        assert!(
            (wanted - 1514..=wanted + burst + wanted / 1000).contains(&sent),
            "{len_bytes}: {sent} of {wanted}"
        );
    }
}

/// Eight queues share a rate, of which 1, 2, 3 and 8 have packets, one after the other, and 1 again: the sum
/// is the rate, and the parts are equal.
#[test]
fn queues_of_a_group_share_one_rate() {
    for rate in [10_000_000, 100_000_000] {
        let (clock, group) = (Arc::<Time>::default(), RateGroup::default());
        let bucket = || Tbf::new(Fifo::new(FifoLimit::Packets(256)), Rate::new(rate)).in_group(&group);
        let mut rigs: Vec<Rig> = (0..8).map(|_| Rig::of(bucket(), clock.clone())).collect();
        for active in [1, 2, 3, 8, 1] {
            // What is left of the period before leaves, and is not counted.
            let begin_ns = clock.now_ns() + NS_PER_SECOND;
            let (mut sent, end_ns) = (vec![0; active], begin_ns + 2 * NS_PER_SECOND);
            while clock.now_ns() < end_ns {
                let mut next_ns = u64::MAX;
                for (at, rig) in rigs.iter_mut().enumerate() {
                    while at < active && rig.tbf.held() < 100 {
                        rig.put(1000);
                    }
                    let bytes = rig.leave();
                    if at < active && clock.now_ns() >= begin_ns {
                        sent[at] += bytes;
                    }
                    next_ns = rig.tbf.next_event_ns().map_or(next_ns, |ns| next_ns.min(ns));
                }
                clock.0.fetch_add(next_ns.max(1), SeqCst);
            }
            let (sum, wanted) = (sent.iter().sum::<u64>() as f64, rate as f64 / 8.0 * 2.0);
            assert!((sum / wanted - 1.0).abs() < 0.02, "{active} of 8 at {rate}: {sum} of {wanted}");
            let part = wanted / active as f64;
            assert!(sent.iter().all(|&sent| (sent as f64 / part - 1.0).abs() < 0.02), "{sent:?}");
        }
    }
}

/// A queue whose packets are dropped or taken out has no part of the rate any more.
#[test]
fn packets_that_do_not_leave_take_no_part_of_the_rate() {
    for is_purged in [false, true] {
        let (clock, group) = (Arc::<Time>::default(), RateGroup::default());
        let options = FqCodelOptions { when_full: WhenFull::DropHead, ..FqCodelOptions::default() };
        let bucket = |qdisc| Tbf::new(qdisc, Rate::new(10_000_000).burst(64_000)).in_group(&group);
        let qdiscs = [FqCodel::new(options), FqCodel::new(options)];
        let [mut gone, mut goes_on] = qdiscs.map(|qdisc| Rig::of(bucket(qdisc), clock.clone()));
        (0..100).for_each(|_| gone.put(1000));
        assert_eq!(gone.leave(), 64_000);
        match is_purged {
            true => {
                assert_eq!(gone.tbf.purge(&mut gone.out), 36);
                gone.cache.give(&mut gone.out).unwrap();
            }
            false => {
                // The device has stood for long: all is too old.
                clock.0.fetch_add(2 * NS_PER_SECOND, SeqCst);
                assert_eq!(gone.leave(), 0);
            }
        }
        let mut left_bytes = 0;
        for _ in 0..3 {
            clock.0.fetch_add(NS_PER_SECOND / 2, SeqCst);
            (0..64).for_each(|_| goes_on.put(1000));
            left_bytes = goes_on.leave();
        }
        assert_eq!(left_bytes, 64_000, "purged: {is_purged}");
    }
}

#[test]
fn at_a_rate_of_packets_their_length_does_not_count() {
    let mut rig = Rig::new(Rate::packets(1000).burst(2 * 1514));
    [60, 1514, 900, 60].into_iter().for_each(|len_bytes| rig.put(len_bytes));
    assert_eq!((rig.leave(), rig.tbf.next_event_ns()), (60 + 1514, Some(1_000_000)));
    for (now_ns, bytes) in [(999_999, 0), (1_000_000, 900), (2_000_000, 60)] {
        rig.clock.0.store(now_ns, SeqCst);
        assert_eq!(rig.leave(), bytes, "{now_ns}");
    }
    let rates = [0, u64::MAX].map(|packets| Rate::packets(packets).bits_per_second());
    assert_eq!(rates, [8 * 1514, TBF_RATE_MAX / (8 * 1514) * 8 * 1514]);
}

#[test]
fn every_segment_of_a_super_packet_counts_with_its_headers() {
    let mut rig = Rig::new(Rate::new(8_000_000).burst(1200 + 12 * 54));
    let mut batch = Batch::new(1);
    rig.cache.take(&mut batch, 1, 54 + 1200).unwrap();
    let region = rig.cache.pool().region().clone();
    let meta = |gso_bytes, checksum_start| Meta {
        gso_bytes,
        gso_kind: GSO_TCPV4,
        needs_checksum: true,
        checksum_start,
        checksum_offset: 16,
        ..Meta::default()
    };
    let frame = &mut batch.frames_mut()[0];
    region.bytes_mut(frame).unwrap()[34 + 12] = 5 << 4;
    for (meta, bytes) in [
        (meta(100, 34), 1200 + 12 * 54),
        (meta(1100, 34), 1200 + 2 * 54),
        // Headers that lie count as they are.
        (meta(0, 34), 1254),
        (meta(100, 60_000), 1254),
        (meta(100, 1250), 1254),
    ] {
        region.set_meta(frame, &meta).unwrap();
        assert_eq!(wire_bytes(frame, &region), bytes, "{meta:?}");
        let segments = if bytes == 1254 { 1 } else { (bytes - 1200) / 54 };
        assert_eq!(wire_packets(frame, &region), segments, "{meta:?}");
    }
    region.set_meta(frame, &meta(100, 34)).unwrap();
    batch.refresh();
    rig.tbf.enqueue(&mut batch);
    assert_eq!(rig.leave(), 1200 + 12 * 54);
    rig.put(1000);
    // A byte takes a microsecond.
    assert_eq!((rig.leave(), rig.tbf.next_event_ns()), (0, Some(1_000_000)));
}

#[test]
fn segments_with_a_finished_checksum_count_with_their_headers() {
    let mut rig = Rig::new(Rate::new(8_000_000));
    let mut batch = Batch::new(1);
    rig.cache.take(&mut batch, 1, 54 + 1200).unwrap();
    let region = rig.cache.pool().region().clone();
    let frame = &mut batch.frames_mut()[0];
    let bytes = region.bytes_mut(frame).unwrap();
    bytes[..54].fill(0);
    bytes[12..14].copy_from_slice(&[8, 0]);
    (bytes[14], bytes[14 + 9], bytes[34 + 12]) = (0x45, 6, 5 << 4);
    // The start of the checksum tells the bytes of a tag that a device put back.
    for checksum_start in [0, 4] {
        let meta = Meta { gso_bytes: 100, gso_kind: GSO_TCPV4, checksum_start, ..Meta::default() };
        region.set_meta(frame, &meta).unwrap();
        assert_eq!(wire_bytes(frame, &region), 1200 + 12 * 54);
    }
    region.bytes_mut(frame).unwrap()[14] = 0x65;
    assert_eq!(wire_bytes(frame, &region), 1254, "headers that lie");
}

#[test]
fn a_frame_longer_than_the_burst_leaves_and_is_paid_off() {
    let mut rig = Rig::new(Rate::new(8_000_000).burst(1000));
    rig.put(1500);
    rig.put(1000);
    assert_eq!((rig.leave(), rig.tbf.next_event_ns()), (1500, Some(1_500_000)));
    rig.clock.0.store(1_499_999, SeqCst);
    assert_eq!((rig.leave(), rig.tbf.next_event_ns()), (0, Some(1)));
    rig.clock.0.store(1_500_000, SeqCst);
    assert_eq!((rig.leave(), rig.tbf.next_event_ns()), (1000, None));
}

#[test]
fn purge_gives_back_all_frames_whatever_the_tokens() {
    let mut rig = Rig::new(Rate::new(1).burst(1));
    (0..70).for_each(|_| rig.put(100));
    assert_eq!(rig.leave(), 100);
    assert_eq!((rig.leave(), rig.tbf.held()), (0, 69));
    let (mut seen, mut back) = (0, 0);
    rig.tbf.visit(&mut |_| seen += 1);
    loop {
        match rig.tbf.purge(&mut rig.out) {
            0 => break,
            count => back += count,
        }
        rig.cache.give(&mut rig.out).unwrap();
    }
    assert_eq!((seen, back, rig.tbf.held(), rig.cache.pool().audit().out()), (69, 69, 0, 0));
}

#[test]
fn an_urgent_band_leaves_first_but_for_the_frame_that_waits_for_tokens() {
    let pool = PagePool::builder().frames(64).build().unwrap();
    let (clock, mut cache) = (Arc::new(Time::default()), pool.cache("test").unwrap());
    let tbf = Box::new(Tbf::new(Prio::new(8), Rate::new(8_000_000).burst(100)));
    let mut tbf = RootQdisc::new(tbf, pool.region(), clock.clone());
    let (mut batch, mut out) = (Batch::new(4), Batch::new(4));
    for priority in [2, 2, 2, 6] {
        if priority == 6 {
            assert_eq!(tbf.dequeue(&mut out, Limit::packets(4)), 1);
        }
        cache.take(&mut batch, 1, 100).unwrap();
        set_priority(&mut batch.frames_mut()[0], priority);
        batch.refresh();
        tbf.enqueue(&mut batch);
    }
    for _ in 0..3 {
        clock.0.fetch_add(100_000, SeqCst);
        tbf.begin();
        assert_eq!(tbf.dequeue(&mut out, Limit::packets(4)), 1);
    }
    let bands: Vec<u8> = out.frames().iter().map(wharf_mem::Frame::band).collect();
    assert_eq!(bands, [3, 3, 1, 3]);
}

proptest! {
    #[test]
    fn no_window_sees_more_than_burst_and_rate(
        rate in 1_000_000u64..10_000_000_000, burst in 2000u64..200_000,
        steps in prop::collection::vec((1u64..3_000_000, prop::collection::vec(60u32..1514, 0..20)), 1..60),
    ) {
        let mut rig = Rig::new(Rate::new(rate).burst(burst));
        let (mut sent, mut put, mut left) = (Vec::new(), 0u64, 0u64);
        for (after_ns, lengths) in steps {
            rig.clock.0.fetch_add(after_ns, SeqCst);
            for len_bytes in lengths.into_iter().take(256 - rig.tbf.held()) {
                rig.put(len_bytes);
                put += u64::from(len_bytes);
            }
            let bytes = rig.leave();
            left += bytes;
            sent.push((rig.clock.now_ns(), bytes));
            // Packets that stay wait for tokens, or for the bound of 64 packets.
            prop_assert!(rig.tbf.next_event_ns().is_none_or(|due_ns| due_ns > 0 || bytes >= 64 * 60));
        }
        for (at, &(from_ns, _)) in sent.iter().enumerate() {
            let mut window = 0u128;
            for &(to_ns, bytes) in &sent[at..] {
                window += u128::from(bytes);
                let most = u128::from(burst) * u128::from(BYTE) + u128::from(rate) * u128::from(to_ns - from_ns);
                prop_assert!(window * u128::from(BYTE) <= most);
            }
        }
        prop_assert!(left <= put);
    }
}

#[test]
fn another_rate_counts_in_its_own_unit() {
    let mut rig = Rig::new(Rate::new(8_000_000).burst(1514));
    (0..64).for_each(|_| rig.put(100));
    rig.leave();
    // 1000 packets a second: one each millisecond, where 8 Mbit/s would be ten of 100 bytes.
    assert!(rig.tbf.set_rate(Rate::packets(1000).burst(1514)));
    rig.clock.0.store(NS_PER_SECOND, SeqCst);
    let one = rig.leave();
    rig.clock.0.fetch_add(1_000_000, SeqCst);
    assert_eq!((one, rig.leave()), (100, 100));
    assert!(rig.tbf.set_rate(Rate::new(8_000_000).burst(1514)));
    rig.clock.0.fetch_add(1_000_000, SeqCst);
    assert_eq!(rig.leave(), 10 * 100);
}

/// The bytes that leave, asked for when they are due, or `late_ns` later, of twenty packets that came together.
fn leave_a_slow_rate(late_ns: u64) -> u64 {
    // A packet of 1000 bytes each two seconds.
    let tbf = Tbf::new(
        FqCodel::new(FqCodelOptions { when_full: WhenFull::DropHead, ..FqCodelOptions::default() }),
        Rate::new(4000).burst(1000),
    );
    let mut rig = Rig::of(tbf, Arc::default());
    rig.clock.0.store(NS_PER_SECOND, SeqCst);
    (0..20).for_each(|_| rig.put(1000));
    let mut left_bytes = rig.leave();
    for _ in 0..20 {
        let wait_ns = rig.tbf.next_event_ns().unwrap_or(0);
        rig.clock.0.fetch_add(wait_ns + late_ns, SeqCst);
        left_bytes += rig.leave();
    }
    left_bytes
}

/// `fq_codel` drops what came before its device stood for ten intervals, a second. A rate that holds packets for
/// longer is no such device.
#[test]
fn rate_that_holds_packets_for_long_is_no_device_that_stands() {
    assert_eq!([0, 1_100_000_000].map(leave_a_slow_rate), [6000, 2000], "`CoDel` alone leaves six");
}
