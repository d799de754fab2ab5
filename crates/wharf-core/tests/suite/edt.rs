//! `edt`: the contract, a plain model beside it, a thousand packets in virtual time, limits.

use crate::fq_codel::allocations::counted;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;
use wharf_core::host::{Clock, HostClock};
use wharf_core::pool::{Cache, Packet, PagePool};
use wharf_core::qdisc::contract::{ManualClock, check, write_packet};
use wharf_core::qdisc::{
    DROP_HEAD, EXPIRED, Edt, EdtOptions, FLOW_FULL, Fifo, FifoLimit, HORIZON, Limit, Qdisc, Rate, RootQdisc,
    Tbf, WhenFull,
};
use wharf_core::random::SplitMix64;
use wharf_core::wait::Wait;
use wharf_mem::{Batch, Meta};
use wharf_packet::UdpHeaders;
use wharf_testkit::gate::Gate;
use wharf_testkit::threads::{TestClock, TestPark};
use wharf_testkit::{assert_conserved, pool};

const MS: u64 = 1_000_000;
/// The time at which a rig begins.
const START_NS: u64 = 1_000 * MS;

struct Rig {
    clock: Arc<ManualClock>,
    cache: Cache,
    root: RootQdisc,
    reasons: BTreeMap<&'static str, u64>,
    allocations: u64,
}

impl Rig {
    fn new(options: EdtOptions) -> Self {
        Self::of(Box::new(Edt::new(options)))
    }

    fn of(qdisc: Box<dyn Qdisc>) -> Self {
        let (clock, pool) = (Arc::new(ManualClock::default()), pool(2048));
        clock.advance(START_NS);
        let mut root = RootQdisc::new(qdisc, pool.region(), clock.clone());
        root.reserve(64);
        let (cache, reasons) = (pool.cache("edt").unwrap(), BTreeMap::new());
        Self { clock, cache, root, reasons, allocations: 0 }
    }

    fn put(&mut self, number: u64, flow: u16, depart_ns: u64, expire_ns: u64) {
        let mut packet = self.cache.packet(60).unwrap();
        write_packet(packet.bytes_mut(), flow, 0, number);
        packet.depart_at_ns(depart_ns);
        packet.expire_at_ns(expire_ns);
        let mut burst = packet.into();
        let mut batch = batch_of(&mut burst);
        counted(&mut self.allocations, || {
            self.root.begin();
            self.root.enqueue(&mut batch);
            if self.root.backpressure().full_bands() != 0 {
                self.root.trim();
            }
        });
        assert!(batch.is_empty());
        self.take_dropped();
    }

    /// Returns the numbers of those that leave now.
    fn leave(&mut self, limit: Limit) -> Vec<u64> {
        let mut to = Batch::new(256);
        counted(&mut self.allocations, || {
            self.root.begin();
            self.root.dequeue(&mut to, limit);
        });
        self.take_dropped();
        let region = self.cache.pool().region().clone();
        let number = |bytes: &[u8]| u64::from_be_bytes(bytes[42..50].try_into().unwrap());
        let numbers = to.frames().iter().map(|frame| number(region.bytes(frame).unwrap())).collect();
        self.cache.give(&mut to).unwrap();
        numbers
    }

    fn take_dropped(&mut self) {
        let mut to = Batch::new(256);
        while self
            .root
            .take_dropped(&mut to, |(reason, count)| *self.reasons.entry(reason).or_default() += count)
            > 0
        {
            self.cache.give(&mut to).unwrap();
        }
    }

    fn dropped(&self, reason: &str) -> u64 {
        self.reasons.get(reason).copied().unwrap_or(0)
    }
}

/// Gives all memory back: a process has numbers for 63 pools, and one with frames out keeps its own.
impl Drop for Rig {
    fn drop(&mut self) {
        let mut to = Batch::new(256);
        while self.root.purge(&mut to) > 0 {
            self.cache.give(&mut to).unwrap();
        }
    }
}

fn batch_of(burst: &mut wharf_core::pool::Burst) -> Batch {
    let mut batch = Batch::new(1);
    assert!(batch.push(burst.pop_frame().unwrap()).is_ok());
    batch
}

fn options() -> impl Strategy<Value = EdtOptions> {
    let limits = (1usize..300, prop::option::of(1u32..20), 1u32..40);
    (0u64..2000, limits, any::<bool>(), any::<u64>()).prop_map(|(horizon_ms, limits, drops, seed)| {
        EdtOptions {
            horizon: Duration::from_millis(horizon_ms),
            limit_packets: limits.0,
            flow_limit_packets: limits.1,
            flows: limits.2,
            when_full: if drops { WhenFull::DropHead } else { WhenFull::Wait },
            seed,
        }
    })
}

