//! The contract of disciplines, tried on ours and on one that breaks it.

use proptest::prelude::*;
use std::sync::Arc;
use std::time::Duration;
use wharf_core::qdisc::contract::{ManualClock, check};
use wharf_core::qdisc::{
    Backpressure, Edt, EdtOptions, Fifo, FifoLimit, FqCodel, FqCodelOptions, Limit, Prio, Qdisc,
    QdiscContext, Rate, RootQdisc, Tbf, WhenFull,
};
use wharf_mem::{Batch, Frame};
use wharf_testkit::pool;

fn limit() -> impl Strategy<Value = FifoLimit> {
    prop_oneof![(1usize..200).prop_map(FifoLimit::Packets), (1u64..100_000).prop_map(FifoLimit::Bytes)]
}

fn when_full() -> impl Strategy<Value = WhenFull> {
    prop_oneof![Just(WhenFull::Wait), Just(WhenFull::DropHead)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn fifo_keeps_the_contract(seed: u64, limit in limit(), when_full in when_full()) {
        check(seed, Box::new(Fifo::new(limit).when_full(when_full)));
    }

    #[test]
    fn prio_keeps_the_contract(seed: u64, packets in 1usize..100, when_full in when_full()) {
        check(seed, Box::new(Prio::new(packets).when_full(when_full)));
    }

    #[test]
    fn tbf_keeps_the_contract_over_others(seed: u64, rate in 1_000_000u64..1_000_000_000, when_full in when_full()) {
        let rate = Rate::new(rate);
        check(seed, Box::new(Tbf::new(Prio::new(50).when_full(when_full), rate)));
        check(seed, Box::new(Tbf::new(Tbf::new(Fifo::new(FifoLimit::Packets(90)), rate), rate)));
    }
}

/// Every discipline, with the least, the most and other values for each of its limits.
#[test]
fn limits_out_of_bounds_are_moved_to_the_nearest_bound() {
    for (packets, number, bytes) in [(0, 0, 0), (1, 1, 1), (usize::MAX, u32::MAX, u64::MAX)] {
        let edt = Edt::new(EdtOptions {
            limit_packets: packets,
            flow_limit_packets: Some(number),
            flows: number,
            horizon: Duration::from_nanos(bytes),
            ..EdtOptions::default()
        });
        let fq_codel = FqCodel::new(FqCodelOptions {
            limit_packets: packets,
            memory_limit_bytes: bytes,
            flows: number,
            quantum_bytes: number,
            target: Duration::from_nanos(bytes),
            interval: Duration::from_nanos(bytes),
            ..FqCodelOptions::default()
        });
        let disciplines: [Box<dyn Qdisc>; 6] = [
            Box::new(edt),
            Box::new(fq_codel),
            Box::new(Fifo::new(FifoLimit::Packets(packets))),
            Box::new(Fifo::new(FifoLimit::Bytes(bytes))),
            Box::new(Prio::new(packets)),
            Box::new(Tbf::new(Prio::new(packets), Rate::new(bytes).burst(bytes))),
        ];
        for mut qdisc in disciplines {
            qdisc.reserve(64);
            let pool = pool(16);
            let mut root = RootQdisc::new(qdisc, pool.region(), Arc::new(ManualClock::default()));
            let (mut batch, mut cache) = (Batch::new(4), pool.cache("limits").unwrap());
            cache.take(&mut batch, 1, 60).unwrap();
            root.begin();
            root.enqueue(&mut batch);
            root.dequeue(&mut batch, Limit::NONE);
            assert_eq!(batch.len(), 1, "{} with {packets}, {number}, {bytes}", root.qdisc().name());
            cache.give(&mut batch).unwrap();
        }
    }
}

/// A discipline that loses each tenth frame: what a mistake looks like.
struct Loses(Fifo, u64);

impl Qdisc for Loses {
    fn name(&self) -> &'static str {
        "loses"
    }
    fn reserve(&mut self, frames: usize) {
        self.0.reserve(frames);
    }
    fn storage(&self) -> usize {
        self.0.storage()
    }
    fn enqueue(&mut self, cx: &mut QdiscContext<'_>, from: &mut Batch) {
        self.1 += 1;
        if self.1.is_multiple_of(10) {
            from.pop();
        }
        self.0.enqueue(cx, from);
    }
    fn dequeue(&mut self, cx: &mut QdiscContext<'_>, to: &mut Batch, limit: Limit) {
        self.0.dequeue(cx, to, limit);
    }
    fn len(&self) -> usize {
        self.0.len()
    }
    fn backpressure(&self) -> Backpressure {
        self.0.backpressure()
    }
    fn purge(&mut self, to: &mut Batch) {
        self.0.purge(to);
    }
    fn visit(&self, see: &mut dyn FnMut(&Frame)) {
        self.0.visit(see);
    }
}

#[test]
#[should_panic(expected = "loses")]
fn a_discipline_that_loses_a_frame_is_named() {
    check(1, Box::new(Loses(Fifo::new(FifoLimit::Packets(100)), 0)));
}

#[test]
fn back_pressure_is_by_band() {
    let all = Backpressure::of_all(5, true).from_band(1, Backpressure::of_all(0, false));
    assert_eq!((all.full_bands(), all.room(0), all.room(1), all.room(9)), (0xfe, 5, 0, 0));
    assert!(all.has_drained(0) && !all.has_drained(1) && !all.has_drained(200));
    let dropping = Backpressure::of_dropping(false);
    assert_eq!((dropping.full_bands(), dropping.room(3)), (0, usize::MAX));
    assert_eq!(Backpressure::of_dropping(true).full_bands(), 0xff);
}
