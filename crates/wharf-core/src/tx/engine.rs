//! `TxEngine`: the owner's work on one transmit queue: bulk dequeue, transmit, reap (`sch_generic.c`).
//!
//! Assumptions: one caller at a time; frames come from a [`Source`] (lanes, or the user's burst) and are recycled by
//! a [`Sink`]. Goal: as few calls and doorbells as the byte limit allows, no frame reordered, none lost.
//!
//! Frames leave in this order: those that the device left in the batch (the requeue slot), the qdisc's, the source's.
//! An empty qdisc that allows it is passed by (`TCQ_F_CAN_BYPASS`); frames of such a bulk beyond the byte limit go
//! into it. Transmit goes on until the device or the limit stops it, the quota is spent, or no frame is left. Reaping
//! follows, once: a reap after each transmit would never let the limit grow past one packet.

mod bulk;
mod limit;
mod netdev_queue;
mod orphans;

pub use bulk::Batching;

use crate::bql::{Bounds, Bql};
use crate::counters::QueueCounters;
use crate::device::TxSide;
use crate::host::Clock;
use crate::qdisc::{Backpressure, Qdisc, Rate, RootQdisc, WhenFull};
use crate::tx::feeding::note_drops;
use limit::Limit;
use netdev_queue::NetdevQueue;
use std::sync::Arc;
use std::time::Duration;
use wharf_mem::{Batch, Frame, Region};

/// Most frames in one transmit call: the kernel's device weight (`dev_tx_weight`).
pub const BULK_PACKETS_MAX: usize = 64;

/// A supply of frames to send.
pub trait Source {
    /// Moves up to `max` frames to the back of `to`, in order. Returns their number.
    fn pull(&mut self, to: &mut Batch, max: usize) -> usize;

    /// True if the source is known to be empty.
    fn is_empty(&self) -> bool;
}

impl Source for Batch {
    #[inline]
    fn pull(&mut self, to: &mut Batch, max: usize) -> usize {
        to.append(self, max)
    }

    #[inline]
    fn is_empty(&self) -> bool {
        Batch::is_empty(self)
    }
}

/// The recycler of completed frames.
pub trait Sink {
    /// Recycles all frames of `done`.
    fn recycle(&mut self, done: &mut Batch);

    /// Recycles the only frame of `done` by one look at it. Returns its length, bytes. Returns `None`, with nothing done, if
    /// the frame has to go by [`Sink::recycle`].
    #[inline(always)]
    fn recycle_only(&mut self, _done: &mut Batch) -> Option<u32> {
        None
    }

    /// Charges `sender` for `bytes` less, while the frames are still out (`skb_orphan`).
    fn release(&mut self, _sender: u16, _bytes: u32) {}

    /// Notes packets that are dropped for lack of room: see `tx::feeding`.
    fn note_drops(&self, frames: &[Frame], region: &Region) {
        note_drops(frames, region);
    }

    /// Recycles all frames of `done`, whose bytes were released before.
    fn recycle_released(&mut self, done: &mut Batch) {
        self.recycle(done);
    }
}

/// The reason that [`TxEngine::transmit`] returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pause {
    /// No frame is left to send.
    Empty,
    /// The device or the byte limit takes no more frames now.
    Stopped,
    /// The quota is spent, and frames are left.
    Quota,
}

/// Qdisc, byte limit and device of one transmit queue.
pub struct TxEngine {
    netdev: NetdevQueue,
    root: RootQdisc,
    /// The bulk being sent; between runs, the requeue slot.
    batch: Batch,
    /// The batching switch's bounds of a bulk: packets and bytes.
    bounds: (usize, u64),
    bypass: bool,
    /// Holds frames on their way between a source and the qdisc.
    passing: Batch,
    /// Holds the rest of a requeued batch while its first frames are handed over.
    behind: Batch,
}

impl TxEngine {
    /// Makes an engine for frames of `region`, over a device attached to it. `hold` is the byte limit's hold time.
    pub fn new(
        region: &Arc<Region>, device: TxSide, qdisc: Box<dyn Qdisc>, hold: Duration, clock: Arc<dyn Clock>,
        counters: Arc<QueueCounters>,
    ) -> Self {
        let (bypass, bounds) = (qdisc.can_bypass(), Batching::On.bounds());
        let root = RootQdisc::new(qdisc, region, clock.clone());
        let netdev = NetdevQueue::new(region.number(), device, hold, clock, counters);
        let batch = || Batch::new(BULK_PACKETS_MAX);
        let (batch, passing, behind) = (batch(), batch(), batch());
        Self { netdev, root, batch, bounds, bypass, passing, behind }
    }

    /// Replaces the byte limit; in tests, by one whose counters are about to wrap.
    #[doc(hidden)]
    pub fn set_bql(&mut self, bql: Option<Bql>) {
        self.netdev.limit = Limit::new(bql, self.netdev.limit.unit());
    }

