//! `Snapshot`: what a port has counted, in one value.

use std::collections::BTreeMap;
use std::ops::Sub;
use wharf_core::counters::{DROP_TAIL, QueueCounters, SenderCounters};
use wharf_core::queue::TxQueue;
use wharf_core::rx::{RxQueue, TOO_LONG};

/// What a port has counted by one moment: see [`Port::snapshot`](crate::Port::snapshot). Less an earlier one
/// of the same port, it has the counts in between. What goes up and down (`inside`, `waiting`, the limits,
/// `frames_out`) is as of the later moment: the equations below hold for a snapshot, not for a difference.
///
/// Packets are each in one of these, at any time, also while the port works:
/// - `accepted = sent + failed + returned + inside`, of those that senders handed over;
/// - `dropped_at_senders`, of those that senders dropped before
///   ([`Sender::send_or_drop`](crate::Sender::send_or_drop));
/// - `received` = taken by receivers or the handler + `waiting` + `received_drops`, of those that arrived;
/// - `lost`, of those that the device dropped before.
///
/// `drops` has the sum of `dropped_at_senders`, `failed`, `received_drops` and `lost`, by reason.
///
/// ```
/// use std::time::Duration;
/// use wharf::{Direction, Port};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let port = Port::open("null", Direction::Send)?;
/// let mut sender = port.sender("example")?;
/// let before = port.snapshot();
/// let packet = sender.packet(64, Duration::ZERO)?;
/// _ = sender.send_packet(packet, Duration::ZERO)?;
/// drop(sender);
/// port.close(Duration::from_secs(1));
/// let sent = port.snapshot() - before;
/// assert_eq!((sent.accepted, sent.sent, sent.inside, sent.sent_bytes), (1, 1, 0, 64));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Snapshot {
    /// The port's name.
    pub device: String,
    /// How the device works on this machine, such as `zerocopy`, where there are several ways.
    pub mode: Option<&'static str>,
    /// Packets that the device dropped, and packets that were too long. They do not count in `received`.
    pub lost: u64,
    /// Packets that the device gave, to receivers or a handler.
    pub received: u64,
    /// Their bytes, from the Ethernet header on.
    pub received_bytes: u64,
    /// Of `received`, packets that wait for receivers.
    pub waiting: u64,
    /// Of `received`, packets that no receiver took: `inbox-full`, `receiver-gone`.
    pub received_drops: u64,
    /// Packets that senders handed over.
    pub accepted: u64,
    /// Packets that left, less those that were lost behind the device, as it has learnt since.
    pub sent: u64,
    /// Bytes that left, from the Ethernet header on. Those of packets lost behind the device are among them.
    pub sent_bytes: u64,
    /// Packets that were lost in the discipline, in the device or behind it.
    pub failed: u64,
    /// Packets that came back unsent, as the port closed.
    pub returned: u64,
    /// Packets that wait, or that the device has.
    pub inside: u64,
    /// Packets that senders dropped before they handed them over.
    pub dropped_at_senders: u64,
    /// Packets lost, by reason.
    pub drops: BTreeMap<String, u64>,
    /// Transmit calls that took packets.
    pub batches: u64,
    /// Doorbells rung.
    pub doorbells: u64,
    /// Packets that the device left in a batch.
    pub requeues: u64,
    /// The byte queue limit now; 0 without one.
    pub limit_bytes: u64,
    /// The same in packets, where the device is limited by packets, each of which counts as 1514 bytes; else 0.
    pub limit_packets: u64,
    /// Waits of senders.
    pub waits: u64,
    /// Times that the device was opened again.
    pub reopened: u64,
    /// Frames of the pool that are in use, or on their way back.
    pub frames_out: u64,
}

impl Snapshot {
    /// Returns what one transmit queue has counted; its device has no name here.
    pub fn of_queue(queue: &TxQueue) -> Self {
        let mut all = Self::default();
        all.add_queue(queue);
        all
    }

