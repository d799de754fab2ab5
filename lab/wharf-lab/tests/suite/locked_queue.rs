//! The kernel's enqueue disciplines, on real threads: each packet comes out once and in order, or is counted
//! as dropped; none stays behind.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use wharf_core::owner::Policy;
use wharf_core::pool::PagePool;
use wharf_core::qdisc::{Fifo, FifoLimit};
use wharf_lab::comparators::locked_queue::{
    BusyLock, Discipline, LockedQueue, LocklessList, RootLock, Setup,
};
use wharf_lab::comparators::run_log::{RunLog, RunLogs};
use wharf_testkit::gate::Gate;
use wharf_testkit::pool;
use wharf_testkit::threads::{TestClock, TestPark};

const POLICIES: [Policy; 4] = [Policy::UNBOUNDED, Policy::JIFFY, Policy::quota(3), Policy::QUOTA_AND_TIME];

/// Sends `count` numbered packets in bursts of up to 8. Returns the number dropped.
fn send<D: Discipline>(queue: &LockedQueue<D>, who: u64, count: u64) -> u64 {
    let mut sender = queue.sender(&format!("sender {who}")).unwrap();
    let mut burst = sender.burst(8);
    let mut next = 0;
    while next < count {
        let want = (next % 8 + 1).min(count - next) as usize;
        if sender.fill(&mut burst, want, 64).is_err() {
            std::thread::yield_now();
            continue;
        }
        for bytes in burst.iter_mut() {
            bytes[..8].copy_from_slice(&(who << 32 | next).to_be_bytes());
            next += 1;
        }
        sender.send(&mut burst).unwrap();
        assert!(burst.is_empty());
    }
    assert_eq!(sender.counters().offered.get(), count);
    sender.counters().dropped()
}

fn assert_sent(sent: &[u64], senders: u64, count: u64, dropped: u64) {
    assert_eq!(sent.len() as u64 + dropped, senders * count);
    for who in 0..senders {
        let mine: Vec<u64> = sent.iter().copied().filter(|n| n >> 32 == who).collect();
        assert!(mine.is_sorted_by(|a, b| a < b), "order of sender {who}");
    }
}

fn finish<D: Discipline>(queue: LockedQueue<D>) {
    assert!(queue.drain(u64::MAX));
    let counters = queue.counters();
    assert_eq!((counters.accepted.get(), counters.failed.get()), (counters.sent.get(), 0));
    let audit = queue.close();
    assert_eq!(audit.out(), 0, "{audit}");
}

fn setup(pool: &PagePool, gate: Gate, policy: Policy, limit: usize) -> Setup {
    Setup {
        pool: pool.clone(),
        device: Box::new(gate),
        qdisc: Box::new(Fifo::new(FifoLimit::Packets(limit))),
        clock: Arc::new(TestClock::default()),
        park: Arc::new(TestPark),
        policy,
        observer: None,
    }
}

fn queue<D: Discipline>(pool: &PagePool, gate: Gate, policy: Policy, limit: usize) -> LockedQueue<D> {
    LockedQueue::new(setup(pool, gate, policy, limit)).unwrap()
}

