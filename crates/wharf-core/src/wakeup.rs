//! Calls to a poller: one [`Call`] per device and poller, and the poller's [`Bell`].
//!
//! Any thread calls: an owner that leaves frames behind, a sender, a poller that goes. The poller takes its calls
//! before it sleeps, in the order opposite to the one in which they are made, so no call is lost (loom: `poller.rs`). A call
//! takes no lock: a thread that is stopped in one holds up no other.

use crate::host::{self, Wake};
use arc_swap::ArcSwap;
use atomic_waker::AtomicWaker;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::Waker;

/// The flags of one poller that its callers set.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    /// The poller returns from its run.
    pub(crate) stop: AtomicBool,
    /// A device of the poller has been called for.
    pub(crate) called: AtomicBool,
    /// The poller sleeps or is about to: a caller with a choice of pollers takes one that does.
    pub(crate) asleep: AtomicBool,
    /// Wakes the thread that runs the poller.
    pub(crate) wake: Mutex<Option<Arc<dyn Wake>>>,
}

/// A way to call one poller for one of its devices.
#[derive(Debug)]
pub(crate) struct Call {
    bell: Arc<Bell>,
    wake: Arc<dyn Wake>,
    called: AtomicBool,
}

impl Call {
    pub(crate) fn new(bell: &Arc<Bell>, wake: &Arc<dyn Wake>) -> Self {
        Self { bell: bell.clone(), wake: wake.clone(), called: AtomicBool::new(false) }
    }

    /// Wakes the poller. Sets the device's flag, then the poller's; the poller clears them in the opposite order.
    pub(crate) fn call(&self) {
        self.called.store(true, SeqCst);
        self.bell.called.store(true, SeqCst);
        host::wake(self.wake.clone());
    }

    /// Takes the call. True if there was one.
    pub(crate) fn take(&self) -> bool {
        self.called.swap(false, SeqCst)
    }
}

/// The pollers that look after one device.
#[derive(Debug, Default)]
pub(crate) struct Callers(ArcSwap<Vec<Arc<Call>>>);

impl Callers {
    /// Calls one poller, a sleeping one if there is any. True if there is a poller.
    pub(crate) fn call_one(&self) -> bool {
        let calls = self.0.load();
        let asleep = calls.iter().find(|call| call.bell.asleep.load(SeqCst));
        let one = asleep.or(calls.first());
        one.inspect(|call| call.call()).is_some()
    }

    /// Calls all pollers.
    pub(crate) fn call_all(&self) {
        self.0.load().iter().for_each(|call| call.call());
    }

    /// Adds a poller.
    pub(crate) fn add(&self, call: &Arc<Call>) {
        self.0.rcu(|calls| calls.iter().chain([call]).cloned().collect::<Vec<_>>());
    }

    /// Removes a poller.
    pub(crate) fn remove(&self, call: &Arc<Call>) {
        let is_other = |other: &&Arc<Call>| !Arc::ptr_eq(other, call);
        self.0.rcu(|calls| calls.iter().filter(is_other).cloned().collect::<Vec<_>>());
    }

    /// True if no poller looks after the device.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.load().is_empty()
    }
}

/// Wakes the task that polled last: a future may move from task to task.
#[derive(Debug, Default)]
pub(crate) struct TaskWake(AtomicWaker);

impl TaskWake {
    /// Takes the waker of the task that polls now. A wake-up at the same time wakes that task.
    pub(crate) fn set(&self, waker: &Waker) {
        self.0.register(waker);
    }
}

impl Wake for TaskWake {
    fn wake(&self) {
        self.0.wake();
    }
}
