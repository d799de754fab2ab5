//! Stalls: a device whose peer takes nothing rightly holds up everything behind it. A line says so, once.

use crate::output;
use std::time::{Duration, Instant};
use wharf::monitor::{Sign, Watchdog};
use wharf::queue::TxQueue;

/// Time without a completion that is a stall: twice as long as before Linux's watchdog speaks up (net/sched/sch_generic.c,
/// `dev_watchdog`: 5 s unless the driver has its own).
const PATIENCE: Duration = Duration::from_secs(10);

/// Watches one transmit queue.
#[derive(Debug)]
pub(crate) struct Stall {
    watchdog: Watchdog,
    began: Instant,
}

impl Default for Stall {
    fn default() -> Self {
        Self { watchdog: Watchdog::new(Some(PATIENCE)), began: Instant::now() }
    }
}

impl Stall {
    /// Prints a line on standard error when `queue` begins to stall.
    pub(crate) fn look(&mut self, device: impl std::fmt::Display, queue: &TxQueue) {
        let (frames, completed) = queue.counters().device_frames();
        let sign = self.watchdog.look(self.began.elapsed().as_nanos() as u64, (frames, completed));
        if let Some(Sign::Overdue { .. }) = sign {
            self.watchdog.stall();
            output::complain(&format!(
                "{device}: its other side has completed none of {frames} frame{} for {} s: it is busy, or stopped, or does not serve \
                 every queue",
                if frames == 1 { "" } else { "s" },
                PATIENCE.as_secs(),
            ));
        }
    }
}
