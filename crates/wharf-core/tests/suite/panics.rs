//! Panics of users' code on the owner's thread: the path goes on, and every frame is accounted for.

use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::Duration;
use wharf_core::host::{Clock, Park, Wake};
use wharf_core::owner::Policy;
use wharf_core::pool::PagePool;
use wharf_core::qdisc::{Fifo, FifoLimit};
use wharf_core::queue::{QueueError, TxQueue};
use wharf_core::sender::{Sender, Watch};
use wharf_core::wait::Wait;
use wharf_testkit::gate::{Control, Gate};
use wharf_testkit::threads::TestPark;
use wharf_testkit::{assert_conserved, builder, numbered, pool};

/// Runs `body` without the backtraces of wanted panics.
fn quietly<R>(run: impl FnOnce() -> R) -> R {
    static HOOK: std::sync::Once = std::sync::Once::new();
    HOOK.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let is_wanted = info.payload().downcast_ref::<&str>().is_some_and(|what| what.contains("wanted"));
            if !is_wanted {
                usual(info);
            }
        }));
    });
    run()
}

#[derive(Debug, Default)]
struct Panics(AtomicUsize);

impl Wake for Panics {
    fn wake(&self) {
        self.0.fetch_add(1, SeqCst);
        panic!("wanted: a waker");
    }
}

/// A task's waker that panics on demand.
#[derive(Debug, Default)]
struct PanicsLater(Panics, AtomicBool);

impl std::task::Wake for PanicsLater {
    fn wake(self: Arc<Self>) {
        if self.1.load(SeqCst) {
            self.0.wake();
        }
    }
}

#[derive(Debug, Default)]
struct Counts(AtomicUsize);

impl Wake for Counts {
    fn wake(&self) {
        self.0.fetch_add(1, SeqCst);
    }
}

/// A full FIFO of 8 before a device that completes on demand.
fn full(pool: &PagePool) -> (TxQueue, Arc<Control>) {
    let (gate, control) = Gate::new(1);
    let queue = builder(pool, gate).qdisc(Box::new(Fifo::new(FifoLimit::Packets(8)))).build().unwrap();
    let mut sender = queue.sender("fills").unwrap();
    let mut burst = numbered(&mut sender, 0, 30, 64);
    while sender.send(&mut burst, Wait::Never).unwrap().accepted > 0 {}
    (queue, control)
}

fn open(control: &Control) {
    control.allowed.store(usize::MAX / 2, SeqCst);
}

/// Asserts that all frames leave, and a further packet as well.
fn assert_goes_on(queue: &TxQueue, control: &Control) {
    open(control);
    let mut sender = queue.sender("after").unwrap();
    let mut burst = numbered(&mut sender, 4711, 1, 64);
    _ = sender.send(&mut burst, Wait::Forever).unwrap();
    assert!(queue.drain(Duration::MAX));
    assert_eq!(control.sent().last(), Some(&4711));
    drop((burst, sender));
    assert_conserved(queue);
}

fn waits(queue: &TxQueue, wake: Arc<dyn Wake>) -> (Sender, Watch) {
    let mut sender = queue.sender("waits").unwrap();
    let mut watch = sender.watch(0, 1, wake);
    assert!(sender.look(&mut watch).is_none());
    (sender, watch)
}

#[test]
fn panicking_waker_harms_neither_owner_nor_later_waiters() {
    quietly(|| {
        let pool = pool(256);
        let (queue, control) = full(&pool);
        let (panics, counts) = (Arc::new(Panics::default()), Arc::new(Counts::default()));
        let first = waits(&queue, panics.clone());
        let second = waits(&queue, counts.clone());
        open(&control);
        queue.poll();
        assert_eq!((panics.0.load(SeqCst), counts.0.load(SeqCst)), (1, 1));
        assert_eq!(queue.counters().panics.get(), 1);
        drop((first, second));
        assert_goes_on(&queue, &control);
    });
}

#[test]
fn panicking_task_waker_harms_only_its_task() {
    quietly(|| {
        let pool = pool(256);
        let (queue, control) = full(&pool);
        let (poller, stop) = queue.poller();
        std::thread::scope(|scope| {
            let polls = scope.spawn(move || poller.run());
            let panics = Arc::new(PanicsLater::default());
            let waker = Waker::from(panics.clone());
            let mut sender = queue.sender("task").unwrap();
            let mut burst = numbered(&mut sender, 100, 4, 64);
            let mut send = Box::pin(sender.send_async(&mut burst));
            while queue.senders().last().is_none_or(|task| task.waits.get() == 0) {
                let _ = send.as_mut().poll(&mut Context::from_waker(&waker));
            }
            panics.1.store(true, SeqCst);
            open(&control);
            while panics.0.0.load(SeqCst) == 0 {
                std::thread::yield_now();
            }
            assert!(send.as_mut().poll(&mut Context::from_waker(&waker)).is_ready());
            stop.stop();
            polls.join().expect("the poller lives");
        });
        assert_goes_on(&queue, &control);
    });
}

