//! The counters of transmit queues, of one or of all of a direction, as every report has them:
//! `accepted = sent + failed + returned + inside`.

use crate::output::limit;
use serde::{Deserialize, Serialize};
use wharf::metrics::Snapshot;
use wharf::queue::TxQueue;

/// See the module.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Counts {
    /// Packets that the device took, whether it sent them or dropped them, and their bytes.
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    /// Packets that senders handed over.
    pub(crate) accepted: u64,
    /// Packets that left, and their bytes; 0 for a receiver.
    pub(crate) sent: u64,
    pub(crate) sent_bytes: u64,
    /// Packets that failed, in the device, behind it or in the discipline.
    pub(crate) failed: u64,
    /// Packets that came back unsent at the end.
    pub(crate) returned: u64,
    /// Packets that wait, or that the device has.
    pub(crate) inside: u64,
    /// Calls to the device that took any.
    pub(crate) batches: u64,
    /// Doorbells rung.
    pub(crate) doorbells: u64,
    /// Packets that the device left, to go first next time.
    pub(crate) requeues: u64,
    /// The byte queue limit; 0 without one.
    pub(crate) limit_bytes: u64,
    /// The same in packets where it counts those; else 0.
    pub(crate) limit_packets: u64,
}

impl Counts {
    /// Returns those of a queue now.
    pub(crate) fn of(queue: &TxQueue, has_limit: bool) -> Self {
        let (counters, all) = (queue.counters(), Snapshot::of_queue(queue));
        Self {
            packets: counters.packets.get(),
            bytes: counters.bytes.get(),
            accepted: all.accepted,
            sent: all.sent,
            sent_bytes: all.sent_bytes,
            failed: all.failed,
            returned: all.returned,
            inside: all.inside,
            batches: all.batches,
            doorbells: all.doorbells,
            requeues: all.requeues,
            limit_bytes: if has_limit { all.limit_bytes } else { 0 },
            limit_packets: if has_limit { all.limit_packets } else { 0 },
        }
    }

    /// Returns the byte queue limit behind `before`, for people; nothing without one.
    pub(crate) fn limit_text(&self, before: &str) -> String {
        let Self { limit_bytes, limit_packets, .. } = *self;
        if limit_bytes == 0 {
            String::new()
        } else {
            format!("{before}{}", limit(limit_bytes, limit_packets))
        }
    }

    /// Returns those of all queues of a direction. A forwarder had `returned` packets back in all, some of
    /// them before a queue.
    pub(crate) fn sum(of_queues: impl Iterator<Item = Self>, returned: Option<u64>) -> Self {
        let mut all = of_queues.fold(Self::default(), |all, one| Self {
            packets: all.packets + one.packets,
            bytes: all.bytes + one.bytes,
            accepted: all.accepted + one.accepted,
            sent: all.sent + one.sent,
            sent_bytes: all.sent_bytes + one.sent_bytes,
            failed: all.failed + one.failed,
            returned: all.returned + one.returned,
            inside: all.inside + one.inside,
            batches: all.batches + one.batches,
            doorbells: all.doorbells + one.doorbells,
            requeues: all.requeues + one.requeues,
            limit_bytes: all.limit_bytes + one.limit_bytes,
            limit_packets: all.limit_packets + one.limit_packets,
        });
        let before = returned.map_or(0, |returned| returned.saturating_sub(all.returned));
        (all.accepted, all.returned) = (all.accepted + before, all.returned + before);
        all
    }
}
