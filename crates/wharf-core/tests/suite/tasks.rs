//! Senders that wait as tasks and in poll loops, on a runtime of a few lines.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};
use wharf_core::host::{self, Park};
use wharf_core::qdisc::{Fifo, FifoLimit};
use wharf_core::queue::TxQueue;
use wharf_core::sender::{SendError, Sender};
use wharf_core::wait::Wait;
use wharf_testkit::gate::Gate;
use wharf_testkit::threads::{TestPark, within_a_minute};
use wharf_testkit::wrappers::{InReap, Interrupted};
use wharf_testkit::{assert_conserved, builder, numbered, pool};

/// Counts wake-ups, and unparks a thread.
struct Counting {
    wakes: AtomicUsize,
    thread: Thread,
}

impl Wake for Counting {
    fn wake(self: Arc<Self>) {
        self.wakes.fetch_add(1, SeqCst);
        self.thread.unpark();
    }
}

fn counting() -> (Arc<Counting>, Waker) {
    let counting = Arc::new(Counting { wakes: AtomicUsize::new(0), thread: std::thread::current() });
    (counting.clone(), counting.into())
}

pub fn block_on<F: Future>(future: F) -> F::Output {
    let (_, waker) = counting();
    let (mut future, mut context) = (pin!(future), Context::from_waker(&waker));
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        std::thread::park_timeout(Duration::from_secs(60));
    }
}

fn poll_once<F: Future>(future: Pin<&mut F>, waker: &Waker) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(waker))
}

async fn send_numbered(mut sender: Sender, who: u64, count: u64) {
    let (mut burst, mut next) = (sender.burst(16), 0);
    while next < count {
        let want = (next % 16 + 1).min(count - next) as usize;
        sender.fill_async(&mut burst, want, 64).await.unwrap();
        for bytes in burst.iter_mut() {
            bytes[..8].copy_from_slice(&(who << 32 | next).to_be_bytes());
            next += 1;
        }
        _ = sender.send_async(&mut burst).await.unwrap();
        assert!(burst.is_empty());
    }
}

fn many_tasks(with_poller: bool) {
    within_a_minute(move || {
        let (gate, control) = Gate::open(16);
        let pool = pool(256);
        let queue = builder(&pool, gate).lane_frames(32).build().unwrap();
        let poller = with_poller.then(|| queue.poller());
        std::thread::scope(|scope| {
            let (polls, stop) = poller.map_or((None, None), |(poller, stop)| (Some(poller), Some(stop)));
            polls.map(|poller| scope.spawn(move || poller.run()));
            let senders: Vec<_> = (0..4)
                .map(|who| {
                    let sender = queue.sender(&format!("task {who}")).unwrap();
                    scope.spawn(move || block_on(send_numbered(sender, who, 3000)))
                })
                .collect();
            senders.into_iter().for_each(|sender| sender.join().unwrap());
            stop.iter().for_each(|stop| stop.stop());
        });
        queue.drain(Duration::MAX);
        let sent = control.sent();
        for who in 0..4 {
            let mine = sent.iter().filter(|&&n| n >> 32 == who).map(|n| n & u64::from(u32::MAX));
            assert!(mine.eq(0..3000), "order of task {who}");
        }
        assert_eq!(queue.shutdown(Duration::MAX).out(), 0);
        assert_conserved(&queue);
    });
}

#[test]
fn many_tasks_with_a_poller_lose_nothing() {
    many_tasks(true);
}

#[test]
fn many_tasks_without_a_poller_lose_nothing() {
    many_tasks(false);
}

/// A full queue of two behind a device of one that completes nothing, with a spare sender.
fn full(senders: usize) -> (TxQueue, Arc<wharf_testkit::gate::Control>, Vec<Sender>) {
    let (gate, control) = Gate::new(1);
    let pool = pool(256);
    let queue = builder(&pool, gate).qdisc(Box::new(Fifo::new(FifoLimit::Packets(2)))).build().unwrap();
    let mut first = queue.sender("fills").unwrap();
    let mut burst = numbered(&mut first, 0, 8, 64);
    while first.send(&mut burst, Wait::Never).unwrap().accepted > 0 {}
    let senders = (0..senders).map(|who| queue.sender(&format!("waits {who}")).unwrap());
    (queue.clone(), control, senders.collect())
}

