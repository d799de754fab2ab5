//! Real threads: many senders, waiting, pollers, dedicated owners, dying senders. A clock only ends tests that hang.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;
use wharf_core::qdisc::{Fifo, FifoLimit};
use wharf_core::queue::TxQueue;
use wharf_core::sender::SendError;
use wharf_core::wait::Wait;
use wharf_testkit::gate::Gate;
use wharf_testkit::threads::{ThreadState, within_ten_minutes};
use wharf_testkit::{assert_conserved, builder, numbered, pool};

/// Runs `body` beside a poller's thread.
fn with_poller(queue: &TxQueue, body: impl FnOnce()) {
    let (poller, stop) = queue.poller();
    std::thread::scope(|scope| {
        scope.spawn(move || poller.run());
        body();
        stop.stop();
    });
}

/// Sends `count` numbered packets in bursts of 1 to 32, waiting for space.
fn send_numbered(queue: &TxQueue, who: u64, count: u64) {
    let mut sender = queue.sender(&format!("sender {who}")).unwrap();
    let mut burst = sender.burst(32);
    let mut next = 0;
    while next < count {
        let want = ((next * 7 + who) % 32 + 1).min(count - next) as usize;
        sender.fill(&mut burst, want, 64, Wait::Forever).unwrap();
        for bytes in burst.iter_mut() {
            bytes[..8].copy_from_slice(&(who << 32 | next).to_be_bytes());
            next += 1;
        }
        _ = sender.send(&mut burst, Wait::Forever).unwrap();
        assert!(burst.is_empty(), "send sends all");
    }
}

/// Drains as a dedicated owner that sleeps when idle.
fn own(queue: &TxQueue, stop: &AtomicBool, nap_ns: u64) {
    let mut dedicated = queue.dedicate().unwrap();
    while !stop.load(SeqCst) {
        if nap_ns == 0 {
            dedicated.poll()
        } else {
            dedicated.poll_or_sleep(nap_ns)
        };
    }
}

fn assert_order(sent: &[u64], senders: u64, count: u64) {
    assert_eq!(sent.len() as u64, senders * count);
    for who in 0..senders {
        let mine = sent.iter().filter(|&&n| n >> 32 == who).map(|n| n & u64::from(u32::MAX));
        assert!(mine.eq(0..count), "order of sender {who}");
    }
}

#[test]
fn many_senders_with_little_memory_and_a_small_ring_lose_no_frame() {
    within_ten_minutes(|| {
        let (gate, control) = Gate::open(16);
        let pool = pool(256);
        let queue = builder(&pool, gate).lane_frames(32).index_start(u32::MAX - 100).build().unwrap();
        with_poller(&queue, || {
            std::thread::scope(|scope| {
                for who in 0..8 {
                    let queue = &queue;
                    scope.spawn(move || send_numbered(queue, who, 4000));
                }
            });
            assert!(queue.drain(Duration::MAX));
        });
        assert_order(&control.sent(), 8, 4000);
        assert_conserved(&queue);
    });
}

#[test]
fn waiting_senders_without_a_poller_run_the_queue() {
    within_ten_minutes(|| {
        let (gate, control) = Gate::open(4);
        let pool = pool(64);
        let queue = builder(&pool, gate).lane_frames(8).build().unwrap();
        std::thread::scope(|scope| {
            for who in 0..3 {
                let queue = &queue;
                scope.spawn(move || send_numbered(queue, who, 2000));
            }
        });
        assert!(queue.drain(Duration::MAX));
        assert_order(&control.sent(), 3, 2000);
        assert_conserved(&queue);
    });
}

#[test]
fn dedicated_owner_drains_for_all_and_loses_no_wake_up() {
    within_ten_minutes(|| {
        let (gate, control) = Gate::open(256);
        let pool = pool(1024);
        let queue = builder(&pool, gate).build().unwrap();
        let (stop, owner_state) = (AtomicBool::new(false), OnceLock::new());
        std::thread::scope(|scope| {
            let owner = scope.spawn(|| {
                owner_state.set(ThreadState::current()).unwrap();
                own(&queue, &stop, u64::MAX);
            });
            let senders: Vec<_> = (0..3u64)
                .map(|who| {
                    let (queue, control, owner_state) = (&queue, &control, &owner_state);
                    scope.spawn(move || {
                        send_numbered(queue, who, 3000);
                        // The late one has another lane: its packet comes after these once they have left.
                        while control.sent().iter().filter(|seq| *seq >> 32 == who).count() < 3000 {
                            std::thread::yield_now();
                        }
                        owner_state.wait().await_asleep();
                        let mut sender = queue.sender("late").unwrap();
                        let mut burst = numbered(&mut sender, who << 32 | 3000, 1, 64);
                        _ = sender.send(&mut burst, Wait::Forever).unwrap();
                    })
                })
                .collect();
            senders.into_iter().for_each(|sender| sender.join().unwrap());
            while control.sent().len() < 9003 {
                std::thread::yield_now();
            }
            stop.store(true, SeqCst);
            // Something to wake it with.
            queue.set_batching(wharf_core::engine::Batching::On);
            owner.join().unwrap();
        });
        assert_order(&control.sent(), 3, 3001);
        assert_conserved(&queue);
    });
}

