//! Under a queue, with real threads: every packet arrives byte for byte and in order.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::Duration;
use wharf_core::device::RxDevice;
use wharf_core::engine::Batching;
use wharf_core::pool::{Cache, PagePool};
use wharf_core::qdisc::Prio;
use wharf_core::queue::{QueueBuilder, TxQueue};
use wharf_core::sender::Sender;
use wharf_core::wait::Wait;
use wharf_devices::host::{HostClock, HostPark, PollerThread};
use wharf_devices::wire::{Wire, WireSpec, wire};
use wharf_mem::Batch;
use wharf_testkit::content::{len_of, read, write};
use wharf_testkit::threads::{UnreadClock, within_a_minute};
use wharf_testkit::wrappers::Watched;
use wharf_testkit::{assert_conserved, pool};

/// A queue over a wire, and its far end with memory.
struct Path {
    queue: TxQueue,
    far: Far,
    broken: Arc<AtomicUsize>,
}

/// The far end, which checks its arrivals.
struct Far {
    wire: Wire,
    pool: PagePool,
    cache: Cache,
    batch: Batch,
    /// The next number of each sender.
    next: Vec<u32>,
}

fn path(spec: &WireSpec, build: impl FnOnce(QueueBuilder) -> QueueBuilder) -> Path {
    let (near, wire) = wire(spec);
    let broken = Arc::new(AtomicUsize::new(0));
    let device = Watched { inner: near, broken: broken.clone() };
    let builder = TxQueue::builder(&pool(2048), Box::new(device), Arc::new(HostClock), Arc::new(HostPark));
    let queue = build(builder).build().unwrap();
    let pool = pool(2048);
    let far = Far { wire, cache: pool.cache("far").unwrap(), pool, batch: Batch::new(64), next: Vec::new() };
    Path { queue, far, broken }
}

impl Far {
    /// Receives once. Returns the number of packets. Checks each packet's bytes, and its place in its sender's order.
    fn poll(&mut self) -> usize {
        let count = self.wire.receive(&mut self.cache, &mut self.batch, 64).unwrap();
        for frame in self.batch.frames() {
            let (who, number) = read(self.pool.region().bytes(frame).unwrap());
            if self.next.len() <= who as usize {
                self.next.resize(who as usize + 1, 0);
            }
            assert_eq!(number, self.next[who as usize], "order of sender {who}");
            self.next[who as usize] += 1;
        }
        self.cache.give(&mut self.batch).unwrap();
        count
    }

    /// Receives until the other end is gone. Returns the number of packets of each sender.
    fn run(mut self) -> Vec<u32> {
        while !self.wire.ended() {
            if self.poll() == 0 {
                thread::yield_now();
            }
        }
        let audit = self.pool.audit();
        assert_eq!(audit.out(), 0, "{audit}");
        self.next
    }
}

/// Sends packets `first` to `first + count` of `who`, in bursts of 1 to 32.
fn send(sender: &mut Sender, who: u32, first: u32, count: u32) {
    let mut burst = sender.burst(32);
    let mut number = first;
    while number < first + count {
        let want = (number % 32 + 1).min(first + count - number);
        for _ in 0..want {
            let wait = if burst.is_empty() { Wait::Forever } else { Wait::Never };
            if sender.fill(&mut burst, 1, len_of(number) as u32, wait).unwrap() == 0 {
                break;
            }
            write(burst.iter_mut().last().unwrap(), who, number);
            number += 1;
        }
        _ = sender.send(&mut burst, Wait::Forever).unwrap();
        assert!(burst.is_empty());
    }
}

