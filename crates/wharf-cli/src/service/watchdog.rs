//! `Watchdog`: the sign of life that a service manager wants (`sd_watchdog_enabled(3)`), given only while the pollers turn.
//!
//! A poller without work sleeps, so each is called, and its counters must have changed by the next look: a poller that hangs in a
//! device or in the kernel changes none. The manager then ends the service, which starts anew.

use std::sync::Arc;
use std::time::{Duration, Instant};
use wharf::forward::Forward;
use wharf_core::poller::PollerCounters;

/// Looks within the time after which the manager acts: one late look is no reason to end a run.
const LOOKS: u32 = 4;

/// See the module.
#[derive(Debug)]
pub(super) struct Watchdog {
    every: Duration,
    due: Option<Instant>,
    /// Turns of each poller when it was last called.
    turns: Vec<u64>,
}

impl Watchdog {
    /// Returns the one that `WATCHDOG_USEC` asks for, unless `WATCHDOG_PID` is another process.
    pub(super) fn of_environment() -> Option<Self> {
        let value = |name| std::env::var(name).ok();
        Self::new(value("WATCHDOG_USEC")?.as_str(), value("WATCHDOG_PID").as_deref())
    }

    fn new(time_us: &str, pid: Option<&str>) -> Option<Self> {
        let time_us: u64 = time_us.parse().ok().filter(|&time_us| time_us > 0)?;
        let is_ours = pid.is_none_or(|pid| pid.parse() == Ok(std::process::id()));
        let every = Duration::from_micros(time_us) / LOOKS;
        is_ours.then_some(Self { every, due: None, turns: Vec::new() })
    }

    /// Returns the time between two signs of life.
    pub(super) fn every(&self) -> Duration {
        self.every
    }

    /// True if a sign of life is due, and all pollers of `forward` have turned since the last look. Calls them for the next one.
    pub(super) fn is_fed(&mut self, now: Instant, forward: &Forward) -> bool {
        if !self.is_due(now) {
            return false;
        }
        let is_alive = self.has_turned(forward.poller_counters().map(turns).collect());
        for receiver in forward.directions().iter().flat_map(|direction| &direction.receivers) {
            receiver.call_poller().wake();
        }
        is_alive
    }

    fn is_due(&mut self, now: Instant) -> bool {
        let is_due = self.due.is_none_or(|due| now >= due);
        if is_due {
            self.due = Some(now + self.every);
        }
        is_due
    }

    /// True if each poller has turned since the call before, or there was none.
    fn has_turned(&mut self, now: Vec<u64>) -> bool {
        let before = std::mem::replace(&mut self.turns, now);
        before.iter().zip(&self.turns).all(|(before, now)| before != now)
    }
}

/// Returns the steps of a poller that have ended.
fn turns(counters: Arc<PollerCounters>) -> u64 {
    let counts = [&counters.polls, &counters.pauses, &counters.sleeps];
    counts.into_iter().fold(0, |sum, count| sum.wrapping_add(count.get()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_poller_that_does_not_turn_keeps_the_sign_back() {
        let mut watchdog = Watchdog::new("2000000", None).unwrap();
        assert_eq!(watchdog.every, Duration::from_millis(500));
        assert!(watchdog.has_turned(vec![3, 5]), "the first look");
        assert!(watchdog.has_turned(vec![4, 6]));
        assert!(!watchdog.has_turned(vec![4, 7]), "the first poller hangs");
        assert!(watchdog.has_turned(vec![5, 8]), "it goes on");
        let now = Instant::now();
        assert!(watchdog.is_due(now) && !watchdog.is_due(now + Duration::from_millis(499)));
        assert!(watchdog.is_due(now + Duration::from_millis(500)));
    }

    #[test]
    fn a_watchdog_of_another_process_or_without_a_time_is_none() {
        let own = std::process::id().to_string();
        assert!(Watchdog::new("1000", Some(&own)).is_some());
        for (time_us, pid) in [("1000", Some("1")), ("0", None), ("soon", None), ("1000", Some("x"))] {
            assert!(Watchdog::new(time_us, pid).is_none(), "{time_us} {pid:?}");
        }
    }
}
