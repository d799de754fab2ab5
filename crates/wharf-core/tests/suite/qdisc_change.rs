//! Another discipline, or another rate, in a queue with packets inside.

use crate::pollers::Threads;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::thread::ThreadId;
use std::time::Duration;
use wharf_core::poller::Mode;
use wharf_core::pool::PagePool;
use wharf_core::qdisc::contract::{ManualClock, write_packet};
use wharf_core::qdisc::{
    Fifo, FifoLimit, FqCodel, FqCodelOptions, Limit, Prio, QDISC_CHANGED, Qdisc, Rate, RootQdisc, Tbf,
    WhenFull,
};
use wharf_core::queue::TxQueue;
use wharf_core::sender::Sender;
use wharf_core::wait::Wait;
use wharf_mem::Batch;
use wharf_testkit::gate::{Control, Gate};
use wharf_testkit::threads::within_a_minute;
use wharf_testkit::{assert_conserved, builder, numbered, pool};

const SECOND: Duration = Duration::from_secs(1);

fn fifo(packets: usize) -> Box<dyn Qdisc> {
    Box::new(Fifo::new(FifoLimit::Packets(packets)))
}

fn fq_codel() -> Box<dyn Qdisc> {
    Box::new(FqCodel::new(FqCodelOptions::default()))
}

/// A queue before a device that takes one frame and completes none yet, with `packets` sent into it.
fn stuck(pool: &PagePool, qdisc: Box<dyn Qdisc>, packets: u64) -> (TxQueue, Arc<Control>) {
    let (gate, control) = Gate::new(1);
    let queue = builder(pool, gate).qdisc(qdisc).lane_frames(8).small_queues(None).build().unwrap();
    let mut sender = queue.sender("before").unwrap();
    for number in 0..packets {
        let mut burst = numbered(&mut sender, number, 1, 64);
        _ = sender.send(&mut burst, Wait::Forever).unwrap();
    }
    (queue, control)
}

/// Checks that `senders` senders have sent `packets` each, in order.
fn assert_order(sent: &[u64], senders: u64, packets: u64) {
    for who in 0..senders {
        let numbers =
            sent.iter().filter(|number| *number >> 32 == who).map(|number| number & u64::from(u32::MAX));
        assert!(numbers.eq(0..packets), "packets of sender {who}");
    }
}

fn drained(queue: &TxQueue, control: &Control) {
    control.allowed.store(usize::MAX / 2, SeqCst);
    assert!(queue.drain(SECOND));
    let audit = queue.shutdown(SECOND);
    assert_eq!(audit.out(), 0, "{audit}");
    assert_conserved(queue);
}

#[test]
fn packets_inside_go_into_the_new_discipline_in_order() {
    let prio = || Box::new(Prio::new(100)) as Box<dyn Qdisc>;
    let tbf =
        || Box::new(Tbf::new(Fifo::new(FifoLimit::Packets(100)), Rate::new(1_000_000_000))) as Box<dyn Qdisc>;
    let new: [fn() -> Box<dyn Qdisc>; 4] = [|| fifo(100), prio, tbf, fq_codel];
    for before in new {
        for after in new {
            let pool = pool(128);
            let (queue, control) = stuck(&pool, before(), 60);
            queue.set_qdisc(after());
            drained(&queue, &control);
            assert_eq!((queue.counters().sent.get(), queue.counters().failed.get()), (60, 0));
            // By flow these packets, which have no headers, have no order.
            if before().name() != "fq_codel" && after().name() != "fq_codel" {
                assert_order(&control.sent(), 1, 60);
            }
            assert_eq!(control.sent().len(), 60);
        }
    }
}

#[test]
fn packets_without_room_in_the_new_discipline_fail_and_are_counted() {
    let pool = pool(128);
    let (queue, control) = stuck(&pool, fifo(100), 60);
    queue.set_qdisc(fifo(4));
    let dropped = queue.counters().qdisc_drops.get();
    // Besides its limit it has storage for the lane of the sender.
    assert_eq!((dropped, queue.counters().failures()), (60 - 1 - 12, vec![(QDISC_CHANGED, dropped)]));
    drained(&queue, &control);
    assert_eq!(queue.counters().sent.get(), 60 - dropped);
}

