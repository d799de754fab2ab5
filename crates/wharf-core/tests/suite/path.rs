//! The path over a device that the test controls: conservation, order, doorbells, requeue, priority, errors.

use proptest::prelude::*;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;
use wharf_core::bql::Bounds;
use wharf_core::engine::Batching;
use wharf_core::qdisc::{Fifo, FifoLimit, Prio, QdiscRegistry, QdiscSetup};
use wharf_core::sender::SendError;
use wharf_core::wait::Wait;
use wharf_testkit::gate::Gate;
use wharf_testkit::{assert_conserved, builder, numbered, pool};

#[test]
fn packet_on_a_quiet_path_rings_the_doorbell_at_once() {
    let (gate, control) = Gate::open(64);
    let (pool, queue);
    pool = wharf_testkit::pool(64);
    queue = builder(&pool, gate).build().unwrap();
    let mut sender = queue.sender("one").unwrap();
    for n in 0..10 {
        let mut burst = numbered(&mut sender, n, 1, 60);
        _ = sender.send(&mut burst, Wait::Forever).unwrap();
        assert_eq!(control.doorbells.load(SeqCst) as u64, n + 1);
        assert_eq!(control.sent().len() as u64, n + 1);
    }
    drop(sender);
    assert_conserved(&queue);
}

#[test]
fn frames_left_by_the_device_go_first_next_time() {
    let (gate, control) = Gate::open(64);
    control.take_max.store(3, SeqCst);
    let pool = pool(256);
    let queue = builder(&pool, gate).build().unwrap();
    let mut sender = queue.sender("one").unwrap();
    for n in 0..20 {
        let mut burst = numbered(&mut sender, n * 10, 10, 100);
        _ = sender.send(&mut burst, Wait::Forever).unwrap();
    }
    queue.poll();
    while control.sent().len() < 200 {
        queue.poll();
    }
    assert_eq!(control.sent(), (0..200).collect::<Vec<u64>>());
    assert!(queue.counters().requeues.get() > 0);
    assert_eq!(control.silent.load(SeqCst), 0, "a doorbell is never forgotten");
    drop(sender);
    assert_conserved(&queue);
}

#[test]
fn byte_limit_off_leaves_only_the_ring_and_can_be_set_live() {
    for bounds in [Bounds::LEARN, Bounds::OFF] {
        let (gate, control) = Gate::new(64);
        let pool = pool(512);
        let queue = builder(&pool, gate).byte_limits(bounds).build().unwrap();
        let mut sender = queue.sender("one").unwrap();
        let mut in_device = || {
            let mut burst = numbered(&mut sender, 0, 40, 1000);
            _ = sender.send(&mut burst, Wait::Forever).unwrap();
            queue.poll();
            control.sent().len()
        };
        // The first bulk always goes; its completion sets the limit.
        let first = in_device();
        control.allowed.fetch_add(first, SeqCst);
        queue.poll();
        let beyond = in_device() - first;
        match bounds.is_off() {
            true => assert_eq!(beyond, 64, "the ring is full"),
            false => assert!(beyond < 64, "{beyond} frames within the limit"),
        }
        queue.set_byte_limits(Bounds { max_bytes: 5000, ..Bounds::LEARN });
        control.allowed.fetch_add(beyond, SeqCst);
        queue.poll();
        assert!(queue.counters().bql_limit_bytes.get() <= 5000, "in force with the next completion");
        control.allowed.store(usize::MAX / 2, SeqCst);
        assert!(queue.drain(Duration::MAX));
        drop(sender);
        assert_conserved(&queue);
    }
}

#[test]
fn batching_off_makes_one_call_and_doorbell_per_packet() {
    let (gate, control) = Gate::open(1024);
    let pool = pool(512);
    let queue = builder(&pool, gate).batching(Batching::Off).build().unwrap();
    let mut sender = queue.sender("one").unwrap();
    for n in 0..10 {
        let mut burst = numbered(&mut sender, n * 32, 32, 100);
        _ = sender.send(&mut burst, Wait::Forever).unwrap();
    }
    let calls = control.calls.lock().unwrap().clone();
    assert!(calls.iter().all(|call| call.len() == 1));
    assert_eq!((calls.len(), control.doorbells.load(SeqCst)), (320, 320));
    queue.set_batching(Batching::Bytes(1000));
    for n in 10..40 {
        let mut burst = numbered(&mut sender, n * 32, 32, 100);
        _ = sender.send(&mut burst, Wait::Forever).unwrap();
    }
    let calls = control.calls.lock().unwrap().clone();
    assert!(calls.iter().all(|call| call.len() <= 10), "1000 bytes are ten packets");
    assert!(calls.iter().any(|call| call.len() == 10));
    assert_eq!(control.sent(), (0..1280).collect::<Vec<u64>>());
    drop(sender);
    assert_conserved(&queue);
}

