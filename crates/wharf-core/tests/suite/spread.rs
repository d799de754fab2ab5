//! Several queues under one sender: flows keep their queue and order, whichever queue is full.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;
use wharf_core::pool::{Burst, PagePool};
use wharf_core::queue::{QueueError, TxQueue};
use wharf_core::sender::{Sender, Spread};
use wharf_core::wait::Wait;
use wharf_packet::QueueMap;
use wharf_testkit::gate::{Control, Gate};
use wharf_testkit::{assert_conserved, builder, pool};

const QUEUES: usize = 4;
const FLOWS: u64 = 16;

/// Puts the number into the MAC addresses (where the device looks), the flow into a UDP port.
fn write(bytes: &mut [u8], number: u64) {
    bytes.fill(0);
    bytes[..8].copy_from_slice(&number.to_be_bytes());
    bytes[12..16].copy_from_slice(&[8, 0, 0x45, 0]);
    bytes[23] = 17;
    bytes[34..36].copy_from_slice(&((number % FLOWS) as u16 * 257).to_be_bytes());
}

struct Path {
    pool: PagePool,
    queues: Vec<TxQueue>,
    controls: Vec<Arc<Control>>,
    spread: Spread,
}

fn path(frames: u32, ring: usize) -> Path {
    let pool = pool(frames);
    let gates: Vec<_> = (0..QUEUES).map(|_| Gate::open(ring)).collect();
    let (gates, controls): (Vec<_>, Vec<_>) = gates.into_iter().unzip();
    let queues: Vec<TxQueue> =
        gates.into_iter().map(|gate| builder(&pool, gate).lane_frames(8).build().unwrap()).collect();
    let senders = queues.iter().map(|queue| queue.sender("spread").unwrap()).collect();
    Path { pool, queues, controls, spread: Spread::new(senders).unwrap() }
}

impl Path {
    fn fill(&mut self, burst: &mut Burst, first: u64, count: usize) -> u64 {
        while let Err(error) = self.spread.fill(burst, count, 64, Wait::Never) {
            assert!(error.to_string().contains("frames"), "{error}");
            self.spread.wait_for_memory(Wait::Forever).unwrap();
        }
        burst.iter_mut().enumerate().for_each(|(n, bytes)| write(bytes, first + n as u64));
        first + burst.len() as u64
    }

    /// Asserts that each flow came in order by its queue, `count` packets in all.
    fn close(self, count: u64) {
        let Self { queues, controls, spread, pool } = self;
        assert_eq!(spread.packets(), count);
        drop(spread);
        let mut seen = vec![Vec::new(); FLOWS as usize];
        for (at, (queue, control)) in queues.iter().zip(&controls).enumerate() {
            assert!(queue.drain(Duration::MAX));
            for number in control.sent() {
                let mut bytes = [0; 64];
                write(&mut bytes, number);
                assert_eq!(QueueMap::new(QUEUES as u32).queue_of(&bytes), at);
                seen[(number % FLOWS) as usize].push(number);
            }
        }
        assert!(seen.iter().all(|flow| flow.is_sorted()));
        assert_eq!(seen.iter().map(Vec::len).sum::<usize>() as u64, count);
        assert!(controls.iter().all(|control| control.calls() > 0), "every queue has some flow");
        queues.iter().for_each(assert_conserved);
        assert_eq!(pool.audit().out(), 0);
    }
}

#[test]
fn flows_keep_queue_and_order_with_little_memory() {
    let mut path = path(48, 8);
    let (mut burst, mut next) = (path.pool.burst(32), 0);
    while next < 5000 {
        next = path.fill(&mut burst, next, (next % 32 + 1) as usize);
        _ = path.spread.send(&mut burst, Wait::Forever).unwrap();
        assert!(burst.is_empty());
    }
    path.close(next);
}

#[test]
fn packets_that_do_not_fit_stay_in_the_burst_in_flow_order() {
    let mut path = path(4096, 8);
    path.controls.iter().for_each(|control| control.allowed.store(0, SeqCst));
    let (mut burst, mut next, mut refused) = (path.pool.burst(64), 0, 0);
    // One queue is stuck for a while, then the others are.
    for round in 0..200 {
        path.controls[round % QUEUES].allowed.fetch_add(10, SeqCst);
        if burst.is_empty() {
            next = path.fill(&mut burst, next, 64);
        }
        _ = path.spread.send(&mut burst, Wait::Never).unwrap();
        refused += usize::from(!burst.is_empty());
    }
    assert!(refused > 0, "something was full");
    path.controls.iter().for_each(|control| control.allowed.store(usize::MAX / 2, SeqCst));
    _ = path.spread.send(&mut burst, Wait::Forever).unwrap();
    path.close(next);
}

/// The ways to send and to wait.
fn send_all(spread: &mut Spread, burst: &mut Burst, way: usize) {
    let sent = match way {
        0 => spread.send(burst, Wait::Forever),
        1 => spread.send_or_drop(burst, Wait::Forever),
        _ => crate::tasks::block_on(spread.send_async(burst)),
    };
    assert_eq!(sent.unwrap().accepted, 64);
}

#[test]
fn queue_that_stands_then_it_holds_up_no_packet_of_another() {
    for way in 0..3 {
        let mut path = path(4096, 8);
        path.controls[0].allowed.store(0, SeqCst);
        let counters: Vec<_> = path.spread.senders().iter().map(|sender| sender.counters().clone()).collect();
        let (mut burst, mut taken) = (path.pool.burst(64), u64::MAX);
        // Until queue 0 is full.
        while std::mem::replace(&mut taken, counters[0].packets.get()) != counters[0].packets.get() {
            path.fill(&mut burst, 0, 64);
            _ = path.spread.send(&mut burst, Wait::Never).unwrap();
            burst.clear();
        }
        path.fill(&mut burst, 0, 64);
        let map = QueueMap::new(QUEUES as u32);
        let others = burst.iter_mut().filter(|bytes| map.queue_of(bytes) != 0).count() as u64;
        assert!((1..64).contains(&others));
        let of_others = || counters[1..].iter().map(|counters| counters.packets.get()).sum::<u64>();
        let before = of_others();
        let control = path.controls[0].clone();
        std::thread::scope(|scope| {
            let sending = scope.spawn(|| send_all(&mut path.spread, &mut burst, way));
            let all_went =
                wharf_testkit::threads::within(Duration::from_secs(10), || of_others() == before + others);
            control.allowed.store(usize::MAX / 2, SeqCst);
            sending.join().unwrap();
            assert!(all_went, "way {way}");
        });
    }
}

#[test]
fn queues_of_different_pools_are_refused() {
    let pools = [pool(16), pool(16)];
    let queues = pools.each_ref().map(|pool| builder(pool, Gate::open(4).0).build().unwrap());
    let senders = queues.iter().map(|queue| queue.sender("spread").unwrap()).collect();
    assert!(matches!(Spread::new(senders), Err(QueueError::ForeignPool { .. })));
    assert!(matches!(Spread::new(Vec::<Sender>::new()), Err(QueueError::Setting { .. })));
}
