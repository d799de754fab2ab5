//! Drop policies: exactly the packets that do not fit are counted, where they were dropped.

use std::sync::atomic::Ordering::SeqCst;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use wharf_core::delegate;
use wharf_core::device::{AnyDevice, Completions, Device, DeviceError, Notify, TxDevice};
use wharf_core::pool::PagePool;
use wharf_core::qdisc::{DROP_HEAD, Fifo, FifoLimit, Prio, Qdisc, Rate, Tbf, WhenFull};
use wharf_core::queue::TxQueue;
use wharf_core::sender::Sender;
use wharf_core::wait::Wait;
use wharf_testkit::gate::{Control, Gate};
use wharf_testkit::threads::{TestClock, TestPark};
use wharf_testkit::{assert_conserved, builder, numbered, pool};

/// A queue before a device that takes one frame and completes none yet.
fn stuck(pool: &PagePool, qdisc: impl Qdisc + 'static) -> (TxQueue, Arc<Control>) {
    let (gate, control) = Gate::new(1);
    (builder(pool, gate).qdisc(Box::new(qdisc)).lane_frames(8).build().unwrap(), control)
}

fn open(control: &Control) {
    control.allowed.store(usize::MAX / 2, SeqCst);
}

fn fifo(packets: usize) -> Fifo {
    Fifo::new(FifoLimit::Packets(packets))
}

#[test]
fn drop_tail_counts_packets_that_do_not_fit_at_the_sender() {
    let pool = pool(64);
    let (queue, control) = stuck(&pool, fifo(10));
    let mut sender = queue.sender("drops").unwrap();
    let mut dropped = 0;
    // More than the pool has frames: dropped ones are free at once.
    for round in 0..50 {
        let mut burst = numbered(&mut sender, round * 8, 8, 64);
        dropped += sender.send_or_drop(&mut burst, Wait::Never).unwrap().dropped as u64;
        assert!(burst.is_empty());
    }
    let counters = sender.counters().clone();
    assert_eq!((counters.packets.get() + dropped, counters.drops.get()), (400, dropped));
    assert_eq!(counters.waits.get(), 0);
    assert!(dropped > 300, "{dropped}");
    open(&control);
    assert!(queue.drain(Duration::MAX));
    let sent = control.sent();
    assert_eq!(sent.len() as u64, counters.packets.get());
    assert!(sent.is_sorted(), "those that were sent are in order: {sent:?}");
    assert_eq!(queue.counters().failed.get(), 0, "packets that never came in have not failed");
    drop(sender);
    assert_conserved(&queue);
}

#[test]
fn single_packet_that_finds_no_room_then_it_is_counted() {
    let pool = pool(64);
    let (queue, _control) = stuck(&pool, fifo(4));
    let mut sender = queue.sender("drops").unwrap();
    let mut sum = [0, 0];
    for wait in [Wait::Never; 32].into_iter().chain([Wait::For(Duration::ZERO)]) {
        let packet = sender.packet(64, Wait::Never).unwrap();
        let sent = sender.send_packet(packet, wait).unwrap();
        assert_eq!((sent.accepted + sent.dropped, sent.left), (1, 0));
        sum = [sum[0] + sent.accepted as u64, sum[1] + sent.dropped as u64];
    }
    let counters = sender.counters();
    assert_eq!([counters.packets.get(), counters.drops.get()], sum);
    assert_eq!((counters.full_drops.get(), counters.deadline_drops.get()), (sum[1] - 1, 1));
}

#[test]
fn drop_tail_without_a_poller_goes_on() {
    let pool = pool(256);
    let (queue, control) = stuck(&pool, fifo(4));
    let mut sender = queue.sender("drops").unwrap();
    let mut full = numbered(&mut sender, 0, 32, 64);
    assert!(sender.send_or_drop(&mut full, Wait::Never).unwrap().dropped > 0);
    open(&control);
    let packet = sender.packet(64, Wait::Never).unwrap();
    let dropped = sender.send_or_drop(&mut packet.into(), Wait::Never).unwrap().dropped;
    assert_eq!(dropped, 0, "the device is ready again, and only a sender can find out");
    drop(sender);
    assert_conserved(&queue);
}

