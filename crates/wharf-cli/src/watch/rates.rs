//! Rates: the differences of two snapshots.

use super::snapshot::{BandDelay, PathCounters, QueueRow, Snapshot};
use serde::{Deserialize, Serialize};

/// Rates of one direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Rates {
    pub(super) received_pps: f64,
    pub(super) sent_pps: f64,
    /// Bits per second, from the Ethernet header on.
    pub(super) sent_bps: f64,
    pub(super) dropped_pps: f64,
}

impl Snapshot {
    /// Sets the rates and recent delays since `before`, a snapshot of the same run, or since the run began.
    pub(crate) fn with_rates(mut self, before: Option<&Self>) -> Self {
        let seconds = self.time_s - before.map_or(0.0, |before| before.time_s);
        self.rates_over_s = (seconds * 1e3).round() / 1e3;
        for path in &mut self.paths {
            let of_path = |before: &&PathCounters| before.path == path.path;
            let earlier = before.and_then(|before| before.paths.iter().find(of_path));
            path.set_rates(earlier.unwrap_or(&PathCounters::default()), seconds.max(1e-6));
        }
        self
    }
}

impl PathCounters {
    fn set_rates(&mut self, before: &Self, seconds: f64) {
        let rate = |now: u64, before: u64| rate(now, before, seconds);
        self.rates = Rates {
            received_pps: rate(self.received_packets, before.received_packets),
            sent_pps: rate(self.sent, before.sent),
            sent_bps: rate(self.sent_bytes, before.sent_bytes) * 8.0,
            dropped_pps: rate(self.dropped(), before.dropped()),
        };
        let bands = self.delay.by_band.iter().zip(&before.delay.by_band);
        self.recent_delay_ns_by_band = BandDelay::of(bands.map(|(now, before)| now.since(before)));
        for (number, queue) in self.queues.iter_mut().enumerate() {
            let earlier = before.queues.get(number).cloned().unwrap_or_default();
            queue.set_rates(&earlier, seconds);
        }
    }
}

impl QueueRow {
    fn set_rates(&mut self, before: &Self, seconds: f64) {
        self.sent_pps = rate(self.sent, before.sent, seconds);
        self.sent_bps = rate(self.bytes, before.bytes, seconds) * 8.0;
    }
}

/// Returns a rate, to three places. A second run of the same process begins at 0 again.
fn rate(now: u64, before: u64, seconds: f64) -> f64 {
    (now.saturating_sub(before) as f64 / seconds * 1e3).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(time_s: f64, sent: u64, sent_bytes: u64) -> Snapshot {
        let path = PathCounters { path: "a-b".into(), sent, sent_bytes, ..PathCounters::default() };
        Snapshot { time_s, paths: vec![path], ..Snapshot::default() }
    }

    #[test]
    fn rates_are_over_the_interval_and_those_of_the_first_line_over_the_run() {
        let first = at(2.0, 100, 6000).with_rates(None);
        assert_eq!((first.paths[0].rates.sent_pps, first.paths[0].rates.sent_bps), (50.0, 24_000.0));
        let second = at(2.5, 150, 9000).with_rates(Some(&first));
        assert_eq!((second.paths[0].rates.sent_pps, second.paths[0].rates.sent_bps), (100.0, 48_000.0));
        assert_eq!((first.rates_over_s, second.rates_over_s), (2.0, 0.5));
        let anew = at(3.0, 10, 600).with_rates(Some(&second));
        assert_eq!(anew.paths[0].rates, Rates::default());
    }
}