#[test]
fn new_bands_count_although_senders_do_not_classify() {
    let pool = pool(128);
    let mut root = RootQdisc::new(fifo(100), pool.region(), Arc::new(ManualClock::default()));
    let mut cache = pool.cache("test").unwrap();
    let mut batch = Batch::new(4);
    let mut put = |root: &mut RootQdisc, numbers: [u64; 2]| {
        cache.take(&mut batch, 2, 64).unwrap();
        // EF is urgent, the other is best effort.
        for (frame, (number, tos)) in batch.frames_mut().iter_mut().zip(numbers.into_iter().zip([0, 46 << 2]))
        {
            write_packet(pool.region().bytes_mut(frame).unwrap(), 1, tos, number);
        }
        root.enqueue(&mut batch);
    };
    put(&mut root, [1, 2]);
    let (mut passing, mut out) = (Batch::new(64), Batch::new(8));
    root.replace(Box::new(Prio::new(100)), false, &mut passing);
    put(&mut root, [3, 4]);
    assert_eq!(root.dequeue(&mut out, Limit::NONE), 4);
    let number = |frame| pool.region().bytes(frame).unwrap()[49];
    assert_eq!(out.frames().iter().map(number).collect::<Vec<_>>(), [2, 4, 1, 3]);
    cache.give(&mut out).unwrap();
}

/// Sends a packet of that TOS by the queue's policy. Returns true if it was accepted.
fn takes(sender: &mut Sender, tos: u8, number: u64) -> bool {
    let mut burst = numbered(sender, number, 1, 64);
    for packet in burst.iter_mut() {
        write_packet(packet, 1, tos, number);
    }
    let sent = sender.submit(&mut burst, Wait::Never).unwrap();
    assert_eq!(sent.accepted + sent.dropped + sent.left, 1);
    sent.accepted == 1
}

#[test]
fn full_band_of_a_new_discipline_holds_up_no_other_band() {
    let pool = pool(128);
    let (gate, control) = Gate::new(1);
    let queue = builder(&pool, gate).qdisc(fifo(100)).lane_frames(8).small_queues(None).build().unwrap();
    let mut sender = queue.sender("before").unwrap();
    queue.set_drop_tail(true);
    assert!(takes(&mut sender, 0, 0));
    queue.set_qdisc(Box::new(Prio::new(4)));
    let accepted = (1..40).filter(|&number| takes(&mut sender, 0, number)).count();
    assert!(accepted < 39, "best effort is full");
    assert!(takes(&mut sender, 46 << 2, 40), "the urgent band is empty");
    assert!(!takes(&mut sender, 0, 41));
    drained(&queue, &control);
}

#[test]
fn sparse_flows_stay_in_a_smaller_discipline() {
    let limited = |limit_packets| {
        let options = FqCodelOptions { limit_packets, when_full: WhenFull::DropHead, ..Default::default() };
        Box::new(FqCodel::new(options))
    };
    let pool = pool(512);
    let mut root = RootQdisc::new(limited(500), pool.region(), Arc::new(ManualClock::default()));
    let mut cache = pool.cache("test").unwrap();
    let mut batch = Batch::new(1);
    // Whatever the index of each flow.
    for (flow, number) in (0..250).map(|number| (0, number)).chain((1..20).map(|flow| (flow, 0))) {
        cache.take(&mut batch, 1, 64).unwrap();
        write_packet(pool.region().bytes_mut(&mut batch.frames_mut()[0]).unwrap(), flow, 0, number);
        root.enqueue(&mut batch);
    }
    root.replace(limited(50), false, &mut Batch::new(64));
    let (mut home, mut dropped) = (Batch::new(256), 0);
    _ = root.take_dropped(&mut home, |(_, count)| dropped += count);
    assert_eq!((dropped, home.len()), (269 - 50, 269 - 50));
    let flows = |home: &Batch| {
        let mut all = std::collections::BTreeSet::new();
        home.frames()
            .iter()
            .for_each(|frame| _ = all.insert(pool.region().bytes(frame).unwrap()[..42].to_vec()));
        all.len()
    };
    assert_eq!(flows(&home), 1, "all dropped packets are of the longest flow");
    cache.give(&mut home).unwrap();
    _ = root.purge(&mut home);
    assert_eq!(flows(&home), 20);
    cache.give(&mut home).unwrap();
}

