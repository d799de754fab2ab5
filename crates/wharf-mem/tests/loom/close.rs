//! The end of a queue while a sender sends, or waits for room, and another thread runs the queue
//! (`wharf-core`: `tx/queue.rs`, `tx/queue/shared/ending.rs`, `tx/queue/shared/control.rs`,
//! `tx/queue/waiters.rs`, `tx/sender/waiting.rs`).
//!
//! Any thread may own the queue meanwhile. At the end the sender does not sleep, and each question of the
//! closing thread is answered. Each frame that was handed over has left, is with the device, or came back.
//! The closing thread waits for its answers alone: so its time is bounded.

use crate::shut_queue::{Answer, Message, Queue, Waiter};
use crate::{OF_THREE_THREADS, Stock, may};
use loom::sync::Arc;
use loom::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use loom::sync::atomic::{AtomicBool, fence};
use loom::thread;
use wharf_mem::lane::LaneProducer;
use wharf_mem::word::{CONTROL, WAIT, ready_bit};
use wharf_mem::{Batch, Published};

/// The steps that may be in the wrong order, or left out.
#[derive(Clone, Copy)]
struct Steps {
    /// The queue is closed before the waiters are woken.
    closes_first: bool,
    /// The sender registers before it checks whether the queue is closed.
    registers_first: bool,
    /// A fence stands between these two steps of the closing thread: `wake_all` checks the inbox of waiters
    /// first, and swaps it only if it is not empty.
    closer_fences: bool,
    /// A fence stands between those two of the sender.
    sender_fences: bool,
    /// The owner gives back what comes after the end, too.
    drains_late: bool,
    /// A message is there before the owner is called.
    leaves_first: bool,
}

const RIGHT: Steps = Steps {
    closes_first: true,
    registers_first: true,
    closer_fences: true,
    sender_fences: true,
    drains_late: true,
    leaves_first: true,
};

/// The circumstances of the end.
#[derive(Clone, Copy)]
struct Scene {
    /// The time is over: what is inside comes back. Otherwise the device stalls, and the closing thread waits
    /// as long as it takes.
    shuts: bool,
    /// The queue is reserved for its poller.
    is_reserved: bool,
}

const STALLED: Scene = Scene { shuts: false, is_reserved: false };
const OVER: Scene = Scene { shuts: true, is_reserved: false };

struct Model {
    steps: Steps,
    scene: Scene,
    queue: Queue,
    closed: AtomicBool,
    /// No other thread will wake the sender.
    over: AtomicBool,
}

/// The end of the sender's call.
#[derive(Clone, Copy, PartialEq)]
enum End {
    HandedOver,
    Refused,
    AsleepForGood,
}

impl Model {
    fn new(steps: Steps, scene: Scene) -> (Arc<Self>, LaneProducer) {
        let (queue, lane_in) = Queue::new(steps.drains_late);
        if scene.is_reserved {
            queue.cell.reserve();
        }
        let [closed, over] = std::array::from_fn(|_| AtomicBool::new(false));
        (Arc::new(Self { steps, scene, queue, closed, over }), lane_in)
    }

    fn is_closed(&self) -> bool {
        // core/tx/queue/shared/ending.rs is_closed: self.closed.load(Ordering::Acquire)
        self.closed.load(Acquire)
    }

    fn is_full(&self) -> bool {
        self.queue.full_bands.load(Relaxed) != 0
    }

    /// Sends a frame, and waits for room.
    fn send(&self, lane_in: &mut LaneProducer, frame: &mut Batch) -> End {
        // core/tx/sender.rs renew_settings: if self.shared.is_closed() {
        if self.is_closed() {
            return End::Refused;
        }
        // core/tx/sender/transmit.rs transmit: let full = self.shared.full_bands();
        if self.is_full() {
            let end = self.wait();
            if end != End::HandedOver {
                return end;
            }
        }
        // core/tx/sender/transmit.rs put: if self.push(batch, max) > 0 { self.publish() } else { Ok(()) }
        lane_in.push(frame);
        self.queue.serve_if_owner(self.queue.cell.publish(ready_bit(0)), ready_bit(0));
        End::HandedOver
    }

    /// Waits for room. A sender that nothing will wake is woken by the model's end, and says so.
    fn wait(&self) -> End {
        let waiter = Arc::new(Waiter::default());
        let was_closed = self.is_closed();
        // core/tx/sender/waiting.rs register: let waiter = shared.waiters().register(place, need, wake);
        // core/tx/queue/waiters.rs register: self.inbox.push(Message::Waits(waiter.clone()));
        self.queue.waiters.push(waiter.clone());
        if self.steps.sender_fences {
            // core/tx/queue/waiters.rs register: fence(SeqCst);
            fence(SeqCst);
        }
        let mut seen = 0;
        loop {
            if let Some(end) = self.look_once(&waiter, was_closed) {
                return end;
            }
            loop {
                // In this order: a wake-up before the end is seen.
                let is_over = self.over.load(SeqCst);
                let wakes = waiter.wakes.load(SeqCst);
                if wakes != seen {
                    seen = wakes;
                    break;
                }
                if is_over {
                    return End::AsleepForGood;
                }
                self.queue.bell.wait(); // loom wakes without a reason, too
            }
        }
    }

