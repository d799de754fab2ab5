//! The sum of the counters of queues that are shut down.

use super::{QueueCounters, add};
use wharf_mem::lock;

impl QueueCounters {
    /// Adds those of another queue; both are shut down.
    pub(crate) fn absorb(&self, other: &Self) {
        self.add(other);
        self.sent.add(other.sent.get());
        self.longest_stall_ns.set(self.longest_stall_ns.get().max(other.longest_stall_ns.get()));
        self.completed_bytes.add(other.completed_bytes.get());
        self.batch_sizes.absorb(&other.batch_sizes);
        for (to, from) in [
            (&self.reasons, &other.reasons),
            (&self.qdisc_reasons, &other.qdisc_reasons),
            (&self.undelivered_reasons, &other.undelivered_reasons),
        ] {
            let (mut to, from) = (lock(to), lock(from).clone());
            from.into_iter().for_each(|(reason, count)| add(&mut to, reason, count));
        }
        let last_error = lock(&other.last_error).clone();
        let mut last = lock(&self.last_error);
        *last = last_error.or(last.take());
    }
}
