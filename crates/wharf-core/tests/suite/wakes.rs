//! Wake-ups at the edges: a waiter while frames complete, pollers beside a dedicated owner, a queue that dies. Sleeps
//! are unbounded, so that a lost wake-up hangs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use wharf_core::host::NoClock;
use wharf_core::pool::PagePool;
use wharf_core::queue::TxQueue;
use wharf_core::sender::SendError;
use wharf_core::wait::Wait;
use wharf_testkit::gate::{Control, Gate};
use wharf_testkit::threads::{Sleepers, within_a_minute};
use wharf_testkit::{assert_conserved, numbered, pool};

fn queue(pool: &PagePool) -> (TxQueue, Arc<Control>, Sleepers) {
    let ((gate, control), sleep) = (Gate::new(64), Sleepers::default());
    let builder = TxQueue::builder(pool, Box::new(gate), Arc::new(NoClock), Arc::new(sleep.clone()));
    (builder.build().unwrap(), control, sleep)
}

/// The owner recycles the last frame after the waiter has looked and before it knows of the waiter: with no work
/// left, it would leave for good.
#[test]
fn memory_freed_just_before_the_waiter_is_seen_wakes_it() {
    within_a_minute(|| {
        let pool = pool(1);
        let (queue, control, sleep) = queue(&pool);
        let (poller, stop) = queue.poller();
        std::thread::scope(|scope| {
            scope.spawn(move || poller.run());
            sleep.await_asleep(1);
            let mut sender = queue.sender("waits").unwrap();
            let mut burst = numbered(&mut sender, 0, 1, 64);
            _ = sender.send(&mut burst, Wait::Forever).unwrap();
            // The poller naps now, while there is something to come back for.
            sleep.await_asleep(0);
            let mut run = loop {
                match queue.claim(0) {
                    Some(run) => break run,
                    None => std::thread::yield_now(),
                }
            };
            // The thread that sleeps without a bound now is the sender.
            let waiter = scope.spawn(move || {
                sender.packet(64, Wait::Forever).unwrap();
            });
            sleep.await_asleep(1);
            control.allowed.store(1, SeqCst);
            while run.step(0) {}
            waiter.join().unwrap();
            stop.stop();
        });
        drop(queue);
        assert_eq!(pool.audit().out(), 0);
    });
}

#[test]
fn poller_resumes_after_a_dedicated_owner() {
    within_a_minute(|| {
        let pool = pool(64);
        let (queue, control, sleep) = queue(&pool);
        let (poller, stop) = queue.poller();
        std::thread::scope(|scope| {
            let polls = scope.spawn(move || poller.run());
            sleep.await_asleep(1);
            let mut sender = queue.sender("one").unwrap();
            let mut burst = numbered(&mut sender, 0, 10, 64);
            let mut owner = queue.dedicate().unwrap();
            _ = sender.send(&mut burst, Wait::Forever).unwrap();
            owner.poll();
            drop(owner);
            // Frames that the owner left behind complete now, and only the poller is there.
            control.allowed.store(10, SeqCst);
            while queue.counters().sent.get() < 10 {
                std::thread::yield_now();
            }
            drop(sender);
            stop.stop();
            polls.join().unwrap();
        });
        assert_conserved(&queue);
    });
}

#[test]
fn poller_that_stops_leaves_a_dedicated_owner_called() {
    within_a_minute(|| {
        let pool = pool(64);
        let (queue, control, sleep) = queue(&pool);
        control.allowed.store(usize::MAX / 2, SeqCst);
        let (poller, stop_poller) = queue.poller();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let polls = scope.spawn(move || poller.run());
            sleep.await_asleep(1);
            let (queue, stop) = (&queue, &stop);
            let owner = scope.spawn(move || {
                let mut owner = queue.dedicate().unwrap();
                while !stop.load(SeqCst) {
                    owner.poll_or_sleep(u64::MAX);
                }
            });
            // Poller and owner both sleep.
            sleep.await_asleep(2);
            stop_poller.stop();
            polls.join().unwrap();
            sleep.await_asleep(1);
            let mut sender = queue.sender("wakes the owner").unwrap();
            let mut burst = numbered(&mut sender, 0, 10, 64);
            _ = sender.send(&mut burst, Wait::Forever).unwrap();
            while queue.counters().sent.get() < 10 {
                std::thread::yield_now();
            }
            stop.store(true, SeqCst);
            queue.set_batching(wharf_core::engine::Batching::On);
            owner.join().unwrap();
        });
        assert_conserved(&queue);
    });
}

/// Whoever asks for figures brings no work: the owner sleeps on, and the next sender still wakes it.
#[test]
fn dedicated_owner_that_was_asked_for_figures_is_woken_by_the_next_sender() {
    within_a_minute(|| {
        let pool = pool(64);
        let (queue, control, sleep) = queue(&pool);
        control.allowed.store(usize::MAX / 2, SeqCst);
        let mut sender = queue.sender("wakes the owner").unwrap();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let (queue, stop) = (&queue, &stop);
            let owner = scope.spawn(move || {
                let mut owner = queue.dedicate().unwrap();
                while !stop.load(SeqCst) {
                    owner.poll_or_sleep(u64::MAX);
                }
            });
            sleep.await_asleep(1);
            queue.poll();
            assert!(queue.qdisc_stats().is_empty(), "the owner stays");
            let mut burst = numbered(&mut sender, 0, 1, 64);
            _ = sender.send(&mut burst, Wait::Forever).unwrap();
            while queue.counters().sent.get() < 1 {
                std::thread::yield_now();
            }
            stop.store(true, SeqCst);
            queue.set_batching(wharf_core::engine::Batching::On);
            owner.join().unwrap();
        });
        drop(sender);
        assert_conserved(&queue);
    });
}

#[test]
fn panicking_device_under_a_dedicated_owner_kills_only_its_queue() {
    within_a_minute(|| {
        let pool = pool(64);
        let (queue, control, sleep) = queue(&pool);
        std::thread::scope(|scope| {
            let mut sender = queue.sender("waits").unwrap();
            let mut burst = numbered(&mut sender, 0, 64, 64);
            let owner = scope.spawn(|| {
                let mut owner = queue.dedicate().unwrap();
                owner.poll();
                sleep.await_asleep(1);
                control.bomb.store(1, SeqCst);
                loop {
                    owner.poll();
                }
            });
            _ = sender.send(&mut burst, Wait::Forever).unwrap();
            // A wait may end early without a cause.
            let error = loop {
                match sender.wait_for_memory(Wait::Forever) {
                    Ok(_) => continue,
                    Err(error) => break error,
                }
            };
            assert!(matches!(error, SendError::Ended { .. }), "{error}");
            assert!(owner.join().is_err());
        });
    });
}
