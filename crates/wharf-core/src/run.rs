//! `Run`: what one owner does with one transmit queue: bulk dequeue, transmit, reap.
//!
//! Assumptions: one caller at a time; frames come from a [`Source`] (lanes, or the user's burst) and go home
//! to a [`Sink`]. Goal: as few calls and doorbells as the byte limit allows, nothing reordered, nothing lost.
//!
//! Order of leaving: what the device left in the batch (the requeue slot), then the qdisc, then the source.
//! An empty qdisc that allows it is passed by; what the byte limit refuses of such a bulk goes into it.
//! Transmit goes on until the device or the limit stops it, the quota is spent, or there is no more; reaping
//! comes after, once: reaping after each transmit would never let the limit grow past one packet.

use crate::bql::{Bql, BqlError, StallDetector};
use crate::counters::QueueCounters;
use crate::device::{Completions, Device, DeviceError};
use crate::host::Clock;
use crate::qdisc::Qdisc;
use std::sync::Arc;
use std::time::Duration;
use wharf_mem::{Batch, Frame, MemError};

/// Most frames in one transmit call, and the default quota of an owner: the kernel's device weight.
pub const BULK_PACKETS_MAX: usize = 64;
/// Completions taken from a device in one call.
const REAP_BUDGET: usize = 256;

/// How many frames go to the device in one call: a switch per device, live.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Batching {
    /// As many as the byte limit allows.
    #[default]
    On,
    /// One packet, one call, one doorbell.
    Off,
    /// So many bytes, and one packet past them, within the byte limit.
    Bytes(u32),
}

impl Batching {
    /// Most packets and bytes (and one packet past them) in one call.
    fn bounds(self) -> (usize, u64) {
        match self {
            Batching::On => (BULK_PACKETS_MAX, u64::MAX),
            Batching::Off => (1, u64::MAX),
            Batching::Bytes(bytes) => (BULK_PACKETS_MAX, bytes.into()),
        }
    }
}

/// Where frames come from.
pub trait Source {
    /// Moves up to `max` frames to the back of `to`, in order; how many.
    fn pull(&mut self, to: &mut Batch, max: usize) -> usize;

    /// Whether there is known to be none left.
    fn is_empty(&self) -> bool;
}

/// Where frames go when they have left.
pub trait Sink {
    /// Takes all frames of `done`.
    fn take_home(&mut self, done: &mut Batch);
}

/// Why [`Run::transmit`] came back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pause {
    /// Nothing is left to send.
    Empty,
    /// The device or the byte limit takes no more now.
    Stopped,
    /// The quota is spent, and there is more.
    Quota,
}

/// One transmit queue's inside.
pub struct Run {
    /// Number of the pool whose frames it moves.
    pool: u8,
    device: Box<dyn Device>,
    qdisc: Box<dyn Qdisc>,
    /// The bulk under way; between runs, the requeue slot.
    batch: Batch,
    bql: Option<Bql>,
    /// What the batching switch makes of a bulk: packets and bytes.
    bounds: (usize, u64),
    bypass: bool,
    /// Frames in the qdisc, so that the hot path need not ask it.
    queued: usize,
    in_device: usize,
    completions: Completions,
    /// For moving frames between a source and the qdisc.
    passing: Batch,
    /// What must stay behind while the first frames of a requeued batch are handed over.
    behind: Batch,
    stall: Option<StallDetector>,
    clock: Arc<dyn Clock>,
    counters: Arc<QueueCounters>,
}

impl Run {
    /// For frames of pool number `pool`, over a device that has been attached to its region. `hold` is the byte limit's hold time.
    pub fn new(
        pool: u8, device: Box<dyn Device>, qdisc: Box<dyn Qdisc>, hold: Duration, clock: Arc<dyn Clock>,
        counters: Arc<QueueCounters>,
    ) -> Self {
        let bql = device.capabilities().real_completions.then(|| {
            let mut bql = Bql::new(hold);
            bql.reset(Duration::from_nanos(clock.now_ns()));
            bql
        });
        let (bypass, bounds) = (qdisc.can_bypass(), Batching::On.bounds());
        let batch = || Batch::new(BULK_PACKETS_MAX);
        let completions = Completions::new(REAP_BUDGET);
        let (batch, passing, behind) = (batch(), batch(), batch());
        let (queued, in_device, stall) = (0, 0, None);
        Self {
            pool,
            device,
            qdisc,
            batch,
            bql,
            bounds,
            bypass,
            queued,
            in_device,
            completions,
            passing,
            behind,
            stall,
            clock,
            counters,
        }
    }