#[test]
fn dropped_future_passes_its_turn_on() {
    let (queue, control, mut senders) = full(2);
    let [one, two] = &mut senders[..] else { unreachable!() };
    let (mut burst_one, mut burst_two) = (numbered(one, 100, 1, 64), numbered(two, 200, 1, 64));
    let ((woken_one, waker_one), (woken_two, waker_two)) = (counting(), counting());
    let mut first = Box::pin(one.send_async(&mut burst_one));
    let mut second = Box::pin(two.send_async(&mut burst_two));
    assert!(poll_once(first.as_mut(), &waker_one).is_pending());
    assert!(poll_once(second.as_mut(), &waker_two).is_pending());
    let (before_one, before_two) = (woken_one.wakes.load(SeqCst), woken_two.wakes.load(SeqCst));
    // Room for one after the other: the first on the list is woken first.
    while woken_one.wakes.load(SeqCst) == before_one {
        control.allowed.fetch_add(1, SeqCst);
        queue.poll();
    }
    drop(first);
    let mut allowed = 0;
    while poll_once(second.as_mut(), &waker_two).is_pending() {
        control.allowed.fetch_add(1, SeqCst);
        allowed += 1;
        assert!(allowed < 100, "no task was next");
    }
    assert!(woken_two.wakes.load(SeqCst) > before_two);
    drop(second);
    assert_eq!((burst_one.len(), burst_two.len()), (1, 0), "unsent packets are still in hand");
    control.allowed.store(usize::MAX / 2, SeqCst);
    drop((burst_one, senders));
    assert_eq!(queue.shutdown(Duration::MAX).out(), 0);
    assert_conserved(&queue);
}

#[test]
fn filling_a_full_burst_adds_nothing_and_does_not_wait() {
    let (queue, _control, mut senders) = full(1);
    let sender = &mut senders[0];
    let mut burst = sender.burst(2);
    assert_eq!(sender.fill(&mut burst, 2, 64, Wait::Never).unwrap(), 2);
    assert_eq!(sender.fill(&mut burst, 1, 64, Wait::Never).unwrap(), 0, "no error: the pool has frames");
    assert_eq!(block_on(sender.fill_async(&mut burst, 4, 64)).unwrap(), 0);
    assert_eq!((burst.len(), queue.pool().audit().out() > 0), (2, true));
}

#[test]
fn ready_sender_takes_a_packet() {
    let (queue, control, mut senders) = full(1);
    let sender = &mut senders[0];
    let (_, waker) = counting();
    {
        let mut ready = Box::pin(poll_fn(|context| sender.poll_ready(context)));
        assert!(poll_once(ready.as_mut(), &waker).is_pending());
        control.allowed.store(usize::MAX / 2, SeqCst);
        block_on(ready).unwrap();
    }
    let mut burst = numbered(sender, 7, 1, 64);
    assert_eq!(sender.send(&mut burst, Wait::Never).unwrap().accepted, 1);
    drop(burst);
    drop(senders);
    assert_eq!(queue.shutdown(Duration::MAX).out(), 0);
}

/// A turn serves once: a sender that was ready and has sent since does not overtake waiters.
#[test]
fn unused_turn_ends_with_the_next_packet() {
    let (queue, control, mut senders) = full(2);
    let [one, two] = &mut senders[..] else { unreachable!() };
    let (_, waker) = counting();
    {
        let mut ready = Box::pin(poll_fn(|context| one.poll_ready(context)));
        assert!(poll_once(ready.as_mut(), &waker).is_pending());
        control.allowed.store(usize::MAX / 2, SeqCst);
        block_on(ready).unwrap();
    }
    let mut burst = numbered(one, 7, 1, 64);
    assert_eq!(one.send(&mut burst, Wait::Never).unwrap().accepted, 1);
    // The other task fills the queue again, and then waits.
    control.allowed.store(0, SeqCst);
    let (mut rest, mut last) = (numbered(two, 100, 1, 64), numbered(one, 8, 1, 64));
    while two.send(&mut rest, Wait::Never).unwrap().accepted > 0 {
        rest = numbered(two, 100, 1, 64);
    }
    let mut waits = Box::pin(two.send_async(&mut rest));
    assert!(poll_once(waits.as_mut(), &waker).is_pending());
    assert_eq!(one.send(&mut last, Wait::Never).unwrap().accepted, 0, "it overtook");
    drop(waits);
    control.allowed.store(usize::MAX / 2, SeqCst);
    drop((last, rest, senders));
    assert_eq!(queue.shutdown(Duration::MAX).out(), 0);
}

#[test]
fn closed_queue_ends_every_wait() {
    let (queue, _, mut senders) = full(1);
    let sender = &mut senders[0];
    let mut burst = numbered(sender, 7, 1, 64);
    let (_, waker) = counting();
    {
        let mut send = Box::pin(sender.send_async(&mut burst));
        assert!(poll_once(send.as_mut(), &waker).is_pending());
        queue.shutdown(Duration::ZERO);
        assert!(matches!(block_on(send), Err(SendError::Closed)));
    }
    assert_eq!(burst.len(), 1);
}

