//! When to look at an interface, and when to give up on a kernel that takes nothing.

use crate::host::{ExactClock, HostClock};
use wharf_core::host::Clock;

/// Time between two looks, at most, while frames are sent.
const LOOK_NS: u64 = 20_000_000;

/// The next look at an interface: it may have lost its carrier, changed its MTU or gone, without an error.
#[derive(Debug)]
pub struct LookTimer {
    /// Calls until the look is due.
    calls: u32,
    /// Time on the host's clock at which it is due if there are fewer calls.
    at_ns: u64,
}

impl LookTimer {
    /// Calls between two looks.
    pub const EVERY: u32 = 64;

    /// Makes a timer whose first look is due after `calls` calls.
    pub const fn new(calls: u32) -> Self {
        Self { calls, at_ns: 0 }
    }

    /// Counts a call. Returns true if the look is due: the caller restarts the timer.
    #[inline]
    pub fn is_due(&mut self) -> bool {
        self.calls = self.calls.saturating_sub(1);
        self.calls == 0
    }

    /// Returns true if the last look by this function was `LOOK_NS` ago.
    #[inline]
    pub fn is_late(&mut self) -> bool {
        let now_ns = HostClock.now_ns();
        let is_late = now_ns >= self.at_ns;
        if is_late {
            self.at_ns = now_ns + LOOK_NS;
        }
        is_late
    }

    /// Sets the calls until the next look.
    #[inline]
    pub fn restart(&mut self, calls: u32) {
        self.calls = calls;
    }
}

/// The time since which the kernel, or an adapter, has taken nothing.
#[derive(Debug, Default)]
pub struct StuckTimer {
    /// Frames that had left then, and the time.
    since: Option<(u64, u64)>,
}

impl StuckTimer {
    /// Notes that the kernel has no room, after `left` frames. Returns true if that has been so for `bound_ns`
    /// while no frame left.
    #[cold]
    pub fn is_stuck(&mut self, left: u64, bound_ns: u64) -> bool {
        self.is_stuck_at(ExactClock.now_ns(), left, bound_ns)
    }

    /// Works like [`StuckTimer::is_stuck`], at `now_ns` on a clock of the caller's.
    #[cold]
    pub fn is_stuck_at(&mut self, now_ns: u64, left: u64, bound_ns: u64) -> bool {
        let (_, since_ns) = *self.since.insert(match self.since {
            Some(since) if since.0 == left => since,
            _ => (left, now_ns),
        });
        now_ns.saturating_sub(since_ns) >= bound_ns
    }

    /// Notes that the kernel takes frames, or that the caller has given up on one.
    #[inline]
    pub fn clear(&mut self) {
        self.since = None;
    }

    /// Makes a timer of a kernel that has been stuck since time 0.
    #[cfg(test)]
    pub(crate) fn long_ago() -> Self {
        Self { since: Some((0, 0)) }
    }
}
