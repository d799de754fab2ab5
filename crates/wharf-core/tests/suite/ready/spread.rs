//! The same of several queues under one sender.

use super::{Counting, Task};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use wharf_core::delegate;
use wharf_core::device::{Completions, Device, DeviceError, Notify, TxDevice};
use wharf_core::poller::ActivePoller;
use wharf_core::pool::{Burst, PagePool};
use wharf_core::qdisc::{Fifo, FifoLimit};
use wharf_core::queue::TxQueue;
use wharf_core::sender::{SendError, Spread};
use wharf_core::wait::Wait;
use wharf_packet::QueueMap;
use wharf_testkit::gate::{Control, Gate};
use wharf_testkit::{assert_conserved, builder, numbered, pool};

type Hook = Arc<Mutex<Option<Box<dyn FnOnce() + Send>>>>;

/// Calls a hook at its next reap.
struct Hooked {
    inner: Gate,
    hook: Hook,
}

impl Notify for Hooked {
    delegate!(inner: arm, disarm, wait_fd);
}

impl Device for Hooked {
    delegate!(inner: name, attach, visit, close);
}

impl TxDevice for Hooked {
    delegate!(inner: info, flush, transmit, outstanding, next_completion_ns, set_patience);

    fn reap(&mut self, budget: usize, urgent: bool, into: &mut Completions) -> Result<(), DeviceError> {
        let hook = self.hook.lock().unwrap().take();
        hook.into_iter().for_each(|hook| hook());
        self.inner.reap(budget, urgent, into)
    }
}

/// Two full queues of one pool, and a sender that spreads over both.
struct Path {
    pool: PagePool,
    queues: Vec<TxQueue>,
    controls: Vec<Arc<Control>>,
    hooks: Vec<Hook>,
    spread: Spread,
    pollers: Vec<ActivePoller>,
    counting: Arc<Counting>,
}

impl Path {
    fn full(frames: u32) -> Self {
        let (pool, mut queues, mut controls, mut hooks) = (pool(frames), Vec::new(), Vec::new(), Vec::new());
        for _ in 0..2 {
            let ((inner, control), hook) = (Gate::new(1), Hook::default());
            let device = Hooked { inner, hook: hook.clone() };
            let fifo = Box::new(Fifo::new(FifoLimit::Packets(2)));
            let queue = builder(&pool, device).qdisc(fifo).build().unwrap();
            let mut first = queue.sender("fills").unwrap();
            let mut burst = numbered(&mut first, 0, 1, 64);
            while first.send(&mut burst, Wait::Never).unwrap().accepted > 0 {
                burst = numbered(&mut first, 0, 1, 64);
            }
            queues.push(queue);
            controls.push(control);
            hooks.push(hook);
        }
        let senders = queues.iter().map(|queue| queue.sender("asks").unwrap()).collect();
        let pollers = queues.iter().map(|queue| queue.poller().0.begin()).collect();
        let (spread, counting) = (Spread::new(senders).unwrap(), Arc::default());
        Self { pool, queues, controls, hooks, spread, pollers, counting }
    }

    /// A burst of two packets for each queue, the first queue's first.
    fn burst(&mut self) -> Burst {
        let (mut burst, map) = (self.pool.burst(4), QueueMap::new(2));
        assert_eq!(self.spread.fill(&mut burst, 4, 64, Wait::Never).unwrap(), 4);
        for (at, bytes) in burst.iter_mut().enumerate() {
            bytes.fill(0);
            bytes[12..15].copy_from_slice(&[8, 0, 0x45]);
            bytes[23] = 17;
            let of_queue = |port: &u16| {
                bytes[34..36].copy_from_slice(&port.to_be_bytes());
                map.queue_of(bytes) == at / 2
            };
            (0..u16::MAX).find(of_queue).unwrap();
        }
        burst
    }

    fn open(&self, at: usize) {
        self.controls[at].allowed.store(usize::MAX / 2, SeqCst);
        self.queues[at].poll();
    }