/// Runs four senders over a ring of `ring` frames and a qdisc of `limit` packets. Returns the packets
/// dropped.
fn four_senders<D: Discipline>(policy: Policy, ring: usize, limit: usize) -> u64 {
    let (gate, control) = Gate::open(ring);
    // Fewer frames than the list holds: it never refuses one.
    let pool = pool(768);
    let queue = queue::<D>(&pool, gate, policy, limit);
    let dropped = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|who| {
                scope.spawn({
                    let queue = &queue;
                    move || send(queue, who, 3000)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    // Packets on the list when the senders ended are dropped or sent now.
    assert!(queue.drain(u64::MAX));
    let late: u64 = queue.senders().iter().map(|sender| sender.dropped()).sum();
    assert!(late >= dropped);
    let drained: u64 = queue.senders().iter().map(|sender| sender.drained_packets.get()).sum();
    assert!(drained <= control.sent().len() as u64);
    assert_sent(&control.sent(), 4, 3000, late);
    finish(queue);
    late
}

fn all_rings<D: Discipline>() {
    for policy in POLICIES {
        assert_eq!(four_senders::<D>(policy, 256, 100_000), 0, "{} drops none that fit", D::NAME);
        four_senders::<D>(policy, 2, 50);
    }
}

#[test]
fn root_lock_loses_only_counted_packets() {
    all_rings::<RootLock>();
}

#[test]
fn busylock_loses_only_counted_packets() {
    all_rings::<BusyLock>();
}

#[test]
fn lockless_list_loses_only_counted_packets() {
    all_rings::<LocklessList>();
}

/// Runs a device that takes nothing: the qdisc fills, and further packets are dropped and return to the pool.
fn full<D: Discipline>() {
    let (gate, control) = Gate::new(2);
    let pool = pool(256);
    let queue = queue::<D>(&pool, gate, Policy::QUOTA_AND_TIME, 10);
    let dropped = send(&queue, 0, 100);
    assert!((85..=90).contains(&dropped), "{}: {dropped}", D::NAME);
    control.allowed.store(usize::MAX / 2, SeqCst);
    finish(queue);
    assert_sent(&control.sent(), 1, 100, dropped);
}

#[test]
fn a_full_qdisc_drops_and_counts() {
    full::<RootLock>();
    full::<BusyLock>();
    full::<LocklessList>();
}

fn served<D: Discipline>() {
    let (gate, control) = Gate::open(64);
    let pool = pool(4096);
    let queue = queue::<D>(&pool, gate, Policy::QUOTA_AND_TIME, 100_000);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let serving = scope.spawn(|| queue.serve(&stop));
        let senders: Vec<_> = (0..2)
            .map(|who| {
                scope.spawn({
                    let queue = &queue;
                    move || send(queue, who, 2000)
                })
            })
            .collect();
        senders.into_iter().for_each(|sender| _ = sender.join().unwrap());
        stop.store(true, SeqCst);
        serving.join().unwrap();
    });
    assert!(queue.drain(u64::MAX));
    let dropped = queue.senders().iter().map(|sender| sender.dropped()).sum();
    assert_sent(&control.sent(), 2, 2000, dropped);
    finish(queue);
}

#[test]
fn serving_thread_drains_for_all() {
    served::<RootLock>();
    served::<BusyLock>();
    served::<LocklessList>();
}

/// The logs of the runs add up.
#[test]
fn run_logs_add_up() {
    let (gate, control) = Gate::open(256);
    let pool = pool(4096);
    let logs = Arc::new(RunLogs::new(Arc::new(TestClock::default()), 3));
    let setup = Setup { observer: Some(logs.clone()), ..setup(&pool, gate, Policy::quota(5), 1000) };
    let queue = LockedQueue::<RootLock>::new(setup).unwrap();
    std::thread::scope(|scope| {
        (0..3).for_each(|who| {
            _ = scope.spawn({
                let queue = &queue;
                move || send(queue, who, 2000)
            })
        });
    });
    let senders = queue.senders();
    assert!(queue.drain(u64::MAX));
    let sum = |what: fn(&RunLog) -> u64| -> u64 { logs.logs().iter().map(what).sum() };
    let drained: u64 = senders.iter().map(|sender| sender.drained_packets.get()).sum();
    assert_eq!(sum(|log| log.packets.get()), drained);
    assert!(drained <= control.sent().len() as u64);
    assert!(sum(|log| log.for_others.get()) <= drained);
    assert_eq!(sum(|log| log.runs.get()), sum(|log| log.time_ns.count()));
    assert!(logs.logs().iter().all(|log| log.longest_packets.get() <= 5));
    finish(queue);
}
