//! Stall detection: has the device, with packets in hand, sent nothing for too long?
//!
//! Byte queue limits count no time, so a device that hangs and comes back leaves no trace in them.
//! As in the kernel, a stall is seen afterwards, at the completion that ends it: no completion came
//! for at least the threshold, and something was queued at least half a threshold ago. The second
//! condition tells a stall from an idle queue that was given a packet just now. Every stall longer
//! than the threshold is found; of an idle time followed by a slow completion, one longer than half
//! the threshold may count too.
//!
//! The kernel keeps a bitmap of the time slices in which something was queued and looks for the
//! first one after the last completion, because its enqueuer and its completion run on different
//! processors. Here one owner makes both calls, so the time of that first queueing is kept itself:
//! exact instead of by slice, however long the stall, and also when completion and queueing share
//! one reading of the clock.
//!
//! Packets queued before a completion count as done with it. An owner that transmits first and
//! reaps then, and still has bytes in flight, calls [`StallDetector::queued`] once more after
//! [`StallDetector::completed`]: what is left waits from then on.

use std::time::Duration;

/// Counts the stalls of one device queue and remembers the longest. Works beside a [`super::Bql`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StallDetector {
    // Touched when packets are queued.
    /// True if bytes were queued since the last completion, so that `first_queued_ns` is valid.
    waiting: bool,
    /// When something was first queued since the last completion.
    first_queued_ns: u64,

    // Touched when completions come.
    /// The last completion; before the first, the first queueing.
    last_reap_ns: Option<u64>,
    /// Stalls so far.
    count: u64,
    /// The longest of them.
    max_ns: u64,

    // Settings.
    /// 0: off.
    threshold_ns: u64,
}

impl StallDetector {
    /// Finds stalls of `threshold` or longer; a threshold of zero finds none.
    #[must_use]
    pub fn new(threshold: Duration) -> Self {
        Self {
            waiting: false,
            first_queued_ns: 0,
            last_reap_ns: None,
            count: 0,
            max_ns: 0,
            threshold_ns: saturating_ns(threshold),
        }
    }

    /// Something was queued. Cheap: acts only on the first call after a completion.
    #[inline]
    pub fn queued(&mut self, now: Duration) {
        if !self.waiting {
            self.start_waiting(now);
        }
    }

    /// Something was completed (not for a completion run that found nothing).
    #[inline]
    pub fn completed(&mut self, now: Duration) {
        if self.threshold_ns != 0 {
            self.check_stall(saturating_ns(now));
        }
    }

    /// Stalls found so far.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The longest stall found: from the first packet queued after the completion before it, to
    /// the completion that ended it.
    #[must_use]
    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.max_ns)
    }

    /// Forgets the longest stall, as writing 0 to the kernel's `stall_max` does; the count stays.
    pub fn clear_max(&mut self) {
        self.max_ns = 0;
    }

    /// Forgets what was queued, after a flush; the findings stay.
    pub fn reset(&mut self, now: Duration) {
        self.waiting = false;
        self.last_reap_ns = Some(saturating_ns(now));
    }

    fn start_waiting(&mut self, now: Duration) {
        let now_ns = saturating_ns(now);
        self.waiting = true;
        self.first_queued_ns = now_ns;
        self.last_reap_ns.get_or_insert(now_ns);
    }

    fn check_stall(&mut self, now_ns: u64) {
        let last_reap_ns = self.last_reap_ns.unwrap_or(now_ns);
        let silent_ns = now_ns.saturating_sub(last_reap_ns);
        let waited_ns = now_ns.saturating_sub(self.first_queued_ns);
        let silent_long = silent_ns >= self.threshold_ns;
        if self.waiting && silent_long && waited_ns >= self.threshold_ns.div_ceil(2) {
            self.count = self.count.saturating_add(1);
            self.max_ns = self.max_ns.max(waited_ns);
        }
        self.waiting = false;
        self.last_reap_ns = Some(now_ns);
    }
}

fn saturating_ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