/// Of three packets that wait, EF leaves first by default, and CS1 last where the map says so. A priority goes before the DSCP.
#[test]
fn packets_without_a_priority_leave_by_the_bands_of_their_dscp() {
    for (spec, order) in [("prio", [0, 2, 4, 1, 3]), ("prio:map=ef=1/cs1=2/0=0", [0, 3, 4, 2, 1])] {
        let pool = pool(64);
        let (gate, control) = Gate::new(1);
        let qdisc = QdiscRegistry::default().parse(spec).unwrap().build(QdiscSetup::default());
        let queue = builder(&pool, gate).qdisc(qdisc).build().unwrap();
        let mut sender = queue.sender("dscp").unwrap();
        for (n, tos) in [(0, 0), (1, 0x20), (2, 0xb8), (3, 0), (4, 0)] {
            let mut burst = numbered(&mut sender, n, 1, 64);
            burst.iter_mut().for_each(|bytes| bytes[12..16].copy_from_slice(&[8, 0, 0x45, tos]));
            if n == 4 {
                burst.packets_mut().for_each(|mut packet| packet.set_priority(6));
            }
            _ = sender.send(&mut burst, Wait::Forever).unwrap();
        }
        control.allowed.store(usize::MAX / 2, SeqCst);
        assert!(queue.drain(Duration::MAX));
        assert_eq!(control.sent(), order, "{spec}");
        drop(sender);
        assert_conserved(&queue);
    }
}

#[test]
fn priority_packet_behind_a_thousand_leaves_within_one_bulk() {
    let (gate, control) = Gate::new(64);
    let pool = pool(2048);
    let queue = builder(&pool, gate).qdisc(Box::new(Prio::new(1000))).build().unwrap();
    let mut sender = queue.sender("one").unwrap();
    for n in 0..100 {
        let mut burst = numbered(&mut sender, n * 10, 10, 100);
        assert_eq!(sender.send(&mut burst, Wait::Never).unwrap().accepted, 10);
    }
    let mut urgent = sender.packet(100, Wait::Never).unwrap();
    urgent.bytes_mut()[..8].copy_from_slice(&u64::MAX.to_be_bytes());
    urgent.set_priority(6);
    _ = sender.send_packet(urgent, Wait::Forever).unwrap();
    let taken = control.sent().len();
    assert!(taken <= 64, "the ring is full with the first of them");
    while control.sent().len() < 1001 {
        control.allowed.store(64, SeqCst);
        queue.poll();
    }
    let sent = control.sent();
    let at = sent.iter().position(|&n| n == u64::MAX).unwrap();
    assert!(at <= taken + 64, "place {at}, after {taken} that were with the device already");
    let bulk: Vec<u64> = sent.into_iter().filter(|&n| n != u64::MAX).collect();
    assert_eq!(bulk, (0..1000).collect::<Vec<u64>>());
    drop(sender);
    control.allowed.store(2000, SeqCst);
    queue.poll();
    assert_conserved(&queue);
}

#[test]
fn full_path_takes_no_more_and_full_band_holds_back_only_its_senders() {
    let (gate, control) = Gate::new(8);
    let pool = pool(1024);
    let queue = builder(&pool, gate).qdisc(Box::new(Prio::new(20))).lane_frames(64).build().unwrap();
    let mut sender = queue.sender("one").unwrap();
    let mut taken = 0;
    for n in 0..40 {
        let mut burst = numbered(&mut sender, n * 10, 10, 100);
        taken += sender.send(&mut burst, Wait::Never).unwrap().accepted;
    }
    assert!((20..200).contains(&taken), "{taken} of 400 taken: ring 8, band 20, lane 64");
    let mut urgent = sender.packet(100, Wait::Never).unwrap();
    urgent.set_priority(6);
    let mut burst = sender.burst(1);
    burst.push(urgent).unwrap();
    assert_eq!(sender.send(&mut burst, Wait::Never).unwrap().accepted, 1, "its band is empty");
    control.allowed.store(usize::MAX / 2, SeqCst);
    queue.poll();
    drop(sender);
    assert_conserved(&queue);
    assert_eq!(queue.counters().sent.get(), taken as u64 + 1);
}

#[test]
fn false_completions_are_errors_and_lose_no_frame() {
    let (gate, control) = Gate::open(64);
    let pool = pool(128);
    let queue = builder(&pool, gate).build().unwrap();
    let mut sender = queue.sender("one").unwrap();
    control.lies.store(2, SeqCst);
    control.failures.store(3, SeqCst);
    for n in 0..4 {
        let mut burst = numbered(&mut sender, n * 10, 10, 100);
        _ = sender.send(&mut burst, Wait::Forever).unwrap();
    }
    assert_eq!(queue.counters().device_errors.get(), 2);
    assert_eq!(
        queue.counters().last_error().unwrap(),
        "gate: completion of slot 7, which holds no frame (ring of 64)"
    );
    assert_eq!(queue.counters().failures(), [("test", 3)]);
    drop(sender);
    assert_conserved(&queue);
}

#[test]
fn packets_of_another_pool_are_refused_and_kept() {
    let (pool, other) = (pool(64), wharf_testkit::pool(64));
    let queue = builder(&pool, Gate::open(8).0).build().unwrap();
    let mut sender = queue.sender("one").unwrap();
    let mut burst = other.burst(4);
    burst.push(other.packet(60).unwrap()).unwrap();
    assert!(matches!(sender.send(&mut burst, Wait::Forever), Err(SendError::ForeignPool { .. })));
    assert_eq!(burst.len(), 1);
    drop(burst);
    assert_eq!(other.audit().out(), 0);
}

