//! The path's view of its machine: a clock and ways to wait. Threads in production, modelled ones in virtual
//! time.

use std::fmt::Debug;
use std::os::fd::RawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

/// The path's clock: nanoseconds from any fixed origin. Read at most once per batch.
pub trait Clock: Send + Sync + Debug {
    /// Returns the time cheaply, good to some milliseconds.
    fn now_ns(&self) -> u64;

    /// Returns the time exactly, from the same origin, for disciplines that measure it (`tbf`, `fq_codel`).
    fn exact_ns(&self) -> u64 {
        self.now_ns()
    }

    /// Returns the time of its origin, nanoseconds since 1970, if it is known: time stamps of arrivals
    /// ([`Meta::time_ns`](wharf_mem::Meta::time_ns)) count from there.
    fn origin_ns(&self) -> Option<u64> {
        None
    }
}

/// A wake-up of one waiting thread or task. Any owner of a queue calls it, so it must return soon; a panic in
/// it is counted and goes no further. A call before the wait makes the next wait return at once.
pub trait Wake: Send + Sync + Debug {
    /// Wakes the thread or task.
    fn wake(&self);
}

/// Wakes what still lives.
impl<W: Wake> Wake for Weak<W> {
    fn wake(&self) {
        self.upgrade().iter().for_each(|waker| waker.wake());
    }
}

/// A way for threads to wait.
pub trait Park: Send + Sync + Debug {
    /// Returns a wake-up of the calling thread.
    fn waker(&self) -> Arc<dyn Wake>;

    /// Waits until woken or for `timeout_ns`; may return early.
    fn park(&self, timeout_ns: u64);

    /// Yields the processor to other threads: the caller may wait for one of them.
    fn give_way(&self) {}
}

/// A way for a poller to wait: for a call, a time, or notifications of devices. One thread uses it; only
/// [`PollerWait::wait`] blocks.
pub trait PollerWait: Send + Sync + Debug {
    /// Returns a wake-up of this thread; a call before the wait ends the next wait at once.
    fn waker(&self) -> Arc<dyn Wake>;

    /// Returns the exact time from any fixed origin, ns.
    fn now_ns(&self) -> u64;

    /// Registers `fd`, by which device `at` notifies once unmasked. Returns false if that is not possible.
    fn watch(&mut self, at: usize, fd: RawFd) -> bool;

    /// Registers device `at`, which has no descriptor. Returns true if it is reported whenever it may have
    /// changed, as in virtual time.
    fn watch_without_fd(&mut self, _at: usize) -> bool {
        false
    }

    /// Unmasks the notifications of device `at`: an event after this call ends a wait, or the next one at
    /// once. Earlier events may be lost: poll the device after this.
    fn unmask(&mut self, at: usize);

    /// Masks the notifications of device `at`.
    fn mask(&mut self, at: usize);

    /// Waits until woken or notified, or for `timeout_ns` (0: not at all; `u64::MAX`: without a bound); may
    /// return early. Calls `told` once for each device that has notified.
    fn wait(&mut self, timeout_ns: u64, told: &mut dyn FnMut(usize));
}

/// Waits by [`Park`] alone, without notifications.
#[derive(Debug)]
pub(crate) struct ParkWait {
    pub(crate) park: Arc<dyn Park>,
    pub(crate) clock: Arc<dyn Clock>,
}

impl PollerWait for ParkWait {
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

/// CLOCK_MONOTONIC_COARSE: exact to some milliseconds, enough for byte limits and ledgers, for 3 ns. Its
/// exact time is that of [`Clock::exact_ns`].
#[derive(Debug, Default, Clone, Copy)]
pub struct HostClock;

impl Clock for HostClock {
    #[inline]
    fn now_ns(&self) -> u64 {
        wharf_sys::clock::coarse_ns()
    }

    #[inline]
    fn exact_ns(&self) -> u64 {
        wharf_sys::clock::monotonic_ns()
    }

    fn origin_ns(&self) -> Option<u64> {
        wharf_sys::clock::realtime_ns().checked_sub(wharf_sys::clock::monotonic_ns())
    }
}

impl HostClock {
    /// Returns `instant` by this clock, which is the one that [`Instant`] reads on Linux. Reads no clock but
    /// at the first call.
    pub fn ns_of(instant: Instant) -> u64 {
        static ORIGIN: OnceLock<(Instant, u64)> = OnceLock::new();
        let (origin, origin_ns) = *ORIGIN.get_or_init(|| (Instant::now(), HostClock.exact_ns()));
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        match instant.checked_duration_since(origin) {
            Some(after) => origin_ns.saturating_add(ns(after)),
            None => origin_ns.saturating_sub(ns(origin.duration_since(instant))),
        }
    }
}

/// A clock that stands still, for uses without time: no frame ages, and no byte limit falls.
#[derive(Debug, Default, Clone, Copy)]
pub struct NoClock;

impl Clock for NoClock {
    fn now_ns(&self) -> u64 {
        0
    }
}

/// Calls a wake-up and drops it. Returns true if neither panicked. Both run foreign code (a runtime's, a
/// task's drop) in this thread.
pub(crate) fn wake(one: Arc<dyn Wake>) -> bool {
    outlive(move || one.wake()).is_some()
}

/// Runs a user's code and contains its panic. Returns `None` if it panicked.
#[doc(hidden)]
pub fn outlive<R>(run: impl FnOnce() -> R) -> Option<R> {
    // Callers use nothing afterwards that `run` may have left half-changed.
    catch_unwind(AssertUnwindSafe(run)).ok()
}

/// A clock that contains panics of the user's clock: it then repeats the last time.
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

    fn origin_ns(&self) -> Option<u64> {
        outlive(|| self.clock.origin_ns())?
    }
}