/// A packet of the model: departure, number, end of use, flow.
type Plain = (u64, u64, u64, u16);

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn edt_keeps_the_contract(seed: u64, options in options()) {
        check(seed, Box::new(Edt::new(options)));
        check(seed, Box::new(Tbf::new(Edt::new(options), Rate::new(50_000_000))));
    }

    /// A list, sorted again for each packet, says what leaves and what is dropped.
    #[test]
    fn what_leaves_and_what_is_dropped_is_as_in_a_sorted_list(
        seed: u64, horizon_ms in 1u64..60, flow_limit in prop::option::of(1u32..12), steps in 50usize..300,
    ) {
        let horizon = Duration::from_millis(horizon_ms);
        // One count for all flows: the model need not hash.
        let mut rig = Rig::new(EdtOptions { horizon, flow_limit_packets: flow_limit, flows: 1, ..EdtOptions::default() });
        let (mut random, mut list, mut wanted): (_, Vec<Plain>, _) = (SplitMix64::new(seed), Vec::new(), BTreeMap::new());
        for number in 0..steps as u64 {
            let now_ns = rig.clock.now_ns();
            let near = |random: &mut SplitMix64| (now_ns - 10 * MS) + random.below(90) * MS;
            let depart_ns = if random.below(4) == 0 { 0 } else { near(&mut random) };
            let expire_ns = if random.below(2) == 0 { 0 } else { near(&mut random) };
            rig.put(number, 7, depart_ns, expire_ns);
            let due_ns = if depart_ns == 0 { now_ns } else { depart_ns };
            let refused = if due_ns > now_ns + horizon_ms * MS {
                Some(HORIZON)
            } else {
                flow_limit.is_some_and(|limit| list.len() >= limit as usize).then_some(FLOW_FULL)
            };
            match refused {
                Some(reason) => *wanted.entry(reason).or_default() += 1,
                None => list.push((due_ns, number, expire_ns, 7)),
            }
            list.sort_unstable();
            prop_assert_eq!(rig.root.next_event_ns(), list.first().map(|first| first.0.saturating_sub(now_ns)));
            if random.below(3) > 0 {
                continue;
            }
            rig.clock.advance(random.below(20) * MS);
            let (now_ns, most) = (rig.clock.now_ns(), 1 + random.below(8) as usize);
            let mut leaves = Vec::new();
            while leaves.len() < most && list.first().is_some_and(|first| first.0 <= now_ns) {
                let (_, number, expire_ns, _) = list.remove(0);
                if expire_ns != 0 && expire_ns <= now_ns {
                    *wanted.entry(EXPIRED).or_default() += 1;
                } else {
                    leaves.push(number);
                }
            }
            prop_assert_eq!(rig.leave(Limit::packets(most)), leaves);
            prop_assert_eq!(&rig.reasons, &wanted);
        }
        prop_assert_eq!(rig.allocations, 0);
    }
}

/// The times of a thousand packets within 100 ms, each time four times on average.
fn thousand() -> Vec<u64> {
    let mut random = SplitMix64::new(4711);
    (0..1000).map(|_| START_NS + random.below(250) * 400_000).collect()
}

#[test]
fn thousand_packets_leave_at_their_times_and_ties_in_order_of_arrival() {
    let times = thousand();
    let mut rig = Rig::new(EdtOptions::default());
    for (number, &at_ns) in (0..).zip(&times) {
        rig.put(number, number as u16 % 16, at_ns, 0);
    }
    let mut left = Vec::new();
    while let Some(due_ns) = rig.root.next_event_ns() {
        if due_ns > 0 {
            rig.clock.advance(due_ns - 1);
            assert!(rig.leave(Limit::NONE).is_empty(), "a nanosecond too early");
            rig.clock.advance(1);
        }
        let now_ns = rig.clock.now_ns();
        for number in rig.leave(Limit::NONE) {
            assert_eq!(times[number as usize], now_ns, "{number} leaves at its time");
            left.push(number);
        }
    }
    let mut wanted: Vec<u64> = (0..1000).collect();
    wanted.sort_by_key(|&number| times[number as usize]);
    assert_eq!(left, wanted);
    assert_eq!((rig.allocations, rig.reasons.len()), (0, 0));
    // The golden table: first, last, and all of them in one number.
    let all = left
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |sum: u64, number| (sum ^ number).wrapping_mul(0x100_0000_01b3));
    assert_eq!(
        (left[..4].to_vec(), left[996..].to_vec(), all),
        (vec![259, 288, 587, 910], vec![819, 50, 384, 659], 8_470_860_001_274_586_765)
    );
}

