//! The forms of sending: every call of a sender, on paths that are idle, full, or gone; `spread` has those of a spread.

mod spread;

use proptest::prelude::*;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use wharf_core::pool::Burst;
use wharf_core::qdisc::{Fifo, FifoLimit, Prio};
use wharf_core::queue::TxQueue;
use wharf_core::sender::{SendError, Sender};
use wharf_core::wait::Wait;
use wharf_testkit::gate::{Control, Gate};
use wharf_testkit::threads::ThreadState;
use wharf_testkit::{assert_conserved, builder, numbered, pool, pool_of};

/// One payload to 200 destinations: 255 KB, more than a sender's first share of 213 KB.
const DESTINATIONS: usize = 200;
const LEN: u32 = 1274;

fn open(control: &Control) {
    control.allowed.store(usize::MAX / 2, SeqCst);
}

fn end(queue: &TxQueue, control: &Control) {
    open(control);
    assert!(queue.drain(Duration::MAX));
    assert_conserved(queue);
}

/// A queue that is full: a device of one frame that completes none, and a FIFO of two packets.
fn full() -> (TxQueue, Arc<Control>) {
    let (gate, control) = Gate::new(1);
    let queue = builder(&pool(256), gate).qdisc(Box::new(Fifo::new(FifoLimit::Packets(2)))).build().unwrap();
    let mut first = queue.sender("fills").unwrap();
    let mut burst = numbered(&mut first, 0, 8, 64);
    while first.send(&mut burst, Wait::Never).unwrap().accepted > 0 {}
    (queue, control)
}

fn polled<T>(future: impl Future<Output = T>) -> Poll<T> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// Sends `rounds` payloads in bursts by a dropping call. Returns the number of packets dropped.
fn payloads(
    sender: &mut Sender, rounds: usize, burst: usize, mut send: impl FnMut(&mut Sender, &mut Burst) -> usize,
) -> usize {
    let mut dropped = 0;
    for round in 0..rounds {
        let mut left = DESTINATIONS;
        while left > 0 {
            let count = left.min(burst);
            let mut packets = numbered(sender, (round * DESTINATIONS) as u64, count, LEN);
            dropped += send(sender, &mut packets);
            assert!(packets.is_empty());
            left -= count;
        }
    }
    dropped
}

#[test]
fn payload_beyond_the_share_is_sent_whole_over_an_idle_queue() {
    for (burst, ring) in [(1, 64), (32, 64), (64, 8), (200, 256), (256, 1024)] {
        // The device completes nothing until a payload is inside, so that all of it is in flight at once.
        let (gate, control) = Gate::new(ring);
        let queue = builder(&pool_of(2048, 1536), gate).build().unwrap();
        let mut sender = queue.sender("retransmits").unwrap();
        let dropped = payloads(&mut sender, 1, burst, |sender, packets| {
            sender.send_or_drop(packets, Wait::Never).unwrap().dropped
        });
        let kept = sender.counters().packets.get();
        assert_eq!((dropped, kept), (0, DESTINATIONS as u64), "bursts of {burst}, a ring of {ring}");
        assert_eq!(sender.counters().waits.get(), 0);
        drop(sender);
        end(&queue, &control);
    }
}

#[test]
fn waiting_calls_keep_the_share_that_drop_policies_waive() {
    let (gate, control) = Gate::new(1024);
    let queue = builder(&pool_of(2048, 1536), gate).build().unwrap();
    let mut sender = queue.sender("both").unwrap();
    assert_eq!(
        payloads(&mut sender, 4, 32, |sender, packets| sender
            .send_or_drop(packets, Wait::Never)
            .unwrap()
            .dropped),
        0
    );
    let mut burst = numbered(&mut sender, 0, 1, LEN);
    assert_eq!(
        sender.send(&mut burst, Wait::Never).unwrap().accepted,
        0,
        "1 MB are inside: more than the share"
    );
    assert_eq!(sender.send_or_drop(&mut burst, Wait::Never).unwrap().dropped, 0);
    drop((burst, sender));
    end(&queue, &control);
}

