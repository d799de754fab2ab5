//! The end of a run whose packets come back.

use crate::signals::Signals;
use std::time::{Duration, Instant};
use wharf::queue::TxQueue;
use wharf_tools::traffic::Echo;

/// Longest time between two looks at the signals.
const LOOK: Duration = Duration::from_millis(1);
/// What has not come back for so long will not.
const QUIET: Duration = Duration::from_secs(3);

/// Waits until all that was sent has come back, or nothing does any more.
pub(super) fn wait(echo: &Echo, queue: &TxQueue, signals: &Signals) {
    let (mut last, mut since) = (echo.packets(), Instant::now());
    while last < queue.counters().sent.get() && since.elapsed() < QUIET && !signals.asked() {
        std::thread::sleep(LOOK);
        let now = echo.packets();
        if now != last {
            (last, since) = (now, Instant::now());
        }
    }
}