    fn look_once(&self, waiter: &Waiter, was_closed: bool) -> Option<End> {
        // core/tx/sender/waiting.rs look_once: match shared.cell().claim_unreserved(WAIT) {
        self.queue.serve_if_owner(self.queue.cell.claim_unreserved(WAIT), WAIT);
        let is_closed = if self.steps.registers_first { self.is_closed() } else { was_closed };
        // core/tx/sender/waiting.rs has_come: let is_open = !self.shared.is_closed();
        if !is_closed && !self.is_full() {
            return Some(End::HandedOver);
        }
        // core/tx/sender/waiting.rs look_once: if shared.is_closed() {
        if is_closed {
            return Some(End::Refused);
        }
        // core/tx/sender/waiting.rs look_once: (watch.need() != Need::Memory && watch.before().is_none()).then_some(Ok(()))
        waiter.is_served.load(SeqCst).then_some(End::HandedOver)
    }

    /// Closes the queue. Returns the answers to its questions.
    fn close(&self) -> Vec<Answer> {
        // core/tx/queue.rs shutdown_until: self.shared.close();
        if self.steps.closes_first {
            // core/tx/queue/shared/ending.rs close: self.closed.store(true, Ordering::Release);
            self.closed.store(true, Release);
            if self.steps.closer_fences {
                // core/tx/queue/shared/ending.rs close: fence(Ordering::SeqCst);
                fence(SeqCst);
            }
        }
        // core/tx/queue.rs shutdown_until: self.shared.waiters().wake_all();
        self.queue.wake_all();
        if !self.steps.closes_first {
            self.closed.store(true, Release);
        }
        // core/tx/queue.rs shutdown_until: while self.shared.pending(&mut asked) && self.shared.setup().clock.now_ns() < deadline_ns {
        let mut answers = vec![self.ask()];
        if self.scene.shuts {
            // core/tx/queue.rs shutdown_until: self.shared.control(ControlMessage::Shut);
            self.control(Message::Shut);
            // core/tx/queue.rs shutdown_until: self.shared.await_owner();
            answers.push(self.ask());
        }
        answers
    }

    fn ask(&self) -> Answer {
        let answer = Answer::default();
        // core/tx/queue/shared/control.rs pending: self.control(ControlMessage::IsPending(answer.clone()));
        self.control(Message::IsPending(answer.clone()));
        answer
    }

    fn control(&self, message: Message) {
        let call = || self.queue.serve_if_owner(self.queue.cell.claim_unreserved(CONTROL), CONTROL);
        if !self.steps.leaves_first {
            call();
        }
        // core/tx/queue/shared/control.rs control: self.messages.push(message);
        self.queue.messages.push(message);
        // core/tx/queue/shared/control.rs control: match self.cell.claim_unreserved(CONTROL) {
        if self.steps.leaves_first {
            call();
        }
    }

    /// Polls as the queue's poller. The device completes what it holds, unless it stalls.
    fn poll(&self) {
        if let Published::Owner(mut owner) = self.queue.cell.claim(0) {
            if self.scene.shuts {
                owner.with(|state| state.complete());
            }
            self.queue.run(owner, 0);
        }
    }
}

/// Runs the model. Returns true if in some interleaving the sender sleeps for good, a question has no answer,
/// or frames are left in a queue that is shut.
fn goes_wrong(steps: Steps, scene: Scene) -> bool {
    let stock = Stock::new();
    may(OF_THREE_THREADS, move |wrong| {
        let (model, mut lane_in) = Model::new(steps, scene);
        let (theirs, mut frame) = (model.clone(), stock.frames(0, 1));
        let sending = thread::spawn(move || (theirs.send(&mut lane_in, &mut frame), frame));
        let theirs = model.clone();
        let closing = thread::spawn(move || theirs.close());
        model.poll();
        let answers = closing.join().unwrap();
        // All that could wake the sender has happened, unless it checks for itself.
        model.over.store(true, SeqCst);
        model.queue.bell.notify();
        let (end, frame) = sending.join().unwrap();
        if scene.is_reserved {
            // It was called by either thread, or will be: `reserved.rs`.
            model.poll();
        }
        stock.give(frame);
        let is_done = model.queue.finish(&stock, u32::from(end == End::HandedOver)) || !scene.shuts;
        let is_answered = answers.iter().all(|answer| answer.get().is_some());
        wrong.note(end == End::AsleepForGood || !is_answered || !is_done);
    })
}

#[test]
fn a_queue_that_is_closed_leaves_no_sender_asleep_and_no_frame_uncounted() {
    for is_reserved in [false, true] {
        assert!(!goes_wrong(RIGHT, Scene { is_reserved, ..STALLED }));
        assert!(!goes_wrong(RIGHT, Scene { is_reserved, ..OVER }));
    }
}

#[test]
fn waking_the_waiters_before_the_queue_is_closed_is_found() {
    assert!(goes_wrong(Steps { closes_first: false, ..RIGHT }, STALLED));
}

#[test]
fn checking_for_the_end_before_registering_is_found() {
    assert!(goes_wrong(Steps { registers_first: false, ..RIGHT }, STALLED));
}

#[test]
fn closing_or_registering_without_a_fence_is_found() {
    assert!(goes_wrong(Steps { closer_fences: false, ..RIGHT }, STALLED));
    assert!(goes_wrong(Steps { sender_fences: false, ..RIGHT }, STALLED));
}

#[test]
fn an_owner_that_gives_nothing_back_after_the_end_is_found() {
    assert!(goes_wrong(Steps { drains_late: false, ..RIGHT }, OVER));
}

#[test]
fn calling_the_owner_before_the_message_is_there_is_found() {
    assert!(goes_wrong(Steps { leaves_first: false, ..RIGHT }, OVER));
}