/// Sends from `senders` threads while `meanwhile` is called over and over, until all has arrived.
fn traffic(path: Path, senders: u32, packets: u32, mut meanwhile: impl FnMut(&TxQueue, usize)) {
    let Path { queue, far, broken } = path;
    let poller = PollerThread::start(&queue).unwrap();
    let receiver = thread::spawn(move || far.run());
    thread::scope(|scope| {
        let queue = &queue;
        let sending = |who| move || send(&mut queue.sender("sends").unwrap(), who, 0, packets);
        let threads: Vec<_> = (0..senders).map(|who| scope.spawn(sending(who))).collect();
        let mut round = 0;
        while threads.iter().any(|thread| !thread.is_finished()) {
            meanwhile(queue, round);
            round += 1;
            thread::yield_now();
        }
    });
    assert!(queue.drain(Duration::MAX));
    let audit = queue.shutdown(Duration::MAX);
    assert_eq!(audit.out(), 0, "{audit}");
    assert_eq!(receiver.join().unwrap(), vec![packets; senders as usize]);
    drop(poller);
    assert_conserved(&queue);
    assert_eq!(queue.counters().sent.get(), u64::from(senders * packets));
    assert_eq!(queue.counters().device_errors.get(), 0, "{:?}", queue.counters().last_error());
    assert_eq!(broken.load(SeqCst), 0, "rule 5");
}

fn untimed(ring: u32) -> WireSpec {
    WireSpec::default().clock(Arc::new(UnreadClock)).ring(ring).unwrap()
}

#[test]
fn every_packet_arrives_whatever_the_ring_and_wherever_its_indices_start() {
    within_a_minute(|| {
        for ring in [2, 1024] {
            for start in [0, u32::MAX - 700] {
                let path = path(&untimed(ring).index_start(start), |queue| queue.index_start(start));
                traffic(path, 1, 3000, |_, _| {});
            }
        }
    });
}

#[test]
fn several_senders_share_a_wire() {
    within_a_minute(|| {
        for ring in [2, 64] {
            let path = path(&untimed(ring).index_start(u32::MAX), |queue| queue.lane_frames(16));
            traffic(path, 4, 1500, |_, _| {});
        }
    });
}

#[test]
fn batching_is_switched_under_traffic() {
    within_a_minute(|| {
        let ways = [Batching::On, Batching::Off, Batching::Bytes(4000), Batching::Bytes(1)];
        traffic(path(&untimed(256), |queue| queue), 2, 3000, |queue, round| {
            queue.set_batching(ways[round % ways.len()]);
        });
    });
}

#[test]
fn a_rate_and_a_delay_lose_nothing() {
    within_a_minute(|| {
        let spec = WireSpec::default().rate(2_000_000_000).delay(std::time::Duration::from_micros(200));
        traffic(path(&spec, |queue| queue), 2, 1000, |_, _| {});
    });
}

#[test]
fn a_dedicated_owner_drives_a_wire() {
    within_a_minute(|| {
        let Path { queue, far, broken } = path(&untimed(128), |queue| queue);
        let receiver = thread::spawn(move || far.run());
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let owner = scope.spawn(|| {
                let mut dedicated = queue.dedicate().unwrap();
                while !stop.load(SeqCst) {
                    dedicated.poll_or_sleep(1_000_000);
                }
            });
            let queue = &queue;
            let sending = |who| move || send(&mut queue.sender("sends").unwrap(), who, 0, 3000);
            let threads = [scope.spawn(sending(0)), scope.spawn(sending(1))];
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            stop.store(true, SeqCst);
            owner.join().unwrap();
        });
        assert_eq!(queue.shutdown(Duration::MAX).out(), 0);
        assert_eq!(receiver.join().unwrap(), [3000, 3000]);
        assert_conserved(&queue);
        assert_eq!(broken.load(SeqCst), 0);
    });
}

#[test]
fn the_path_of_one_sender_drives_a_wire() {
    within_a_minute(|| {
        let (near, wire) = wire(&untimed(32).index_start(u32::MAX - 9));
        let (near_pool, far_pool) = (pool(512), pool(512));
        let builder = TxQueue::builder(&near_pool, Box::new(near), Arc::new(HostClock), Arc::new(HostPark));
        let mut direct = builder.index_start(u32::MAX - 9).build_direct().unwrap();
        let cache = far_pool.cache("far").unwrap();
        let far = Far { wire, cache, pool: far_pool, batch: Batch::new(64), next: Vec::new() };
        let receiver = thread::spawn(move || far.run());
        let mut burst = direct.burst(1);
        for number in 0..3000 {
            direct.fill(&mut burst, 1, len_of(number) as u32, Wait::Forever).unwrap();
            write(burst.iter_mut().next().unwrap(), 0, number);
            _ = direct.send(&mut burst, Wait::Forever).unwrap();
        }
        while direct.pending() > 0 {
            direct.poll();
        }
        let counters = (direct.counters().accepted.get(), direct.counters().sent.get());
        assert_eq!(counters, (3000, 3000));
        drop(burst);
        assert_eq!(direct.close().out(), 0);
        assert_eq!(receiver.join().unwrap(), [3000]);
        assert_eq!(near_pool.audit().out(), 0);
    });
}

