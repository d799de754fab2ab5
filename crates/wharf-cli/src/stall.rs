//! Stalls: a device whose peer takes nothing rightly holds up everything behind it. A line says so, once.

use crate::output;
use std::time::{Duration, Instant};
use wharf::counters::QueueCounters;
use wharf::queue::TxQueue;

/// Time without a completion that is a stall: twice as long as before Linux's watchdog speaks up (net/sched/sch_generic.c,
/// `dev_watchdog`: 5 s unless the driver has its own).
const PATIENCE: Duration = Duration::from_secs(10);

/// Watches one transmit queue.
#[derive(Debug, Default)]
pub(crate) struct Stall {
    /// Frames that had come back, and the time since when there were no more.
    before: Option<(u64, Instant)>,
    is_told: bool,
}

impl Stall {
    /// Prints a line on standard error when `queue` begins to stall.
    pub(crate) fn look(&mut self, device: impl std::fmt::Display, queue: &TxQueue) {
        if let Some(frames) = self.begins(queue.counters(), Instant::now()) {
            output::complain(&format!(
                "{device}: its other side has completed none of {frames} frame{} for {} s: it is busy, or stopped, or does not serve \
                 every queue",
                if frames == 1 { "" } else { "s" },
                PATIENCE.as_secs(),
            ));
        }
    }

    /// Returns the frames that the device has, when a stall has just become clear.
    fn begins(&mut self, counters: &QueueCounters, now: Instant) -> Option<u64> {
        let completed = counters.sent.get() + counters.failed.get();
        let inside = counters.packets.get().saturating_sub(completed);
        match self.before {
            Some((before, since)) if inside > 0 && before == completed => {
                let begins = !self.is_told && now.duration_since(since) >= PATIENCE;
                self.is_told |= begins;
                begins.then_some(inside)
            }
            _ => {
                *self = Self { before: Some((completed, now)), is_told: false };
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stall_is_reported_once_and_idle_queue_is_no_stall() {
        let (mut stall, counters, mut now) = (Stall::default(), QueueCounters::default(), Instant::now());
        let mut later = |stall: &mut Stall, counters: &QueueCounters| {
            now += PATIENCE;
            stall.begins(counters, now)
        };
        assert_eq!((later(&mut stall, &counters), later(&mut stall, &counters)), (None, None));
        counters.packets.add(3);
        counters.sent.add(1);
        assert_eq!(later(&mut stall, &counters), None, "one has come back");
        assert_eq!((later(&mut stall, &counters), later(&mut stall, &counters)), (Some(2), None));
        counters.sent.add(1);
        assert_eq!((later(&mut stall, &counters), later(&mut stall, &counters)), (None, Some(1)));
        counters.failed.add(1);
        assert_eq!((later(&mut stall, &counters), later(&mut stall, &counters)), (None, None));
    }
}