/// A poll loop: a wake-up from another thread, a look, a send.
#[test]
fn watch_wakes_and_gives_up_its_place_when_dropped() {
    let (queue, control, mut senders) = full(1);
    let sender = &mut senders[0];
    let wake: Arc<dyn host::Wake> = TestPark.waker();
    let mut watch = sender.watch(0, 1, wake.clone());
    assert!(sender.look(&mut watch).is_none());
    drop(watch);
    let mut watch = sender.watch(0, 1, wake);
    control.allowed.store(usize::MAX / 2, SeqCst);
    let mut looks = 0;
    while sender.look(&mut watch).is_none() {
        looks += 1;
        assert!(looks < 100);
    }
    drop(watch);
    let mut burst = numbered(sender, 7, 1, 64);
    assert_eq!(sender.send(&mut burst, Wait::Never).unwrap().accepted, 1);
    drop(senders);
    assert_eq!(queue.shutdown(Duration::MAX).out(), 0);
}

/// The owner finds no pending work; then a sender finds no memory and announces that it waits; then a frame is
/// completed. The sender must be woken.
#[test]
fn memory_freed_between_look_and_notice_wakes() {
    let (inner, control) = Gate::new(64);
    let in_reap = InReap::default();
    // Enough that frames completed at once fit the ring: the pool announces others.
    let pool = pool(64);
    let queue = builder(&pool, Interrupted { inner, in_reap: in_reap.clone() }).build().unwrap();
    queue.apply(|run| run.set_bql(None));
    let mut sender = queue.sender("waits").unwrap();
    let mut burst = numbered(&mut sender, 0, 64, 64);
    let mut owner = queue.dedicate().unwrap();
    _ = sender.send(&mut burst, Wait::Forever).unwrap();
    owner.poll();
    let (woken, waker) = counting();
    let (wake, kept) = (Arc::new(Woken(waker)), Arc::new(Mutex::new(None)));
    let keeps = kept.clone();
    *in_reap.lock().unwrap() = Some(Box::new(move || {
        let mut watch = sender.watch_memory(wake);
        assert!(sender.look(&mut watch).is_none(), "there is none yet");
        *keeps.lock().unwrap() = Some((watch, sender));
    }));
    control.allowed.store(8, SeqCst);
    for _ in 0..3 {
        owner.poll();
    }
    assert!(woken.wakes.load(SeqCst) > 0, "asleep beside free memory");
    drop(owner);
    let (mut watch, mut sender) = kept.lock().unwrap().take().unwrap();
    assert!(matches!(sender.look(&mut watch), Some(Ok(()))));
    control.allowed.store(usize::MAX / 2, SeqCst);
    drop((burst, watch, sender));
    assert_eq!(queue.shutdown(Duration::MAX).out(), 0);
}

/// A task that waits for memory is not polled in circles.
#[test]
fn waiter_is_not_woken_without_free_memory() {
    let (gate, control) = Gate::new(64);
    let pool = pool(4);
    let queue = builder(&pool, gate).build().unwrap();
    let mut sender = queue.sender("waits").unwrap();
    let mut burst = numbered(&mut sender, 0, 4, 64);
    _ = sender.send(&mut burst, Wait::Forever).unwrap();
    let mut watch = sender.watch_memory(TestPark.waker());
    assert!((0..10).all(|_| sender.look(&mut watch).is_none()));
    control.allowed.store(1, SeqCst);
    assert!(matches!(sender.look(&mut watch), Some(Ok(()))));
    assert_eq!(sender.fill(&mut burst, 4, 64, Wait::Never).unwrap(), 1);
    control.allowed.store(usize::MAX / 2, SeqCst);
    drop((burst, watch, sender));
    assert_eq!(queue.shutdown(Duration::MAX).out(), 0);
}

#[derive(Debug)]
struct Woken(Waker);

impl host::Wake for Woken {
    fn wake(&self) {
        self.0.wake_by_ref();
    }
}

#[test]
fn a_cancel_wakes_a_wait_that_another_wait_of_the_sender_has_outlived() {
    let (gate, control) = Gate::new(1);
    let queue = builder(&pool(256), gate).qdisc(Box::new(Fifo::new(FifoLimit::Packets(2)))).build().unwrap();
    let mut first = queue.sender("fills").unwrap();
    let mut burst = numbered(&mut first, 0, 8, 64);
    while first.send(&mut burst, Wait::Never).unwrap().accepted > 0 {}
    let mut sender = queue.sender("waits").unwrap();
    let mut burst = numbered(&mut sender, 0, 4, 64);
    let canceller = sender.canceller();
    let (counting, waker) = counting();
    let mut context = Context::from_waker(&waker);
    assert!(sender.poll_ready(&mut context).is_pending());
    assert_eq!(sender.send(&mut burst, Instant::now()).unwrap().left, 4);
    let before = counting.wakes.load(SeqCst);
    canceller.cancel();
    assert_eq!(counting.wakes.load(SeqCst), before + 1);
    assert!(matches!(sender.poll_ready(&mut context), Poll::Ready(Err(SendError::Cancelled))));
    drop((burst, sender, first));
    control.allowed.store(usize::MAX / 2, SeqCst);
    assert!(queue.drain(Duration::MAX));
    assert_conserved(&queue);
}
