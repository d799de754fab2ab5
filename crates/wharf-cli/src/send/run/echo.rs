//! The end of a run whose packets come back.

use crate::send::account::Reception;
use crate::signals::Signals;
use std::slice::from_ref;
use std::time::{Duration, Instant};
use wharf::queue::TxQueue;
use wharf_core::drops::drops_by_reason;
use wharf_tools::traffic::Echo;

/// Longest time between two looks at the signals.
const LOOK: Duration = Duration::from_millis(1);
/// Time after which frames that have not come back are lost.
const QUIET: Duration = Duration::from_secs(3);

/// Waits until all sent frames have come back, or no more do.
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

/// Ends it. No poller has its receive side any more.
pub(super) fn finish(echo: Echo) -> Reception {
    let drops = drops_by_reason(&[], from_ref(echo.receiver()));
    let (findings, device_error) = echo.finish();
    Reception { findings, drops, device_error }
}
