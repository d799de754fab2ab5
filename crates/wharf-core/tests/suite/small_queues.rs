//! Small queues: the bytes that one sender may have inside.

use proptest::prelude::*;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::task::{Context, Poll, Waker};
use wharf_core::host::Park;
use wharf_core::qdisc::{Fifo, FifoLimit, Prio};
use wharf_core::queue::{QueueBuilder, TxQueue};
use wharf_core::sender::Sender;
use wharf_core::wait::Wait;
use wharf_testkit::gate::{Control, Gate};
use wharf_testkit::threads::TestPark;
use wharf_testkit::{assert_conserved, builder, numbered, pool};

const LIMIT_BYTES: u32 = 4096;
/// Packets of 100 B within it.
const WITHIN: usize = 40;

fn held(build: impl FnOnce(QueueBuilder) -> QueueBuilder) -> (TxQueue, Sender, Arc<Control>) {
    let (gate, control) = Gate::new(1024);
    let queue = build(builder(&pool(2048), gate).small_queues(Some(LIMIT_BYTES))).build().unwrap();
    let mut sender = queue.sender("one").unwrap();
    let mut burst = numbered(&mut sender, 0, 64, 100);
    assert_eq!(
        sender.send(&mut burst, Wait::Never).unwrap().accepted,
        WITHIN,
        "{LIMIT_BYTES} B are {WITHIN} packets"
    );
    assert_eq!(sender.send(&mut burst, Wait::Never).unwrap().accepted, 0, "and no more");
    (queue, sender, control)
}

fn send_all(sender: &mut Sender) {
    for n in 100..200 {
        let mut burst = numbered(sender, n * 10, 10, 100);
        _ = sender.send(&mut burst, Wait::Forever).unwrap();
    }
}

fn end(queue: &TxQueue, sender: Sender, control: &Control) {
    drop(sender);
    control.allowed.store(usize::MAX / 2, SeqCst);
    queue.poll();
    assert_conserved(queue);
}

#[test]
fn sender_over_its_limit_is_held_until_bytes_have_left() {
    for start in [0, u32::MAX - 3000] {
        let (queue, mut sender, control) = held(|queue| queue.index_start(start));
        control.allowed.store(10, SeqCst);
        queue.poll();
        let mut burst = numbered(&mut sender, 100, 64, 100);
        assert_eq!(sender.send(&mut burst, Wait::Never).unwrap().accepted, 10, "as many as have left");
        assert_eq!(sender.counters().small_queue_bytes.get(), u64::from(LIMIT_BYTES));
        drop(burst);
        end(&queue, sender, &control);
    }
}

#[test]
fn held_sender_does_not_hold_another() {
    let (queue, sender, control) = held(|queue| queue);
    let mut other = queue.sender("other").unwrap();
    let mut burst = numbered(&mut other, 1000, 10, 100);
    assert_eq!(other.send(&mut burst, Wait::Never).unwrap().accepted, 10);
    drop(other);
    end(&queue, sender, &control);
    assert!(control.sent().contains(&1009));
}

#[test]
fn two_packets_are_within_any_limit() {
    let (gate, control) = Gate::new(64);
    let pool = wharf_core::pool::PagePool::builder().frames(64).frame_bytes(8192).huge_pages(false).build();
    let queue = builder(&pool.unwrap(), gate).small_queues(Some(LIMIT_BYTES)).build().unwrap();
    let mut sender = queue.sender("long").unwrap();
    let mut burst = numbered(&mut sender, 0, 5, 5000);
    assert_eq!(sender.send(&mut burst, Wait::Never).unwrap().accepted, 2);
    drop(burst);
    end(&queue, sender, &control);
}

#[test]
fn urgent_packets_are_not_held() {
    let (queue, mut sender, control) = held(|queue| queue.qdisc(Box::new(Prio::new(1000))));
    let mut urgent = sender.packet(100, Wait::Never).unwrap();
    urgent.bytes_mut()[..8].copy_from_slice(&7777u64.to_be_bytes());
    urgent.set_priority(6);
    _ = sender.send_packet(urgent, Wait::Forever).unwrap();
    end(&queue, sender, &control);
    assert!(control.sent().contains(&7777));
}

#[test]
fn held_sender_waits_and_is_woken() {
    let (queue, mut sender, control) = held(|queue| queue);
    let (done, counters) = (AtomicBool::new(false), sender.counters().clone());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            send_all(&mut sender);
            done.store(true, SeqCst);
        });
        while counters.waits.get() == 0 {
            std::thread::yield_now();
        }
        while !done.load(SeqCst) {
            // This thread's polls wake it, or its own naps.
            control.allowed.store(25, SeqCst);
            queue.poll();
            std::thread::yield_now();
        }
    });
    end(&queue, sender, &control);
}