    /// Bounds the byte limit, from the next completion on. Does nothing without a byte limit.
    pub fn set_byte_limits(&mut self, bounds: Bounds) {
        self.netdev.gather.time_ns = bounds.gather_ns;
        if let Some(bql) = self.netdev.limit.bql_mut() {
            bql.set_bounds(bounds);
        }
    }

    /// Sets the batching switch.
    pub fn set_batching(&mut self, batching: Batching) {
        self.bounds = batching.bounds();
    }

    /// Puts `qdisc` in the place of the discipline: see [`TxQueue::set_qdisc`](crate::queue::TxQueue::set_qdisc). `classified` says
    /// that senders give each frame its band.
    pub(crate) fn set_qdisc(&mut self, qdisc: Box<dyn Qdisc>, classified: bool) {
        self.bypass = qdisc.can_bypass();
        self.root.replace(qdisc, classified, &mut self.passing);
    }

    /// Sets the rate of the discipline's token bucket. Returns false if it has none.
    pub(crate) fn set_rate(&mut self, rate: Rate) -> bool {
        self.root.set_rate(rate)
    }

    /// The byte limit, if the device has one.
    pub fn bql(&self) -> Option<&Bql> {
        self.netdev.limit.bql()
    }

    /// The queueing discipline.
    pub fn qdisc(&self) -> &dyn Qdisc {
        self.root.qdisc()
    }

    /// Makes room in the qdisc for `frames` more that may lie in lanes.
    pub fn reserve(&mut self, frames: usize) {
        self.root.reserve(frames);
    }

    /// True if the discipline has, or has dropped, frames: [`TxEngine::settle_qdisc`] is due before the owner leaves.
    #[inline]
    pub(crate) fn has_queued(&self) -> bool {
        self.root.held() > 0
    }

    /// Lets the discipline drop frames beyond a limit that drops, and recycles all that it has dropped. Returns a
    /// word in which bit n is set while band n is full.
    #[cold]
    pub(crate) fn settle_qdisc(&mut self, sink: &mut impl Sink) -> u32 {
        let mut full = self.root.backpressure().full_bands();
        if full != 0 && self.root.qdisc().when_full() != WhenFull::Wait {
            self.root.trim();
            full = self.root.backpressure().full_bands();
        }
        self.recycle_dropped(sink);
        full
    }

    /// Returns how full the discipline is.
    pub(crate) fn backpressure(&self) -> Backpressure {
        self.root.backpressure()
    }

    fn recycle_dropped(&mut self, sink: &mut impl Sink) {
        let Self { root, passing, netdev, .. } = self;
        let count = |(reason, count)| netdev.counters.qdisc_dropped(reason, count);
        while root.take_dropped(passing, count) > 0 {
            sink.note_drops(passing.frames(), root.region());
            sink.recycle(passing);
        }
    }

    /// True if a frame may pass by the qdisc: no frame is inside before it.
    #[inline(always)]
    fn is_empty(&self) -> bool {
        self.bypass && self.root.held() == 0 && self.batch.is_empty()
    }

    /// The queue's counters.
    pub(crate) fn counters(&self) -> &QueueCounters {
        &self.netdev.counters
    }

    /// Makes the next reap an urgent one: see [`crate::device::TxDevice::reap`].
    #[cold]
    pub fn force_completion(&mut self) {
        self.netdev.urgent = true;
    }

    /// The device.
    pub fn device_mut(&mut self) -> &mut TxSide {
        &mut self.netdev.device
    }

    /// Returns the number of frames taken from the source and not yet by the device.
    pub fn backlog(&self) -> usize {
        self.batch.len() + self.root.held()
    }

    /// Returns the time until the discipline releases frames that it holds back now, ns. `None` if it holds none
    /// back, or if the byte limit or the device does so too.
    pub(crate) fn next_event_ns(&self) -> Option<u64> {
        if self.root.held() == 0 || !self.batch.is_empty() || self.is_closed() {
            return None;
        }
        self.root.next_event_ns()
    }

    /// Returns the number of frames in the device.
    pub fn in_device(&self) -> usize {
        self.netdev.in_device
    }

    /// Returns the bytes that the limit admits now, at least 1, with one packet past them; 0 if it is closed.
    pub fn room_bytes(&self) -> u64 {
        self.netdev.limit.bql().map_or(u64::MAX, |bql| bql.room().map_or(0, |bytes| bytes.max(1).into()))
    }

    /// True if the byte limit is closed.
    fn is_closed(&self) -> bool {
        self.netdev.limit.room().is_none()
    }