#[test]
fn clock_of_a_tick_then_each_leaves_at_the_first_tick_behind_its_time() {
    const TICK_NS: u64 = 300_000;
    let times = thousand();
    let mut rig = Rig::new(EdtOptions::default());
    (0..).zip(&times).for_each(|(number, &at_ns)| rig.put(number, 0, at_ns, 0));
    let mut count = 0;
    while rig.root.held() > 0 {
        for number in rig.leave(Limit::NONE) {
            let late_ns = rig.clock.now_ns() - times[number as usize];
            assert!(late_ns < TICK_NS, "{number}: {late_ns}");
            count += 1;
        }
        rig.clock.advance(TICK_NS);
    }
    let mut late_ns_max = 0;
    rig.root.qdisc().stats(&mut |name, value| late_ns_max += if name == "late_ns_max" { value } else { 0 });
    assert_eq!((count, late_ns_max), (1000, 200_000));
}

#[test]
fn beyond_the_horizon_or_the_flows_limit_then_dropped_and_counted() {
    let (horizon, now_ns) = (Duration::from_millis(20), START_NS);
    let options = EdtOptions { horizon, flow_limit_packets: Some(3), ..EdtOptions::default() };
    let mut rig = Rig::new(options);
    rig.put(0, 1, now_ns + 20 * MS, 0);
    rig.put(1, 1, now_ns + 20 * MS + 1, 0);
    rig.put(2, 1, u64::MAX, u64::MAX);
    (3..8).for_each(|number| rig.put(number, 1, 0, 0));
    rig.put(8, 2, 0, now_ns + 5);
    rig.put(9, 2, 0, now_ns);
    assert_eq!((rig.dropped(HORIZON), rig.dropped(FLOW_FULL), rig.dropped(EXPIRED)), (2, 3, 0));
    assert_eq!((rig.leave(Limit::NONE), rig.dropped(EXPIRED)), (vec![3, 4, 8], 1));
    rig.put(10, 1, 0, 0);
    assert_eq!(rig.leave(Limit::NONE), [10], "those that left count no more");
    rig.clock.advance(20 * MS);
    assert_eq!((rig.leave(Limit::NONE), rig.root.held()), (vec![0], 0));
}

#[test]
fn full_then_senders_wait_or_the_first_to_leave_is_dropped() {
    for when_full in [WhenFull::Wait, WhenFull::DropHead] {
        let mut rig = Rig::new(EdtOptions { limit_packets: 4, when_full, ..EdtOptions::default() });
        (0..6).for_each(|number| rig.put(number, 0, START_NS + (10 - number) * MS, 0));
        assert_eq!(rig.dropped(DROP_HEAD), if when_full == WhenFull::Wait { 0 } else { 2 });
        rig.clock.advance(10 * MS);
        let left = rig.leave(Limit::NONE);
        assert_eq!(left, if when_full == WhenFull::Wait { vec![5, 4, 3, 2, 1, 0] } else { vec![3, 2, 1, 0] });
    }
}

/// 60 bytes take 60 ms: the second packet waits for tokens in front of the others.
#[test]
fn packet_that_expires_while_it_waits_for_tokens_is_dropped_by_the_discipline_that_drops_such() {
    let rate = Rate::new(8_000).burst(60);
    let fifo: Box<dyn Qdisc> = Box::new(Fifo::new(FifoLimit::Packets(9)));
    for (inner, left, dropped) in
        [(Box::new(Edt::new(EdtOptions::default())) as _, vec![2], 1), (fifo, vec![1], 0)]
    {
        let mut rig = Rig::of(Box::new(Tbf::new(inner, rate)));
        rig.put(0, 1, 0, 0);
        rig.put(1, 1, 0, START_NS + 50 * MS);
        rig.put(2, 1, 0, 0);
        assert_eq!(rig.leave(Limit::NONE), [0]);
        rig.clock.advance(60 * MS);
        assert_eq!((rig.leave(Limit::NONE), rig.dropped(EXPIRED)), (left, dropped));
    }
}

