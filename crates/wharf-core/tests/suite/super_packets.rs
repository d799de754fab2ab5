//! Disciplines whose limit drops, with super-packets: the memory that these take is bounded, too.

use std::sync::Arc;
use wharf_core::pool::Cache;
use wharf_core::qdisc::contract::{ManualClock, write_packet};
use wharf_core::qdisc::{
    DROP_HEAD, Edt, EdtOptions, Fifo, FifoLimit, FqCodel, FqCodelOptions, Limit, Prio, Qdisc, RootQdisc, Tbf,
    WhenFull,
};
use wharf_core::sg_writer::{Placement, SgWriter};
use wharf_mem::{Batch, Meta};
use wharf_testkit::pool_of;

const FRAMES: u32 = 1024;
/// Buffers of each super-packet.
const BUFFERS: u32 = 40;
const BUFFER_BYTES: u32 = 192;

fn disciplines() -> Vec<Box<dyn Qdisc>> {
    disciplines_that(WhenFull::DropHead)
}

fn disciplines_that(when_full: WhenFull) -> Vec<Box<dyn Qdisc>> {
    let limit_packets = 500;
    let fifo = |limit| Fifo::new(limit).when_full(when_full);
    let fq_codel = FqCodelOptions { limit_packets, when_full, ..FqCodelOptions::default() };
    let edt = EdtOptions { limit_packets, when_full, ..EdtOptions::default() };
    vec![
        Box::new(fifo(FifoLimit::Packets(limit_packets))),
        Box::new(fifo(FifoLimit::Bytes(1 << 24))),
        Box::new(Prio::new(limit_packets).when_full(when_full)),
        Box::new(Tbf::new(FqCodel::new(fq_codel), wharf_core::qdisc::Rate::new(8_000_000))),
        Box::new(Edt::new(edt)),
    ]
}

/// Takes a packet of that many bytes with a header of `flow`. False if there is no memory.
fn take(cache: &mut Cache, to: &mut Batch, flow: u16, len_bytes: u32) -> bool {
    let mut bytes = vec![0; len_bytes as usize];
    write_packet(&mut bytes, flow, 0, 0);
    let placed =
        SgWriter::default().place(cache, to, [&bytes[..]].into_iter(), len_bytes, &Meta::default()).unwrap();
    placed == Placement::Done
}

/// Offers `count` packets to the discipline of a device that takes none, and frees what it drops. Returns the
/// number dropped; `None` if the pool ran empty.
fn flood(root: &mut RootQdisc, cache: &mut Cache, count: u32, len_bytes: u32) -> Option<u64> {
    let (mut batch, mut home, mut dropped) = (Batch::new(1), Batch::new(64), 0);
    for _ in 0..count {
        if !take(cache, &mut batch, 1, len_bytes) {
            return None;
        }
        root.begin();
        root.enqueue(&mut batch);
        while root.backpressure().full_bands() != 0 {
            let before = root.qdisc().len();
            root.trim();
            assert!(root.qdisc().len() < before, "{} drops nothing", root.qdisc().name());
        }
        while root.take_dropped(&mut home, |(_, count)| dropped += count) > 0 {
            cache.give(&mut home).unwrap();
        }
    }
    Some(dropped)
}

fn empty(root: &mut RootQdisc, cache: &mut Cache) {
    let mut home = Batch::new(64);
    while root.purge(&mut home) > 0 {
        cache.give(&mut home).unwrap();
    }
}

#[test]
fn flood_of_super_packets_leaves_memory_to_other_flows() {
    for qdisc in disciplines() {
        let pool = pool_of(FRAMES, BUFFER_BYTES);
        let mut cache = pool.cache("test").unwrap();
        let mut root = RootQdisc::new(qdisc, pool.region(), Arc::new(ManualClock::default()));
        let name = root.qdisc().name();
        let dropped = flood(&mut root, &mut cache, 400, BUFFERS * BUFFER_BYTES);
        assert!(dropped.is_some_and(|dropped| dropped > 300), "{name}: {dropped:?}");
        // A sparse flow still finds memory, and stays.
        let (mut sparse, before) = (Batch::new(1), root.qdisc().len());
        assert!(take(&mut cache, &mut sparse, 2, 100));
        root.enqueue(&mut sparse);
        assert_eq!((root.qdisc().len(), root.backpressure().full_bands()), (before + 1, 0), "{name}");
        empty(&mut root, &mut cache);
        assert_eq!(pool.audit().out(), 0);
    }
}

#[test]
fn packets_of_one_buffer_have_their_limit_alone() {
    for qdisc in disciplines() {
        let pool = pool_of(FRAMES, BUFFER_BYTES);
        let mut cache = pool.cache("test").unwrap();
        let mut root = RootQdisc::new(qdisc, pool.region(), Arc::new(ManualClock::default()));
        assert_eq!(flood(&mut root, &mut cache, 500, BUFFER_BYTES), Some(0), "{}", root.qdisc().name());
        empty(&mut root, &mut cache);
    }
}