    /// Replaces the byte limit: by one whose counters stand near their end, in tests.
    #[doc(hidden)]
    pub fn set_bql(&mut self, bql: Option<Bql>) {
        self.bql = bql;
    }

    /// Sets the switch.
    pub fn set_batching(&mut self, batching: Batching) {
        self.bounds = batching.bounds();
    }

    /// Watches for stalls of the device: no completion for `threshold` although something was queued.
    pub fn watch_stalls(&mut self, threshold: Duration) {
        self.stall = Some(StallDetector::new(threshold));
    }

    /// The byte limit, where the device has one.
    pub fn bql(&self) -> Option<&Bql> {
        self.bql.as_ref()
    }

    /// Stalls seen and the longest.
    pub fn stalls(&self) -> (u64, Duration) {
        self.stall.as_ref().map_or((0, Duration::ZERO), |stall| (stall.count(), stall.max()))
    }

    /// The queueing discipline.
    pub fn qdisc(&self) -> &dyn Qdisc {
        &*self.qdisc
    }

    /// Makes room in the qdisc for `frames` further ones that may lie in lanes.
    pub fn reserve(&mut self, frames: usize) {
        self.qdisc.reserve(frames);
    }

    /// Bit n is set while band n is full.
    #[inline]
    pub fn full_bands(&self) -> u32 {
        if self.queued == 0 { 0 } else { self.qdisc.full_bands() }
    }

