//! The round-trip time, and the retransmission timeout (RFC 6298, with the kernel's bounds).

/// Bounds of the timeout (`TCP_RTO_MIN`, `TCP_RTO_MAX`).
const RTO_MIN_NS: u64 = 200_000_000;
const RTO_MAX_NS: u64 = 120_000_000_000;
/// The timeout before the first measurement (`TCP_TIMEOUT_INIT`).
const RTO_FIRST_NS: u64 = 1_000_000_000;

/// Smoothed times, in nanoseconds.
#[derive(Debug, Clone, Default)]
pub(super) struct RoundTrip {
    smoothed_ns: Option<u64>,
    variation_ns: u64,
    backoff: u32,
}

impl RoundTrip {
    /// Takes a measurement.
    pub(super) fn measured(&mut self, ns: u64) {
        self.backoff = 0;
        let Some(smoothed_ns) = self.smoothed_ns else {
            (self.smoothed_ns, self.variation_ns) = (Some(ns.max(1)), ns / 2);
            return;
        };
        self.variation_ns = (3 * self.variation_ns + smoothed_ns.abs_diff(ns)) / 4;
        self.smoothed_ns = Some(((7 * smoothed_ns + ns) / 8).max(1));
    }

    /// Doubles the timeout, which has expired.
    pub(super) fn timed_out(&mut self) {
        self.backoff = (self.backoff + 1).min(16);
    }

    pub(super) fn smoothed_ns(&self) -> Option<u64> {
        self.smoothed_ns
    }

    /// Returns the timeout.
    pub(super) fn timeout_ns(&self) -> u64 {
        let base_ns = match self.smoothed_ns {
            None => RTO_FIRST_NS,
            Some(smoothed_ns) => smoothed_ns + (4 * self.variation_ns).max(RTO_MIN_NS),
        };
        (base_ns << self.backoff).min(RTO_MAX_NS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeout_doubles_when_expired_and_resets_on_answer() {
        let mut trip = RoundTrip::default();
        assert_eq!((trip.timeout_ns(), trip.smoothed_ns()), (1_000_000_000, None));
        trip.measured(8_000_000);
        assert_eq!(trip.timeout_ns(), 208_000_000, "4 x 4 ms is less than the least");
        trip.timed_out();
        trip.timed_out();
        assert_eq!(trip.timeout_ns(), 832_000_000);
        trip.measured(16_000_000);
        assert_eq!((trip.smoothed_ns(), trip.timeout_ns()), (Some(9_000_000), 209_000_000));
    }
}
