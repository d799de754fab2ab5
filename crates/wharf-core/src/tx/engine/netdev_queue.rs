//! `NetdevQueue`: a device with its byte limit and its accounts (the kernel's `netdev_queue`).
//!
//! Assumptions: one caller at a time; every frame handed over is of the queue's pool. Goal: sums per batch only,
//! whatever a batch holds; false completions of a device are found and lose no frame.

use super::Sink;
use super::limit::{Gather, Limit};
use super::orphans::{Orphans, ReleasedSink};
use crate::bql::{Bql, BqlError};
use crate::counters::QueueCounters;
use crate::device::{
    CompletionMode, Completions, DeviceError, LIMIT_PACKET_BYTES, LimitUnit, REASONS_OF_LOSS, TxSide,
};
use crate::host::Clock;
use std::sync::Arc;
use std::time::Duration;
use wharf_mem::{Batch, Frame, MemError};

/// Completions taken from a device in one call.
const REAP_BUDGET: usize = 256;

pub(super) struct NetdevQueue {
    /// Number of the queue's pool.
    pool: u8,
    pub(super) device: TxSide,
    pub(super) limit: Limit,
    pub(super) gather: Gather,
    /// Frames in the device.
    pub(super) in_device: usize,
    /// True if a thread waits for frames that have left: the next reap is urgent.
    pub(super) urgent: bool,
    completions: Completions,
    /// Holds one failed frame on its way to the sink.
    failed: Batch,
    /// Present if the device completes frames late.
    orphans: Option<Box<Orphans>>,
    clock: Arc<dyn Clock>,
    pub(super) counters: Arc<QueueCounters>,
}

impl NetdevQueue {
    pub(super) fn new(
        pool: u8, device: TxSide, hold: Duration, clock: Arc<dyn Clock>, counters: Arc<QueueCounters>,
    ) -> Self {
        let (completion_mode, unit) = (device.info().completions, device.info().limit_unit);
        let bql = (completion_mode == CompletionMode::Real).then(|| {
            let mut bql = Bql::new(hold);
            bql.reset(Duration::from_nanos(clock.now_ns()));
            bql
        });
        let (limit, failed) = (Limit::new(bql, unit), Batch::new(1));
        let completions = Completions::new(REAP_BUDGET);
        let orphans = (completion_mode == CompletionMode::Late).then(Box::default);
        Self {
            pool,
            device,
            limit,
            gather: Gather::default(),
            in_device: 0,
            urgent: false,
            completions,
            failed,
            orphans,
            clock,
            counters,
        }
    }

    /// Publishes the limit.
    fn publish_limit(&self) {
        let bytes = u64::from(self.limit.bql().map_or(0, Bql::limit));
        self.counters.bql_limit_bytes.set(bytes);
        if self.limit.unit() == LimitUnit::Packets {
            self.counters.bql_limit_packets.set(bytes / u64::from(LIMIT_PACKET_BYTES));
        }
    }

    /// Hands the batch of `offered` frames and `bytes` over in one call, with one doorbell. Returns the
    /// number of frames taken, and true if the device stopped.
    #[inline(always)]
    pub(super) fn hand(&mut self, batch: &mut Batch, offered: usize, bytes: u64) -> (u32, bool) {
        if self.orphans.is_some() {
            self.hand_orphaned(batch, offered, bytes)
        } else {
            self.hand_charged(batch, offered, bytes)
        }
    }

    /// Hands over frames whose senders are released as the device takes them.
    #[inline(never)]
    fn hand_orphaned(&mut self, batch: &mut Batch, offered: usize, bytes: u64) -> (u32, bool) {
        if let Some(orphans) = &mut self.orphans {
            orphans.offer(batch);
        }
        let (taken, stopped) = self.hand_charged(batch, offered, bytes);
        if let Some(orphans) = &mut self.orphans {
            orphans.taken(taken as usize);
        }
        (taken, stopped)
    }

