//! Stalls: a device whose peer takes nothing rightly holds up everything behind it. A line says so, once, and what is done about it.

use crate::args::{OnStall, RecoveryArgs};
use crate::output;
use crate::recovery::Recovery;
use std::time::{Duration, Instant};
use wharf::monitor::{Sign, Watchdog, Watched};
use wharf::queue::TxQueue;

/// Time without a completion that is a stall: twice as long as before Linux's watchdog speaks up (net/sched/sch_generic.c,
/// `dev_watchdog`: 5 s unless the driver has its own).
const PATIENCE: Duration = Duration::from_secs(10);

/// Watches one transmit queue.
#[derive(Debug)]
pub(crate) struct Stall {
    watchdog: Watchdog,
    on_stall: OnStall,
    /// The time of `--give-up`, and a watchdog with that bound.
    give_up: Option<(Duration, Watchdog)>,
    recovery: Recovery,
    began: Instant,
}

impl Stall {
    /// Begins the watch over a queue whose device `recovery` opens again.
    pub(crate) fn new(args: RecoveryArgs, recovery: Recovery) -> Self {
        let give_up = args.give_up.map(|time| (time, Watchdog::new(Some(time))));
        let watchdog = Watchdog::new(Some(PATIENCE));
        Self { watchdog, on_stall: args.on_stall, give_up, recovery, began: Instant::now() }
    }

    /// Prints a line on standard error when `queue` begins to stall, and does what was asked for. Returns the error that ends the run
    /// once the device is given up.
    pub(crate) fn look(&mut self, device: impl std::fmt::Display, queue: &TxQueue) -> Option<String> {
        self.recovery.look(queue);
        if let Some(failure) = self.recovery.failure() {
            return Some(failure);
        }
        let (frames, completed) = queue.counters().device_frames();
        let now_ns = self.began.elapsed().as_nanos() as u64;
        if let Some(Sign::Overdue { .. }) = self.watchdog.look(now_ns, (frames, completed)) {
            self.watchdog.stall();
            let what = format!(
                "{device}: its other side has completed none of {frames} frame{} for {} s",
                if frames == 1 { "" } else { "s" },
                PATIENCE.as_secs(),
            );
            if self.on_stall == OnStall::Fail {
                return Some(what);
            }
            output::complain(&format!("{what}: {}", self.remedy(queue)));
        }
        let (time, watchdog) = self.give_up.as_mut()?;
        if let Some(away) = self.recovery.away().filter(|away| away >= time) {
            return Some(format!("{device}: given up: away for {:.1} s", away.as_secs_f64()));
        }
        watchdog.look(now_ns, (frames, completed))?;
        Some(format!("{device}: given up: no completion for {time:?}, frames in the device: {frames}"))
    }

    /// Resets the device if that is asked for, and nothing else explains the stall. Returns what was done, or the likely cause.
    fn remedy(&self, queue: &TxQueue) -> &'static str {
        // A peer that has not come yet, or a line that is down, takes nothing from a new device either.
        let is_up = !matches!(queue.link(), Some(Err(_)));
        if self.on_stall == OnStall::Reset && is_up && self.recovery.reset() {
            return "they are lost, and it is opened anew (--on-stall report waits instead)";
        }
        "it is busy, or stopped, or does not serve every queue"
    }
}