/// Sends packets 0 to 99 one by one, then opens the device. Returns those sent.
fn survivors(qdisc: impl Qdisc + 'static) -> (TxQueue, Vec<u64>) {
    let pool = pool(256);
    let (queue, control) = stuck(&pool, qdisc);
    let mut sender = queue.sender("sends").unwrap();
    for n in 0..100 {
        let mut burst = numbered(&mut sender, n, 1, 64);
        _ = sender.send(&mut burst, Wait::Forever).unwrap();
    }
    assert_eq!(sender.counters().waits.get(), 0, "no sender waits for a queue that drops");
    open(&control);
    assert!(queue.drain(Duration::MAX));
    drop(sender);
    let counters = queue.counters();
    assert_eq!(counters.accepted.get(), 100);
    assert_eq!(counters.failures(), [(DROP_HEAD, counters.failed.get())]);
    assert_conserved(&queue);
    (queue, control.sent())
}

#[test]
fn drop_head_keeps_the_newest() {
    let (_, sent) = survivors(fifo(10).when_full(WhenFull::DropHead));
    // The device had the first one.
    assert!(sent.iter().copied().eq((0..1).chain(90..100)), "{sent:?}");
}

/// A held sender would wait for packets that should make way for its own.
#[test]
fn drop_head_has_no_small_queue_limit_by_default() {
    for (small_queues, taken) in [(None, 300), (Some(Some(100_000)), 66)] {
        let pool = pool(512);
        let (gate, control) = Gate::new(1);
        let builder = builder(&pool, gate).qdisc(Box::new(fifo(400).when_full(WhenFull::DropHead)));
        let builder = small_queues.into_iter().fold(builder, |builder, max| builder.small_queues(max));
        let queue = builder.build().unwrap();
        let mut sender = queue.sender("sends").unwrap();
        let sent = |n| {
            let mut burst = numbered(&mut sender, n, 1, 1500);
            sender.send(&mut burst, Wait::Never).unwrap().accepted
        };
        assert_eq!((0..300).map(sent).sum::<usize>(), taken);
        open(&control);
        assert!(queue.drain(Duration::MAX));
        drop(sender);
        assert_conserved(&queue);
    }
}

#[test]
fn drop_head_by_bytes() {
    let (_, sent) = survivors(Fifo::new(FifoLimit::Bytes(640)).when_full(WhenFull::DropHead));
    assert!(sent.iter().copied().eq((0..1).chain(90..100)), "{sent:?}");
}

#[test]
fn drop_head_drops_only_from_the_full_band() {
    let pool = pool(256);
    let (queue, control) = stuck(&pool, Prio::new(5).when_full(WhenFull::DropHead));
    let mut sender = queue.sender("sends").unwrap();
    // Priorities 6 and 0 are bands 0 and 1.
    let mut send = |n: u64, priority| {
        let mut burst = numbered(&mut sender, n, 1, 64);
        burst.packets_mut().for_each(|mut packet| packet.set_priority(priority));
        _ = sender.send(&mut burst, Wait::Forever).unwrap();
    };
    send(0, 0);
    (1..4).for_each(|n| send(n, 6));
    (10..30).for_each(|n| send(n, 0));
    open(&control);
    assert!(queue.drain(Duration::MAX));
    assert_eq!(control.sent(), [0, 1, 2, 3, 25, 26, 27, 28, 29]);
    assert_eq!(queue.counters().failures(), [(DROP_HEAD, 15)]);
    drop(sender);
    assert_conserved(&queue);
}

/// A gate whose `reap` makes a call: the calling thread owns the queue.
struct Calls {
    gate: Gate,
    call: Call,
}