    fn poll<T>(&mut self, poll: impl FnOnce(&mut Spread, &mut Context<'_>) -> Poll<T>) -> Poll<T> {
        poll(&mut self.spread, &mut Context::from_waker(&Waker::from(self.counting.clone())))
    }

    fn wakes(&self) -> usize {
        self.counting.0.load(SeqCst)
    }

    fn end(self) {
        let Self { queues, controls, spread, pollers, pool, .. } = self;
        drop((spread, pollers));
        controls.iter().for_each(|control| control.allowed.store(usize::MAX / 2, SeqCst));
        assert!(queues.iter().all(|queue| queue.drain(Duration::MAX)));
        queues.iter().for_each(assert_conserved);
        assert_eq!(pool.audit().out(), 0);
    }
}

#[test]
fn polled_send_goes_on_with_the_queue_that_has_room() {
    for open in [0, 1] {
        let mut path = Path::full(256);
        let mut burst = path.burst();
        assert!(path.poll(|spread, context| spread.poll_send(context, &mut burst)).is_pending());
        assert_eq!((burst.len(), path.wakes()), (4, 0));
        path.open(open);
        assert!(path.wakes() > 0);
        let Poll::Ready(Ok(sent)) = path.poll(|spread, context| spread.poll_send(context, &mut burst)) else {
            panic!("a queue has room")
        };
        assert_eq!((sent.accepted, sent.left, burst.len()), (2, 2, 2));
        assert!(path.poll(|spread, context| spread.poll_send(context, &mut burst)).is_pending());
        let before = path.wakes();
        path.open(1 - open);
        assert!(path.wakes() > before);
        let polled = path.poll(|spread, context| spread.poll_send(context, &mut burst));
        assert!(matches!(polled, Poll::Ready(Ok(sent)) if sent.accepted == 2));
        path.end();
    }
}

#[test]
fn handle_hears_of_whichever_queue_may_go_on() {
    for open in [0, 1] {
        let mut path = Path::full(256);
        let (task, mut burst) = (Task::new(&path.spread.ready()), path.burst());
        assert!(task.poll().is_ready(), "no call has found a path full");
        assert_eq!(path.spread.send(&mut burst, Wait::Never).unwrap().left, 4);
        assert!(task.poll().is_pending());
        path.open(open);
        assert!(task.wakes() > 0 && task.poll().is_ready());
        assert_eq!(path.spread.send(&mut burst, Wait::Never).unwrap().accepted, 2);
        // It may be told once too often: the queue that was served has just heard of it.
        assert_eq!(path.spread.send(&mut burst, Wait::Never).unwrap().left, 2);
        assert!(task.poll().is_pending(), "the packets of the other queue are left");
        path.open(1 - open);
        assert!(task.poll().is_ready());
        assert_eq!(path.spread.send(&mut burst, Wait::Never).unwrap().accepted, 2);
        path.end();
    }
}

#[test]
fn handle_hears_of_a_queue_that_is_served_while_the_next_one_blocks() {
    let mut path = Path::full(256);
    let (task, mut burst) = (Task::new(&path.spread.ready()), path.burst());
    let (queue, control) = (path.queues[0].clone(), path.controls[0].clone());
    assert_eq!(path.spread.send(&mut burst, Wait::Never).unwrap().left, 4);
    // The second queue is run before its sender blocks again, and after the first one's has.
    *path.hooks[1].lock().unwrap() = Some(Box::new(move || {
        control.allowed.store(usize::MAX / 2, SeqCst);
        queue.poll();
    }));
    assert!(path.spread.send(&mut burst, Wait::Never).unwrap().left > 0);
    assert!(path.hooks[1].lock().unwrap().is_none(), "the hook has run");
    assert!(task.poll().is_ready());
    drop(burst);
    path.end();
}

#[test]
fn polled_packet_takes_the_memory_of_whichever_queue_has_it() {
    let mut path = Path::full(64);
    assert!(path.poll(|spread, context| spread.poll_packet(context, 64)).is_pending(), "no room");
    path.open(0);
    assert!(path.poll(|spread, context| spread.poll_packet(context, 64)).is_pending(), "room at one");
    path.open(1);
    let mut held = path.pool.burst(128);
    // A few frames lie where only a sender that waits gives them up.
    while path.spread.fill(&mut held, 64, 64, Duration::ZERO).unwrap() > 0 {}
    assert!(path.poll(|spread, context| spread.poll_packet(context, 64)).is_pending(), "no memory");
    let (task, before) = (Task::new(&path.spread.ready()), path.wakes());
    drop(held.pop());
    assert!(path.wakes() > before);
    let polled = path.poll(|spread, context| spread.poll_packet(context, 64));
    assert!(matches!(polled, Poll::Ready(Ok(_))));
    // Handles hear of memory, too.
    drop(polled);
    while path.spread.fill(&mut held, 1, 64, Duration::ZERO).unwrap() > 0 {}
    assert_eq!(path.spread.fill(&mut held, 1, 64, Wait::Never).unwrap(), 0);
    assert!(task.poll().is_pending());
    drop(held.pop());
    assert!(task.poll().is_ready() && path.spread.packet(64, Wait::Never).is_ok());
    let polled = path.poll(|spread, context| spread.poll_packet(context, 1 << 20));
    assert!(matches!(polled, Poll::Ready(Err(SendError::TooLong { .. }))));
    drop(held);
    path.end();
}
