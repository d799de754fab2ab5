//! `Latency`: times of packets, in a histogram of fixed size.

use hdrhistogram::Histogram;

/// Longest latency told apart: an hour.
const LONGEST_NS: u64 = 3_600_000_000_000;
/// Two digits: 35 KB of counters, and percentiles within 1 %.
const DIGITS: u8 = 2;

/// Latencies in nanoseconds.
#[derive(Debug, Clone)]
pub struct Latency {
    histogram: Histogram<u64>,
    /// Latency of the packets of a burst, and their count. They are entered at the next different value.
    last_ns: u64,
    last_count: u64,
    max_ns: u64,
}

impl Default for Latency {
    fn default() -> Self {
        let histogram = match Histogram::new_with_bounds(1, LONGEST_NS, DIGITS) {
            Ok(histogram) => histogram,
            Err(error) => unreachable!("the bounds are constants: {error}"),
        };
        Self { histogram, last_ns: 0, last_count: 0, max_ns: 0 }
    }
}

impl Latency {
    /// Notes one packet.
    #[inline]
    pub fn record(&mut self, latency_ns: u64) {
        if latency_ns != self.last_ns {
            self.enter();
            self.last_ns = latency_ns;
        }
        self.last_count += 1;
    }

    /// Notes `count` packets of the same latency.
    pub fn record_many(&mut self, latency_ns: u64, count: u64) {
        self.histogram.saturating_record_n(latency_ns, count);
        if count > 0 {
            self.max_ns = self.max_ns.max(latency_ns);
        }
    }

    fn enter(&mut self) {
        self.histogram.saturating_record_n(self.last_ns, self.last_count);
        self.max_ns = self.max_ns.max(self.last_ns);
        self.last_count = 0;
    }

    /// Adds the packets of another.
    pub fn add(&mut self, other: &Self) {
        self.enter();
        // Both have the same bounds.
        let added = self.histogram.add(&other.histogram);
        debug_assert!(added.is_ok());
        self.histogram.saturating_record_n(other.last_ns, other.last_count);
        self.max_ns = self.max_ns.max(other.max_ns());
    }

    /// Returns the packets that were noted since `before`, an earlier state of it. The longest latency is that of all. Where `before` is
    /// none, of which it has more packets somewhere, all were noted since.
    pub fn since(&self, before: &Self) -> Self {
        let (mut grown, mut earlier) = (self.clone(), before.clone());
        grown.enter();
        earlier.enter();
        let mut since = grown.histogram.clone();
        // An error leaves it half-subtracted.
        if since.subtract(&earlier.histogram).is_ok() {
            grown.histogram = since;
        }
        grown
    }

    /// Returns the time within which `share` (0.0 to 1.0) of the packets arrived, or 0 without packets.
    pub fn quantile_ns(&mut self, share: f64) -> u64 {
        self.enter();
        // Counters stand for ranges, and return their upper ends.
        self.histogram.value_at_quantile(share).min(self.max_ns)
    }

    /// Returns the packets whose latency was `within_ns` at most, but for the width of a counter's range.
    pub fn packets_within_ns(&self, within_ns: u64) -> u64 {
        let last = if self.last_ns <= within_ns { self.last_count } else { 0 };
        self.histogram.count_between(0, within_ns) + last
    }

    /// Returns the sum of all latencies, but for the widths of the counters' ranges.
    pub fn sum_ns(&self) -> f64 {
        let entered =
            if self.histogram.is_empty() { 0.0 } else { self.histogram.mean() * self.histogram.len() as f64 };
        entered + self.last_ns as f64 * self.last_count as f64
    }

    /// Returns the longest latency exactly, or 0 without packets.
    pub fn max_ns(&self) -> u64 {
        self.max_ns.max(self.last_ns)
    }

    /// Returns the packets noted.
    pub fn packets(&self) -> u64 {
        self.histogram.len() + self.last_count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_earlier_state_takes_nothing_away() {
        let of = |times_ns: &[u64]| {
            let mut all = Latency::default();
            times_ns.iter().for_each(|&time_ns| all.record(time_ns));
            all
        };
        let now = of(&[10, 1000, 1000]);
        for (before, left) in
            [(of(&[10]), 2), (of(&[10, 1000, 1000]), 0), (of(&[10, 10]), 3), (of(&[500]), 3)]
        {
            let mut since = now.since(&before);
            assert_eq!((since.packets(), since.max_ns()), (left, 1000));
            assert!(left == 0 || since.quantile_ns(1.0) == 1000);
        }
    }
}