    #[inline(always)]
    fn hand_charged(&mut self, batch: &mut Batch, offered: usize, bytes: u64) -> (u32, bool) {
        let last_bytes = if offered == 1 { bytes as u32 } else { batch.last_bytes() };
        let done = self.device.transmit(batch, false);
        if !batch.is_empty() {
            return self.handed_partly(batch, offered, bytes, done.doorbell);
        }
        self.account(offered, bytes, last_bytes, done.doorbell);
        (offered as u32, done.stopped)
    }

    /// Accounts for a batch of which the device has left a part, for the requeue slot.
    #[cold]
    fn handed_partly(&mut self, batch: &Batch, offered: usize, bytes: u64, doorbell: bool) -> (u32, bool) {
        let taken = offered.saturating_sub(batch.len());
        if taken > 0 {
            let last_bytes = batch.last_taken_bytes().unwrap_or(0);
            self.account(taken, bytes.saturating_sub(batch.bytes()), last_bytes, doorbell);
        }
        self.counters.requeues.add(batch.len() as u64);
        (taken as u32, true)
    }

    #[inline(always)]
    fn account(&mut self, taken: usize, bytes: u64, last_bytes: u32, doorbell: bool) {
        self.limit.queued(taken, bytes as u32, last_bytes);
        self.in_device += taken;
        let counters = &*self.counters;
        counters.packets.add(taken as u64);
        counters.bytes.add(bytes);
        counters.batches.add(1);
        if taken > 1 {
            counters.batch_sizes.add(taken);
        }
        counters.doorbells.add(u64::from(doorbell));
    }

    /// Takes completions and recycles their frames. Returns the number of frames.
    #[inline(always)]
    pub(super) fn reap(&mut self, sink: &mut impl Sink) -> u32 {
        match &mut self.orphans {
            None => self.reap_charged(sink),
            Some(orphans) => {
                orphans.release(sink);
                self.reap_charged(&mut ReleasedSink(sink))
            }
        }
    }

    #[inline(always)]
    fn reap_charged(&mut self, sink: &mut impl Sink) -> u32 {
        let mut reaped = 0;
        while self.in_device > 0 {
            if let Err(error) = self.device.reap(REAP_BUDGET, self.urgent, &mut self.completions) {
                self.counters.error(&error);
            }
            let count = self.complete(sink);
            reaped += count as u32;
            if count < REAP_BUDGET {
                self.urgent = false;
                break;
            }
        }
        reaped
    }

    /// Accounts for the completions and recycles their frames. Returns the number of frames.
    #[inline(always)]
    fn complete(&mut self, sink: &mut impl Sink) -> usize {
        let Completions { sent, failed } = &mut self.completions;
        // A quiet path completes one frame at a time.
        if failed.is_empty()
            && let Some(bytes) = sink.recycle_only(sent)
        {
            self.counters.sent.add(1);
            self.settle(1, bytes.into());
            return 1;
        }
        // An empty batch is of no pool.
        if !sent.is_of_pool(self.pool) || !failed.is_empty() {
            return self.complete_with_care(sink);
        }
        let (count, bytes) = (sent.len(), sent.bytes());
        self.counters.sent.add(count as u64);
        sink.recycle(sent);
        self.settle(count, bytes);
        count
    }

    /// Works like [`NetdevQueue::complete`], where there are none, some failed, or some are of another pool.
    #[inline(never)]
    fn complete_with_care(&mut self, sink: &mut impl Sink) -> usize {
        let all = self.completions.len();
        if all == 0 {
            self.publish_completed();
            return 0;
        }
        let (mut count, mut bytes, mut was_lost) = (0, 0, false);
        for _ in 0..self.completions.sent.len() {
            let Some(frame) = self.completions.sent.pop() else { break };
            if self.is_ours(&frame) {
                (count, bytes) = (count + 1, bytes + u64::from(frame.len_bytes()));
                self.completions.sent.push_within(frame);
            }
        }
        self.counters.sent.add(count as u64);
        sink.recycle(&mut self.completions.sent);
        while let Some((frame, reason)) = self.completions.failed.pop() {
            if self.is_ours(&frame) {
                let len_bytes = u64::from(frame.len_bytes());
                (count, bytes) = (count + 1, bytes + len_bytes);
                was_lost |= REASONS_OF_LOSS.contains(&reason);
                self.counters.fail(reason);
                self.counters.failed_bytes.add(len_bytes);
                self.failed.push_within(frame);
                sink.recycle(&mut self.failed);
            }
        }
        self.settle(count, bytes);
        if was_lost && self.in_device == 0 {
            self.forget_limit();
        }
        all
    }

