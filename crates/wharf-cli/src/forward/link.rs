//! `LinkWatch`: the line that a queue's device sends on, from the error that reports it down until it is up again.

use crate::output::grouped_on_stderr;
use std::time::{Duration, Instant};
use wharf::counters::QueueCounters;
use wharf::device::DeviceError;
use wharf::monitor::{Link, Watched};
use wharf::queue::TxQueue;

/// The reason of packets that were to leave meanwhile.
const LINK_DOWN: &str = "link-down";

/// See the module.
#[derive(Debug, Default)]
pub(super) struct LinkWatch {
    /// Time at which the line was seen down; none while it is up.
    since: Option<Instant>,
    /// An error came, and the line was not asked for since.
    is_asked: bool,
    /// Packets dropped until it was last up.
    dropped: u64,
}

impl LinkWatch {
    /// Looks at the line after an error, and while it is down. Returns a line once it is up again.
    pub(super) fn look(&mut self, queue: &TxQueue, has_error: bool) -> Option<String> {
        self.is_asked |= has_error;
        if self.since.is_none() && !self.is_asked {
            return None;
        }
        let dropped = || dropped(queue.counters());
        self.change(queue.link(), Instant::now(), dropped)
    }

    /// Another thread may have the device just now (`None`): the next look tells. A device that is gone is another's to report.
    fn change(&mut self, link: Link, now: Instant, dropped: impl Fn() -> u64) -> Option<String> {
        let link = link?;
        self.is_asked = false;
        match link {
            Err(DeviceError::Down { .. }) => {
                self.since.get_or_insert(now);
                None
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
    format!("is up again after {:.1} s, {} dropped meanwhile", away.as_secs_f64(), grouped_on_stderr(dropped))
}

fn dropped(counters: &QueueCounters) -> u64 {
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
    fn a_line_that_is_up_again_is_told_once_with_its_own_drops() {
        let (mut watch, began) = (LinkWatch::default(), Instant::now());
        let at = |ms| began + Duration::from_millis(ms);
        assert_eq!(watch.change(Some(Ok(())), at(0), || 0), None, "it was never down");
        for (ms, link) in [(0, down()), (1000, None), (2000, down())] {
            assert_eq!(watch.change(link, at(ms), || 9), None);
        }
        let told = watch.change(Some(Ok(())), at(2100), || 2520);
        assert_eq!(told.as_deref(), Some("is up again after 2.1 s, 2520 dropped meanwhile"));
        assert_eq!(watch.change(Some(Ok(())), at(2200), || 2520), None);
        watch.change(down(), at(3000), || 2520);
        let told = watch.change(Some(Ok(())), at(3500), || 2530);
        assert_eq!(told.as_deref(), Some("is up again after 0.5 s, 10 dropped meanwhile"));
    }
}
