//! The live line: rates since the line before, drops by reason, byte queue limits.

use crate::output::{bytes, grouped};
use crate::queues::sum;
use crate::session::Watch;
use std::cell::RefCell;
use std::collections::BTreeMap;
use wharf::counters::QueueCounters;
use wharf_tools::forward::{Direction, Forward};

#[derive(Default)]
pub(super) struct Live {
    /// Seconds until the last line, and the packets and bytes of each direction that had been sent by then.
    before: RefCell<(f64, Vec<[u64; 2]>)>,
}

impl Live {
    pub(super) fn show(&self, watch: &Watch<'_>, forward: &Forward) {
        watch.say(|now| {
            let mut before = self.before.borrow_mut();
            before.1.resize(forward.directions().len(), [0; 2]);
            let seconds = (now - before.0).max(1e-9);
            before.0 = now;
            let parts = forward.directions().iter().zip(&mut before.1);
            let parts: Vec<String> =
                parts.map(|(direction, before)| part(direction, before, seconds)).collect();
            parts.join(" | ")
        });
    }
}

fn part(direction: &Direction, before: &mut [u64; 2], seconds: f64) -> String {
    let of = |count: fn(&QueueCounters) -> u64| sum(&direction.queues, count);
    // Bytes are counted as the device takes them: those of failed frames are taken off.
    let sent_bytes = of(|all| all.bytes.get().saturating_sub(all.failed_bytes.get()));
    let now = [of(|all| all.sent.get()), sent_bytes];
    let [packets, octets] = [now[0] - before[0], now[1].saturating_sub(before[1])];
    *before = now;
    let (mpps, gbps) = (packets as f64 / seconds / 1e6, octets as f64 * 8.0 / seconds / 1e9);
    let limit = match direction.has_bql {
        true => format!(", limit {}", bytes(of(|all| all.bql_limit_bytes.get()))),
        false => String::new(),
    };
    let (to, sent, dropped) = (&direction.to, grouped(now[0]), dropped(&direction.drops()));
    format!("to {to} {mpps:.3} Mpps {gbps:.3} Gbit/s, sent {sent}{limit}{dropped}")
}

fn dropped(drops: &BTreeMap<String, u64>) -> String {
    let reasons: Vec<String> =
        drops.iter().map(|(reason, count)| format!("{reason} {}", grouped(*count))).collect();
    if reasons.is_empty() { String::new() } else { format!(", dropped: {}", reasons.join(", ")) }
}
