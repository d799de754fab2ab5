//! Parts of the live line of `send`, `receive` and `forward`: on standard error, and only where that is a terminal.

use crate::output::{bit_rate, grouped_on_stderr, packet_rate};
use std::collections::BTreeMap;

/// Least time that a rate is of: the first packets come at once, and a line before that tells none.
const SECONDS_MIN: f64 = 0.1;

/// Counts at the line before, from which on rates are counted.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Before {
    seconds: f64,
    packets: u64,
    bytes: u64,
}

impl Before {
    /// Returns the rates since the line before, in words; `now` is in seconds since the run began.
    pub(crate) fn rates(&mut self, now: f64, packets: u64, bytes: u64) -> String {
        let before = std::mem::replace(self, Self { seconds: now, packets, bytes });
        let seconds = now - before.seconds;
        if seconds < SECONDS_MIN {
            return format!("{} {}", packet_rate(0.0), bit_rate(0.0));
        }
        let [packets, bytes] = [packets.saturating_sub(before.packets), bytes.saturating_sub(before.bytes)]
            .map(|count| count as f64);
        format!("{} {}", packet_rate(packets / seconds), bit_rate(bytes * 8.0 / seconds))
    }
}

/// Returns drops by reason as the end of a line.
pub(crate) fn dropped(drops: &BTreeMap<String, u64>) -> String {
    let drops = drops.iter().filter(|drop| *drop.1 > 0);
    let reasons: Vec<String> =
        drops.map(|(reason, count)| format!("{reason} {}", grouped_on_stderr(*count))).collect();
    if reasons.is_empty() { String::new() } else { format!(", dropped: {}", reasons.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_of_the_time_since_the_line_before() {
        let mut before = Before::default();
        assert_eq!(before.rates(1.0, 1000, 64_000), "1.00 kpps 512 kbit/s");
        assert_eq!(before.rates(1.5, 1000, 64_000), "0 pps 0 bit/s");
        assert_eq!(before.rates(2.0, 1250, 80_000), "500 pps 256 kbit/s");
    }

    #[test]
    fn reasons_without_drops_are_left_out() {
        let drops = [("codel", 0), ("drop-tail", 7), ("link-down", 1)];
        let drops = drops.map(|(reason, count)| (reason.to_string(), count)).into();
        assert_eq!(dropped(&drops), ", dropped: drop-tail 7, link-down 1");
        assert_eq!(dropped(&BTreeMap::new()), "");
    }
}
