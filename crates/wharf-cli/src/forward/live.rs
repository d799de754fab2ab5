//! The live line: rates since the line before, drops by reason, byte queue limits.

use crate::counts::Counts;
use crate::live::{Before, dropped};
use crate::output::grouped_on_stderr;
use crate::session::Watch;
use rustix::termios::tcgetwinsize;
use std::cell::RefCell;
use wharf::forward::{Direction, Forward};

/// Columns before the line: the mark of progress, and the time.
const BEFORE_LINE: usize = 12;

/// See the module.
#[derive(Default)]
pub(super) struct Live {
    /// By direction.
    before: RefCell<Vec<Before>>,
}

impl Live {
    pub(super) fn show(&self, watch: &Watch<'_>, forward: &Forward) {
        let columns = tcgetwinsize(std::io::stderr()).map_or(0, |size| usize::from(size.ws_col));
        watch.say(|now| self.line_within(columns.saturating_sub(BEFORE_LINE), now, forward));
    }

    /// Returns the line; `now` is in seconds since the run began.
    pub(super) fn line(&self, now: f64, forward: &Forward) -> String {
        self.line_within(usize::MAX, now, forward)
    }

    /// Returns the line, or a shorter one if it has more than so many columns: the rates and the drops of both directions are to be seen.
    fn line_within(&self, columns: usize, now: f64, forward: &Forward) -> String {
        let mut before = self.before.borrow_mut();
        before.resize(forward.directions().len(), Before::default());
        let parts = forward.directions().iter().zip(&mut *before);
        let parts: Vec<Part> = parts.map(|(direction, before)| Part::of(direction, before, now)).collect();
        fitting(columns, &parts)
    }
}

/// The words on one direction.
struct Part {
    to: String,
    rates: String,
    sent: u64,
    limit: String,
    dropped: String,
    dropped_packets: u64,
}

impl Part {
    fn of(direction: &Direction, before: &mut Before, now: f64) -> Self {
        let of_queues = direction.queues.iter().map(|queue| Counts::of(queue, direction.has_bql));
        let (counts, drops) = (Counts::sum(of_queues, None), direction.drops());
        Self {
            to: direction.to.clone(),
            rates: before.rates(now, counts.sent, counts.sent_bytes),
            sent: counts.sent,
            limit: counts.limit_text(", limit "),
            dropped: dropped(&drops),
            dropped_packets: drops.values().sum(),
        }
    }

    fn text(&self) -> String {
        let Self { to, rates, sent, limit, dropped, .. } = self;
        format!("to {to} {rates}, sent {}{limit}{dropped}", grouped_on_stderr(*sent))
    }

    fn short_text(&self) -> String {
        let Self { to, rates, dropped_packets, .. } = self;
        let dropped = match dropped_packets {
            0 => String::new(),
            packets => format!(", dropped {}", grouped_on_stderr(*packets)),
        };
        format!("{} {rates}{dropped}", to.split_once(':').map_or(to.as_str(), |(_, place)| place))
    }
}

fn fitting(columns: usize, parts: &[Part]) -> String {
    let all = |text: fn(&Part) -> String| parts.iter().map(text).collect::<Vec<_>>().join(" | ");
    let long = all(Part::text);
    if long.chars().count() <= columns { long } else { all(Part::short_text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn on_a_narrow_terminal_both_directions_are_to_be_seen() {
        let part = |to: &str| Part {
            to: to.into(),
            rates: "2.54 kpps 20.0 Mbit/s".into(),
            sent: 1672,
            limit: ", limit 6200 B".into(),
            dropped: ", dropped: drop-tail 1000, link-down 234".into(),
            dropped_packets: 1234,
        };
        let parts = [part("packet:b0"), part("packet:a0")];
        assert!(fitting(usize::MAX, &parts).contains(
            "to packet:b0 2.54 kpps 20.0 Mbit/s, sent 1672, limit 6200 B, dropped: drop-tail 1000,"
        ));
        let short = fitting(80, &parts);
        assert_eq!(
            short.replace('\u{202f}', ""),
            "b0 2.54 kpps 20.0 Mbit/s, dropped 1234 | a0 2.54 kpps 20.0 Mbit/s, dropped 1234"
        );
    }
}
