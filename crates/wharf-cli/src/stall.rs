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
    /// The time of `--give-up`, and a watchdog with that bound.
    give_up: Option<(Duration, Watchdog)>,
    began: Instant,
}

impl Stall {
    /// Begins the watch. A device that completes nothing for `give_up` is given up.
    pub(crate) fn new(give_up: Option<Duration>) -> Self {
        let give_up = give_up.map(|time| (time, Watchdog::new(Some(time))));
        Self { watchdog: Watchdog::new(Some(PATIENCE)), give_up, began: Instant::now() }
    }

    /// Prints a line on standard error when `queue` begins to stall. Returns the error that ends the run once the device
    /// is given up.
    pub(crate) fn look(&mut self, device: impl std::fmt::Display, queue: &TxQueue) -> Option<String> {
        let (frames, completed) = queue.counters().device_frames();
        let now_ns = self.began.elapsed().as_nanos() as u64;
        let sign = self.watchdog.look(now_ns, (frames, completed));
        if let Some(Sign::Overdue { .. }) = sign {
            self.watchdog.stall();
            output::complain(&format!(
                "{device}: its other side has completed none of {frames} frame{} for {} s: it is busy, or stopped, or does not serve \
                 every queue",
                if frames == 1 { "" } else { "s" },
                PATIENCE.as_secs(),
            ));
        }
        let (time, watchdog) = self.give_up.as_mut()?;
        watchdog.look(now_ns, (frames, completed))?;
        Some(format!("{device}: given up: no completion for {time:?}, frames in the device: {frames}"))
    }
}