    /// Begins the byte limit anew: the device that taught it is no more.
    fn forget_limit(&mut self) {
        let Some(bql) = self.limit.bql_mut() else { return };
        bql.reset(Duration::from_nanos(self.clock.now_ns()));
        self.gather.waiting = 0;
        self.publish_limit();
    }

    /// True if the frame is of this queue's pool. Another frame is a device error: this queue never sent it, and its
    /// own pool's ledger goes on listing it.
    fn is_ours(&self, frame: &Frame) -> bool {
        if frame.pool() == self.pool {
            return true;
        }
        let source = MemError::Foreign { index: frame.index(), theirs: frame.pool(), ours: self.pool };
        self.counters.error(&DeviceError::Memory { device: self.device.name(), source });
        false
    }

    /// Accounts for `count` completed frames of `bytes`.
    #[inline(always)]
    fn settle(&mut self, count: usize, bytes: u64) {
        self.in_device = self.in_device.saturating_sub(count);
        if !matches!(self.limit, Limit::Bytes(_)) {
            self.counters.completed_bytes.add(bytes);
        }
        if let Some(charged) = self.limit.completed(count, bytes as u32) {
            self.reckon(charged);
        }
    }

    /// Accounts for a completion that may move the limit.
    #[inline(never)]
    fn reckon(&mut self, charged: u32) {
        let Some(bql) = self.limit.bql_mut() else { return };
        // No later completion would open the queue.
        let most = if self.in_device == 0 && bql.room().is_none() { 0 } else { bql.limit() };
        let mut completed = Ok(());
        if let Some(charged) = self.gather.add(charged, most, &*self.clock) {
            completed = bql.completed_at(charged, || Duration::from_nanos(self.clock.now_ns()));
            self.publish_limit();
        }
        self.publish_completed();
        let Some(bql) = self.limit.bql_mut() else { return };
        if completed.is_err() || (self.in_device == 0 && bql.in_flight() != self.gather.waiting) {
            self.miscounted(completed);
        }
    }

    /// Publishes the bytes completed, after each reap that leaves frames in the device: a device that completes all at once
    /// costs nothing.
    fn publish_completed(&self) {
        if let Limit::Bytes(bql) = &self.limit {
            let in_flight_bytes = u64::from(bql.in_flight().saturating_sub(self.gather.waiting));
            self.counters.completed_bytes.set(self.counters.bytes.get().saturating_sub(in_flight_bytes));
        }
    }

    /// Resets the byte limit after the device completed frames of other lengths than it was given: the limit would
    /// stay closed for good.
    #[cold]
    fn miscounted(&mut self, completed: Result<(), BqlError>) {
        let in_flight_bytes = self.limit.bql().map_or(0, Bql::in_flight);
        self.forget_limit();
        let device = self.device.name();
        self.counters.error(&match completed {
            Err(source) => DeviceError::OverCompletion { device, source },
            Ok(()) => DeviceError::UnderCompletion { device, in_flight_bytes },
        });
    }

    /// Closes the device and takes back the frames that it held.
    pub(super) fn close(&mut self, sink: &mut impl Sink) {
        if let Err(error) = self.device.close() {
            self.counters.error(&error);
        }
        self.reap(sink);
        // Buffers posted for reception were never sent, and are not counted.
        let Some(device) = self.device.rx() else { return };
        while device.reclaim(&mut self.completions.sent) > 0 {
            sink.recycle(&mut self.completions.sent);
        }
    }
}