type Call = Arc<Mutex<Option<Box<dyn FnOnce() + Send>>>>;

impl Notify for Calls {}

impl Device for Calls {
    delegate!(gate: name, attach, visit, close);
}

impl TxDevice for Calls {
    delegate!(gate: info, transmit, outstanding);

    fn reap(&mut self, budget: usize, urgent: bool, into: &mut Completions) -> Result<(), DeviceError> {
        let call = self.call.lock().unwrap().take();
        call.into_iter().for_each(|call| call());
        self.gate.reap(budget, urgent, into)
    }
}

/// One band is full, the lane too, and its owner does not come: packets of another band are dropped.
#[test]
fn drop_tail_ends_at_a_full_lane_whichever_bands_are_full() {
    let (pool, call, (gate, control)) = (pool(256), Call::default(), Gate::new(1));
    let device = Calls { gate, call: Arc::clone(&call) };
    let queue = builder(&pool, device).qdisc(Box::new(Prio::new(4))).lane_frames(8).build().unwrap();
    let (mut fills, mut drops) = (queue.sender("fills").unwrap(), queue.sender("drops").unwrap());
    for n in 0..8 {
        let mut burst = numbered(&mut fills, n, 1, 64);
        _ = fills.send(&mut burst, Wait::Never).unwrap();
    }
    let urgent = |sender: &mut Sender, count| {
        let mut burst = numbered(sender, 100, count, 64);
        burst.packets_mut().for_each(|mut packet| packet.set_priority(6));
        burst
    };
    let (mut burst, (told, dropped)) = (urgent(&mut drops, 16), channel());
    *call.lock().unwrap() = Some(Box::new(move || {
        told.send(drops.send_or_drop(&mut burst, Wait::Never).unwrap().dropped).unwrap();
    }));
    let mut burst = urgent(&mut fills, 1);
    _ = fills.send(&mut burst, Wait::Never).unwrap();
    assert_eq!(dropped.recv().unwrap(), 8);
    drop((fills, burst));
    open(&control);
    assert!(queue.drain(Duration::MAX));
    assert_conserved(&queue);
}

#[test]
fn drop_head_on_a_direct_path_keeps_the_newest() {
    let pool = pool(512);
    let (gate, control) = Gate::new(1);
    let mut path =
        builder(&pool, gate).qdisc(Box::new(fifo(10).when_full(WhenFull::DropHead))).build_direct().unwrap();
    for n in 0..200u64 {
        let mut burst = path.burst(1);
        path.fill(&mut burst, 1, 64, Wait::Never).unwrap();
        burst.iter_mut().for_each(|bytes| bytes[..8].copy_from_slice(&n.to_be_bytes()));
        assert_eq!(path.send(&mut burst, Wait::Never).unwrap().accepted, 1);
    }
    open(&control);
    path.poll();
    assert!(control.sent().iter().copied().eq((0..1).chain(190..200)), "{:?}", control.sent());
    assert_eq!(path.counters().failures(), [(DROP_HEAD, 189)]);
    assert_eq!(path.close().out(), 0);
}

#[test]
fn a_direct_path_says_when_the_packet_that_it_holds_back_is_due() {
    let (pool, clock) = (pool(64), Arc::new(TestClock::default()));
    let (gate, control) = Gate::new(8);
    open(&control);
    let device = AnyDevice::Tx(Box::new(gate));
    let builder = TxQueue::builder_of(&pool, device, clock.clone(), Arc::new(TestPark)).unwrap();
    let bucket = Tbf::new(fifo(10), Rate::new(8_000_000).burst(2000));
    let mut path = builder.qdisc(Box::new(bucket)).build_direct().unwrap();
    assert_eq!(path.next_event_ns(), None);
    let mut burst = path.burst(4);
    path.fill(&mut burst, 4, 1000, Wait::Never).unwrap();
    _ = path.send(&mut burst, Wait::Never).unwrap();
    let due_ns = path.next_event_ns().unwrap();
    assert!((1..=2_000_000).contains(&due_ns), "{due_ns}");
    let sent = control.sent().len();
    clock.0.fetch_add(due_ns - 1, SeqCst);
    path.poll();
    assert_eq!((control.sent().len(), path.next_event_ns()), (sent, Some(1)));
    clock.0.fetch_add(1, SeqCst);
    path.poll();
    assert_eq!(control.sent().len(), sent + 1);
    drop(burst);
    assert_eq!(path.close().out(), 0);
}

