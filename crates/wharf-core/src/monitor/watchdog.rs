//! `Watchdog`: reports a stall of a device while it lasts (the kernel's `dev_watchdog`, `ndo_tx_timeout`).
//!
//! It compares two counters, the frames that the device holds and those that it has completed, at checks
//! some milliseconds apart. The time between two completions with frames in hand is a delay. The bound of a
//! stall is eight times the longest recent delay, between 100 ms and 1 s: a device that is merely slow is not
//! overdue.

use std::time::Duration;

/// Delays that make a stall.
const DELAYS: u64 = 8;
/// The least and the greatest learnt bound, ns.
const BOUND_NS_MIN: u64 = 100_000_000;
const BOUND_NS_MAX: u64 = 1_000_000_000;
/// Each check that sees progress lowers the longest delay by 1/2^11, so ten seconds of traffic lower it by
/// two thirds.
const FORGET_SHIFT: u32 = 11;

/// What a look has found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sign {
    /// Completions are overdue: the caller makes sure, and answers [`Watchdog::stall`] or [`Watchdog::excuse`].
    Overdue {
        /// When the device last completed a frame, or was given its first, ns.
        since_ns: u64,
    },
    /// The device completes again, or has given all frames back.
    Resumed {
        /// Length of the stall, ns.
        after_ns: u64,
    },
}

/// Watches one device's completions.
#[derive(Debug)]
pub struct Watchdog {
    /// The bound that was set; without one it is learnt.
    fixed_ns: Option<u64>,
    /// The longest recent delay; at first one that makes the greatest bound.
    delay_ns: u64,
    /// Frames completed at the last look.
    completed: u64,
    /// Since when the device has held frames and completed none.
    since_ns: Option<u64>,
    is_stalled: bool,
    /// The device was opened again since the last comparison.
    is_anew: bool,
}

impl Watchdog {
    /// Makes one with a bound of `after`; without, it learns the bound from the device, from 100 ms to 1 s.
    pub fn new(after: Option<Duration>) -> Self {
        let fixed_ns = after.map(|after| u64::try_from(after.as_nanos()).unwrap_or(u64::MAX));
        let delay_ns = BOUND_NS_MAX / DELAYS;
        Self { fixed_ns, delay_ns, completed: 0, since_ns: None, is_stalled: false, is_anew: false }
    }

    /// Returns the time without a completion that is a stall, ns.
    pub fn bound_ns(&self) -> u64 {
        let learnt_ns = DELAYS.saturating_mul(self.delay_ns).clamp(BOUND_NS_MIN, BOUND_NS_MAX);
        self.fixed_ns.unwrap_or(learnt_ns)
    }

    /// Compares the frames that the device holds, and those that it has completed in all, with those of last time.
    pub fn look(&mut self, now_ns: u64, held: u64, completed: u64) -> Option<Sign> {
        let is_anew = std::mem::take(&mut self.is_anew);
        let has_progress = std::mem::replace(&mut self.completed, completed) != completed || is_anew;
        let since_ns = match self.since_ns {
            Some(since_ns) if held > 0 && !has_progress => since_ns,
            before => {
                self.since_ns = (held > 0).then_some(now_ns);
                let delay_ns = before.map_or(0, |since_ns| now_ns.saturating_sub(since_ns));
                let learnt_ns = delay_ns.min(BOUND_NS_MAX / DELAYS);
                self.delay_ns = learnt_ns.max(self.delay_ns - (self.delay_ns >> FORGET_SHIFT));
                let was_stalled = std::mem::take(&mut self.is_stalled);
                return was_stalled.then_some(Sign::Resumed { after_ns: delay_ns });
            }
        };
        let is_overdue = now_ns.saturating_sub(since_ns) >= self.bound_ns();
        (is_overdue && !self.is_stalled).then_some(Sign::Overdue { since_ns })
    }

    /// The device is stalled: it does not say when it will complete.
    pub fn stall(&mut self) {
        self.is_stalled = true;
    }

    /// The device is not overdue after all: it has completions to come, and knows when.
    pub fn excuse(&mut self, now_ns: u64) {
        self.since_ns = self.since_ns.map(|_| now_ns);
    }

    /// Notes that the device was opened again: that ends a stall, and frames that it still holds may begin
    /// another.
    pub fn begin_anew(&mut self) {
        self.is_anew = true;
    }

    /// Returns when a look would find a stall, ns, if nothing completes; `None` while none can begin.
    pub fn due_ns(&self) -> Option<u64> {
        let since_ns = self.since_ns.filter(|_| !self.is_stalled)?;
        Some(since_ns.saturating_add(self.bound_ns()))
    }

    /// True if the device held frames at the last look.
    pub fn is_waiting(&self) -> bool {
        self.since_ns.is_some()
    }
}
