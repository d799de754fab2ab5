//! Counters of queues and senders. Each has one writer; any thread may read it at any time.

mod absorbed;
pub(crate) mod counter;

pub(crate) use counter::BatchSizes;
pub use counter::{Counter, Tally};

use crate::device::{DeviceError, DeviceListener};
use crate::metrics::{Row, Walk, table};
use crate::pool::Inside;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock};
use wharf_mem::lock;

table! {
    /// Counters of one transmit queue, written by its owner.
    pub struct QueueCounters, "wharf_queue_" {
        /// Frames taken from lanes.
        accepted: Counter "packets",
        /// Frames that the device took.
        packets: Counter "packets",
        /// Bytes of those frames.
        bytes: Counter "bytes",
        /// Transmit calls that took frames.
        batches: Counter "calls",
        /// Doorbells rung.
        doorbells: Counter "doorbells",
        /// Frames that the device left in a batch, to go first next time.
        requeues: Counter "packets",
        /// Frames completed as sent that were lost behind the device, as it has learnt since.
        undelivered: Counter "packets",
        /// Frames completed, sent or not, in a poll that receives.
        cleaned_from_receive: Counter "packets",
        /// Time in which pollers transmitted while more came than left.
        overload_ns: Counter "ns",
        /// Frames that they transmitted in it.
        overload_packets: Counter "packets",
        /// Frames completed as failed, and those that the discipline dropped.
        failed: Counter "packets",
        /// Frames that the discipline dropped: a part of `failed`.
        qdisc_drops: Counter "packets",
        /// Bytes of frames completed as failed. Once all frames are completed, `bytes` less these were sent.
        failed_bytes: Counter "bytes",
        /// Frames returned unsent at shutdown.
        returned: Counter "packets",
        /// The present byte queue limit; 0 without one.
        bql_limit_bytes: Gauge "bytes",
        /// The same in packets, if the device is limited by packets, each of which counts as 1514 bytes then;
        /// 0 otherwise.
        bql_limit_packets: Gauge "packets",
        /// Stalls of the device that have ended, as the path's poller saw them.
        stalls: Counter "stalls",
        /// The longest of them.
        longest_stall_ns: Gauge "ns",
        /// Errors of the device, such as completions of frames that it never had.
        device_errors: Counter "errors",
        /// Times that the device was gone, or its line down.
        lost: Counter "losses",
        /// Senders that were woken; any thread writes it.
        wakeups: Counter "wakeups",
        /// Changes by `TxQueue::apply` and wake-ups that panicked; the queue went on. Any thread writes it.
        panics: Counter "panics",
    }
    beside {
        /// Frames completed as sent, also those that were lost behind the device: see
        /// [`QueueCounters::sent_packets`].
        pub sent: Counter,
        /// Bytes of frames completed, sent or failed, at the last reap after which the device still held frames.
        pub(crate) completed_bytes: Counter,
        /// Batches of several frames, by size.
        pub(crate) batch_sizes: BatchSizes,
        /// Reasons of frames that the device failed.
        reasons: Mutex<Vec<(&'static str, u64)>>,
        /// Reasons of frames that the discipline dropped.
        qdisc_reasons: Mutex<Vec<(&'static str, u64)>>,
        /// Reasons of frames that were lost behind the device.
        undelivered_reasons: Mutex<Vec<(&'static str, u64)>>,
        /// The most of `sent` that a scrape has had.
        sent_shown: AtomicU64,
        last_error: Mutex<Option<(String, bool)>>,
        /// The error with which the device has gone.
        gone_error: OnceLock<String>,
        /// Hears of the device's errors.
        pub(crate) listener: OnceLock<Arc<dyn DeviceListener>>,
    }
}

const SENT: Row = Row::counter(
    "wharf_queue_sent",
    "packets",
    "Frames sent: completed as such, less those that were lost behind the device.",
);
const BACKLOG: Row = Row::gauge(
    "wharf_queue_backlog_packets",
    "packets",
    "Frames in the queueing discipline, and those that the device left for later.",
);
const IN_DEVICE: Row = Row::gauge("wharf_queue_device_packets", "packets", "Frames in the device.");
const IN_DEVICE_BYTES: Row =
    Row::gauge("wharf_queue_device_bytes", "bytes", "Bytes of frames in the device.");
const FAILURES: Row =
    Row::counter("wharf_queue_failures", "packets", "Frames that the device failed, by reason.");
const UNDELIVERED: Row = Row::counter(
    "wharf_queue_losses_behind",
    "packets",
    "Frames completed as sent that were lost behind the device, by reason.",
);
const DROPS: Row =
    Row::counter("wharf_queue_drops", "packets", "Frames that the discipline dropped, by reason.");

impl QueueCounters {
    /// Counts a frame that the device failed.
    pub(crate) fn fail(&self, reason: &'static str) {
        self.failed.add(1);
        add(&mut lock(&self.reasons), reason, 1);
    }

    /// Counts frames that the discipline dropped.
    pub(crate) fn qdisc_dropped(&self, reason: &'static str, count: u64) {
        self.failed.add(count);
        self.qdisc_drops.add(count);
        add(&mut lock(&self.qdisc_reasons), reason, count);
    }

    pub(crate) fn error(&self, error: &DeviceError) {
        self.device_errors.add(1);
        if let DeviceError::Undelivered { counts, .. } = error {
            let mut reasons = lock(&self.undelivered_reasons);
            for &(reason, count) in counts {
                self.undelivered.add(count);
                add(&mut reasons, reason, count);
            }
        }
        let is_down = matches!(error, DeviceError::Down { .. });
        let is_gone = matches!(error, DeviceError::Gone { .. });
        self.lost.add(u64::from(is_down || is_gone));
        if is_gone {
            _ = self.gone_error.set(error.to_string());
        }
        *lock(&self.last_error) = Some((error.to_string(), is_down));
        self.listener.get().inspect(|listener| listener.error(error));
    }

    /// Counts a stall of the device that has ended after `after_ns`; for the path's poller.
    #[doc(hidden)]
    pub fn note_stall(&self, after_ns: u64) {
        self.stalls.add(1);
        self.longest_stall_ns.set(self.longest_stall_ns.get().max(after_ns));
    }

    /// Forgets that the line was down.
    pub(crate) fn came_back(&self) {
        lock(&self.last_error).take_if(|(_, is_down)| *is_down);
    }

    /// Returns the frames inside, when senders have sent `published` in all. Counters of later stages are read first, so
    /// that frames on their way count as inside.
    pub(crate) fn inside(&self, published: impl FnOnce() -> u64) -> Inside {
        let (completed_bytes, sent, drops) =
            (self.completed_bytes.get(), self.sent.get(), self.qdisc_drops.get());
        let (failed, returned) = (self.failed.get(), self.returned.get());
        let (bytes, packets, accepted) = (self.bytes.get(), self.packets.get(), self.accepted.get());
        let device = (packets + drops).saturating_sub(sent + failed);
        Inside {
            lanes: published().saturating_sub(accepted),
            backlog: accepted.saturating_sub(packets + drops + returned),
            device,
            device_bytes: if device == 0 { 0 } else { bytes.saturating_sub(completed_bytes) },
        }
    }

    /// Shows all counters, and the gauges that follow from them.
    pub(crate) fn measure(&self, inside: Inside, walk: &mut Walk<'_>) {
        self.each(walk);
        // A counter of OpenMetrics never falls: after a loss that is reported late it stays until as many
        // more are sent.
        let sent = self.sent_packets();
        walk.show(SENT, self.sent_shown.fetch_max(sent, Relaxed).max(sent));
        walk.show(BACKLOG, inside.backlog);
        walk.show(IN_DEVICE, inside.device);
        walk.show(IN_DEVICE_BYTES, inside.device_bytes);
        walk.by_reason(FAILURES, &self.device_failures());
        walk.by_reason(UNDELIVERED, &self.undelivered_by_reason());
        walk.by_reason(DROPS, &lock(&self.qdisc_reasons).clone());
    }

    /// Returns the frames sent, as far as is known: those completed as sent, less those that were lost behind the
    /// device. Every report and metric calls these `sent`.
    pub fn sent_packets(&self) -> u64 {
        self.sent.get().saturating_sub(self.undelivered.get())
    }

    /// Returns the frames lost so far in the discipline, in the device and behind it.
    pub fn lost_packets(&self) -> u64 {
        self.failed.get() + self.undelivered.get()
    }

    /// Returns the frames in the discipline, and those that the device left for later.
    pub fn backlog_packets(&self) -> u64 {
        self.inside(|| 0).backlog
    }

    /// Returns the number of accepted frames that are no longer inside: sent, failed or returned.
    pub fn gone(&self) -> u64 {
        self.sent.get() + self.failed.get() + self.returned.get()
    }

    /// Returns the number of failed frames by reason, of the device and of the discipline.
    pub fn failures(&self) -> Vec<(&'static str, u64)> {
        let mut all = self.device_failures();
        lock(&self.qdisc_reasons).iter().for_each(|&(reason, count)| add(&mut all, reason, count));
        all
    }

    /// Returns the number of frames that the device failed, by reason.
    pub fn device_failures(&self) -> Vec<(&'static str, u64)> {
        lock(&self.reasons).clone()
    }

    /// Returns the number of frames that were completed as sent and lost behind the device, by reason.
    pub fn undelivered_by_reason(&self) -> Vec<(&'static str, u64)> {
        lock(&self.undelivered_reasons).clone()
    }

    /// Returns the last error of the device; not that its line was down, once a path has seen it up again.
    pub fn last_error(&self) -> Option<String> {
        lock(&self.last_error).as_ref().map(|(error, _)| error.clone())
    }

    /// Returns the last error, unless it says that the line is down.
    #[doc(hidden)]
    pub fn last_error_beside_line(&self) -> Option<String> {
        lock(&self.last_error).as_ref().and_then(|(error, is_down)| (!is_down).then(|| error.clone()))
    }

    /// Returns the error with which the device has gone for good.
    #[doc(hidden)]
    pub fn gone_error(&self) -> Option<&str> {
        self.gone_error.get().map(String::as_str)
    }

    /// Returns the frames that the device holds, and those that it has completed.
    #[doc(hidden)]
    pub fn device_frames(&self) -> (u64, u64) {
        let (done, drops) = (self.sent.get() + self.failed.get(), self.qdisc_drops.get());
        let completed = done.saturating_sub(drops);
        (self.packets.get().saturating_sub(completed), completed)
    }

    /// Returns the transmit calls that took 1 frame, 2, up to 4, 8, and so on to 64, and more.
    #[doc(hidden)]
    pub fn batch_sizes(&self) -> [u64; BatchSizes::CLASSES] {
        // A call is counted before its size.
        let mut all = self.batch_sizes.get();
        all[0] = self.batches.get().saturating_sub(all.iter().sum());
        all
    }

    /// Returns the frames per doorbell; 0 before the first.
    pub fn packets_per_doorbell(&self) -> f64 {
        match self.doorbells.get() {
            0 => 0.0,
            doorbells => self.packets.get() as f64 / doorbells as f64,
        }
    }
}

/// Adds `count` of `reason` to counts by reason.
#[doc(hidden)]
pub fn add(counts: &mut Vec<(&'static str, u64)>, reason: &'static str, count: u64) {
    match counts.iter_mut().find(|entry| entry.0 == reason) {
        Some(entry) => entry.1 += count,
        None => counts.push((reason, count)),
    }
}

/// The reason of packets that a sender dropped. They never enter the queue: only [`SenderCounters`] counts them.
pub const DROP_TAIL: &str = "drop-tail";

table! {
    /// Counters of one sender, written by its thread.
    pub struct SenderCounters, "wharf_sender_" {
        /// Frames sent.
        packets: Counter "packets",
        /// Waits.
        waits: Counter "waits",
        /// Waits that ended while a sender waited that had come earlier for the same.
        overtakes: Counter "waits",
        /// Frames that it dropped in place of waiting: those for which the path was full, and those past their deadline.
        drops: Counter "packets",
        /// Frames dropped because the path was full: a part of `drops`.
        full_drops: Counter "packets",
        /// Frames dropped because their deadline passed before there was room: a part of `drops`.
        deadline_drops: Counter "packets",
        /// Packets that `fill` did not make in its time, without free memory.
        memory_drops: Counter "packets",
        /// Frames that it handed to the device as owner, for itself and others.
        drained_packets: Counter "packets",
        /// Its present small-queue limit; 0 until it is first computed.
        small_queue_bytes: Gauge "bytes",
    }
    beside {
        name: String,
    }
}

impl SenderCounters {
    pub(crate) fn named(name: &str) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// Returns the sender's name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Metric;

    #[test]
    fn frames_lost_behind_the_device_are_not_among_those_sent() {
        let counters = QueueCounters::default();
        counters.sent.add(10);
        counters.fail("too-long");
        let (device, what, counts) = ("udp".into(), "lost".into(), vec![("unreachable", 4)]);
        let source = std::io::ErrorKind::HostUnreachable.into();
        counters.error(&DeviceError::Undelivered { device, what, counts, source });
        let mut shown = Vec::new();
        let mut see = |metric: &Metric<'_>| shown.push((metric.name, metric.value));
        counters.measure(Inside::default(), &mut Walk::new(&mut see));
        shown.retain(|(name, _)| *name == "wharf_queue_sent");
        assert_eq!(shown, [("wharf_queue_sent", 6)]);
        assert_eq!((counters.sent_packets(), counters.lost_packets(), counters.gone()), (6, 5, 11));
    }

    #[test]
    fn scraped_count_of_sent_frames_never_falls() {
        let counters = QueueCounters::default();
        let scraped = || {
            let mut sent = None;
            let mut see = |metric: &Metric<'_>| {
                if metric.name == "wharf_queue_sent" {
                    sent = Some(metric.value);
                }
            };
            counters.measure(Inside::default(), &mut Walk::new(&mut see));
            sent.unwrap()
        };
        let lose = |count| {
            let (device, what, counts) = ("udp".into(), "lost".into(), vec![("unreachable", count)]);
            let source = std::io::ErrorKind::HostUnreachable.into();
            counters.error(&DeviceError::Undelivered { device, what, counts, source });
        };
        counters.sent.add(10);
        assert_eq!(scraped(), 10);
        lose(4);
        assert_eq!((scraped(), counters.sent_packets()), (10, 6));
        counters.sent.add(5);
        assert_eq!((scraped(), counters.sent_packets()), (11, 11));
    }

    #[test]
    fn batches_are_told_apart_by_size() {
        let counters = QueueCounters::default();
        for frames in [1, 2, 3, 4, 5, 8, 9, 16, 17, 32, 33, 64, 65, 1000] {
            counters.batches.add(1);
            if frames > 1 {
                counters.batch_sizes.add(frames);
            }
        }
        assert_eq!(counters.batch_sizes(), [1, 1, 2, 2, 2, 2, 2, 2]);
    }

    #[test]
    fn undelivered_frames_count_by_reason_beside_those_that_failed() {
        let counters = QueueCounters::default();
        counters.fail("too-long");
        for counts in [vec![("unreachable", 3), ("refused", 1)], vec![("unreachable", 2)]] {
            let source = std::io::ErrorKind::HostUnreachable.into();
            let (device, what) = ("udp".into(), "lost".into());
            counters.error(&DeviceError::Undelivered { device, what, counts, source });
        }
        assert_eq!(counters.undelivered_by_reason(), [("unreachable", 5), ("refused", 1)]);
        assert_eq!((counters.undelivered.get(), counters.failed.get()), (6, 1));
        assert_eq!((counters.failures(), counters.device_errors.get()), (vec![("too-long", 1)], 2));
    }
}