/// Threads, a device that stalls and resumes, and every policy: each packet is sent or counted as dropped.
#[test]
fn many_senders_account_for_every_packet() {
    for drops_head in [false, true] {
        let pool = pool(1024);
        let (gate, control) = Gate::new(16);
        let when_full = if drops_head { WhenFull::DropHead } else { WhenFull::Wait };
        let qdisc = Box::new(fifo(40).when_full(when_full));
        let queue = builder(&pool, gate).qdisc(qdisc).lane_frames(32).build().unwrap();
        let (poller, stop) = queue.poller();
        std::thread::scope(|scope| {
            scope.spawn(move || poller.run());
            let senders: Vec<_> = (0..4u64)
                .map(|who| {
                    let mut sender = queue.sender("sends").unwrap();
                    scope.spawn(move || {
                        for round in 0..500 {
                            let mut burst = numbered(&mut sender, (who << 32) + round * 8, 8, 64);
                            _ = sender.send_or_drop(&mut burst, Wait::Never).unwrap();
                        }
                    })
                })
                .collect();
            while senders.iter().any(|sender| !sender.is_finished()) {
                control.allowed.fetch_add(100, SeqCst);
                std::thread::yield_now();
            }
            open(&control);
            senders.into_iter().for_each(|sender| sender.join().unwrap());
            assert!(queue.drain(Duration::MAX));
            stop.stop();
        });
        let of = |count: fn(&wharf_core::counters::SenderCounters) -> u64| -> u64 {
            queue.senders().iter().map(|sender| count(sender)).sum()
        };
        let (packets, drops) = (of(|sender| sender.packets.get()), of(|sender| sender.drops.get()));
        let counters = queue.counters();
        assert_eq!(packets + drops, 4 * 4000, "offered");
        assert_eq!(packets, counters.sent.get() + counters.failed.get(), "taken");
        for who in 0..4 {
            let sent = control.sent();
            assert!(sent.iter().filter(|&&n| n >> 32 == who).is_sorted(), "order of sender {who}");
        }
        assert_conserved(&queue);
    }
}

#[test]
fn policy_of_the_queue_then_senders_have_it_now_and_later() {
    let pool = pool(128);
    let (queue, control) = stuck(&pool, fifo(10));
    let mut sender = queue.sender("now").unwrap();
    queue.set_drop_tail(true);
    let mut later = queue.sender("later").unwrap();
    for round in 0..50 {
        for sender in [&mut sender, &mut later] {
            let mut burst = numbered(sender, round * 8, 8, 64);
            _ = sender.submit(&mut burst, Wait::Forever).unwrap();
            assert!(burst.is_empty());
        }
    }
    for counters in [sender.counters(), later.counters()] {
        assert_eq!((counters.packets.get() + counters.drops.get(), counters.waits.get()), (400, 0));
        assert!(counters.drops.get() > 300, "{}", counters.drops.get());
    }
    queue.set_drop_tail(false);
    open(&control);
    let before = sender.counters().drops.get();
    for round in 0..50 {
        let mut burst = numbered(&mut sender, 1000 + round * 8, 8, 64);
        _ = sender.submit(&mut burst, Wait::Forever).unwrap();
    }
    // The first call may drop, and takes over the policy.
    assert!(sender.counters().drops.get() <= before + 8);
    assert!(queue.drain(Duration::MAX));
    drop((sender, later));
    assert_conserved(&queue);
}
