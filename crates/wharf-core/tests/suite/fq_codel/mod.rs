//! `fq_codel`: the contract, RFC 8289 to the nanosecond, flows beside each other, limits.

pub mod allocations;
mod emptied;
mod rfc8289;
mod stood;

use allocations::counted;
use proptest::prelude::*;
use rfc8289::Rfc8289;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;
use wharf_core::host::Clock;
use wharf_core::pool::{Cache, PagePool};
use wharf_core::qdisc::contract::{ManualClock, check, write_packet};
use wharf_core::qdisc::{CODEL, FqCodel, FqCodelOptions, Limit, OVERLIMIT, Rate, RootQdisc, Tbf, WhenFull};
use wharf_core::wait::Wait;
use wharf_mem::Batch;
use wharf_testkit::gate::{Control, Gate};
use wharf_testkit::{assert_conserved, builder, numbered, pool};

fn options() -> impl Strategy<Value = FqCodelOptions> {
    let times = (1u64..10_000_000, 1u64..200_000_000);
    let limits = (1usize..300, 1u64..200_000, 1u32..40, 1u32..4000);
    (times, limits, any::<bool>(), any::<bool>(), any::<u64>()).prop_map(
        |(times, limits, ecn, drops, seed)| {
            let when_full = if drops { WhenFull::DropHead } else { WhenFull::Wait };
            let ((target, interval), (limit_packets, memory_limit_bytes, flows, quantum_bytes)) =
                (times, limits);
            FqCodelOptions {
                target: Duration::from_nanos(target),
                interval: Duration::from_nanos(interval),
                limit_packets,
                memory_limit_bytes,
                flows,
                quantum_bytes,
                ecn,
                when_full,
                seed,
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn fq_codel_keeps_the_contract(seed: u64, options in options()) {
        check(seed, Box::new(FqCodel::new(options)));
    }

    #[test]
    fn tbf_over_fq_codel_keeps_the_contract(seed: u64, options in options(), rate in 1_000_000u64..1_000_000_000) {
        check(seed, Box::new(Tbf::new(FqCodel::new(options), Rate::new(rate))));
    }
}

/// The end of a packet: time, number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    Left(u64, u64),
    LeftMarked(u64, u64),
    Dropped(u64, u64),
}

#[derive(Debug, Clone, Copy)]
struct Arrival {
    at_ns: u64,
    bytes: u64,
    ecn: u8,
}

fn recorded() -> Vec<Arrival> {
    let mut at_ns = 1_000_000_000;
    let lines = include_str!("../../data/codel_arrivals.txt").lines().filter(|line| !line.starts_with('#'));
    let arrival = |line: &str| {
        let mut numbers = line.split(' ').map(|number| number.parse::<u64>().unwrap());
        at_ns += numbers.next().unwrap() * 1000;
        Arrival { at_ns, bytes: numbers.next().unwrap(), ecn: numbers.next().unwrap() as u8 }
    };
    lines.map(arrival).collect()
}

trait Queue {
    fn enqueue(&mut self, now_ns: u64, number: u64, arrival: Arrival);
    /// Takes a packet out at `now_ns`, noting what happens to it and others; returns its bytes.
    fn dequeue(&mut self, now_ns: u64, events: &mut Vec<Event>) -> Option<u64>;
}

/// A link of `bits_per_second` behind the queue.
fn run(queue: &mut impl Queue, arrivals: &[Arrival], bits_per_second: u64) -> Vec<Event> {
    let (mut events, mut free_ns) = (Vec::new(), 0);
    let mut send_until =
        |queue: &mut dyn FnMut(u64, &mut Vec<Event>) -> Option<u64>, until_ns: u64, from_ns: u64| {
            free_ns = free_ns.max(from_ns);
            while free_ns < until_ns {
                let Some(bytes) = queue(free_ns, &mut events) else { break };
                free_ns += bytes * 8 * 1_000_000_000 / bits_per_second;
            }
        };
    let mut last_ns = 0;
    for (number, &arrival) in arrivals.iter().enumerate() {
        send_until(&mut |now_ns, events| queue.dequeue(now_ns, events), arrival.at_ns, last_ns);
        queue.enqueue(arrival.at_ns, number as u64, arrival);
        last_ns = arrival.at_ns;
    }
    send_until(&mut |now_ns, events| queue.dequeue(now_ns, events), u64::MAX, last_ns);
    events
}

/// A discipline with its clock and memory.
struct Ours {
    root: RootQdisc,
    clock: Arc<ManualClock>,
    cache: Cache,
    /// The flow of each packet.
    flow: fn(u64) -> u16,
    reasons: Vec<(&'static str, u64)>,
    /// Allocations made in its calls.
    allocations: u64,
}

impl Ours {
    fn new(options: FqCodelOptions, flow: fn(u64) -> u16) -> Self {
        let pool = PagePool::builder().frames(8192).build().unwrap();
        let clock = Arc::new(ManualClock::default());
        let root = RootQdisc::new(Box::new(FqCodel::new(options)), pool.region(), clock.clone());
        // A reason for each packet that is dropped.
        let reasons = Vec::with_capacity(20_000);
        Self { root, clock, cache: pool.cache("test").unwrap(), flow, reasons, allocations: 0 }
    }

    fn at(&mut self, now_ns: u64) {
        self.clock.advance(now_ns - self.clock.now_ns());
        self.root.begin();
    }

    fn number(&self, frame: &wharf_mem::Frame) -> (u64, bool) {
        let bytes = self.cache.pool().region().bytes(frame).unwrap();
        (u64::from_be_bytes(bytes[42..50].try_into().unwrap()), bytes[15] & 3 == 3)
    }

    fn give(&mut self, mut batch: Batch) {
        self.cache.give(&mut batch).unwrap();
    }
}

impl Queue for Ours {
    fn enqueue(&mut self, now_ns: u64, number: u64, arrival: Arrival) {
        self.at(now_ns);
        let mut one = Batch::new(1);
        assert_eq!(self.cache.take(&mut one, 1, arrival.bytes as u32).unwrap(), 1);
        let region = self.cache.pool().region().clone();
        let bytes = region.bytes_mut(&mut one.frames_mut()[0]).unwrap();
        write_packet(bytes, (self.flow)(number), arrival.ecn, number);
        one.refresh();
        counted(&mut self.allocations, || {
            self.root.enqueue(&mut one);
            if self.root.backpressure().full_bands() != 0 {
                self.root.trim();
            }
        });
        assert!(one.is_empty());
    }

    fn dequeue(&mut self, now_ns: u64, events: &mut Vec<Event>) -> Option<u64> {
        self.at(now_ns);
        let mut to = Batch::new(1);
        counted(&mut self.allocations, || self.root.dequeue(&mut to, Limit::packets(1)));
        let mut dropped = Batch::new(64);
        loop {
            let Self { root, reasons, allocations, .. } = self;
            let taken =
                counted(allocations, || root.take_dropped(&mut dropped, |reason| reasons.push(reason)));
            if taken == 0 {
                break;
            }
            events.extend(dropped.frames().iter().map(|frame| Event::Dropped(now_ns, self.number(frame).0)));
            self.give(std::mem::replace(&mut dropped, Batch::new(64)));
        }
        let frame = to.frames().first()?;
        let ((number, marked), bytes) = (self.number(frame), u64::from(frame.len_bytes()));
        events.push(if marked { Event::LeftMarked(now_ns, number) } else { Event::Left(now_ns, number) });
        self.give(to);
        Some(bytes)
    }
}

#[test]
fn drops_and_marks_of_a_recorded_sequence_are_rfc_8289s() {
    let arrivals = recorded();
    for ecn in [false, true] {
        let mut ours = Ours::new(FqCodelOptions { ecn, ..FqCodelOptions::default() }, |_| 7);
        let mut rfc = Rfc8289::new(ecn);
        let (got, wanted) = (run(&mut ours, &arrivals, 10_000_000), run(&mut rfc, &arrivals, 10_000_000));
        let first_other = got.iter().zip(&wanted).position(|(got, wanted)| got != wanted);
        assert_eq!((first_other, got.len()), (None, wanted.len()));
        assert_eq!(wanted.len(), arrivals.len());
        let drops = wanted.iter().filter(|event| matches!(event, Event::Dropped(..))).count() as u64;
        let marks = wanted.iter().filter(|event| matches!(event, Event::LeftMarked(..))).count() as u64;
        assert!(drops > 30 && (marks > 30) == ecn, "{drops} drops, {marks} marks");
        assert_eq!(ours.reasons.iter().map(|reason| reason.1).sum::<u64>(), drops);
        assert!(ours.reasons.iter().all(|reason| reason.0 == CODEL));
        let mut stats = Vec::new();
        ours.root.qdisc().stats(&mut |name, value| stats.push((name, value)));
        assert!(stats.contains(&("marked", marks)) && stats.contains(&("codel_drops", drops)), "{stats:?}");
    }
}

#[test]
fn nothing_is_allocated_after_the_start() {
    let arrivals = recorded();
    let limits = [(WhenFull::Wait, 10_240), (WhenFull::DropHead, 50)];
    for (when_full, limit_packets) in limits {
        let options = FqCodelOptions { when_full, limit_packets, ..FqCodelOptions::default() };
        let mut ours = Ours::new(options, |number| (number % 20) as u16);
        // As many packets come at a time as a lane holds, at most.
        ours.root.reserve(64);
        assert_eq!(run(&mut ours, &arrivals, 10_000_000).len(), arrivals.len());
        assert!(ours.reasons.len() > 30 && ours.allocations == 0, "{} allocations", ours.allocations);
    }
}

/// Eight flows offer half as much again as the link takes. Each has a window that a loss halves. A ninth flow sends one packet a
/// millisecond.
#[test]
fn a_sparse_flow_beside_bulk_flows_hardly_waits_and_these_share_evenly() {
    const BITS_PER_SECOND: u64 = 100_000_000;
    let mut arrivals = Vec::new();
    for n in 0..20_000u64 {
        // A bulk packet takes 121 us; 1.5 times as many come.
        let at_ns = 1_000_000_000 + n * 80_747;
        arrivals.push(Arrival { at_ns, bytes: 1514, ecn: 0 });
        if n % 12 == 0 {
            arrivals.push(Arrival { at_ns, bytes: 128, ecn: 0 });
        }
    }
    // One packet in 13 is the sparse flow's.
    fn flow(number: u64) -> u16 {
        if number % 13 == 1 { 100 } else { (number % 8) as u16 }
    }
    let options = FqCodelOptions { when_full: WhenFull::DropHead, ..FqCodelOptions::default() };
    let mut ours = Ours::new(options, flow);
    let events = run(&mut ours, &arrivals, BITS_PER_SECOND);
    let (mut delays_ns, mut bulk, mut bytes, mut end_ns) = (Vec::new(), [0u64; 8], 0, 0);
    let during = arrivals.last().unwrap().at_ns;
    for event in &events {
        let (Event::Left(at_ns, number) | Event::LeftMarked(at_ns, number)) = *event else { continue };
        let arrival = arrivals[number as usize];
        if at_ns < during {
            (bytes, end_ns) = (bytes + arrival.bytes, at_ns);
            match flow(number) {
                100 => delays_ns.push(at_ns - arrival.at_ns),
                flow => bulk[usize::from(flow)] += arrival.bytes,
            }
        }
    }
    delays_ns.sort_unstable();
    let p99_ns = delays_ns[delays_ns.len() * 99 / 100];
    let (sum, squares) =
        bulk.iter().fold((0.0, 0.0), |(sum, squares), &x| (sum + x as f64, squares + (x * x) as f64));
    let jain = sum * sum / (8.0 * squares);
    let used = bytes as f64 * 8e9 / BITS_PER_SECOND as f64 / (end_ns - arrivals[0].at_ns) as f64;
    assert!(p99_ns <= 5_000_000, "p99 {p99_ns} ns");
    assert!(jain >= 0.95, "Jain {jain}");
    assert!(used >= 0.99, "{used} of the link");
}

/// A packet of each of eight flows takes 24 ms at 4 Mbit/s, more than the target: `CoDel` leaves each flow hardly more than one.
/// The kernel's median is 29 ms there (`bench/fq-codel-guest.sh`).
#[test]
fn flows_of_few_packets_are_controlled_on_a_slow_link() {
    let at = |n: u64| Arrival { at_ns: 1_000_000_000 + n * 2_018_667, bytes: 1514, ecn: 0 };
    let arrivals: Vec<_> = (0..10_000).map(at).collect();
    let mut ours = Ours::new(FqCodelOptions::default(), |number| (number % 8) as u16);
    let events = run(&mut ours, &arrivals, 4_000_000);
    let delay_ns = |event: &Event| match *event {
        Event::Left(at_ns, number) if number > 2_000 => Some(at_ns - arrivals[number as usize].at_ns),
        _ => None,
    };
    let mut delays_ns: Vec<u64> = events.iter().filter_map(delay_ns).collect();
    delays_ns.sort_unstable();
    let median_ns = delays_ns[delays_ns.len() / 2];
    assert!(median_ns <= 40_000_000, "{median_ns} ns");
}

fn open(control: &Control) {
    control.allowed.store(usize::MAX / 2, SeqCst);
}

/// A queue that drops at dequeue drains, and each packet is accounted for.
#[test]
fn drops_at_dequeue_reach_the_queue_and_it_drains() {
    let pool = pool(4096);
    let (gate, control) = Gate::new(1);
    let clock = Arc::new(wharf_testkit::threads::TestClock::default());
    let options = FqCodelOptions {
        target: Duration::from_micros(1),
        interval: Duration::from_micros(1),
        flows: 1,
        ..FqCodelOptions::default()
    };
    let park = Arc::new(wharf_testkit::threads::TestPark);
    let builder = wharf_core::queue::TxQueue::builder(&pool, Box::new(gate), clock.clone(), park);
    let queue = builder.qdisc(Box::new(FqCodel::new(options))).small_queues(None).build().unwrap();
    let mut sender = queue.sender("sends").unwrap();
    let tick = |ns| clock.0.fetch_add(ns, SeqCst);
    for n in 0..1000 {
        tick(500);
        let mut burst = numbered(&mut sender, n, 1, 1514);
        _ = sender.send(&mut burst, Wait::Forever).unwrap();
    }
    tick(1_000_000);
    for _ in 0..500 {
        tick(10_000);
        control.allowed.fetch_add(1, SeqCst);
        queue.poll();
    }
    open(&control);
    assert!(queue.drain(Duration::MAX));
    drop(sender);
    let counters = queue.counters();
    assert_eq!(counters.accepted.get(), 1000);
    assert!(counters.failed.get() > 10, "{}", counters.failed.get());
    assert_eq!(counters.failures(), [(CODEL, counters.failed.get())]);
    assert_conserved(&queue);
}

#[test]
fn the_limit_drops_from_the_flow_with_the_most_bytes() {
    let options = FqCodelOptions {
        when_full: WhenFull::DropHead,
        limit_packets: 100,
        interval: Duration::MAX,
        ..FqCodelOptions::default()
    };
    // Each tenth packet is of another flow.
    let mut ours = Ours::new(options, |number| u16::from(number % 10 == 0));
    ours.root.reserve(64);
    for number in 0..500 {
        ours.enqueue(1_000_000_000 + number, number, Arrival { at_ns: 0, bytes: 1000, ecn: 0 });
    }
    assert!(ours.root.backpressure().full_bands() == 0);
    let mut events = Vec::new();
    while ours.dequeue(2_000_000_000, &mut events).is_some() {}
    let dropped = |event: &&Event| matches!(event, Event::Dropped(..));
    let of_fat = |event: &Event| matches!(event, Event::Dropped(_, number) if number % 10 != 0);
    assert!(events.iter().filter(dropped).count() >= 400 && events.iter().filter(dropped).all(of_fat));
    assert!(ours.reasons.iter().all(|reason| reason.0 == OVERLIMIT));
}

#[test]
fn packets_without_bytes_beyond_the_limit_are_dropped() {
    let options =
        FqCodelOptions { when_full: WhenFull::DropHead, limit_packets: 1, ..FqCodelOptions::default() };
    let pool = PagePool::builder().frames(64).build().unwrap();
    let clock = Arc::new(ManualClock::default());
    let mut root = RootQdisc::new(Box::new(FqCodel::new(options)), pool.region(), clock);
    root.reserve(8);
    let (mut cache, mut batch) = (pool.cache("test").unwrap(), Batch::new(8));
    assert_eq!(cache.take(&mut batch, 5, 0).unwrap(), 5);
    root.enqueue(&mut batch);
    root.trim();
    assert_eq!((root.qdisc().len(), root.held()), (1, 5));
    assert_eq!(root.take_dropped(&mut batch, |_| ()), 4);
    assert_eq!(root.purge(&mut batch), 1);
    cache.give(&mut batch).unwrap();
}

#[test]
fn senders_wait_at_the_limit_while_codel_drops() {
    let pool = pool(1024);
    let (gate, control) = Gate::new(1);
    let options = FqCodelOptions { limit_packets: 50, ..FqCodelOptions::default() };
    let queue = builder(&pool, gate).qdisc(Box::new(FqCodel::new(options))).build().unwrap();
    let mut sender = queue.sender("sends").unwrap();
    let mut send = |n| {
        let mut burst = numbered(&mut sender, n, 1, 64);
        sender.send(&mut burst, Wait::Never).unwrap().accepted
    };
    let sent: usize = (0..300).map(&mut send).sum();
    assert!((50..=52).contains(&sent), "{sent}");
    open(&control);
    assert!(queue.drain(Duration::MAX));
    drop(sender);
    assert_conserved(&queue);
}