#[test]
fn dedicated_owner_wakes_held_sender() {
    let (queue, mut sender, control) = held(|queue| queue);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            send_all(&mut sender);
            done.store(true, SeqCst);
        });
        let mut owner = queue.dedicate().unwrap();
        while !done.load(SeqCst) {
            control.allowed.store(25, SeqCst);
            owner.poll();
        }
    });
    end(&queue, sender, &control);
}

#[test]
fn held_task_is_ready_once_half_has_left() {
    let (queue, mut sender, control) = held(|queue| queue);
    let mut context = Context::from_waker(Waker::noop());
    {
        let mut ready = pin!(poll_fn(|context| sender.poll_ready(context)));
        assert!(ready.as_mut().poll(&mut context).is_pending());
        control.allowed.store(WITHIN / 2 - 1, SeqCst);
        assert!(ready.as_mut().poll(&mut context).is_pending(), "not at the first packet");
        control.allowed.store(1, SeqCst);
        assert_eq!(ready.as_mut().poll(&mut context).map(Result::unwrap), Poll::Ready(()));
    }
    end(&queue, sender, &control);
}

/// A turn that is left over lets a sender past full bands, not past its own limit.
#[test]
fn held_poll_of_a_send_with_a_turn_left_is_pending_until_bytes_have_left() {
    let (gate, control) = Gate::new(64);
    let queue = builder(&pool(256), gate).small_queues(Some(LIMIT_BYTES)).build().unwrap();
    let mut sender = queue.sender("one").unwrap();
    let mut burst = numbered(&mut sender, 0, 2, 1400);
    assert_eq!(sender.send(&mut burst, Wait::Never).unwrap().accepted, 2);
    let mut context = Context::from_waker(Waker::noop());
    assert!(sender.poll_ready(&mut context).is_ready(), "one byte more is within the limit");
    let mut burst = numbered(&mut sender, 2, 1, 1400);
    assert!(sender.poll_send(&mut context, &mut burst).is_pending());
    assert!(sender.poll_send(&mut context, &mut burst).is_pending(), "it asks again");
    control.allowed.store(2, SeqCst);
    let Poll::Ready(Ok(sent)) = sender.poll_send(&mut context, &mut burst) else { panic!("bytes have left") };
    assert_eq!(sent.accepted, 1);
    drop(burst);
    end(&queue, sender, &control);
}

#[test]
fn held_poll_loop_is_woken_by_its_watch() {
    let (queue, mut sender, control) = held(|queue| queue);
    let mut watch = sender.watch(1, 1, TestPark.waker());
    assert!(sender.look(&mut watch).is_none());
    control.allowed.store(WITHIN, SeqCst);
    assert!(sender.look(&mut watch).unwrap().is_ok());
    drop(watch);
    end(&queue, sender, &control);
}

/// Its bytes have left, but the discipline is full and another sender waits for that: it goes to the end of the list.
#[test]
fn held_sender_does_not_overtake_waiters_for_space() {
    let (gate, control) = Gate::new(1);
    let fifo = Fifo::new(FifoLimit::Packets(64));
    let builder = builder(&pool(1024), gate).qdisc(Box::new(fifo)).small_queues(Some(LIMIT_BYTES));
    let queue = builder.build().unwrap();
    let mut sender = queue.sender("held").unwrap();
    let mut burst = numbered(&mut sender, 0, 60, 100);
    let counters = sender.counters().clone();
    let mut context = Context::from_waker(Waker::noop());
    let mut sending = Box::pin(sender.send_async(&mut burst));
    assert!(sending.as_mut().poll(&mut context).is_pending());
    assert_eq!(counters.packets.get(), WITHIN as u64);

    let mut filler = queue.sender("fills").unwrap();
    let mut rest = numbered(&mut filler, 1000, 25, 100);
    assert_eq!(
        filler.send(&mut rest, Wait::Never).unwrap().accepted,
        25,
        "the device has one, the discipline 64: it is full"
    );
    let mut first = queue.sender("waits").unwrap();
    let mut watch = first.watch(0, 1, TestPark.waker());
    assert!(first.look(&mut watch).is_none());

    control.allowed.store(WITHIN / 2, SeqCst);
    queue.poll();
    assert!(sending.as_mut().poll(&mut context).is_pending(), "another has come first");
    assert_eq!(counters.packets.get(), WITHIN as u64);
    control.allowed.store(usize::MAX / 2, SeqCst);
    queue.poll();
    assert!(first.look(&mut watch).unwrap().is_ok());
    assert_eq!(sending.as_mut().poll(&mut context).map(|sent| sent.unwrap().left), Poll::Ready(0));
    drop((watch, first, filler, sending));
    end(&queue, sender, &control);
}