/// The share is waived over more bytes than a 32-bit sum of them holds.
#[test]
fn account_stays_even_over_four_gigabytes_past_the_share() {
    let (gate, control) = Gate::open(256);
    let queue = builder(&pool_of(512, 64_960), gate).build().unwrap();
    let mut sender = queue.sender("long").unwrap();
    let mut burst = sender.burst(64);
    for _ in 0..1100 {
        sender.fill(&mut burst, 64, 64_000, Wait::Never).unwrap();
        assert_eq!(sender.send_or_drop(&mut burst, Wait::Never).unwrap().dropped, 0);
        control.calls.lock().unwrap().clear();
    }
    assert!(queue.drain(Duration::MAX));
    sender.fill(&mut burst, 2, 64_000, Wait::Never).unwrap();
    assert_eq!(sender.send(&mut burst, Wait::Never).unwrap().accepted, 2, "nothing is inside");
    drop((burst, sender));
    end(&queue, &control);
}

#[test]
fn drops_are_counted_by_reason() {
    let (queue, control) = full();
    let mut sender = queue.sender("drops").unwrap();
    let mut burst = numbered(&mut sender, 10, 5, 64);
    assert_eq!(sender.send_or_drop(&mut burst, Wait::Never).unwrap().dropped, 5);
    let mut burst = numbered(&mut sender, 20, 3, 64);
    assert_eq!(sender.send_or_drop(&mut burst, Duration::ZERO).unwrap().dropped, 3);
    let mut all = sender.burst(256);
    while sender.fill(&mut all, 256, 64, Wait::Never).unwrap() > 0 {}
    let (filled, inside) = (all.len(), queue.counters().accepted.get());
    assert_eq!(filled as u64 + inside, 256);
    assert_eq!(sender.fill(&mut all, 4, 64, Duration::ZERO).unwrap(), 0, "no memory");
    let mut full_burst = sender.burst(0);
    assert_eq!(sender.fill(&mut full_burst, 0, 64, Wait::Forever).unwrap(), 0, "nothing was asked for");
    let too_long = sender.packet(1 << 20, Wait::Never);
    assert!(matches!(too_long, Err(SendError::TooLong { .. } | SendError::NoMemory { .. })), "{too_long:?}");
    let counters = sender.counters().clone();
    assert_eq!((counters.full_drops.get(), counters.deadline_drops.get()), (5, 3));
    assert_eq!(counters.memory_drops.get(), inside.min(4));
    assert_eq!(counters.drops.get(), 8, "frames only");
    let of_queue = queue.sender_totals();
    assert_eq!((of_queue.full_drops.get(), of_queue.deadline_drops.get(), of_queue.drops.get()), (5, 3, 8));
    drop((all, full_burst, burst, sender));
    end(&queue, &control);
}

/// Completed frames of a queue without a poller are found by its senders only.
#[test]
fn fill_without_a_poller_finds_completed_frames() {
    let (gate, control) = Gate::new(64);
    let queue = builder(&pool(4), gate).build().unwrap();
    let mut sender = queue.sender("drops").unwrap();
    let mut burst = numbered(&mut sender, 0, 4, 64);
    assert_eq!(sender.send_or_drop(&mut burst, Wait::Never).unwrap().dropped, 0);
    assert_eq!(sender.fill(&mut burst, 4, 64, Wait::Never).unwrap(), 0);
    open(&control);
    assert_eq!(sender.fill(&mut burst, 4, 64, Wait::Never).unwrap(), 4);
    drop((burst, sender));
    end(&queue, &control);
}

#[test]
fn only_packets_of_full_bands_are_dropped() {
    let (gate, control) = Gate::new(1);
    let queue = builder(&pool(256), gate).qdisc(Box::new(Prio::new(4))).build().unwrap();
    let mut sender = queue.sender("drops").unwrap();
    let mut send = |first, priorities: &[u8]| {
        let mut burst = numbered(&mut sender, first, priorities.len(), 64);
        let packets = burst.packets_mut().zip(priorities);
        packets.for_each(|(mut packet, &priority)| packet.set_priority(priority));
        sender.send_or_drop(&mut burst, Wait::Never).unwrap().dropped
    };
    // Priorities 6 and 0 are bands 0 and 1.
    while send(0, &[0]) == 0 {}
    assert_eq!(send(10, &[0, 6, 0, 6]), 2, "band 1 is full, band 0 is not");
    drop(sender);
    end(&queue, &control);
    let sent = control.sent();
    assert!(sent.contains(&11) && sent.contains(&13) && !sent.contains(&12), "{sent:?}");
}