#[test]
fn dying_senders_leave_no_frame_behind() {
    within_ten_minutes(|| {
        let (gate, control) = Gate::open(32);
        let pool = pool(512);
        let queue = builder(&pool, gate).build().unwrap();
        with_poller(&queue, || {
            for round in 0..40u64 {
                let queue = queue.clone();
                let died = std::thread::spawn(move || {
                    let mut sender = queue.sender("mortal").unwrap();
                    let mut burst = numbered(&mut sender, round * 100, 20, 64);
                    _ = sender.send(&mut burst, Wait::Forever).unwrap();
                    let _unsent = numbered(&mut sender, 0, 10, 64);
                    std::panic::resume_unwind(Box::new("dies"));
                });
                assert!(died.join().is_err());
            }
            assert!(queue.drain(Duration::MAX));
        });
        assert_eq!(control.sent().len(), 800);
        assert_conserved(&queue);
    });
}

#[test]
fn closed_path_wakes_waiting_sender() {
    within_ten_minutes(|| {
        let (gate, _control) = Gate::new(2);
        let pool = pool(512);
        let queue = builder(&pool, gate).lane_frames(8).build().unwrap();
        std::thread::scope(|scope| {
            let sender = scope.spawn(|| {
                let mut sender = queue.sender("waits").unwrap();
                loop {
                    let mut burst = sender.burst(32);
                    let filled = sender.fill(&mut burst, 32, 64, Wait::Forever);
                    if let Err(error) = filled.and_then(|_| sender.send(&mut burst, Wait::Forever)) {
                        return error;
                    }
                }
            });
            while queue.senders().first().is_none_or(|sender| sender.waits.get() == 0) {
                std::thread::yield_now();
            }
            queue.shutdown(Duration::ZERO);
            assert!(matches!(sender.join().unwrap(), SendError::Closed));
        });
        assert_conserved(&queue);
    });
}

#[test]
fn panicking_device_kills_its_queue_and_ends_all_waits() {
    within_ten_minutes(|| {
        let (gate, control) = Gate::new(4);
        let pool = pool(4096);
        let queue = builder(&pool, gate).lane_frames(8).build().unwrap();
        let mut waiting = queue.sender("waits").unwrap();
        std::thread::scope(|scope| {
            let waits = scope.spawn(move || {
                let mut burst = numbered(&mut waiting, 0, 200, 64);
                loop {
                    if let Err(error) = waiting.send(&mut burst, Wait::Forever) {
                        return error;
                    }
                    burst = numbered(&mut waiting, 0, 20, 64);
                }
            });
            let first = queue.senders()[0].clone();
            while first.waits.get() == 0 {
                std::thread::yield_now();
            }
            control.bomb.store(1, SeqCst);
            let poll = scope.spawn(|| queue.poll());
            let polled = poll.join();
            let error = waits.join();
            assert!(polled.is_err() || error.is_err(), "the owner of the queue panicked");
            if let Ok(error) = error {
                assert!(matches!(error, SendError::Ended { .. }), "{error}");
            }
        });
        let mut sender = queue.clone().sender("late");
        if let Ok(sender) = &mut sender {
            let mut burst = numbered(sender, 0, 1, 64);
            assert!(matches!(sender.send(&mut burst, Wait::Forever), Err(SendError::Ended { .. })));
        }
        queue.shutdown(Duration::MAX);
    });
}

#[test]
fn waiting_sender_goes_on_when_the_poller_leaves() {
    within_ten_minutes(|| {
        let (gate, control) = Gate::new(4);
        let pool = pool(2048);
        let queue = builder(&pool, gate).qdisc(Box::new(Fifo::new(FifoLimit::Packets(20)))).build().unwrap();
        let (poller, stop) = queue.poller();
        std::thread::scope(|scope| {
            let polls = scope.spawn(move || poller.run());
            let queue = &queue;
            let sends = scope.spawn(move || send_numbered(queue, 0, 500));
            while queue.senders().first().is_none_or(|sender| sender.waits.get() == 0) {
                std::thread::yield_now();
            }
            stop.stop();
            polls.join().unwrap();
            control.allowed.store(usize::MAX / 2, SeqCst);
            sends.join().unwrap();
        });
        assert!(queue.drain(Duration::MAX));
        assert_conserved(&queue);
    });
}

