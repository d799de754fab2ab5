//! The virtual clock, and a way to wait that never blocks: the host interface of `wharf-core`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use wharf_core::host::{Clock, Park, Wake};

/// A clock that shows the time of the event being handled.
#[derive(Debug, Default)]
pub struct VirtualClock(AtomicU64);

impl VirtualClock {
    /// Sets the time.
    #[inline]
    pub fn set(&self, now_ns: u64) {
        self.0.store(now_ns, Relaxed);
    }
}

impl Clock for VirtualClock {
    #[inline]
    fn now_ns(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// The same clock, which shows the time of the last step of so many nanoseconds, as a system's coarse clock
/// does.
#[derive(Debug)]
pub struct CoarseClock {
    clock: Arc<VirtualClock>,
    step_ns: u64,
}

impl CoarseClock {
    /// Creates a clock with this step; 0 as 1.
    pub fn new(clock: Arc<VirtualClock>, step_ns: u64) -> Self {
        Self { clock, step_ns: step_ns.max(1) }
    }
}

impl Clock for CoarseClock {
    fn now_ns(&self) -> u64 {
        let now_ns = self.clock.now_ns();
        now_ns - now_ns % self.step_ns
    }

    fn exact_ns(&self) -> u64 {
        self.clock.now_ns()
    }
}

/// A park that moves the clock on: for calls between two runs of a world (a queue's shutdown). A modelled
/// processor never parks; it has no event until another actor schedules one.
#[derive(Debug)]
pub struct VirtualPark {
    clock: Arc<VirtualClock>,
    woken: Arc<Woken>,
}

/// The waker of a [`VirtualPark`].
#[derive(Debug, Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(&self) {
        self.0.store(true, Relaxed);
    }
}

impl VirtualPark {
    /// Creates a park that moves `clock`.
    pub fn new(clock: Arc<VirtualClock>) -> Self {
        Self { clock, woken: Arc::default() }
    }
}

impl Park for VirtualPark {
    fn waker(&self) -> Arc<dyn Wake> {
        self.woken.clone()
    }

    fn park(&self, timeout_ns: u64) {
        if !self.woken.0.swap(false, Relaxed) {
            self.clock.set(self.clock.now_ns().saturating_add(timeout_ns));
        }
    }
}
