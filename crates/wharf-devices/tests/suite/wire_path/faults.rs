//! A device that misbehaves, over a wire: what it gets wrong is an error, and nothing is lost, doubled or
//! overtaken for it.

use super::liars::{Faulty, Rates};
use proptest::prelude::*;
use std::sync::Arc;
use std::thread;
use std::time::Duration;
use wharf_core::device::RxDevice;
use wharf_core::pool::PagePool;
use wharf_core::queue::TxQueue;
use wharf_core::wait::Wait;
use wharf_devices::host::{HostClock, HostPark, PollerThread};
use wharf_devices::wire::{Wire, WireSpec, wire};
use wharf_mem::Batch;
use wharf_testkit::content::{len_of, read, write};
use wharf_testkit::threads::{UnreadClock, within_a_minute};
use wharf_testkit::{assert_conserved, pool};

/// Receives all packets of one sender, in order. Returns their number.
fn receive_all(mut far: Wire, pool: PagePool) -> u32 {
    let mut cache = pool.cache("far").unwrap();
    let (mut batch, mut next) = (Batch::new(64), 0);
    while !far.ended() {
        far.receive(&mut cache, &mut batch, 64).unwrap();
        for frame in batch.frames() {
            assert_eq!(read(pool.region().bytes(frame).unwrap()), (0, next));
            next += 1;
        }
        cache.give(&mut batch).unwrap();
        thread::yield_now();
    }
    assert_eq!(pool.audit().out(), 0);
    next
}

/// Sends `packets` over a faulty wire. Returns the queue with its counts.
fn send_over(rates: Rates, seed: u64, ring: u32, packets: u32) -> TxQueue {
    let (near, far) = wire(&WireSpec::default().clock(Arc::new(UnreadClock)).ring(ring).unwrap());
    let faulty = Faulty::new(near, ring as usize, rates, seed);
    let builder = TxQueue::builder(&pool(512), Box::new(faulty), Arc::new(HostClock), Arc::new(HostPark));
    let queue = builder.build().unwrap();
    let poller = PollerThread::start(&queue).unwrap();
    let receiver = thread::spawn(move || receive_all(far, pool(512)));
    let mut sender = queue.sender("one").unwrap();
    for number in 0..packets {
        let mut packet = sender.packet(len_of(number) as u32, Wait::Forever).unwrap();
        write(packet.bytes_mut(), 0, number);
        _ = sender.send_packet(packet, Wait::Forever).unwrap();
    }
    assert!(queue.drain(Duration::MAX));
    drop(sender);
    assert_eq!(queue.shutdown(Duration::MAX).out(), 0);
    assert_eq!(receiver.join().unwrap(), packets, "every packet arrived once and in order");
    drop(poller);
    assert_conserved(&queue);
    queue
}

#[test]
fn completions_of_frames_not_held_are_errors_and_cost_nothing() {
    within_a_minute(|| {
        let queue = send_over(Rates { not_held: 128, ..Rates::default() }, 1, 8, 500);
        assert!(queue.counters().device_errors.get() > 0);
        let error = queue.counters().last_error().unwrap();
        assert_eq!(error, "faulty: completion of slot 7, which holds no frame (ring of 8)");
        assert_eq!(queue.counters().sent.get(), 500);
    });
}

#[test]
fn excess_completed_bytes_are_an_error_and_block_no_sender() {
    within_a_minute(|| {
        let queue = send_over(Rates { longer: 255, ..Rates::default() }, 1, 8, 500);
        assert!(queue.counters().device_errors.get() > 0);
        let error = queue.counters().last_error().unwrap();
        assert!(error.starts_with("faulty: ") && !error.contains('\n'), "{error}");
    });
}

/// A case that hangs takes a minute: no shrinking.
fn config() -> ProptestConfig {
    ProptestConfig { cases: 12, max_shrink_iters: 0, failure_persistence: None, ..Default::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn nothing_is_lost_doubled_or_overtaken(
        seed in any::<u64>(),
        ring in prop::sample::select(vec![2u32, 4, 64]),
        rates in any::<[u8; 5]>(),
    ) {
        let [partial, stopped, not_held, lazy, failed] = rates;
        // A device that never completes anything would hold all for ever, rightly.
        let rates = Rates { partial, stopped, not_held, lazy: lazy.min(200), longer: 0, failed };
        within_a_minute(move || {
            let queue = send_over(rates, seed, ring, 200);
            let counters = queue.counters();
            assert_eq!(counters.sent.get() + counters.failed.get(), 200);
        });
    }
}