#[test]
fn room_within_the_time_is_used() {
    let (queue, control) = full();
    let mut sender = queue.sender("waits").unwrap();
    let mut burst = numbered(&mut sender, 10, 5, 64);
    let waiting = ThreadState::current();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            waiting.await_asleep();
            open(&control);
        });
        assert_eq!(sender.send_or_drop(&mut burst, Duration::from_secs(50)).unwrap().dropped, 0);
    });
    assert_eq!(sender.counters().drops.get(), 0);
    drop((burst, sender));
    end(&queue, &control);
}

#[test]
fn one_packet_goes_by_every_call() {
    let (gate, control) = Gate::open(64);
    let queue = builder(&pool(64), gate).build().unwrap();
    let mut sender = queue.sender("packets").unwrap();
    for _ in 0..3 {
        let mut packet = || sender.packet(64, Wait::Never).unwrap().into();
        let mut packets: [Burst; 5] = std::array::from_fn(|_| packet());
        let [a, b, c, d, e] = &mut packets;
        assert_eq!(sender.send(a, Wait::Never).unwrap().accepted, 1);
        _ = sender.send(b, Duration::from_secs(1)).unwrap();
        assert!(polled(sender.send_async(c)).is_ready());
        assert_eq!(sender.send_or_drop(d, Wait::Never).unwrap().dropped, 0);
        assert_eq!(sender.send_or_drop(e, Duration::from_secs(1)).unwrap().dropped, 0);
        let packet = sender.packet(64, Wait::Never).unwrap();
        _ = sender.send_packet(packet, Wait::Forever).unwrap();
        assert!(packets.iter().all(|burst| burst.is_empty()));
    }
    drop(sender);
    end(&queue, &control);
    assert_eq!(queue.counters().sent.get(), 18);
}

#[test]
fn ready_sender_joins_no_wait_list() {
    let (gate, control) = Gate::open(64);
    let queue = builder(&pool(64), gate).build().unwrap();
    let mut sender = queue.sender("asks").unwrap();
    let mut context = Context::from_waker(Waker::noop());
    for n in 0..100 {
        assert!(sender.is_ready());
        assert!(matches!(sender.poll_ready(&mut context), Poll::Ready(Ok(()))));
        let mut burst = numbered(&mut sender, n, 1, 64);
        assert_eq!(sender.send(&mut burst, Wait::Never).unwrap().accepted, 1);
        let Poll::Ready(Ok(mut permit)) = polled(sender.reserve(8)) else { panic!("there is room") };
        assert_eq!(permit.left(), 8);
        permit.fill(&mut burst, 1, 64, Wait::Never).unwrap();
        assert_eq!((permit.send(&mut burst).unwrap().accepted, permit.left()), (1, 7));
    }
    assert_eq!(sender.counters().waits.get(), 0);
    queue.shutdown(Duration::ZERO);
    assert!(sender.is_ready(), "a send fails at once");
    assert!(matches!(sender.poll_ready(&mut context), Poll::Ready(Err(SendError::Closed))));
    assert!(matches!(polled(sender.reserve(1)), Poll::Ready(Err(SendError::Closed))));
    drop(sender);
    end(&queue, &control);
}

#[test]
fn permit_holds_though_the_queue_fills_up() {
    let (gate, control) = Gate::new(1);
    let fifo = Fifo::new(FifoLimit::Packets(4));
    let queue = builder(&pool(256), gate).qdisc(Box::new(fifo)).small_queues(Some(4096)).build().unwrap();
    let (mut sender, mut other) = (queue.sender("reserves").unwrap(), queue.sender("fills").unwrap());
    let mut burst = numbered(&mut sender, 100, 10, 1000);
    let mut rest = numbered(&mut sender, 200, 1, 64);
    {
        let Poll::Ready(Ok(mut permit)) = polled(sender.reserve(10)) else { panic!("there is room") };
        let mut others = numbered(&mut other, 0, 20, 64);
        while other.send(&mut others, Wait::Never).unwrap().accepted > 0 {}
        assert!(!other.is_ready());
        assert_eq!(
            (permit.send(&mut burst).unwrap().accepted, permit.left()),
            (10, 0),
            "10 KB, in spite of the share"
        );
        assert_eq!(permit.send(&mut rest).unwrap().left, 1);
    }
    assert_eq!(sender.send(&mut rest, Wait::Never).unwrap().accepted, 0, "the permit is used up");
    drop((rest, sender, other));
    end(&queue, &control);
    assert!(control.sent().iter().copied().filter(|&n| n >= 100).eq(100..110));
}

