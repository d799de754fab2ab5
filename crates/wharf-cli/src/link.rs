//! `LinkWatch`: the line of a device, from the error that reports it down until it is up again.

use crate::output::grouped_on_stderr;
use std::fmt::Display;
use std::time::{Duration, Instant};
use wharf::counters::QueueCounters;
use wharf::device::DeviceError;
use wharf::monitor::{Link, Watched};

/// The reason of packets that were to leave meanwhile.
const LINK_DOWN: &str = "link-down";

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct LinkWatch {
    /// Time at which the line was seen down; none while it is up.
    since: Option<Instant>,
    /// An error came, and the line was not asked for since.
    is_asked: bool,
    /// Packets dropped until it was last up.
    dropped: u64,
}

impl LinkWatch {
    /// Looks at the line of `device` after an error, and while it is down. Returns what there is to tell: that it is down, or up again.
    /// `dropped` returns the packets that were to leave by it, ever.
    pub(crate) fn look(
        &mut self, device: &impl Display, queue: &impl Watched, has_error: bool, dropped: impl Fn() -> u64,
    ) -> Option<String> {
        self.is_asked |= has_error;
        if self.since.is_none() && !self.is_asked {
            return None;
        }
        let told = self.change(queue.link(), Instant::now(), dropped)?;
        Some(if self.since.is_some() { told } else { format!("{device}: {told}") })
    }

    /// Returns the time for which the line has been down.
    pub(crate) fn down_for(&self) -> Option<Duration> {
        self.since.map(|since| since.elapsed())
    }

    /// Returns the fault of a run that ends while the line is down.
    pub(crate) fn fault(&self, device: &impl Display) -> Option<String> {
        let down = self.down_for()?.as_secs_f64();
        Some(format!("{device}: its line was down when the run ended, for {down:.1} s by then"))
    }

    /// Returns the packets dropped since the line was last up, of `dropped` in all.
    pub(crate) fn dropped_of(&self, dropped: u64) -> u64 {
        dropped.saturating_sub(self.dropped)
    }

    /// Another thread may have the device just now, or it is being opened again (`None`): the next look tells. A device that is gone is
    /// another's to report.
    fn change(&mut self, link: Link, now: Instant, dropped: impl Fn() -> u64) -> Option<String> {
        let link = link?;
        self.is_asked = false;
        match link {
            Err(error @ DeviceError::Down { .. }) => {
                let is_news = self.since.is_none();
                self.since.get_or_insert(now);
                is_news.then(|| error.to_string())
            }
            Err(_) => {
                self.since = None;
                None
            }
            Ok(()) => {
                let away = now.duration_since(self.since.take()?);
                let before = std::mem::replace(&mut self.dropped, dropped());
                Some(up_again(away, self.dropped.saturating_sub(before)))
            }
        }
    }
}

fn up_again(away: Duration, dropped: u64) -> String {
    let dropped = match dropped {
        0 => String::new(),
        _ => format!(", {} dropped meanwhile", grouped_on_stderr(dropped)),
    };
    format!("is up again after {:.1} s{dropped}", away.as_secs_f64())
}

/// Returns the packets of a queue that were dropped because its line was down.
pub(crate) fn dropped(counters: &QueueCounters) -> u64 {
    counters.failures().iter().filter(|(reason, _)| *reason == LINK_DOWN).map(|(_, count)| count).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn down() -> Link {
        let (device, what) = ("packet:b0".into(), "b0 has no carrier".into());
        Some(Err(DeviceError::Down { device, what, source: std::io::Error::other("down") }))
    }

    #[test]
    fn a_line_that_goes_down_and_comes_up_is_told_twice_with_its_own_drops() {
        let (mut watch, began) = (LinkWatch::default(), Instant::now());
        let at = |ms| began + Duration::from_millis(ms);
        assert_eq!(watch.change(Some(Ok(())), at(0), || 0), None, "it was never down");
        let told = watch.change(down(), at(0), || 0);
        assert_eq!(told.as_deref(), Some("packet:b0: b0 has no carrier: down"));
        for (ms, link) in [(1000, None), (2000, down())] {
            assert_eq!(watch.change(link, at(ms), || 9), None);
        }
        let told = watch.change(Some(Ok(())), at(2100), || 2520);
        assert_eq!(told.as_deref(), Some("is up again after 2.1 s, 2520 dropped meanwhile"));
        assert_eq!(watch.change(Some(Ok(())), at(2200), || 2520), None);
        assert!(watch.change(down(), at(3000), || 2520).is_some() && watch.dropped_of(2525) == 5);
        let told = watch.change(Some(Ok(())), at(3500), || 2530);
        assert_eq!(told.as_deref(), Some("is up again after 0.5 s, 10 dropped meanwhile"));
        watch.change(down(), at(4000), || 2530);
        let told = watch.change(Some(Ok(())), at(4500), || 2530);
        assert_eq!(told.as_deref(), Some("is up again after 0.5 s"));
    }
}