#[test]
fn shutdown_beside_a_dedicated_owner_keeps_its_deadline() {
    within_ten_minutes(|| {
        let (gate, _control) = Gate::new(4);
        let pool = pool(256);
        let queue = builder(&pool, gate).build().unwrap();
        let mut sender = queue.sender("one").unwrap();
        let mut burst = numbered(&mut sender, 0, 30, 64);
        _ = sender.send(&mut burst, Wait::Forever).unwrap();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| own(&queue, &stop, 0));
            queue.shutdown(Duration::ZERO);
            stop.store(true, SeqCst);
        });
        drop(sender);
        assert_conserved(&queue);
    });
}

/// The owner, awake or asleep, answers when all frames have left: the shutdown ends before its deadline.
#[test]
fn shutdown_beside_a_dedicated_owner_ends_when_all_frames_have_left() {
    within_ten_minutes(|| {
        for nap_ns in [0, u64::MAX] {
            let (gate, control) = Gate::open(4);
            let pool = pool(256);
            let queue = builder(&pool, gate).build().unwrap();
            let stop = AtomicBool::new(false);
            std::thread::scope(|scope| {
                let owner = scope.spawn(|| own(&queue, &stop, nap_ns));
                send_numbered(&queue, 0, 500);
                assert!(queue.drain(Duration::MAX));
                assert_eq!(control.sent().len(), 500);
                let audit = queue.shutdown(Duration::MAX);
                assert_eq!(audit.out(), 0, "{audit}");
                stop.store(true, SeqCst);
                queue.set_batching(wharf_core::engine::Batching::On);
                owner.join().unwrap();
            });
            assert_order(&control.sent(), 1, 500);
            assert_conserved(&queue);
        }
    });
}

#[test]
fn dropped_queue_after_many_senders_gives_its_frames_back() {
    within_ten_minutes(|| {
        for round in 0..100u64 {
            let pool = pool(64);
            let queue = builder(&pool, Gate::new(4).0).build().unwrap();
            for n in 0..60 {
                let mut sender = queue.sender("guest").unwrap();
                let mut burst = numbered(&mut sender, n, 1, 64);
                assert_eq!(sender.send(&mut burst, Wait::Never).unwrap().accepted, 1, "round {round}");
            }
            drop(queue);
            assert_eq!(pool.audit().out(), 0, "round {round}: {}", pool.audit());
        }
        let pool = pool(64);
        let queue = builder(&pool, Gate::open(4).0).build().unwrap();
        for n in 0..10_000 {
            let mut sender = queue.sender("guest").unwrap();
            let mut burst = numbered(&mut sender, n, 1, 64);
            _ = sender.send(&mut burst, Wait::Forever).unwrap();
        }
        assert_conserved(&queue);
    });
}

#[test]
fn counters_of_many_past_senders_are_added_up() {
    let pool = pool(64);
    let queue = builder(&pool, Gate::open(4).0).build().unwrap();
    let mut lives = queue.sender("lives").unwrap();
    let looked_at = queue.sender("gone, but looked at").unwrap().counters().clone();
    for n in 0..10_000 {
        let mut sender = queue.sender("guest").unwrap();
        let mut burst = numbered(&mut sender, n, 1, 64);
        _ = sender.send(&mut burst, Wait::Forever).unwrap();
    }
    let mut burst = numbered(&mut lives, 0, 1, 64);
    _ = lives.send(&mut burst, Wait::Forever).unwrap();
    let kept = queue.senders();
    assert!(kept.len() <= 1024 && std::sync::Arc::ptr_eq(&kept[1], &looked_at), "{}", kept.len());
    assert_eq!(kept[0].packets.get(), 1, "the living sender is named");
    assert_eq!(queue.sender_totals().packets.get(), 10_001, "and no sender's packets are forgotten");
    drop((lives, kept));
    assert_conserved(&queue);
}

/// A claim, a second sender, an audit: each revokes the bias of the sender that was alone.
#[test]
fn sender_alone_gives_way_to_other_threads() {
    within_ten_minutes(|| {
        let (gate, control) = Gate::open(64);
        let pool = pool(1024);
        let queue = builder(&pool, gate).build().unwrap();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (queue, done) = (&queue, &done);
            scope.spawn(move || {
                send_numbered(queue, 0, 30_000);
                done.store(true, SeqCst);
            });
            scope.spawn(move || {
                while !done.load(SeqCst) {
                    queue.poll();
                    queue.audit();
                    std::thread::yield_now();
                }
            });
            for _ in 0..20 {
                let mut second = queue.sender("now and then").unwrap();
                let mut burst = numbered(&mut second, 1 << 32, 3, 64);
                _ = second.send(&mut burst, Wait::Forever).unwrap();
            }
        });
        queue.drain(Duration::MAX);
        let sent = control.sent();
        let of = |who: u64| sent.iter().filter(move |&&n| n >> 32 == who).map(|n| n & u64::from(u32::MAX));
        assert!(of(0).eq(0..30_000) && of(1).count() == 60);
        assert_eq!(queue.shutdown(Duration::MAX).out(), 0);
        assert_conserved(&queue);
    });
}