#[test]
fn unused_permit_lets_the_next_sender_through() {
    let (queue, control) = full();
    let (mut one, mut two) = (queue.sender("one").unwrap(), queue.sender("two").unwrap());
    let mut context = Context::from_waker(Waker::noop());
    let mut reserving = Box::pin(one.reserve(2));
    assert!(reserving.as_mut().poll(&mut context).is_pending());
    assert!(two.poll_ready(&mut context).is_pending());
    open(&control);
    let Poll::Ready(Ok(permit)) = reserving.as_mut().poll(&mut context) else { panic!("its turn") };
    drop(permit);
    drop(reserving);
    assert!(matches!(two.poll_ready(&mut context), Poll::Ready(Ok(()))));
    let mut burst = numbered(&mut two, 100, 1, 64);
    assert_eq!(two.send(&mut burst, Wait::Never).unwrap().accepted, 1);
    drop((burst, one, two));
    end(&queue, &control);
}

#[test]
fn dropped_reservation_and_dead_asker_leave_the_wait_list() {
    let (queue, control) = full();
    let mut context = Context::from_waker(Waker::noop());
    let (mut gives_up, mut dies) = (queue.sender("gives up").unwrap(), queue.sender("dies").unwrap());
    assert!(polled(gives_up.reserve(4)).is_pending());
    assert!(dies.poll_ready(&mut context).is_pending());
    drop(dies);
    open(&control);
    queue.poll();
    let mut burst = numbered(&mut gives_up, 100, 1, 64);
    assert_eq!(gives_up.send(&mut burst, Wait::Never).unwrap().accepted, 1, "no sender waits before it");
    drop((burst, gives_up));
    end(&queue, &control);
}

proptest! {
    /// A single sender drops only while the FIFO is at its limit, whatever its bursts, rings and completions are.
    #[test]
    fn drop_policy_drops_only_when_the_queue_is_full(
        steps in prop::collection::vec((1usize..256, 60u32..1500, 0usize..400), 1..40),
        limit in 4usize..600, ring in 1usize..300,
    ) {
        let (gate, control) = Gate::new(ring);
        let pool = pool_of(4096, 1536);
        let fifo = Box::new(Fifo::new(FifoLimit::Packets(limit)));
        let queue = builder(&pool, gate).qdisc(fifo).small_queues(Some(4096)).build().unwrap();
        let mut sender = queue.sender("drops").unwrap();
        let (mut offered, mut dropped) = (0, 0);
        for (count, len, leave) in steps {
            let mut burst = numbered(&mut sender, 0, count, len);
            let lost = sender.send_or_drop(&mut burst, Wait::Never).unwrap().dropped;
            prop_assert!(burst.is_empty());
            (offered, dropped) = (offered + count, dropped + lost);
            let counters = queue.counters();
            let inside = (counters.accepted.get() - counters.gone()) as usize;
            prop_assert!(lost == 0 || inside >= limit, "{lost} lost with {inside} inside, a limit of {limit}");
            control.allowed.store(leave, SeqCst);
        }
        prop_assert_eq!(sender.counters().packets.get() + dropped as u64, offered as u64);
        prop_assert_eq!(sender.counters().full_drops.get(), dropped as u64);
        drop(sender);
        end(&queue, &control);
    }
}

#[test]
fn a_canceller_ends_the_wait_of_a_task() {
    let (queue, control) = full();
    let mut sender = queue.sender("waits").unwrap();
    let canceller = sender.canceller();
    let mut packets = numbered(&mut sender, 0, 4, 64);
    {
        let mut waits = pin!(sender.send_async(&mut packets));
        let context = &mut Context::from_waker(Waker::noop());
        assert!(waits.as_mut().poll(context).is_pending());
        canceller.cancel();
        assert!(matches!(waits.poll(context), Poll::Ready(Err(SendError::Cancelled))));
    }
    assert_eq!(packets.iter().count(), packets.len(), "the rest stays in the burst");
    drop((packets, sender));
    end(&queue, &control);
}
