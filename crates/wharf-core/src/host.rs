//! What the path needs from the machine it runs on: a clock and a way to wait. Real threads in production,
//! modelled ones in virtual time.

use std::fmt::Debug;
use std::os::fd::RawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The path's clock: nanoseconds from any fixed origin. Read at most once per batch.
pub trait Clock: Send + Sync + Debug {
    /// Returns the time cheaply, good to some milliseconds.
    fn now_ns(&self) -> u64;

    /// Returns the time exactly, from the same origin, for disciplines that measure it (`tbf`, `fq_codel`).
    fn exact_ns(&self) -> u64 {
        self.now_ns()
    }
}

/// Wakes one waiting thread or task. Whoever runs a queue calls it, for any other: it must return soon, and a panic in
/// it is counted and goes no further. Calling it early makes that thread's next wait return at once.
pub trait Wake: Send + Sync + Debug {
    /// Wakes it.
    fn wake(&self);
}

/// How threads wait.
pub trait Park: Send + Sync + Debug {
    /// What wakes the calling thread.
    fn waker(&self) -> Arc<dyn Wake>;

    /// Waits until woken or for `timeout_ns`; may return early.
    fn park(&self, timeout_ns: u64);

    /// Lets other threads that are ready have the processor for now: one of them may be what is waited for.
    fn give_way(&self) {}
}

/// How a poller waits: for a call, a time, or devices that tell. Used by one thread, which makes nothing in it block but
/// [`Wait::wait`].
pub trait Wait: Send + Debug {
    /// What ends a wait of this thread; called while it does not wait, it ends the next one at once.
    fn waker(&self) -> Arc<dyn Wake>;

    /// Now, exactly, from any fixed origin.
    fn now_ns(&self) -> u64;

    /// Will tell of device `at` by what happens to `fd`, once unmasked; false when that cannot be.
    fn watch(&mut self, at: usize, fd: RawFd) -> bool;

    /// From now on device `at` tells: whatever happens after this call ends a wait, or makes the next one return at once.
    /// What happened before may be forgotten: look at the device after this.
    fn unmask(&mut self, at: usize);

    /// Ends [`Wait::unmask`].
    fn mask(&mut self, at: usize);

    /// Waits until woken or told, or for `timeout_ns` (0: not at all; `u64::MAX`: without a bound); may return early. Each
    /// device that has told is shown to `told`, once.
    fn wait(&mut self, timeout_ns: u64, told: &mut dyn FnMut(usize));
}

/// Waits by [`Park`] alone: no device can tell.
#[derive(Debug)]
pub(crate) struct ParkWait {
    pub(crate) park: Arc<dyn Park>,
    pub(crate) clock: Arc<dyn Clock>,
}

impl Wait for ParkWait {
    fn waker(&self) -> Arc<dyn Wake> {
        self.park.waker()
    }

    fn now_ns(&self) -> u64 {
        self.clock.now_ns()
    }

    fn watch(&mut self, _at: usize, _fd: RawFd) -> bool {
        false
    }

    fn unmask(&mut self, _at: usize) {}

    fn mask(&mut self, _at: usize) {}

    fn wait(&mut self, timeout_ns: u64, _told: &mut dyn FnMut(usize)) {
        if timeout_ns > 0 {
            self.park.park(timeout_ns);
        }
    }
}

/// A clock that stands still, for those who need no time: nothing held is ever old, and no byte limit falls.
#[derive(Debug, Default, Clone, Copy)]
pub struct NoClock;

impl Clock for NoClock {
    fn now_ns(&self) -> u64 {
        0
    }
}

/// Wakes, and lets go of the wake-up; whether neither panicked. Both run code of those who wait (a runtime's, a task's
/// last end) in a thread that has nothing to do with them.
pub(crate) fn wake(one: Arc<dyn Wake>) -> bool {
    outlive(move || one.wake()).is_some()
}

/// Runs a user's code where its panic must not be the end of everybody; `None` if it panicked.
pub(crate) fn outlive<R>(run: impl FnOnce() -> R) -> Option<R> {
    // Whoever calls this uses nothing afterwards that `run` may have left half-changed.
    catch_unwind(AssertUnwindSafe(run)).ok()
}

/// A clock that has stopped when it panics: whoever owns a queue reads it.
#[derive(Debug)]
pub(crate) struct Unfailing {
    clock: Arc<dyn Clock>,
    last_ns: AtomicU64,
}

impl Unfailing {
    pub(crate) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, last_ns: AtomicU64::new(0) }
    }
}

impl Unfailing {
    fn read(&self, read: impl FnOnce(&dyn Clock) -> u64) -> u64 {
        match outlive(|| read(&*self.clock)) {
            Some(now_ns) => {
                self.last_ns.store(now_ns, Relaxed);
                now_ns
            }
            None => self.last_ns.load(Relaxed),
        }
    }
}

impl Clock for Unfailing {
    fn now_ns(&self) -> u64 {
        self.read(|clock| clock.now_ns())
    }

    fn exact_ns(&self) -> u64 {
        self.read(|clock| clock.exact_ns())
    }
}
