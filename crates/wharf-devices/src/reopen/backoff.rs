//! `Backoff`: the pause before a device that has gone is opened again.

use std::time::{Duration, Instant};

/// Time between two attempts to open the device, and the first pause of one that goes soon after its opening.
pub(super) const PAUSE: Duration = Duration::from_millis(100);
/// The former while there is no interface or peer, or the interface is down: an attempt then makes few calls.
pub(super) const ABSENT_PAUSE: Duration = Duration::from_millis(20);
/// Time for which an absent one is tried that often. Later it costs ten wake-ups a second, as any other.
pub(super) const ABSENT_SOON: Duration = Duration::from_secs(60);
/// Longest pause: a good peer that comes in a bad one's place is met within it.
const PAUSE_MAX: Duration = Duration::from_millis(3200);
/// Time for which a device is to hold: one that goes later is opened again at once.
const HOLDS: Duration = Duration::from_secs(1);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    /// When the device was last opened.
    opened: Option<Instant>,
    /// The pause before that.
    pause: Duration,
}

impl Backoff {
    /// Notes that the device was opened again.
    pub(super) fn opened(&mut self, now: Instant) {
        self.opened = Some(now);
    }

    /// Notes that the device has gone. Returns the pause before the first attempt to open it: none if it has
    /// held, else twice the one before. A reset that was asked for is no failure of the device's: its pause
    /// is the shortest.
    pub(super) fn lost(&mut self, now: Instant, is_asked: bool) -> Duration {
        let has_held = self.opened.is_none_or(|opened| now.saturating_duration_since(opened) >= HOLDS);
        self.pause = match (has_held, is_asked) {
            (true, _) => Duration::ZERO,
            (false, true) => PAUSE,
            (false, false) => (self.pause * 2).clamp(PAUSE, PAUSE_MAX),
        };
        self.pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_goes_at_once_is_opened_less_and_less_often_and_one_that_has_held_at_once() {
        let (mut backoff, mut now) = (Backoff::default(), Instant::now());
        assert_eq!(backoff.lost(now, false), Duration::ZERO, "it was opened long ago");
        let mut cycle_of = |held_ms: u64, is_asked| {
            backoff.opened(now);
            now += Duration::from_millis(held_ms);
            let pause = backoff.lost(now, is_asked);
            now += pause;
            pause.as_millis()
        };
        let mut cycle = |held_ms| cycle_of(held_ms, false);
        assert_eq!([5, 0, 999, 5, 5, 5, 5].map(&mut cycle), [100, 200, 400, 800, 1600, 3200, 3200]);
        assert_eq!([1000, 5, 60_000, 5, 5].map(cycle), [0, 100, 0, 100, 200]);
        assert_eq!([5, 5, 5, 5000].map(|held_ms| cycle_of(held_ms, true)), [100, 100, 100, 0]);
    }

    #[test]
    fn a_device_that_never_holds_is_opened_some_thousand_times_a_day() {
        let (mut backoff, began) = (Backoff::default(), Instant::now());
        let (mut now, mut openings) = (began, 0);
        while now.duration_since(began) < Duration::from_secs(86_400) {
            now += backoff.lost(now, false);
            backoff.opened(now);
            openings += 1;
        }
        assert!((20_000..30_000).contains(&openings), "{openings}");
    }
}
