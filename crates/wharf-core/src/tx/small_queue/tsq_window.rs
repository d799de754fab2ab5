//! How much of its rate a sender may have inside.
//!
//! One for all senders of a queue: if one of them had more of its rate inside than another, it would have the greater share of a
//! FIFO for no merit. Any of them may double it, and any halve it: a race between two loses one change, which comes again.

use super::WINDOW_NS;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The most, as a power of 2: 64 windows.
const LOG_MAX: u64 = 6;
const LOG_BITS: u32 = 3;
/// It halves after so many windows that it was enough for, and longer where it is more than one window.
const ENOUGH_WINDOWS: u64 = 32;

/// In windows: a power of 2, and when it was last found to be too short, or halved.
#[derive(Debug)]
pub(crate) struct TsqWindow(AtomicU64);

impl TsqWindow {
    /// One window.
    pub(crate) const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Windows whose rate may be inside.
    pub(super) fn windows(&self) -> u32 {
        1 << self.get().0
    }

    /// Its logarithm, and since when, in nanoseconds; rounded down.
    fn get(&self) -> (u64, u64) {
        let word = self.0.load(Relaxed);
        ((word & ((1 << LOG_BITS) - 1)).min(LOG_MAX), word >> LOG_BITS << LOG_BITS)
    }

    fn set(&self, log: u64, now_ns: u64) {
        self.0.store(now_ns >> LOG_BITS << LOG_BITS | log, Relaxed);
    }

    /// It was too short: doubled, unless another sender has just found the same.
    pub(super) fn double(&self, now_ns: u64) {
        let (log, since_ns) = self.get();
        if now_ns.saturating_sub(since_ns) >= WINDOW_NS {
            self.set((log + 1).min(LOG_MAX), now_ns);
        }
    }

    /// It was enough: halved, if it has been for a while.
    pub(super) fn was_enough(&self, now_ns: u64) {
        let (log, since_ns) = self.get();
        if log > 0 && now_ns.saturating_sub(since_ns) >= (ENOUGH_WINDOWS * WINDOW_NS) << log {
            self.set(log - 1, now_ns);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_once_a_window_and_halves_when_it_has_been_enough() {
        let tsq_window = TsqWindow::new();
        let mut now_ns = WINDOW_NS;
        for log in 1..9 {
            tsq_window.double(now_ns);
            tsq_window.double(now_ns + WINDOW_NS / 2);
            assert_eq!(tsq_window.windows(), 1 << log.min(LOG_MAX));
            now_ns += 2 * WINDOW_NS;
        }
        let mut halved = 0;
        while tsq_window.windows() > 1 {
            let before = tsq_window.windows();
            tsq_window.was_enough(now_ns);
            halved += u32::from(tsq_window.windows() < before);
            now_ns += WINDOW_NS;
        }
        assert_eq!(halved, 6);
        assert!(now_ns > 32 * 126 * WINDOW_NS);
    }
}
