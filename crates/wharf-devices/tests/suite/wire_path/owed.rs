//! Guarantees of the path for any behaviour of a device or another thread.

use super::liars::Liar;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use wharf_core::device::{RxDevice, TxDevice};
use wharf_core::pool::{Cache, PagePool};
use wharf_core::queue::TxQueue;
use wharf_core::wait::Wait;
use wharf_devices::host::{HostClock, HostPark};
use wharf_devices::null::Null;
use wharf_devices::wire::{WireSpec, wire};
use wharf_mem::Batch;
use wharf_testkit::threads::{UnreadClock, eventually, within_a_minute};
use wharf_testkit::{assert_conserved, pool};

fn queue(pool: &PagePool, device: impl TxDevice + 'static) -> TxQueue {
    TxQueue::builder(pool, Box::new(device), Arc::new(HostClock), Arc::new(HostPark)).build().unwrap()
}

#[test]
fn all_completions_of_a_sender_that_is_gone_go_home() {
    let (near, mut far) = wire(&WireSpec::default().clock(Arc::new(UnreadClock)).ring(256).unwrap());
    let (near_pool, far_pool) = (pool(512), pool(512));
    let queue = queue(&near_pool, near);
    queue.apply(|run| run.set_bql(None));
    let mut sender = queue.sender("mortal").unwrap();
    for _ in 0..4 {
        let mut burst = sender.burst(50);
        sender.fill(&mut burst, 50, 60, Wait::Never).unwrap();
        assert_eq!(sender.send(&mut burst, Wait::Never).unwrap().accepted, 50);
    }
    drop(sender);
    let (mut cache, mut batch) = (far_pool.cache("far").unwrap(), Batch::new(200));
    assert_eq!(far.receive(&mut cache, &mut batch, 200).unwrap(), 200);
    cache.give(&mut batch).unwrap();
    queue.poll();
    assert_conserved(&queue);
}

#[test]
fn sender_without_memory_finds_frames_others_gave_back() {
    within_a_minute(|| {
        let pool = pool(64);
        let queue = queue(&pool, Null::default());
        let held: Vec<_> = (0..64).map(|_| pool.packet(60).unwrap()).collect();
        thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                let mut sender = queue.sender("waits").unwrap();
                let mut burst = sender.burst(1);
                sender.fill(&mut burst, 1, 60, Wait::Forever).unwrap();
                _ = sender.send(&mut burst, Wait::Forever).unwrap();
            });
            let waits = || queue.senders().first().is_some_and(|sender| sender.waits.get() > 0);
            eventually(Duration::from_secs(50), waits);
            drop(held);
            waiting.join().unwrap();
        });
        assert_conserved(&queue);
    });
}

/// Sends until the queue is closed.
fn send_until_closed(queue: &TxQueue, burst_packets: usize) {
    let Ok(mut sender) = queue.sender("sends") else { return };
    let mut burst = sender.burst(8);
    loop {
        let filled = sender.fill(&mut burst, burst_packets, 60, Wait::Forever);
        if filled.and_then(|_| sender.send(&mut burst, Wait::Forever)).is_err() {
            return;
        }
    }
}

#[test]
fn shutdown_among_senders_strands_nothing() {
    within_a_minute(|| {
        let (near_pool, far_pool) = (pool(1024), pool(1024));
        for round in 0..300 {
            let (near, mut far) = wire(&WireSpec::default().ring(64).unwrap());
            let queue = queue(&near_pool, near);
            thread::scope(|scope| {
                (0..2).for_each(|_| drop(scope.spawn(|| send_until_closed(&queue, 1 + round % 8))));
                scope.spawn(|| {
                    let (mut cache, mut batch) = (far_pool.cache("far").unwrap(), Batch::new(64));
                    while !far.ended() {
                        far.receive(&mut cache, &mut batch, 64).unwrap();
                        cache.give(&mut batch).unwrap();
                    }
                });
                while queue.counters().sent.get() < 100 * (round as u64 % 5) {
                    thread::yield_now();
                }
                queue.shutdown(Duration::ZERO);
            });
            queue.poll();
            assert_conserved(&queue);
        }
    });
}

/// Sends 200 packets of 500 bytes over a liar, one by one; all must get through, and the lie be known.
fn send_over(len_bytes: Option<u32>, own: Option<Cache>) {
    let pool = pool(256);
    let queue = queue(&pool, Liar::new(len_bytes, own));
    let mut sender = queue.sender("one").unwrap();
    for number in 0..200 {
        let mut burst = sender.burst(1);
        let filled = sender.fill(&mut burst, 1, 500, Wait::Never);
        assert!(filled.is_ok(), "packet {number}: {filled:?}; {:?}", queue.counters().last_error());
        _ = sender.send(&mut burst, Wait::Never).unwrap();
        queue.poll();
    }
    assert_eq!(queue.counters().packets.get(), 200, "{:?}", queue.counters().last_error());
    // Fewer bytes than were queued only show when nothing is in flight any more.
    let lied = len_bytes.is_none_or(|len_bytes| len_bytes > 500);
    assert!(!lied || queue.counters().device_errors.get() > 0);
}

#[test]
fn bytes_completed_that_were_not_queued_do_not_wedge_the_limit() {
    send_over(Some(1400), None);
}

#[test]
fn bytes_queued_that_are_never_completed_do_not_wedge_the_limit() {
    send_over(Some(60), None);
}

#[test]
fn another_pools_frame_completed_does_not_spoil_a_sender() {
    let stranger = pool(256);
    send_over(None, Some(stranger.cache("liar").unwrap()));
}
