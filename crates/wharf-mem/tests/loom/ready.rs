//! The handles of a sender (`core: tx/sender/ready.rs`): a task polls a handle that was made a moment ago,
//! while the sender blocks and an owner makes room.
//!
//! (A) The task registers its waker, then checks the mark. (B) The sender sets the mark, joins the waiters
//! and checks for room; who finds room takes the mark away, then wakes all handles. Sequentially consistent
//! stores and loads have fences in between, since loom takes them for acquire and release.

use crate::{OF_THREE_THREADS, may};
use loom::sync::atomic::{AtomicBool, Ordering::SeqCst, fence};
use loom::sync::{Arc, Mutex};
use loom::thread;

#[derive(Default)]
struct Handle {
    has_waker: AtomicBool,
    is_woken: AtomicBool,
}

/// The steps that may be in the wrong order, or left out.
#[derive(Clone, Copy)]
struct Steps {
    /// A handle is in the list before it is polled.
    lists_first: bool,
    /// A task registers its waker before it checks the mark.
    registers_first: bool,
    /// A sender that finds room as it blocks wakes the handles.
    wakes_if_met: bool,
}

const RIGHT: Steps = Steps { lists_first: true, registers_first: true, wakes_if_met: true };

struct Model {
    steps: Steps,
    is_blocked: AtomicBool,
    handles: Mutex<Vec<Arc<Handle>>>,
    has_room: AtomicBool,
    waits: AtomicBool,
}

impl Model {
    fn wake(&self) {
        // core/tx/sender/ready.rs wake: self.is_blocked.store(false, SeqCst);
        self.is_blocked.store(false, SeqCst);
        fence(SeqCst);
        // core/tx/sender/ready.rs wake: self.handles.load().iter().for_each(|handle| _ = host::wake(handle.clone()));
        let handles = self.handles.lock().unwrap().clone();
        for handle in handles {
            if handle.has_waker.swap(false, SeqCst) {
                handle.is_woken.store(true, SeqCst);
            }
        }
    }

    fn sender(&self) {
        // core/tx/sender/ready.rs blocks: self.readiness.is_blocked.store(true, SeqCst);
        self.is_blocked.store(true, SeqCst);
        // core/tx/sender/ready.rs blocks: let watch = before.unwrap_or_else(|| self.register(need, self.readiness.clone()));
        self.waits.store(true, SeqCst);
        fence(SeqCst);
        // core/tx/sender/ready.rs is_met: let is_met = self.look(&mut watch).is_some();
        if self.has_room.load(SeqCst) {
            // core/tx/sender/ready.rs is_met: self.readiness.wake();
            if self.steps.wakes_if_met { self.wake() } else { self.is_blocked.store(false, SeqCst) }
        }
    }

    fn owner(&self) {
        self.has_room.store(true, SeqCst);
        fence(SeqCst);
        if self.waits.swap(false, SeqCst) {
            self.wake();
        }
    }

    /// Polls `handle`. True if it is pending.
    fn poll(&self, handle: &Handle) -> bool {
        let checked = self.is_blocked.load(SeqCst);
        // core/tx/sender/ready.rs poll_ready: self.wake.set(context.waker());
        handle.has_waker.store(true, SeqCst);
        fence(SeqCst);
        // core/tx/sender/ready.rs poll_ready: if self.readiness.is_blocked.load(SeqCst) { Poll::Pending } else { Poll::Ready(()) }
        if self.steps.registers_first { self.is_blocked.load(SeqCst) } else { checked }
    }

    /// Makes a handle and polls it. True if the task then sleeps for ever.
    fn task(&self) -> Option<Arc<Handle>> {
        let handle = Arc::new(Handle::default());
        let list = || self.handles.lock().unwrap().push(handle.clone());
        if self.steps.lists_first {
            list();
            fence(SeqCst);
        }
        let is_pending = self.poll(&handle);
        if !self.steps.lists_first {
            list();
        }
        is_pending.then_some(handle)
    }
}

/// Returns true if a task may sleep for ever.
fn strands(steps: Steps) -> bool {
    may(OF_THREE_THREADS, move |stranded| {
        let model = Arc::new(Model {
            steps,
            is_blocked: AtomicBool::new(false),
            handles: Mutex::default(),
            has_room: AtomicBool::new(false),
            waits: AtomicBool::new(false),
        });
        let (sending, owning) = (model.clone(), model.clone());
        let threads = [thread::spawn(move || sending.sender()), thread::spawn(move || owning.owner())];
        let pending = model.task();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(!model.is_blocked.load(SeqCst), "there is room, and the sender stays blocked");
        stranded.note(pending.is_some_and(|handle| !handle.is_woken.load(SeqCst)));
    })
}

#[test]
fn a_task_that_polls_a_handle_is_woken_once_there_is_room() {
    assert!(!strands(RIGHT));
}

#[test]
fn steps_in_the_wrong_order_let_a_task_sleep_for_ever() {
    assert!(strands(Steps { lists_first: false, ..RIGHT }));
    assert!(strands(Steps { registers_first: false, ..RIGHT }));
    assert!(strands(Steps { wakes_if_met: false, ..RIGHT }));
}
