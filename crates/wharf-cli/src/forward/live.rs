//! The live line: rates since the line before, drops by reason, byte queue limits.

use crate::live::{Before, dropped};
use crate::output::{bytes, grouped_on_stderr};
use crate::queues::sum;
use crate::session::Watch;
use std::cell::RefCell;
use wharf::counters::QueueCounters;
use wharf_tools::forward::{Direction, Forward};

/// See the module.
#[derive(Default)]
pub(super) struct Live {
    /// By direction.
    before: RefCell<Vec<Before>>,
}

impl Live {
    pub(super) fn show(&self, watch: &Watch<'_>, forward: &Forward) {
        watch.say(|now| self.line(now, forward));
    }

    /// Returns the line; `now` is in seconds since the run began.
    pub(super) fn line(&self, now: f64, forward: &Forward) -> String {
        let mut before = self.before.borrow_mut();
        before.resize(forward.directions().len(), Before::default());
        let parts = forward.directions().iter().zip(&mut *before);
        let parts: Vec<String> = parts.map(|(direction, before)| part(direction, before, now)).collect();
        parts.join(" | ")
    }
}

fn part(direction: &Direction, before: &mut Before, now: f64) -> String {
    let of = |count: fn(&QueueCounters) -> u64| sum(&direction.queues, count);
    // Bytes are counted as the device takes them: those of failed frames are taken off.
    let sent_bytes = of(|all| all.bytes.get().saturating_sub(all.failed_bytes.get()));
    let sent = of(|all| all.sent.get());
    let limit = match direction.has_bql {
        true => format!(", limit {}", bytes(of(|all| all.bql_limit_bytes.get()))),
        false => String::new(),
    };
    let (to, rates, dropped) =
        (&direction.to, before.rates(now, sent, sent_bytes), dropped(&direction.drops()));
    format!("to {to} {rates}, sent {}{limit}{dropped}", grouped_on_stderr(sent))
}
