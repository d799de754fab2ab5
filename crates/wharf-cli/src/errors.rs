//! `Errors`: errors that a device reports and a run outlives. A short run tells its last one as it ends.

use crate::repeats::Lines;
use std::time::{Duration, Instant};
use wharf_core::counters::QueueCounters;

/// Time that an error waits to be told.
const TOLD_AFTER: Duration = Duration::from_secs(1);
/// Least time between two.
const AGAIN: Duration = Duration::from_secs(10);

/// The errors of one queue's device.
#[derive(Debug, Default)]
pub(crate) struct Errors {
    /// Errors at the last look.
    seen: u64,
    /// When the first one came that was not told.
    since: Option<Instant>,
    told: Option<Instant>,
}

impl Errors {
    /// Prints the last error on standard error, unless it says that the line is down: another one tells that.
    pub(crate) fn look(&mut self, counters: &QueueCounters, lines: &mut Lines) {
        let (now, errors) = (Instant::now(), counters.device_errors.get());
        if std::mem::replace(&mut self.seen, errors) != errors {
            self.since.get_or_insert(now);
        }
        if self.since.is_none_or(|since| now.duration_since(since) < TOLD_AFTER)
            || self.told.is_some_and(|told| now.duration_since(told) < AGAIN)
        {
            return;
        }
        self.since = None;
        if let Some(error) = counters.last_error_beside_line() {
            lines.tell(&error);
            self.told = Some(now);
        }
    }
}
