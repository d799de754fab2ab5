//! A run under a service manager: `sd_notify(3)`, and the watchdog.

mod notify;
mod watchdog;

use notify::Notifier;
use std::time::{Duration, Instant};
use watchdog::Watchdog;
use wharf::forward::Forward;

/// Time between two lines of status.
const STATUS: Duration = Duration::from_secs(1);

/// The service manager of a run, if there is one.
#[derive(Debug)]
pub(crate) struct Service {
    notifier: Option<Notifier>,
    watchdog: Option<Watchdog>,
    /// When the next status is due.
    due: Instant,
}

impl Service {
    /// Finds the service manager by `NOTIFY_SOCKET`, and the watchdog by `WATCHDOG_USEC`.
    pub(crate) fn of_environment() -> Self {
        let notifier = Notifier::of_environment();
        let watchdog = notifier.as_ref().and_then(|_| Watchdog::of_environment());
        Self { notifier, watchdog, due: Instant::now() }
    }

    /// Tells that the run has begun, or goes on after a reload.
    pub(crate) fn ready(&self) {
        self.tell("READY=1");
    }

    /// Tells that a reload begins, and when: to systemd, a `READY=1` after that time ends it.
    pub(crate) fn reloading(&self) {
        let now_us = wharf_sys::clock::monotonic_ns() / 1000;
        self.tell(&format!("RELOADING=1\nMONOTONIC_USEC={now_us}"));
    }

    /// Tells that the run ends.
    pub(crate) fn stopping(&self) {
        self.tell("STOPPING=1");
    }

    /// Tells the status each second, and feeds the watchdog while the pollers of `forward` run.
    /// Returns the time by which it is to look again.
    pub(crate) fn look(&mut self, forward: &Forward, status: impl FnOnce() -> String) -> Duration {
        let now = Instant::now();
        if self.watchdog.as_mut().is_some_and(|watchdog| watchdog.is_fed(now, forward)) {
            self.tell("WATCHDOG=1");
        }
        if self.notifier.is_some() && now >= self.due {
            self.due = now + STATUS;
            self.tell(&format!("STATUS={}", status()));
        }
        self.watchdog.as_ref().map_or(Duration::MAX, Watchdog::every)
    }

    fn tell(&self, message: &str) {
        self.notifier.iter().for_each(|notifier| notifier.tell(message));
    }
}
