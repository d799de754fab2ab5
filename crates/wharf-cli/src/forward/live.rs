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

    /// Returns the line, or a shorter one if it has more than so many columns: the rates and the drops of both
    /// directions are to be seen.
    fn line_within(&self, columns: usize, now: f64, forward: &Forward) -> String {
        let mut before = self.before.borrow_mut();
        before.resize(forward.directions().len(), Before::default());
        let parts = forward.directions().iter().zip(&mut *before);
        let parts: Vec<_> = parts.map(|(direction, before)| words(direction, before, now)).collect();
        fitting(columns, &parts)
    }
}

/// Returns the words on one direction: all of them, and those for a narrow terminal.
fn words(direction: &Direction, before: &mut Before, now: f64) -> [String; 2] {
    let of_queues = direction.queues.iter().map(|queue| Counts::of(queue, direction.has_bql));
    let (counts, drops, to) = (Counts::sum(of_queues, None), direction.drops(), &direction.to);
    let rates = before.rates(now, counts.sent, counts.sent_bytes);
    let (sent, limit) = (grouped_on_stderr(counts.sent), counts.limit_text(", limit "));
    let long = format!("to {to} {rates}, sent {sent}{limit}{}", dropped(&drops));
    let lost = match drops.values().sum() {
        0 => String::new(),
        packets => format!(", dropped {}", grouped_on_stderr(packets)),
    };
    [long, format!("{} {rates}{lost}", to.split_once(':').map_or(to.as_str(), |(_, place)| place))]
}

fn fitting(columns: usize, parts: &[[String; 2]]) -> String {
    let all = |at: usize| parts.iter().map(|part| part[at].as_str()).collect::<Vec<_>>().join(" | ");
    let long = all(0);
    if long.chars().count() <= columns { long } else { all(1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn on_a_narrow_terminal_both_directions_are_to_be_seen() {
        let part = |to: &str| {
            let rates = "2.54 kpps 20.0 Mbit/s";
            let long = format!(
                "to packet:{to} {rates}, sent 1672, limit 6200 B, dropped: drop-tail 1000, link-down 234"
            );
            [long, format!("{to} {rates}, dropped 1234")]
        };
        let parts = [part("b0"), part("a0")];
        assert!(fitting(usize::MAX, &parts).contains(
            "to packet:b0 2.54 kpps 20.0 Mbit/s, sent 1672, limit 6200 B, dropped: drop-tail 1000,"
        ));
        let short = fitting(80, &parts);
        assert_eq!(short, "b0 2.54 kpps 20.0 Mbit/s, dropped 1234 | a0 2.54 kpps 20.0 Mbit/s, dropped 1234");
    }
}
