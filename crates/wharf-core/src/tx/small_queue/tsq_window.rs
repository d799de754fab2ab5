//! `TsqWindow`: the multiple of its rate that a sender may have inside.
//!
//! All senders of a queue share one: a sender with a longer window would have the greater share of a FIFO. Any of
//! them doubles or halves it. A race between two loses one change, which comes again.

use super::WINDOW_NS;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Logarithm of the longest: 64 windows.
const LOG_MAX: u64 = 6;
const LOG_BITS: u32 = 3;
/// Windows without starvation after which it halves, times its present length.
const ENOUGH_WINDOWS: u64 = 32;

/// Its logarithm in windows (low bits), and the time of its last change.
#[derive(Debug, Default)]
pub struct TsqWindow(AtomicU64);

impl TsqWindow {
    /// Makes one of one window.
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Returns the number of windows whose rate may be inside.
    pub(super) fn windows(&self) -> u32 {
        1 << self.get().0
    }

    /// Returns the logarithm, and the time of the last change, ns, rounded down.
    fn get(&self) -> (u64, u64) {
        let word = self.0.load(Relaxed);
        ((word & ((1 << LOG_BITS) - 1)).min(LOG_MAX), word >> LOG_BITS << LOG_BITS)
    }

    fn set(&self, log: u64, now_ns: u64) {
        self.0.store(now_ns >> LOG_BITS << LOG_BITS | log, Relaxed);
    }

    /// Doubles it, since it was too short, unless another sender has just done so.
    pub(super) fn double(&self, now_ns: u64) {
        let (log, since_ns) = self.get();
        if now_ns.saturating_sub(since_ns) >= WINDOW_NS {
            self.set((log + 1).min(LOG_MAX), now_ns);
        }
    }

    /// Halves it if it has been long enough for a while.
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
    fn window_doubles_once_per_window_and_halves_after_a_while() {
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