    /// Adds a transmit queue. `failed` is the sum of the losses by reason, so that a packet which is lost
    /// meanwhile is in both or in neither.
    pub(crate) fn add_queue(&mut self, queue: &TxQueue) {
        let counters = queue.counters();
        let of = |count: fn(&QueueCounters) -> u64| count(counters);
        // In this order: a packet that goes on meanwhile is inside, and one that has left was handed over.
        let failed = self.add_losses(counters.failures());
        let undelivered = self.add_losses(counters.undelivered_by_reason());
        self.sent += of(|all| all.sent.get()).saturating_sub(undelivered);
        self.failed += failed + undelivered;
        self.returned += of(|all| all.returned.get());
        self.sent_bytes += of(|all| all.bytes.get().saturating_sub(all.failed_bytes.get()));
        self.batches += of(|all| all.batches.get());
        self.doorbells += of(|all| all.doorbells.get());
        self.requeues += of(|all| all.requeues.get());
        self.limit_bytes += of(|all| all.bql_limit_bytes.get());
        self.limit_packets += of(|all| all.bql_limit_packets.get());
        let SenderCounters { packets, drops, waits, .. } = &queue.sender_totals();
        // A sender counts what it has sent in its own call behind the device.
        let gone = self.sent + self.failed + self.returned;
        self.accepted = (self.accepted + packets.get()).max(gone);
        self.inside = self.accepted - gone;
        self.dropped_at_senders += self.add_losses([(DROP_TAIL, drops.get())]);
        self.waits += waits.get();
        self.mode = self.mode.or(queue.device_mode());
    }

    /// Adds a receive queue, without the drops of its device.
    pub(crate) fn add_receiver(&mut self, queue: &RxQueue) {
        let (received, waiting, drops) = queue.received_waiting_dropped();
        self.received += received;
        self.waiting += waiting;
        self.received_drops += self.add_losses(drops);
        self.received_bytes += queue.received_bytes();
        self.lost += self.add_losses([(TOO_LONG, queue.too_long())]);
        self.mode = self.mode.or(queue.device_mode());
    }

    /// Adds the drops of a device that receives.
    pub(crate) fn add_device_drops(&mut self, drops: &[(&'static str, u64)]) {
        self.lost += self.add_losses(drops.iter().copied());
    }

    /// Adds losses by reason. Returns their sum.
    fn add_losses(&mut self, losses: impl IntoIterator<Item = (&'static str, u64)>) -> u64 {
        let add = |(reason, count): (&str, u64)| {
            *self.drops.entry(reason.into()).or_default() += count;
            count
        };
        losses.into_iter().filter(|(_, count)| *count > 0).map(add).sum()
    }
}

impl Sub for Snapshot {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        let less = |now: u64, before: u64| now.saturating_sub(before);
        let mut drops = self.drops;
        for (reason, count) in &before.drops {
            drops.entry(reason.clone()).and_modify(|now| *now = less(*now, *count));
        }
        drops.retain(|_, count| *count > 0);
        Self {
            lost: less(self.lost, before.lost),
            received: less(self.received, before.received),
            received_bytes: less(self.received_bytes, before.received_bytes),
            received_drops: less(self.received_drops, before.received_drops),
            accepted: less(self.accepted, before.accepted),
            sent: less(self.sent, before.sent),
            sent_bytes: less(self.sent_bytes, before.sent_bytes),
            failed: less(self.failed, before.failed),
            returned: less(self.returned, before.returned),
            dropped_at_senders: less(self.dropped_at_senders, before.dropped_at_senders),
            batches: less(self.batches, before.batches),
            doorbells: less(self.doorbells, before.doorbells),
            requeues: less(self.requeues, before.requeues),
            waits: less(self.waits, before.waits),
            reopened: less(self.reopened, before.reopened),
            drops,
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn difference_adds_up_unless_more_was_lost_behind_the_device_than_was_sent_since() {
        let before = Snapshot { accepted: 100, sent: 90, failed: 4, inside: 6, ..Snapshot::default() };
        // 20 more went in, all left, and 5 of those of before were lost behind the device.
        let now = Snapshot { accepted: 120, sent: 111, failed: 9, ..Snapshot::default() };
        let since = now - before.clone();
        assert_eq!(since.accepted + before.inside, since.sent + since.failed + since.returned + since.inside);
        // Nothing was sent since.
        let now = Snapshot { sent: 85, failed: 9, ..before.clone() };
        let since = now - before.clone();
        assert_eq!((since.accepted, since.sent, since.failed), (0, 0, 5));
    }
}
