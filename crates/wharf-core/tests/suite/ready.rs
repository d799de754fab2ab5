//! Handles that hear when a sender may go on, and the calls of a sender that are polled.

mod spread;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;
use wharf_core::qdisc::{Fifo, FifoLimit};
use wharf_core::queue::TxQueue;
use wharf_core::rx::Receiver;
use wharf_core::sender::{Ready, SendError, Sender};
use wharf_core::wait::Wait;
use wharf_testkit::gate::{Control, Gate};
use wharf_testkit::{assert_conserved, builder, numbered, pool};

#[derive(Default)]
struct Counting(AtomicUsize);

impl Wake for Counting {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

/// A task that polls a handle.
struct Task {
    ready: Ready,
    counting: Arc<Counting>,
}

impl Task {
    fn new(ready: &Ready) -> Self {
        Self { ready: ready.clone(), counting: Arc::default() }
    }

    fn poll(&self) -> Poll<()> {
        self.ready.poll_ready(&mut Context::from_waker(&Waker::from(self.counting.clone())))
    }

    fn wakes(&self) -> usize {
        self.counting.0.load(SeqCst)
    }
}

/// A queue that is full: a device of one frame that completes none, a FIFO of two packets, and a sender
/// that found no room.
fn full(frames: u32) -> (TxQueue, Arc<Control>, Sender) {
    let (gate, control) = Gate::new(1);
    let fifo = Box::new(Fifo::new(FifoLimit::Packets(2)));
    let queue = builder(&pool(frames), gate).qdisc(fifo).build().unwrap();
    let mut first = queue.sender("fills").unwrap();
    let mut burst = numbered(&mut first, 0, 1, 64);
    while first.send(&mut burst, Wait::Never).unwrap().accepted > 0 {
        burst = numbered(&mut first, 0, 1, 64);
    }
    let sender = queue.sender("asks").unwrap();
    (queue, control, sender)
}

fn end(queue: &TxQueue, control: &Control) {
    control.allowed.store(usize::MAX / 2, SeqCst);
    assert!(queue.drain(Duration::MAX));
    assert_conserved(queue);
}

#[test]
fn every_handle_wakes_its_task_once_there_is_room() {
    let (queue, control, mut sender) = full(256);
    let poller = queue.poller().0.begin();
    let first = Task::new(&sender.ready());
    assert_eq!(first.poll(), Poll::Ready(()), "no call has found the path full");
    let mut burst = numbered(&mut sender, 10, 1, 64);
    assert_eq!(sender.send(&mut burst, Wait::Never).unwrap().left, 1);
    let tasks = [first, Task::new(&sender.ready()), Task::new(&sender.ready())];
    assert!(tasks.iter().all(|task| task.poll().is_pending()));
    control.allowed.store(usize::MAX / 2, SeqCst);
    queue.poll();
    assert!(tasks.iter().all(|task| task.wakes() > 0 && task.poll().is_ready()));
    assert_eq!(sender.send(&mut burst, Wait::Never).unwrap().accepted, 1);
    drop((poller, sender));
    end(&queue, &control);
}

#[test]
fn handle_without_a_poller_runs_the_queue() {
    let (queue, control, mut sender) = full(256);
    let task = Task::new(&sender.ready());
    let mut burst = numbered(&mut sender, 10, 1, 64);
    assert_eq!(sender.send(&mut burst, Wait::Never).unwrap().left, 1);
    assert!(task.poll().is_pending() && task.wakes() > 0, "it asks to be polled again");
    control.allowed.store(usize::MAX / 2, SeqCst);
    assert!(task.poll().is_ready());
    assert_eq!(sender.send(&mut burst, Wait::Never).unwrap().accepted, 1);
    drop(sender);
    end(&queue, &control);
}

#[test]
fn handle_hears_of_memory_of_a_shutdown_and_of_its_senders_end() {
    let (queue, control, mut sender) = full(64);
    let poller = queue.poller().0.begin();
    let (task, mut held) = (Task::new(&sender.ready()), sender.burst(64));
    while sender.fill(&mut held, 64, 64, Wait::Never).unwrap() > 0 {}
    assert!(task.poll().is_pending());
    let before = task.wakes();
    drop(held.pop());
    assert!(task.wakes() > before && task.poll().is_ready(), "a frame has come back");
    assert!(sender.packet(64, Wait::Never).is_ok());
    let mut burst = held.pop().unwrap().into();
    assert_eq!(sender.send(&mut burst, Wait::Never).unwrap().left, 1);
    assert!(task.poll().is_pending());
    queue.shutdown(Duration::ZERO);
    assert!(task.poll().is_ready());
    assert!(matches!(sender.send(&mut burst, Wait::Never), Err(SendError::Closed)));
    drop((burst, held, sender));
    assert!(task.poll().is_ready());
    drop(poller);
    end(&queue, &control);
}

#[test]
fn polled_send_sends_what_fits_and_then_waits_for_its_turn() {
    let (queue, control, mut sender) = full(256);
    let poller = queue.poller().0.begin();
    let task = Task::new(&sender.ready());
    let waker = Waker::from(task.counting.clone());
    let mut context = Context::from_waker(&waker);
    let mut burst = numbered(&mut sender, 10, 4, 64);
    assert!(sender.poll_send(&mut context, &mut burst).is_pending());
    assert_eq!(burst.len(), 4);
    control.allowed.store(usize::MAX / 2, SeqCst);
    queue.poll();
    assert!(task.wakes() > 0);
    let Poll::Ready(Ok(sent)) = sender.poll_send(&mut context, &mut burst) else { panic!("its turn") };
    assert_eq!((sent.accepted + sent.left, burst.len()), (4, sent.left));
    assert!(sent.accepted > 0);
    drop((poller, burst, task, sender));
    end(&queue, &control);
}

#[test]
fn polled_packet_waits_for_room_and_for_memory_and_is_woken_by_either() {
    let (queue, control, mut sender) = full(64);
    let poller = queue.poller().0.begin();
    let counting = Arc::<Counting>::default();
    let waker = Waker::from(counting.clone());
    let mut context = Context::from_waker(&waker);
    assert!(sender.poll_packet(&mut context, 64).is_pending(), "no room");
    control.allowed.store(usize::MAX / 2, SeqCst);
    queue.poll();
    assert!(counting.0.load(SeqCst) > 0);
    let mut held = sender.burst(64);
    while sender.fill(&mut held, 64, 64, Wait::Never).unwrap() > 0 {}
    assert!(sender.poll_packet(&mut context, 64).is_pending(), "no memory");
    let before = counting.0.load(SeqCst);
    assert!(sender.poll_packet(&mut context, 64).is_pending());
    assert_eq!(counting.0.load(SeqCst), before, "it does not ask to be polled again");
    drop(held);
    assert!(counting.0.load(SeqCst) > before);
    let Poll::Ready(Ok(packet)) = sender.poll_packet(&mut context, 64) else { panic!("there is memory") };
    assert_eq!(sender.send_packet(packet, Wait::Never).unwrap().accepted, 1);
    assert!(matches!(sender.poll_packet(&mut context, 1 << 20), Poll::Ready(Err(SendError::TooLong { .. }))));
    drop((poller, sender));
    end(&queue, &control);
}

#[test]
fn sender_that_waits_for_memory_is_ready_to_send() {
    let (queue, control, mut sender) = full(64);
    let poller = queue.poller().0.begin();
    let mut context = Context::from_waker(Waker::noop());
    control.allowed.store(usize::MAX / 2, SeqCst);
    queue.poll();
    let mut held = sender.burst(128);
    while sender.fill(&mut held, 64, 64, Wait::Never).unwrap() > 0 {}
    assert!(sender.poll_packet(&mut context, 64).is_pending(), "no memory");
    assert!(sender.poll_ready(&mut context).is_ready());
    drop((poller, held, sender));
    end(&queue, &control);
}

#[test]
fn senders_receivers_and_handles_may_be_shared() {
    fn is_shared<T: Send + Sync>() {}
    is_shared::<Sender>();
    is_shared::<Receiver>();
    is_shared::<Ready>();
}
