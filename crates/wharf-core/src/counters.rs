//! Counters of queues and senders. Each has one writer; any thread may read it at any time.

use crate::device::DeviceError;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A counter that one thread at a time writes: by a plain load and store, without a locked instruction.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `n`; for the writer.
    #[inline(always)]
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }

    /// Sets the value; for the writer.
    #[inline(always)]
    pub fn set(&self, n: u64) {
        self.0.store(n, Relaxed);
    }

    /// Returns the value.
    #[inline(always)]
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// Counters of one transmit queue, written by its owner.
#[derive(Debug, Default)]
pub struct QueueCounters {
    /// Frames taken from lanes.
    pub accepted: Counter,
    /// Frames that the device took.
    pub packets: Counter,
    /// Bytes of those frames.
    pub bytes: Counter,
    /// Transmit calls that took frames.
    pub batches: Counter,
    /// Doorbells rung.
    pub doorbells: Counter,
    /// Frames that the device left in a batch, to go first next time.
    pub requeues: Counter,
    /// Frames completed as sent.
    pub sent: Counter,
    /// Frames completed, sent or not, in a poll that receives.
    pub cleaned_from_receive: Counter,
    /// Frames completed as failed, and those that the discipline dropped.
    pub failed: Counter,
    /// Frames that the discipline dropped: a part of `failed`.
    pub qdisc_drops: Counter,
    /// Bytes of frames completed as failed. Once all frames are completed, `bytes` less these were sent.
    pub failed_bytes: Counter,
    /// Frames returned unsent at shutdown.
    pub returned: Counter,
    /// The present byte queue limit; 0 without one.
    pub bql_limit_bytes: Counter,
    /// Errors of the device, such as completions of frames that it never had.
    pub device_errors: Counter,
    /// Times that the device was lost ([`DeviceError::Lost`]).
    pub lost: Counter,
    /// Changes ([`crate::tx::queue::TxQueue::apply`]) and wake-ups that panicked; the queue went on.
    pub panics: AtomicU64,
    /// Reasons of frames that the device failed.
    reasons: Mutex<Vec<(&'static str, u64)>>,
    /// Reasons of frames that the discipline dropped.
    qdisc_reasons: Mutex<Vec<(&'static str, u64)>>,
    last_error: Mutex<Option<String>>,
}

impl QueueCounters {
    /// Counts a frame that the device failed.
    pub(crate) fn fail(&self, reason: &'static str) {
        self.failed.add(1);
        add(&mut crate::pool::lock(&self.reasons), reason, 1);
    }

    /// Counts frames that the discipline dropped.
    pub(crate) fn qdisc_dropped(&self, reason: &'static str, count: u64) {
        self.failed.add(count);
        self.qdisc_drops.add(count);
        add(&mut crate::pool::lock(&self.qdisc_reasons), reason, count);
    }

    pub(crate) fn error(&self, error: &DeviceError) {
        self.device_errors.add(1);
        self.lost.add(u64::from(matches!(error, DeviceError::Lost { .. })));
        *crate::pool::lock(&self.last_error) = Some(error.to_string());
    }

    /// Returns the number of accepted frames that are no longer inside: sent, failed or returned.
    pub fn gone(&self) -> u64 {
        self.sent.get() + self.failed.get() + self.returned.get()
    }

    /// Returns the number of failed frames by reason, of the device and of the discipline.
    pub fn failures(&self) -> Vec<(&'static str, u64)> {
        let mut all = self.device_failures();
        crate::pool::lock(&self.qdisc_reasons)
            .iter()
            .for_each(|&(reason, count)| add(&mut all, reason, count));
        all
    }

    /// Returns the number of frames that the device failed, by reason.
    pub fn device_failures(&self) -> Vec<(&'static str, u64)> {
        crate::pool::lock(&self.reasons).clone()
    }

    /// Returns the last error of the device.
    pub fn last_error(&self) -> Option<String> {
        crate::pool::lock(&self.last_error).clone()
    }

    /// Returns the frames per doorbell; 0 before the first.
    pub fn packets_per_doorbell(&self) -> f64 {
        match self.doorbells.get() {
            0 => 0.0,
            doorbells => self.packets.get() as f64 / doorbells as f64,
        }
    }
}

fn add(counts: &mut Vec<(&'static str, u64)>, reason: &'static str, count: u64) {
    match counts.iter_mut().find(|entry| entry.0 == reason) {
        Some(entry) => entry.1 += count,
        None => counts.push((reason, count)),
    }
}

/// Counters of one sender, written by its thread.
#[derive(Debug, Default)]
pub struct SenderCounters {
    /// Frames sent.
    pub packets: Counter,
    /// Waits.
    pub waits: Counter,
    /// Waits that ended while a sender waited that had come earlier for the same.
    pub overtakes: Counter,
    /// Frames that it dropped in place of waiting: those for which the path was full, and those past their deadline.
    pub drops: Counter,
    /// Frames dropped because the path was full: a part of `drops`.
    pub full_drops: Counter,
    /// Frames dropped because their deadline passed before there was room: a part of `drops`.
    pub deadline_drops: Counter,
    /// Packets that [`fill_or_drop`](crate::sender::Sender::fill_or_drop) did not make, without free memory.
    pub memory_drops: Counter,
    /// Frames that it handed to the device as owner, for itself and others.
    pub drained_packets: Counter,
    /// Its present small-queue limit, bytes; 0 until it is first computed.
    pub small_queue_bytes: Counter,
}

impl SenderCounters {
    /// Adds the counters of another sender; for the writer of this one.
    pub(crate) fn add(&self, other: &SenderCounters) {
        self.packets.add(other.packets.get());
        self.waits.add(other.waits.get());
        self.overtakes.add(other.overtakes.get());
        self.drops.add(other.drops.get());
        self.full_drops.add(other.full_drops.get());
        self.deadline_drops.add(other.deadline_drops.get());
        self.memory_drops.add(other.memory_drops.get());
        self.drained_packets.add(other.drained_packets.get());
    }
}