/// Looks, sends and leaves within the wake-up, as an executor does that runs a task at once.
#[derive(Debug, Default)]
struct AtOnce {
    waits: Mutex<Option<(Sender, Watch)>>,
    served: AtomicBool,
}

impl Wake for AtOnce {
    fn wake(&self) {
        let Some((mut sender, mut watch)) = self.waits.lock().unwrap().take() else { return };
        self.served.store(matches!(sender.look(&mut watch), Some(Ok(()))), SeqCst);
        let mut burst = numbered(&mut sender, 77, 1, 64);
        assert_eq!(sender.send(&mut burst, Wait::Never).unwrap().accepted, 1);
    }
}

#[test]
fn woken_sender_may_run_in_the_waking_thread() {
    let pool = pool(256);
    let (queue, control) = full(&pool);
    let at_once = Arc::new(AtOnce::default());
    let waiting = waits(&queue, at_once.clone());
    *at_once.waits.lock().unwrap() = Some(waiting);
    open(&control);
    queue.poll();
    assert!(at_once.served.load(SeqCst));
    queue.drain(Duration::MAX);
    assert_eq!(control.sent().last(), Some(&77));
    assert_goes_on(&queue, &control);
}

#[test]
fn panicking_waker_of_memory_waiter_is_contained() {
    quietly(|| {
        let pool = pool(8);
        let queue = builder(&pool, Gate::new(8).0).build().unwrap();
        let mut sender = queue.sender("takes all").unwrap();
        let burst = numbered(&mut sender, 0, 8, 64);
        let mut other = queue.sender("waits").unwrap();
        let panics = Arc::new(Panics::default());
        let mut watch = other.watch_memory(panics.clone());
        assert!(other.look(&mut watch).is_none());
        drop((burst, sender));
        assert!(panics.0.load(SeqCst) > 0);
        assert!(matches!(other.look(&mut watch), Some(Ok(()))));
        assert_eq!(other.fill(&mut pool.burst(4), 4, 64, Wait::Never).unwrap(), 4);
        drop(other);
        assert_conserved(&queue);
    });
}

#[test]
fn panicking_change_ends_only_the_change() {
    quietly(|| {
        let pool = pool(256);
        let (queue, control) = full(&pool);
        queue.apply(|_| panic!("wanted: a change"));
        queue.apply(|run| run.set_bql(None));
        assert_eq!(queue.counters().panics.get(), 1);
        assert_goes_on(&queue, &control);
    });
}

/// A clock that panics on demand.
#[derive(Debug, Default)]
struct Stops(AtomicBool);

impl Clock for Stops {
    fn now_ns(&self) -> u64 {
        assert!(!self.0.load(SeqCst), "wanted: a clock");
        1000
    }
}

#[test]
fn panicking_clock_stands_still() {
    quietly(|| {
        let (pool, clock) = (pool(256), Arc::new(Stops::default()));
        let (gate, control) = Gate::new(16);
        let queue = TxQueue::builder(&pool, Box::new(gate), clock.clone(), Arc::new(TestPark));
        let queue = queue.policy(Policy { quota_packets: 8, time_ns: Some(500) }).build().unwrap();
        let mut sender = queue.sender("sends").unwrap();
        for round in 0..10 {
            clock.0.store(round == 5, SeqCst);
            let mut burst = numbered(&mut sender, 10 * round, 10, 64);
            _ = sender.send(&mut burst, Wait::Forever).unwrap();
            control.allowed.fetch_add(10, SeqCst);
            queue.poll();
        }
        assert!(control.sent().iter().copied().eq(0..100));
        drop(sender);
        assert_goes_on(&queue, &control);
    });
}

/// The owner's own code panics between two steps or two polls.
#[test]
fn owner_dying_between_steps_leaves_a_working_queue() {
    quietly(|| {
        for dedicated in [false, true] {
            let pool = pool(256);
            let (queue, control) = full(&pool);
            let counts = Arc::new(Counts::default());
            let waiting = waits(&queue, counts.clone());
            let dies = std::thread::spawn({
                let queue = queue.clone();
                move || {
                    if dedicated {
                        let mut owner = queue.dedicate().unwrap();
                        owner.poll();
                        panic!("wanted: an owner");
                    }
                    let mut run = queue.claim(0).unwrap();
                    assert!(run.step(0));
                    panic!("wanted: an owner");
                }
            });
            assert!(dies.join().is_err());
            open(&control);
            queue.poll();
            assert!(counts.0.load(SeqCst) > 0, "the waiting sender is served");
            drop(waiting);
            assert_goes_on(&queue, &control);
        }
    });
}

