//! What the path needs from the machine it runs on: a clock and a way to wait. Real threads in production,
//! modelled ones in virtual time.

use std::fmt::Debug;
use std::sync::Arc;

/// A cheap clock: nanoseconds from any fixed origin, good to some milliseconds. Read at most once per batch.
pub trait Clock: Send + Sync + Debug {
    /// Now.
    fn now_ns(&self) -> u64;
}

/// Wakes one waiting thread; calling it early makes that thread's next wait return at once.
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
}

/// A clock that stands still, for those who need no time: nothing held is ever old, and no byte limit falls.
#[derive(Debug, Default, Clone, Copy)]
pub struct NoClock;

impl Clock for NoClock {
    fn now_ns(&self) -> u64 {
        0
    }
}