#[test]
fn a_priority_packet_leaves_within_one_bulk_after_a_thousand_bulk_ones() {
    let Path { queue, mut far, .. } =
        path(&untimed(16), |queue| queue.qdisc(Box::new(Prio::new(2000))).small_queues(None));
    let mut sender = queue.sender("both").unwrap();
    let mut put = |who: u32, number: u32, priority: u8| {
        let mut burst = sender.burst(1);
        sender.fill(&mut burst, 1, len_of(number) as u32, Wait::Never).unwrap();
        write(burst.iter_mut().next().unwrap(), who, number);
        burst.packets_mut().for_each(|mut packet| packet.set_priority(priority));
        assert_eq!(sender.send(&mut burst, Wait::Never).unwrap().accepted, 1);
    };
    (0..1000).for_each(|number| put(0, number, 2));
    put(1, 0, 6);
    // Packets in the device, or on their way to it, were given away before the priority packet came.
    let (mut before, mut given) = (0, 16 + wharf_core::engine::BULK_PACKETS_MAX);
    while far.next.get(1).is_none() {
        before += far.poll();
        queue.poll();
    }
    given += 64; // one receive call takes up to 64 together with it
    assert!(before <= given, "{before} packets with it and before it");
    assert!(far.next[0] < 150, "{} bulk packets by then", far.next[0]);
    while far.next[0] < 1000 {
        far.poll();
        queue.poll();
    }
    drop(sender);
    assert_eq!(queue.shutdown(Duration::MAX).out(), 0);
    assert_conserved(&queue);
}

#[test]
fn shutdown_with_a_stuck_far_end_returns_the_rest_and_ends_when_that_goes() {
    within_a_minute(|| {
        let Path { queue, far, .. } = path(&untimed(8), |queue| queue);
        let mut sender = queue.sender("stuck").unwrap();
        send(&mut sender, 0, 0, 200);
        let audit = queue.shutdown(Duration::ZERO);
        let counters = queue.counters();
        let inside = counters.accepted.get() - counters.returned.get();
        assert!((1..=8).contains(&inside), "the wire holds {inside}");
        assert_eq!(audit.out() as u64, inside, "{audit}");
        drop(far);
        queue.poll();
        assert_eq!(counters.failures(), [("link-down", inside)]);
        drop(sender);
        assert_conserved(&queue);
    });
}

#[test]
fn far_end_gone_in_mid_traffic_fails_frames_and_blocks_no_sender() {
    within_a_minute(|| {
        for ring in [2, 256] {
            let Path { queue, mut far, broken } = path(&untimed(ring), |queue| queue);
            let poller = PollerThread::start(&queue).unwrap();
            let receiver = thread::spawn(move || {
                while far.next.first().is_none_or(|&next| next < 500) {
                    far.poll();
                }
                far.next.iter().sum::<u32>()
            });
            thread::scope(|scope| {
                let queue = &queue;
                let sending = |who| move || send(&mut queue.sender("sends").unwrap(), who, 0, 2000);
                (0..2).for_each(|who| drop(scope.spawn(sending(who))));
            });
            assert!(queue.drain(Duration::MAX));
            let received = u64::from(receiver.join().unwrap());
            assert_eq!(queue.shutdown(Duration::MAX).out(), 0);
            drop(poller);
            assert_conserved(&queue);
            assert_eq!(queue.counters().sent.get(), received, "frames the far end has taken count as sent");
            assert_eq!(queue.counters().failures(), [("link-down", 4000 - received)]);
            assert_eq!(broken.load(SeqCst), 0);
        }
    });
}