/// A machine whose wake-ups panic.
#[derive(Debug)]
struct BadPark(Arc<Panics>);

impl Park for BadPark {
    fn waker(&self) -> Arc<dyn Wake> {
        self.0.clone()
    }

    fn park(&self, _timeout_ns: u64) {
        std::thread::yield_now();
    }
}

#[test]
fn panicking_poller_wake_up_does_not_end_the_sender() {
    quietly(|| {
        let (pool, panics) = (pool(256), Arc::new(Panics::default()));
        let (gate, control) = Gate::new(64);
        let park = Arc::new(BadPark(panics.clone()));
        let clock = Arc::new(wharf_testkit::threads::TestClock::default());
        let queue = TxQueue::builder(&pool, Box::new(gate), clock, park).build().unwrap();
        let (poller, stop) = queue.poller();
        std::thread::scope(|scope| {
            scope.spawn(move || poller.run());
            let mut sender = queue.sender("sends").unwrap();
            for n in 0..10 {
                let mut burst = numbered(&mut sender, n, 1, 64);
                _ = sender.send(&mut burst, Wait::Forever).unwrap();
            }
            open(&control);
            stop.stop();
        });
        assert_goes_on(&queue, &control);
    });
}

/// A device that panics, and the frames that it holds, are suspect: its queue is dead, for all senders. The frames
/// stay in the ledger by name; the pool and its other queues go on.
#[test]
fn panicking_device_keeps_only_its_own_frames() {
    let pool = pool(256);
    let (dead, control) = full(&pool);
    let (other, other_control) = full(&pool);
    let counts = Arc::new(Counts::default());
    let (mut sender, mut watch) = waits(&dead, counts.clone());
    let inside = {
        open(&other_control);
        assert!(other.drain(Duration::MAX));
        pool.audit().out()
    };
    control.bomb.store(1, SeqCst);
    let polls = dead.clone();
    assert!(std::thread::spawn(move || polls.poll()).join().is_err());
    assert!(counts.0.load(SeqCst) > 0, "the waiting sender is woken");
    assert!(matches!(sender.look(&mut watch), Some(Err(wharf_core::sender::SendError::Ended { .. }))));
    drop((watch, sender));
    assert_eq!(dead.shutdown(Duration::ZERO).out(), inside, "those, and no others");
    drop(dead);
    let mut sender = other.sender("lives").unwrap();
    let mut burst = numbered(&mut sender, 9, 1, 64);
    _ = sender.send(&mut burst, Wait::Forever).unwrap();
    assert!(other.drain(Duration::MAX));
    drop((burst, sender));
    other.shutdown(Duration::ZERO);
    assert_eq!(pool.audit().out(), inside);
}

/// A dying sender runs the queue as it goes: a panic of the device then must not end the process.
#[test]
fn device_may_panic_under_a_dying_sender() {
    quietly(|| {
        for waits in [false, true] {
            let pool = pool(256);
            let (queue, control) = full(&pool);
            let dies = std::thread::spawn({
                let (queue, control) = (queue.clone(), control.clone());
                move || {
                    let mut sender = queue.sender("dies").unwrap();
                    let _watch = waits.then(|| sender.watch(0, 1, Arc::new(Counts::default())));
                    control.bomb.store(1, SeqCst);
                    panic!("wanted: a sender");
                }
            });
            assert!(dies.join().is_err());
            assert!(matches!(queue.sender("late").map(drop), Err(QueueError::Ended { .. })));
        }
    });
}

/// A dead queue has no owner that takes messages: they are dropped, and a program that goes on asking keeps its memory.
#[test]
fn a_dead_queue_keeps_no_message() {
    let pool = pool(256);
    let (dead, control) = full(&pool);
    control.allowed.fetch_add(1, SeqCst);
    control.bomb.store(1, SeqCst);
    let polls = dead.clone();
    assert!(std::thread::spawn(move || polls.poll()).join().is_err());
    let message = Arc::new(());
    let kept = message.clone();
    dead.apply(move |_| drop(kept));
    assert_eq!(Arc::strong_count(&message), 1);
    assert!(matches!(dead.sender("late"), Err(QueueError::Ended { .. })), "not closed by a program");
}