#[test]
fn limits_out_of_bounds_are_refused() {
    for bytes in [0, LIMIT_BYTES - 1, (1 << 30) + 1] {
        let error = builder(&pool(64), Gate::new(8).0).small_queues(Some(bytes)).build().unwrap_err();
        assert!(error.to_string().contains("small_queues"), "{error}");
    }
    let (gate, control) = Gate::new(1024);
    let queue = builder(&pool(2048), gate).small_queues(None).build().unwrap();
    let mut sender = queue.sender("free").unwrap();
    for n in 0..16 {
        let mut burst = numbered(&mut sender, n * 64, 64, 1500);
        assert_eq!(sender.send(&mut burst, Wait::Never).unwrap().accepted, 64);
    }
    end(&queue, sender, &control);
}

proptest! {
    /// Any order of sends and completions keeps at most the limit, or two packets, inside, and all packets arrive.
    #[test]
    fn bytes_inside_never_exceed_the_limit(
        steps in prop::collection::vec((1usize..40, 60u32..1500, 0usize..60, any::<bool>()), 1..60),
        start in prop_oneof![Just(0), any::<u32>()],
    ) {
        let (gate, control) = Gate::new(256);
        let queue = builder(&pool(4096), gate).small_queues(Some(LIMIT_BYTES)).index_start(start).build().unwrap();
        let mut sender = queue.sender("one").unwrap();
        let (mut next, mut lens) = (0, Vec::new());
        for (count, len, leave, other) in steps {
            let mut burst = numbered(&mut sender, next, count, len);
            let taken = sender.send(&mut burst, Wait::Never).unwrap().accepted;
            lens.extend(std::iter::repeat_n(len, taken));
            next += taken as u64;
            if other {
                // A second sender comes and goes: the first is not alone on the queue.
                let mut other = queue.sender("other").unwrap();
                let mut burst = numbered(&mut other, u64::MAX, 1, 60);
                _ = other.send(&mut burst, Wait::Never).unwrap();
            }
            control.allowed.store(leave, SeqCst);
            queue.poll();
            let counters = queue.counters();
            let inside = (counters.accepted.get() - counters.sent.get()) as usize;
            let ours: u32 = lens.iter().rev().take(inside).sum();
            prop_assert!(ours <= LIMIT_BYTES.max(2 * 1500) + 2 * 1500, "{ours} bytes inside");
        }
        end(&queue, sender, &control);
        let sent: Vec<u64> = control.sent().into_iter().filter(|&n| n != u64::MAX).collect();
        prop_assert_eq!(sent, (0..next).collect::<Vec<u64>>());
    }
}

#[test]
fn try_send_without_a_poller_runs_the_queue() {
    let (queue, mut sender, control) = held(|queue| queue);
    let mut burst = numbered(&mut sender, 100, 64, 100);
    assert_eq!(sender.send(&mut burst, Wait::Never).unwrap().accepted, 0);
    control.allowed.store(10, SeqCst);
    assert_eq!(sender.send(&mut burst, Wait::Never).unwrap().accepted, 10, "as many as have left");
    drop(burst);
    end(&queue, sender, &control);
}

#[test]
fn limit_changed_under_traffic_then_the_sender_has_it_with_its_next_call() {
    for start in [0, u32::MAX - 3000] {
        let (queue, mut sender, control) = held(|queue| queue.index_start(start));
        queue.set_small_queues(None);
        let mut burst = numbered(&mut sender, 100, 64, 100);
        assert_eq!(sender.send(&mut burst, Wait::Never).unwrap().accepted, 64, "none holds it");
        queue.set_small_queues(Some(LIMIT_BYTES));
        let mut burst = numbered(&mut sender, 200, 64, 100);
        assert_eq!(
            sender.send(&mut burst, Wait::Never).unwrap().accepted,
            0,
            "as many bytes are inside as may be, and more"
        );
        control.allowed.store(usize::MAX / 2, SeqCst);
        queue.poll();
        control.allowed.store(0, SeqCst);
        assert_eq!(sender.send(&mut burst, Wait::Never).unwrap().accepted, WITHIN, "all have left");
        // Out of bounds: the nearest.
        queue.set_small_queues(Some(1));
        assert_eq!(sender.send(&mut burst, Wait::Never).unwrap().accepted, 0);
        drop(burst);
        end(&queue, sender, &control);
    }
}
