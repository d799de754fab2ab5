//! The unit of the byte queue limit: a ring of slots that another processor empties is limited by packets;
//! and completions of such a ring that are gathered by time.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use wharf_core::bql::Bounds;
use wharf_core::device::{
    CompletionMode, Completions, Device, DeviceError, LIMIT_PACKET_BYTES, LimitUnit, Notify, Transmitted,
    TxDevice, TxInfo,
};
use wharf_core::qdisc::{Fifo, FifoLimit};
use wharf_core::queue::TxQueue;
use wharf_core::sender::Sender;
use wharf_core::wait::Wait;
use wharf_mem::{Batch, Frame, Region};
use wharf_testkit::threads::{TestClock, TestPark};
use wharf_testkit::{assert_conserved, pool};

/// Packets that the other side takes at a time.
const TAKEN: usize = 16;
const LONG: u32 = 1514;
const SHORT: u32 = 60;

/// The frames in the ring, and how many of them the other side may take.
#[derive(Debug, Default)]
struct Slots {
    held: Mutex<VecDeque<Frame>>,
    allowed: AtomicUsize,
}

struct Ring(Arc<Slots>, LimitUnit);

impl Notify for Ring {}

impl Device for Ring {
    fn name(&self) -> String {
        "ring".into()
    }

    fn attach(&mut self, _region: Arc<Region>) -> Result<(), DeviceError> {
        Ok(())
    }

    fn visit(&self, see: &mut dyn FnMut(&Frame)) {
        self.0.held.lock().unwrap().iter().for_each(see);
    }
}

impl TxDevice for Ring {
    fn info(&self) -> TxInfo {
        TxInfo { completions: CompletionMode::Real, limit_unit: self.1, ..TxInfo::default() }
    }

    fn transmit(&mut self, batch: &mut Batch, _more: bool) -> Transmitted {
        self.0.held.lock().unwrap().extend(std::iter::from_fn(|| batch.pop()));
        Transmitted { doorbell: true, stopped: false }
    }

    fn reap(&mut self, budget: usize, _urgent: bool, into: &mut Completions) -> Result<(), DeviceError> {
        let mut held = self.0.held.lock().unwrap();
        let count = self.0.allowed.load(SeqCst).min(budget).min(held.len());
        self.0.allowed.fetch_sub(count, SeqCst);
        held.drain(..count).for_each(|frame| into.sent.push(frame).unwrap());
        Ok(())
    }

    fn outstanding(&self) -> usize {
        self.0.held.lock().unwrap().len()
    }
}

/// Fills the queue with packets of `len_bytes`.
fn fill(sender: &mut Sender, len_bytes: u32) {
    let mut burst = sender.burst(64);
    while sender.fill(&mut burst, 64, len_bytes, Wait::Never).unwrap() > 0
        && sender.send(&mut burst, Wait::Never).unwrap().left == 0
    {}
}

/// Keeps the queue full of packets of `len_bytes`, while the other side takes some `times`.
fn flood(queue: &TxQueue, sender: &mut Sender, slots: &Slots, len_bytes: u32, times: usize) {
    fill(sender, len_bytes);
    for _ in 0..times {
        slots.allowed.store(TAKEN, SeqCst);
        queue.poll();
        fill(sender, len_bytes);
    }
}

/// Learns the limit with long packets, then sends short ones that nobody takes. Returns the slots that they fill, and
/// the limit in packets as the counters have it.
fn slots_of_short(unit: LimitUnit) -> (usize, u64) {
    let (slots, pool) = (Arc::new(Slots::default()), pool(4096));
    let device = Box::new(Ring(slots.clone(), unit));
    let builder = TxQueue::builder(&pool, device, Arc::new(TestClock::default()), Arc::new(TestPark));
    let fifo = Fifo::new(FifoLimit::Packets(500));
    let queue = builder.qdisc(Box::new(fifo)).small_queues(None).build().unwrap();
    let mut sender = queue.sender("floods").unwrap();
    flood(&queue, &mut sender, &slots, LONG, 200);
    // All long ones leave.
    while queue.counters().gone() < queue.counters().accepted.get() {
        slots.allowed.store(TAKEN, SeqCst);
        queue.poll();
    }
    slots.allowed.store(0, SeqCst);
    flood(&queue, &mut sender, &slots, SHORT, 0);
    let filled = slots.held.lock().unwrap().len();
    let limit =
        [&queue.counters().bql_limit_bytes, &queue.counters().bql_limit_packets].map(|limit| limit.get());
    assert_eq!(queue.limit_unit(), unit);
    slots.allowed.store(usize::MAX, SeqCst);
    drop(sender);
    assert_conserved(&queue);
    match unit {
        LimitUnit::Bytes => assert_eq!(limit[1], 0, "it has no limit of packets"),
        LimitUnit::Packets => assert_eq!(limit[0], limit[1] * u64::from(LIMIT_PACKET_BYTES)),
    }
    (filled, limit[0] / u64::from(LONG))
}

#[test]
fn short_packets_fill_no_more_slots_than_long_ones_where_the_limit_counts_packets() {
    let (filled, limit) = slots_of_short(LimitUnit::Packets);
    assert!((TAKEN as u64..=4 * TAKEN as u64).contains(&limit), "{limit} packets");
    assert!((1..=limit as usize + 1).contains(&filled), "{filled} slots, limit {limit}");
    let (filled, limit) = slots_of_short(LimitUnit::Bytes);
    assert!(filled > 10 * limit as usize, "{filled} slots, limit of {limit} long packets");
}

/// Returns the limit, in packets, of a ring that completes a packet every 10 us, once all have left.
fn learnt_one_by_one(unit: LimitUnit, gather_ns: u64) -> u64 {
    let (slots, pool, clock) = (Arc::new(Slots::default()), pool(4096), Arc::new(TestClock::default()));
    let bounds = Bounds { gather_ns, ..Bounds::LEARN };
    let device = Box::new(Ring(slots.clone(), unit));
    let builder = TxQueue::builder(&pool, device, clock.clone(), Arc::new(TestPark)).byte_limits(bounds);
    let queue = builder.small_queues(None).build().unwrap();
    let mut sender = queue.sender("floods").unwrap();
    for time in 1..=1000 {
        fill(&mut sender, LONG);
        slots.allowed.store(1, SeqCst);
        clock.set(10_000 * time);
        queue.poll();
    }
    let limit = queue.counters().bql_limit_bytes.get() / u64::from(LONG);
    slots.allowed.store(usize::MAX, SeqCst);
    drop(sender);
    assert_conserved(&queue);
    limit
}

#[test]
fn completions_seen_one_by_one_teach_two_packets_and_gathered_by_time_those_of_that_time() {
    for unit in [LimitUnit::Bytes, LimitUnit::Packets] {
        let [one_by_one, gathered] = [0, 100_000].map(|gather_ns| learnt_one_by_one(unit, gather_ns));
        assert!(one_by_one <= 2 && (8..=24).contains(&gathered), "{unit:?}: {one_by_one} {gathered}");
    }
}

#[test]
fn a_gathering_longer_than_the_run_stalls_nothing() {
    assert!(learnt_one_by_one(LimitUnit::Packets, 10_000_000_000) > 0);
}