/// A queue whose poller or sender comes when the discipline says so.
#[test]
fn queue_in_virtual_time_then_each_packet_is_sent_or_dropped_with_a_reason() {
    let (pool, clock) = (pool(512), Arc::new(TestClock::default()));
    let (gate, control) = Gate::new(64);
    control.allowed.store(usize::MAX / 2, SeqCst);
    clock.0.store(START_NS, SeqCst);
    let edt = Edt::new(EdtOptions { horizon: Duration::from_millis(50), ..EdtOptions::default() });
    let builder =
        wharf_core::queue::TxQueue::builder(&pool, Box::new(gate), clock.clone(), Arc::new(TestPark));
    let queue = builder.qdisc(Box::new(edt)).build().unwrap();
    let mut sender = queue.sender("edt").unwrap();
    for number in 0..100u64 {
        let mut packet = sender.packet(60, Wait::Never).unwrap();
        packet.bytes_mut().fill(0);
        packet.depart_at_ns(START_NS + number * MS);
        packet.expire_at_ns(if number % 10 == 3 { START_NS + number * MS } else { 0 });
        _ = sender.send_packet(packet, Wait::Never).unwrap();
    }
    for now_ms in 1..=60u64 {
        clock.0.store(START_NS + now_ms * MS, SeqCst);
        queue.poll();
        let sent = queue.counters().sent.get();
        let expired = (now_ms.min(50) + 7) / 10;
        assert_eq!(sent, now_ms.min(50) + 1 - expired, "after {now_ms} ms");
    }
    drop(sender);
    assert!(queue.drain(Duration::MAX));
    assert_eq!((queue.counters().sent.get(), queue.counters().qdisc_drops.get()), (46, 54));
    assert_conserved(&queue);
}

fn times_of(packet: &mut Packet) -> (u64, u64) {
    let frame = std::mem::replace(packet, packet.pool().packet(60).unwrap());
    let (pool, mut burst) = (frame.pool().clone(), wharf_core::pool::Burst::from(frame));
    let times = pool.region().times(&burst.frames()[0]).unwrap();
    *packet = burst.pop().unwrap();
    (times.depart_ns, times.expire_ns)
}

#[test]
fn times_last_until_the_frame_is_free_whatever_else_is_set() {
    let pool = PagePool::builder().frames(4).huge_pages(false).build().unwrap();
    let mut packet = pool.packet(900).unwrap();
    packet.bytes_mut().fill(1);
    packet.depart_at_ns(5);
    packet.expire_at_ns(9);
    let headers =
        UdpHeaders::between("192.0.2.1:5".parse().unwrap(), "192.0.2.2:9".parse().unwrap()).unwrap();
    headers.put_segmented(&mut packet, 100).unwrap();
    packet.trim_front(0).unwrap();
    packet.prepend(14).unwrap();
    packet.trim_front(14).unwrap();
    packet.set_meta(&Meta { time_ns: 3, ..packet.meta() });
    assert_eq!(times_of(&mut packet), (5, 9));
    assert_eq!((packet.meta().checksum_start, packet.meta().gso_bytes, packet.meta().time_ns), (34, 100, 3));
    assert!(packet.finish_checksum());
    let mut burst = wharf_core::pool::Burst::from(packet);
    let mut lent = burst.packets_mut().next().unwrap();
    lent.depart_at_ns(6);
    lent.set_meta(&Meta::default());
    lent.expire_at_ns(0);
    let mut packet = burst.pop().unwrap();
    assert_eq!(times_of(&mut packet), (6, 0));
    let (mut burst, now) = (wharf_core::pool::Burst::from(packet), std::time::Instant::now());
    let mut lent = burst.packets_mut().next().unwrap();
    lent.depart_at(now);
    lent.expire_at(now + Duration::from_nanos(5));
    let mut packet = burst.pop().unwrap();
    assert_eq!(times_of(&mut packet), (HostClock::ns_of(now), HostClock::ns_of(now) + 5));
    drop(packet);
    for _ in 0..4 {
        let mut fresh = pool.packet(60).unwrap();
        fresh.set_meta(&Meta { time_ns: 1, ..Meta::default() });
        assert_eq!(times_of(&mut fresh), (0, 0), "those of an earlier packet are gone");
    }
}

#[test]
fn instants_are_times_of_the_hosts_clock() {
    let (before_ns, now, after_ns) = (HostClock.exact_ns(), std::time::Instant::now(), HostClock.exact_ns());
    // The first call reads both clocks, one after the other.
    let (read_ns, near_ns) = (HostClock::ns_of(now), 10_000 * MS);
    assert!((before_ns.saturating_sub(near_ns)..=after_ns + near_ns).contains(&read_ns));
    let time = Duration::from_millis(7);
    assert_eq!(HostClock::ns_of(now + time), read_ns + 7 * MS);
    assert_eq!(HostClock::ns_of(now - time), read_ns - 7 * MS);
    let since_1970 = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64;
    let origin_ns = HostClock.origin_ns().unwrap();
    assert!((origin_ns + HostClock.exact_ns()).abs_diff(since_1970) < 10_000 * MS);
}