#[test]
fn bucket_has_the_new_rate_at_once() {
    let (pool, clock) = (pool(256), Arc::new(ManualClock::default()));
    let qdisc = Tbf::new(Fifo::new(FifoLimit::Packets(200)), Rate::new(8_000_000).burst(1000));
    let mut root = RootQdisc::new(Box::new(qdisc), pool.region(), clock.clone());
    let mut cache = pool.cache("test").unwrap();
    let (mut batch, mut out) = (Batch::new(100), Batch::new(100));
    cache.take(&mut batch, 100, 1000).unwrap();
    root.enqueue(&mut batch);
    let mut leave = |root: &mut RootQdisc| {
        root.begin();
        let count = root.dequeue(&mut out, Limit::NONE);
        cache.give(&mut out).unwrap();
        count
    };
    // A full bucket, then 1000 bytes a millisecond.
    assert_eq!(leave(&mut root), 1);
    clock.advance(1_000_000);
    assert_eq!((leave(&mut root), root.set_rate(Rate::new(80_000_000).burst(10_000))), (1, true));
    clock.advance(1_000_000);
    assert_eq!(leave(&mut root), 10);
    assert!(root.set_rate(Rate::new(8_000_000).burst(1000)));
    clock.advance(1_000_000);
    assert_eq!(leave(&mut root), 1);
    let mut rest = Batch::new(100);
    while root.purge(&mut rest) > 0 {
        cache.give(&mut rest).unwrap();
    }
}

/// Posts a message for the owner that posts another one, `left` times. `carried_out` counts those of thread `caller`.
fn post(queue: TxQueue, left: u64, caller: ThreadId, carried_out: Arc<AtomicU64>) {
    let next = queue.clone();
    queue.apply(move |_| {
        carried_out.fetch_add(u64::from(std::thread::current().id() == caller), SeqCst);
        if left > 0 {
            post(next, left - 1, caller, carried_out);
        }
    });
}

/// The owner cannot leave while messages come. After some of them it leaves the rest to the poller, and its caller goes on.
#[test]
fn messages_without_end_hold_up_no_sender() {
    within_a_minute(|| {
        const ALL: u64 = 100_000;
        let (threads, pool) = (Threads::default(), pool(64));
        let queue = threads.queue(&pool, Gate::open(32).0);
        let (poller, stop) = threads.poller(Mode::Adaptive, std::slice::from_ref(&queue), &[]);
        let mine = Arc::new(AtomicU64::new(0));
        std::thread::scope(|scope| {
            scope.spawn(move || poller.run());
            threads.0.await_asleep(1);
            post(queue.clone(), ALL, std::thread::current().id(), mine.clone());
            let mut sender = queue.sender("sends").unwrap();
            let mut burst = numbered(&mut sender, 0, 1, 64);
            _ = sender.send(&mut burst, Wait::Forever).unwrap();
            // The sender's end, once the poller has left, carries out what is still there.
            let carried_out = mine.load(SeqCst);
            stop.stop();
            assert!(carried_out < ALL / 100, "{carried_out} messages in two calls");
        });
        assert!(queue.drain(SECOND));
        assert_conserved(&queue);
    });
}

/// Three senders at full speed while the discipline changes over and over.
#[test]
fn changes_under_traffic_lose_nothing() {
    within_a_minute(|| {
        let (gate, control) = Gate::open(32);
        let pool = pool(512);
        let queue = builder(&pool, gate).qdisc(fifo(50)).build().unwrap();
        std::thread::scope(|scope| {
            let senders = [0u64, 1, 2].map(|who| {
                let queue = queue.clone();
                scope.spawn(move || {
                    let mut sender = queue.sender("sends").unwrap();
                    for number in 0..1500 {
                        let mut burst = numbered(&mut sender, who << 32 | number, 1, 64);
                        _ = sender.send(&mut burst, Wait::Forever).unwrap();
                    }
                })
            });
            let mut round = 0u64;
            while senders.iter().any(|sender| !sender.is_finished()) {
                round += 1;
                queue.set_qdisc(if round.is_multiple_of(2) { fifo(500) } else { Box::new(Prio::new(500)) });
                queue.set_byte_limits(wharf_core::bql::Bounds {
                    min_bytes: round as u32 % 4096,
                    ..Default::default()
                });
            }
        });
        assert!(queue.drain(SECOND));
        assert_eq!(queue.counters().failed.get(), 0, "{:?}", queue.counters().failures());
        assert_order(&control.sent(), 3, 1500);
        assert_conserved(&queue);
    });
}