    /// Whether frames offered now would pass straight to the device.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.bypass && self.queued == 0 && self.batch.is_empty() && !self.is_closed()
    }

    /// The device.
    pub fn device_mut(&mut self) -> &mut dyn Device {
        &mut *self.device
    }

    /// Frames taken from the source and not yet by the device.
    pub fn backlog(&self) -> usize {
        self.batch.len() + self.queued
    }

    /// Frames with the device.
    pub fn in_device(&self) -> usize {
        self.in_device
    }

    /// Whether a transmit would be refused right now by the byte limit.
    fn is_closed(&self) -> bool {
        self.bql.as_ref().is_some_and(|bql| bql.available() < 0)
    }

    /// Sends up to `quota` frames; how many the device took, and why it ended.
    #[inline]
    pub fn transmit(&mut self, source: &mut impl Source, quota: u32) -> (u32, Pause) {
        let mut left = quota;
        loop {
            if self.is_closed() {
                return self.stop(source, quota - left);
            }
            let (taken, stopped) = if self.batch.is_empty() {
                self.dequeue_bulk(source, left as usize);
                if self.batch.is_empty() {
                    return (quota - left, Pause::Empty);
                }
                self.hand_to_device()
            } else {
                self.hand_requeued()
            };
            left = left.saturating_sub(taken);
            if stopped {
                return self.stop(source, quota - left);
            }
            if self.backlog() == 0 && source.is_empty() {
                return (quota - left, Pause::Empty);
            }
            if left == 0 {
                return (quota, Pause::Quota);
            }
        }
    }

    /// Stopped: what the source holds goes into the qdisc, so that the order of the qdisc holds for all.
    #[cold]
    fn stop(&mut self, source: &mut impl Source, packets: u32) -> (u32, Pause) {
        self.absorb(source);
        (packets, Pause::Stopped)
    }

    /// The bounds of the next bulk, packets and bytes.
    #[inline(always)]
    fn bulk_bounds(&self) -> (usize, u64) {
        let available = self.bql.as_ref().map_or(u64::MAX, |bql| bql.available().max(0) as u64);
        // The build without the switch shows what the switch itself costs.
        let (packets, bytes) = if cfg!(feature = "unswitched-off") { (1, u64::MAX) } else { self.bounds };
        (packets, available.min(bytes))
    }

    /// Fills the empty batch with what may go in one call.
    #[inline]
    fn dequeue_bulk(&mut self, source: &mut impl Source, packets: usize) {
        let (packets_max, bytes) = self.bulk_bounds();
        let packets = packets.min(packets_max);
        if self.bypass && self.queued == 0 {
            let pulled = source.pull(&mut self.batch, packets);
            self.counters.accepted.add(pulled as u64);
            if pulled > 1 && self.batch.bytes() > bytes {
                self.refuse_beyond(bytes);
            }
        } else {
            self.absorb(source);
            self.queued -= self.qdisc.dequeue(&mut self.batch, packets, bytes);
        }
    }

    /// Puts what lies beyond `bytes` (and one packet past them) of a bulk that passed by the qdisc into it.
    #[cold]
    fn refuse_beyond(&mut self, bytes: u64) {
        let keep = self.within(BULK_PACKETS_MAX, bytes);
        self.passing.append(&mut self.batch, keep);
        self.queued += self.batch.len();
        self.qdisc.enqueue(&mut self.batch);
        debug_assert!(self.batch.is_empty(), "an empty qdisc has storage for one bulk");
        std::mem::swap(&mut self.passing, &mut self.batch);
    }

    /// Moves what the source holds into the qdisc, as far as that has storage.
    fn absorb(&mut self, source: &mut impl Source) {
        while !source.is_empty() {
            let pulled = source.pull(&mut self.passing, self.qdisc.storage().min(BULK_PACKETS_MAX));
            if pulled == 0 {
                return;
            }
            self.counters.accepted.add(pulled as u64);
            self.queued += pulled;
            self.qdisc.enqueue(&mut self.passing);
            debug_assert!(self.passing.is_empty(), "the qdisc said that it had storage");
        }
    }

    /// What the device left last time goes first, in as many calls as today's bounds make of it.
    #[cold]
    fn hand_requeued(&mut self) -> (u32, bool) {
        let (packets, bytes) = self.bulk_bounds();
        let count = self.within(packets, bytes);
        // The others wait aside, and stay behind what the device may leave of these.
        self.passing.append(&mut self.batch, count);
        self.behind.append(&mut self.batch, usize::MAX);
        std::mem::swap(&mut self.passing, &mut self.batch);
        let handed = self.hand_to_device();
        self.batch.append(&mut self.behind, usize::MAX);
        handed
    }

    /// How many frames of the batch make at most `packets`, and `bytes` with one packet past them.
    fn within(&self, packets: usize, bytes: u64) -> usize {
        let (mut keep, mut kept_bytes) = (0, 0);
        for frame in self.batch.frames().iter().take(packets) {
            if keep > 0 && kept_bytes >= bytes {
                break;
            }
            keep += 1;
            kept_bytes += u64::from(frame.len_bytes());
        }
        keep
    }

    /// One call to the device, one doorbell; frames taken, and whether it stopped.
    #[inline]
    fn hand_to_device(&mut self) -> (u32, bool) {
        let (offered, offered_bytes) = (self.batch.len(), self.batch.bytes());
        let last_bytes = self.batch.frames().last().map_or(0, Frame::len_bytes);
        let done = self.device.transmit(&mut self.batch, false);
        let taken = offered.saturating_sub(self.batch.len());
        if taken > 0 {
            let last_bytes = self.batch.last_taken_bytes().unwrap_or(last_bytes);
            self.account(taken, offered_bytes.saturating_sub(self.batch.bytes()), last_bytes);
            self.counters.doorbells.add(u64::from(done.doorbell));
        }
        if self.batch.is_empty() {
            return (taken as u32, done.stopped);
        }
        self.counters.requeues.add(self.batch.len() as u64);
        (taken as u32, true)
    }

    #[inline(always)]
    fn account(&mut self, taken: usize, bytes: u64, last_bytes: u32) {
        if let Some(bql) = &mut self.bql {
            bql.queued_batch(bytes as u32, last_bytes);
        }
        if let Some(stall) = &mut self.stall {
            stall.queued(Duration::from_nanos(self.clock.now_ns()));
        }
        self.in_device += taken;
        self.counters.packets.add(taken as u64);
        self.counters.bytes.add(bytes);
        self.counters.batches.add(1);
    }

    /// Takes completions and sends the frames home; how many, and whether the byte limit is open now.
    #[inline]
    pub fn reap(&mut self, sink: &mut impl Sink) -> (u32, bool) {
        let mut reaped = 0;
        while self.in_device > 0 {
            if let Err(error) = self.device.reap(REAP_BUDGET, &mut self.completions) {
                self.counters.error(&error);
            }
            let count = self.completions.len();
            reaped += count as u32;
            if count > 0 {
                self.complete(count, sink);
            }
            if count < REAP_BUDGET {
                break;
            }
        }
        (reaped, !self.is_closed())
    }

    #[inline]
    fn complete(&mut self, count: usize, sink: &mut impl Sink) {
        let sent = self.completions.sent.summary();
        if !sent.is_of_pool(self.pool) || !self.completions.failed.is_empty() {
            return self.complete_with_care(sink);
        }
        self.counters.sent.add(count as u64);
        sink.take_home(&mut self.completions.sent);
        self.settle(count, sent.bytes);
    }

    /// As [`Run::complete`], where some have failed, or are not of this pool.
    #[cold]
    fn complete_with_care(&mut self, sink: &mut impl Sink) {
        let (mut count, mut bytes) = (0, 0);
        for _ in 0..self.completions.sent.len() {
            let Some(frame) = self.completions.sent.pop() else { break };
            if self.is_ours(&frame) {
                (count, bytes) = (count + 1, bytes + u64::from(frame.len_bytes()));
                // There is room: one has just been taken out.
                let pushed = self.completions.sent.push(frame);
                debug_assert!(pushed.is_ok());
            }
        }
        self.counters.sent.add(count as u64);
        sink.take_home(&mut self.completions.sent);
        while let Some((frame, reason)) = self.completions.failed.pop() {
            if self.is_ours(&frame) {
                (count, bytes) = (count + 1, bytes + u64::from(frame.len_bytes()));
                self.counters.fail(reason);
                let pushed = self.passing.push(frame);
                debug_assert!(pushed.is_ok(), "passing is empty between two uses");
                sink.take_home(&mut self.passing);
            }
        }
        self.settle(count, bytes);
    }

    /// Another pool's frame cannot have been given to the device by this queue: its own pool's ledger goes on
    /// saying that it is out.
    fn is_ours(&self, frame: &Frame) -> bool {
        if frame.pool() == self.pool {
            return true;
        }
        let source = MemError::Foreign { index: frame.index(), theirs: frame.pool(), ours: self.pool };
        self.counters.error(&DeviceError::Memory { device: self.device.name(), source });
        false
    }

    /// Accounts for `count` frames of `bytes` that have come back.
    #[inline]
    fn settle(&mut self, count: usize, bytes: u64) {
        self.in_device = self.in_device.saturating_sub(count);
        if let Some(bql) = &mut self.bql {
            let now = || Duration::from_nanos(self.clock.now_ns());
            let completed = bql.completed_at(bytes as u32, now);
            self.counters.bql_limit_bytes.set(u64::from(bql.limit()));
            if completed.is_err() || (self.in_device == 0 && bql.in_flight() != 0) {
                self.miscounted(completed);
            }
        }
        if let Some(stall) = &mut self.stall {
            let now = Duration::from_nanos(self.clock.now_ns());
            stall.completed(now);
            if self.in_device > 0 {
                stall.queued(now);
            }
        }
    }

    /// The device gave back frames of another length than it was given: the account starts anew, or the limit
    /// would stay shut for good.
    #[cold]
    fn miscounted(&mut self, completed: Result<(), BqlError>) {
        let Some(bql) = &mut self.bql else { return };
        let in_flight_bytes = bql.in_flight();
        bql.reset(Duration::from_nanos(self.clock.now_ns()));
        let device = self.device.name();
        self.counters.error(&match completed {
            Err(source) => DeviceError::OverCompletion { device, source },
            Ok(()) => DeviceError::UnderCompletion { device, in_flight_bytes },
        });
    }

    /// Gives everything back that the device has not taken, unsent; how many.
    pub fn give_up(&mut self, source: &mut impl Source, sink: &mut impl Sink) -> u64 {
        let mut returned = self.batch.len() as u64;
        sink.take_home(&mut self.batch);
        loop {
            self.absorb(source);
            let count = self.qdisc.dequeue(&mut self.batch, BULK_PACKETS_MAX, u64::MAX);
            if count == 0 {
                break;
            }
            self.queued -= count;
            returned += count as u64;
            sink.take_home(&mut self.batch);
        }
        self.counters.returned.add(returned);
        returned
    }

    /// Closes the device and takes back what it still had.
    pub fn close(&mut self, sink: &mut impl Sink) {
        if let Err(error) = self.device.close() {
            self.counters.error(&error);
        }
        self.reap(sink);
    }

    /// Shows each frame inside to `see`, with where it is.
    pub fn visit(&self, see: &mut dyn FnMut(&Frame, crate::pool::Holder)) {
        use crate::pool::Holder;
        self.batch.frames().iter().for_each(|frame| see(frame, Holder::Requeue));
        self.qdisc.visit(&mut |frame| see(frame, Holder::Qdisc));
        self.device.visit(&mut |frame| see(frame, Holder::Device));
    }
}

impl std::fmt::Debug for Run {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Run({}, {}, backlog {})", self.device.name(), self.qdisc.name(), self.backlog())
    }
}