#[test]
fn batching_off_applies_to_requeued_frames() {
    let (gate, control) = Gate::new(1024);
    control.take_max.store(1, SeqCst);
    let pool = pool(512);
    let queue = builder(&pool, gate).build().unwrap();
    let mut sender = queue.sender("one").unwrap();
    for n in 0..4 {
        control.allowed.store(1000, SeqCst);
        let mut burst = numbered(&mut sender, n * 32, 32, 100);
        _ = sender.send(&mut burst, Wait::Never).unwrap();
    }
    let before = control.calls();
    control.take_max.store(0, SeqCst);
    queue.set_batching(Batching::Off);
    control.allowed.store(1000, SeqCst);
    while control.sent().len() < 128 {
        queue.poll();
    }
    assert!(control.calls.lock().unwrap()[before..].iter().all(|call| call.len() == 1));
    assert_eq!(control.sent(), (0..128).collect::<Vec<u64>>());
    drop(sender);
    assert_conserved(&queue);
}

#[test]
fn byte_limit_of_zero_still_sends() {
    for limit in [FifoLimit::Packets(0), FifoLimit::Bytes(0)] {
        let (gate, control) = Gate::new(2);
        let pool = pool(256);
        let queue = builder(&pool, gate).qdisc(Box::new(Fifo::new(limit))).build().unwrap();
        let mut sender = queue.sender("one").unwrap();
        let mut burst = numbered(&mut sender, 0, 100, 64);
        while !burst.is_empty() {
            _ = sender.send(&mut burst, Wait::Never).unwrap();
            control.allowed.store(10, SeqCst);
            queue.poll();
        }
        drop((sender, burst));
        control.allowed.store(1000, SeqCst);
        queue.poll();
        assert_conserved(&queue);
        assert_eq!(queue.counters().sent.get(), 100);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Conservation, order and doorbells under random bursts, rings, partial acceptance, completions and batching.
    #[test]
    fn conservation_order_and_doorbells(
        ops in prop::collection::vec((0u8..6, 1usize..33, 60u32..1500), 1..150),
        ring in prop::sample::select(vec![2usize, 3, 8, 1024]),
        start in prop::sample::select(vec![0u32, u32::MAX - 5, u32::MAX - 3000]),
        by_bytes in any::<bool>(),
    ) {
        let (gate, control) = Gate::new(ring);
        let pool = pool(4096);
        let limit = if by_bytes { FifoLimit::Bytes(40_000) } else { FifoLimit::Packets(100) };
        let queue = builder(&pool, gate).qdisc(Box::new(Fifo::new(limit))).index_start(start).build().unwrap();
        let mut sender = queue.sender("one").unwrap();
        let mut next = 0;
        for (op, n, len) in ops {
            match op {
                0..=2 => {
                    let mut burst = numbered(&mut sender, next, n, len);
                    next += sender.send(&mut burst, Wait::Never).unwrap().accepted as u64;
                }
                3 => {
                    control.allowed.store(n * 4, SeqCst);
                    queue.poll();
                }
                4 => control.take_max.store(n % 5, SeqCst),
                _ => queue.set_batching([Batching::On, Batching::Off, Batching::Bytes(len)][n % 3]),
            }
        }
        control.take_max.store(0, SeqCst);
        control.allowed.store(usize::MAX / 2, SeqCst);
        queue.poll();
        prop_assert_eq!(control.sent(), (0..next).collect::<Vec<u64>>());
        prop_assert_eq!(control.silent.load(SeqCst), 0);
        prop_assert_eq!(control.doorbells.load(SeqCst) as u64, queue.counters().doorbells.get());
        drop(sender);
        assert_conserved(&queue);
        prop_assert_eq!(queue.counters().sent.get(), next);
    }
}

#[test]
fn sender_alone_keeps_the_bias() {
    let (gate, _) = Gate::open(64);
    let pool = pool(64);
    let queue = builder(&pool, gate).build().unwrap();
    let is_kept = || format!("{queue:?}").contains(&format!("{:#x}", wharf_mem::word::BIASED));
    let mut sender = queue.sender("alone").unwrap();
    let send = |sender: &mut wharf_core::sender::Sender| {
        for n in 0..40 {
            let mut burst = numbered(sender, n, 1, 64);
            _ = sender.send(&mut burst, Wait::Forever).unwrap();
        }
    };
    send(&mut sender);
    assert!(is_kept());
    queue.poll();
    assert!(!is_kept(), "another owner takes the bias away");
    let mut second = queue.sender("second").unwrap();
    send(&mut sender);
    assert!(is_kept(), "an idle sender takes nothing away");
    let mut burst = numbered(&mut second, 0, 1, 64);
    _ = second.send(&mut burst, Wait::Forever).unwrap();
    assert!(!is_kept(), "a sending one does");
    drop((second, sender));
    assert_eq!(queue.shutdown(Duration::MAX).out(), 0);
    assert_conserved(&queue);
}