/// Ports of a switch that take nothing: another one still receives.
#[test]
fn queues_of_one_pool_then_all_together_leave_memory() {
    for len_bytes in [BUFFERS * BUFFER_BYTES, BUFFER_BYTES] {
        let pool = pool_of(FRAMES, BUFFER_BYTES);
        let mut cache = pool.cache("test").unwrap();
        let root = |qdisc| RootQdisc::new(qdisc, pool.region(), Arc::new(ManualClock::default()));
        let mut roots: Vec<_> = disciplines().into_iter().map(root).collect();
        for root in &mut roots {
            let dropped = flood(root, &mut cache, 400, len_bytes);
            assert!(dropped.is_some_and(|dropped| dropped > 200), "{}: {dropped:?}", root.qdisc().name());
        }
        assert!(pool.audit().out() <= FRAMES as usize * 3 / 4, "{} are out", pool.audit().out());
        // Where others have left, more is held.
        roots.truncate(2);
        roots.iter_mut().for_each(|root| empty(root, &mut cache));
        assert!(
            flood(&mut roots[0], &mut cache, 9, BUFFERS * BUFFER_BYTES).is_some_and(|dropped| dropped == 0)
        );
        roots.iter_mut().for_each(|root| empty(root, &mut cache));
    }
}

#[test]
fn discipline_whose_senders_wait_then_they_wait_for_memory_until_half_of_it_is_free() {
    for qdisc in disciplines_that(WhenFull::Wait) {
        let pool = pool_of(FRAMES, BUFFER_BYTES);
        let mut cache = pool.cache("test").unwrap();
        let mut root = RootQdisc::new(qdisc, pool.region(), Arc::new(ManualClock::default()));
        let (name, mut batch, mut count) = (root.qdisc().name(), Batch::new(1), 0);
        while root.backpressure().full_bands() & 2 == 0 {
            assert!(
                take(&mut cache, &mut batch, 1, BUFFERS * BUFFER_BYTES),
                "{name}: no memory after {count}"
            );
            root.begin();
            root.enqueue(&mut batch);
            count += 1;
        }
        // Band 1 of `prio` leaves a quarter to band 0.
        assert!(if name == "prio" { count == 8 } else { count == 10 }, "{name}: {count}");
        assert_eq!(root.backpressure().full_bands() & 1 == 0, name == "prio", "{name}");
        assert!(!root.backpressure().has_drained(1), "{name}");
        empty(&mut root, &mut cache);
        assert!(root.backpressure().has_drained(1) && root.backpressure().full_bands() == 0, "{name}");
    }
}

/// Many short packets are not dropped for the sake of a few long ones.
#[test]
fn fq_codel_over_its_memory_then_the_flow_with_the_most_buffers_loses() {
    let pool = pool_of(FRAMES, BUFFER_BYTES);
    let mut cache = pool.cache("test").unwrap();
    let qdisc = disciplines().swap_remove(3);
    let mut root = RootQdisc::new(qdisc, pool.region(), Arc::new(ManualClock::default()));
    let mut batch = Batch::new(1);
    for _ in 0..450 {
        assert!(take(&mut cache, &mut batch, 2, BUFFER_BYTES));
        root.enqueue(&mut batch);
    }
    assert!(flood(&mut root, &mut cache, 20, BUFFERS * BUFFER_BYTES).is_some());
    let mut short = 0;
    root.visit(&mut |frame| short += u32::from(frame.len_bytes() == BUFFER_BYTES));
    assert_eq!(short, 450);
    empty(&mut root, &mut cache);
}

#[test]
fn another_discipline_is_bounded_as_the_first() {
    let pool = pool_of(FRAMES, BUFFER_BYTES);
    let mut cache = pool.cache("test").unwrap();
    let first = Box::new(Fifo::new(FifoLimit::Packets(10)));
    let mut root = RootQdisc::new(first, pool.region(), Arc::new(ManualClock::default()));
    root.replace(disciplines().swap_remove(2), false, &mut Batch::new(64));
    assert!(flood(&mut root, &mut cache, 100, BUFFERS * BUFFER_BYTES).is_some_and(|dropped| dropped > 50));
    empty(&mut root, &mut cache);
}

/// A FIFO limited by bytes keeps so many packets at most, and drops its oldest for more.
#[test]
fn fifo_of_bytes_drops_before_its_storage_ends() {
    let (pool, bytes) = (pool_of(2048, BUFFER_BYTES), 64 * 1000);
    let mut cache = pool.cache("test").unwrap();
    let fifo = Fifo::new(FifoLimit::Bytes(bytes)).when_full(WhenFull::DropHead);
    let mut root = RootQdisc::new(Box::new(fifo), pool.region(), Arc::new(ManualClock::default()));
    root.reserve(500);
    assert_eq!(flood(&mut root, &mut cache, 1600, 50), Some(600), "{DROP_HEAD}");
    let mut out = Batch::new(1);
    assert_eq!(root.dequeue(&mut out, Limit::NONE), 1);
    cache.give(&mut out).unwrap();
    empty(&mut root, &mut cache);
}