    /// Sends all of `burst`, of `bytes`, past an idle queue in one call. Returns as [`TxEngine::transmit`] does; `None`
    /// if the burst must go that way.
    #[inline(always)]
    pub(crate) fn pass(&mut self, burst: &mut Batch, bytes: u64, quota: u32) -> Option<(u32, Pause)> {
        let (room_packets, room_bytes) = self.netdev.limit.room()?;
        let (packets_max, bytes_max) = self.switch();
        let count = burst.len();
        if count == 0 || count > packets_max.min(quota as usize) || !self.is_empty() {
            return None;
        }
        if count > 1 && (bytes > room_bytes.min(bytes_max) || count > room_packets) {
            return None;
        }
        self.netdev.counters.accepted.add(count as u64);
        let (taken, stopped) = self.netdev.hand(burst, count, bytes);
        if taken as usize != count {
            self.batch.append(burst, usize::MAX);
        }
        Some((taken, if stopped { Pause::Stopped } else { Pause::Empty }))
    }

    /// Sends up to `quota` frames; with 0, the source's frames go into the discipline only. Returns the number that the device took, and the reason for the end.
    #[inline]
    pub fn transmit(&mut self, source: &mut impl Source, quota: u32) -> (u32, Pause) {
        let mut left = quota;
        loop {
            let (taken, pause) = self.transmit_bulk(source, left);
            left = left.saturating_sub(taken);
            if let Some(pause) = pause {
                return (quota - left, pause);
            }
        }
    }

    /// Does one round of [`TxEngine::transmit`], with at most one call to the device: for models in which time passes
    /// between two calls. Returns the number of frames taken (requeued ones may exceed `quota`), and the reason to
    /// end, if any.
    #[inline(always)]
    pub fn transmit_bulk(&mut self, source: &mut impl Source, quota: u32) -> (u32, Option<Pause>) {
        if quota == 0 || self.is_closed() {
            return self.stop(source, 0);
        }
        let (taken, stopped) = if self.batch.is_empty() {
            self.dequeue_bulk(source, quota as usize);
            if self.batch.is_empty() {
                return (0, Some(Pause::Empty));
            }
            self.hand_batch()
        } else {
            self.hand_requeued()
        };
        if stopped {
            return self.stop(source, taken);
        }
        if self.backlog() == 0 && source.is_empty() {
            return (taken, Some(Pause::Empty));
        }
        (taken, (taken >= quota).then_some(Pause::Quota))
    }

    /// Hands over the batch.
    #[inline(always)]
    fn hand_batch(&mut self) -> (u32, bool) {
        let (count, bytes) = (self.batch.len(), self.batch.bytes());
        self.netdev.hand(&mut self.batch, count, bytes)
    }

    /// Moves the source's frames into the qdisc after a stop, so that the qdisc orders all of them.
    #[cold]
    fn stop(&mut self, source: &mut impl Source, packets: u32) -> (u32, Option<Pause>) {
        self.absorb(source);
        (packets, Some(Pause::Stopped))
    }

    /// Takes completions and recycles their frames. Returns the number of frames, and true if the byte limit is open.
    #[inline(always)]
    pub fn reap(&mut self, sink: &mut impl Sink) -> (u32, bool) {
        (self.netdev.reap(sink), !self.is_closed())
    }

    /// Reaps after [`TxEngine::pass`]. Returns true if there is a reason to transmit again.
    #[inline(always)]
    pub(crate) fn reap_after(&mut self, pause: Pause, sink: &mut impl Sink) -> bool {
        let reaped = self.netdev.reap(sink);
        pause != Pause::Empty && reaped > 0 && !self.is_closed()
    }

    /// Recycles all frames that the device has not taken, unsent. Returns their number.
    pub fn drain_unsent(&mut self, source: &mut impl Source, sink: &mut impl Sink) -> u64 {
        let mut returned = self.batch.len() as u64;
        sink.recycle(&mut self.batch);
        loop {
            self.absorb(source);
            self.recycle_dropped(sink);
            let count = self.root.purge(&mut self.batch);
            if count == 0 {
                break;
            }
            returned += count as u64;
            sink.recycle(&mut self.batch);
        }
        self.netdev.counters.returned.add(returned);
        returned
    }

    /// Closes the device and takes back the frames that it held.
    pub fn close(&mut self, sink: &mut impl Sink) {
        self.netdev.close(sink);
    }

    /// Returns the frames that the device holds, also those that it cannot show.
    pub(crate) fn device_frames(&self) -> usize {
        self.netdev.device.outstanding()
    }

    /// Shows each frame inside to `see`, with its holder.
    pub fn visit(&self, see: &mut dyn FnMut(&Frame, crate::pool::Holder)) {
        use crate::pool::Holder;
        self.batch.frames().iter().for_each(|frame| see(frame, Holder::Requeue));
        self.root.visit(&mut |frame| see(frame, Holder::Qdisc));
        self.netdev.device.visit(&mut |frame| see(frame, Holder::Device));
    }
}

impl std::fmt::Debug for TxEngine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "TxEngine({}, {}, backlog {})",
            self.netdev.device.name(),
            self.root.qdisc().name(),
            self.backlog()
        )
    }
}
