//! `Work`: checksums, segmentation and copies on behalf of a device that takes only frames as they go out.
//!
//! Assumptions: one caller at a time; the device completes every frame. Goal: frames leave in order; each packet completes once, as
//! sent if all its segments were, else as failed with the reason of the first that failed; no wait for memory can last for ever.
//!
//! A packet that has left the batch is held here. `current` is the packet that is being segmented, `out` has segments that the device
//! had no room for. Both are continued by every transmit and every reap.

use super::in_flight::{InFlight, Place};
use super::own_memory::OwnMemory;
use super::{SegmentJob, SoftwareGso};
use crate::device::{Completions, TxDevice, TxInfo};
use crate::offload;
use crate::pool::{Cache, PagePool};
use std::collections::VecDeque;
use std::sync::Arc;
use wharf_mem::batch::BATCH_FRAMES_MAX;
use wharf_mem::{Batch, Frame, Meta, Region};

#[derive(Debug)]
pub(super) struct Work {
    pool: PagePool,
    /// Present from the first packet on that is segmented.
    cache: Option<Cache>,
    /// The offloads of the device.
    can: TxInfo,
    software: SoftwareGso,
    own: OwnMemory,
    flight: InFlight,
    /// The packet that is being segmented.
    current: Option<(Place, SegmentJob)>,
    /// Segments of it and of earlier packets that the device has not taken.
    out: Batch,
    failed: VecDeque<(Frame, &'static str)>,
    /// Completed segments, on their way to the cache.
    spent: Batch,
    /// Frames that need no work, on their way to the device, and the frames behind them.
    part: Batch,
    rest: Batch,
}

/// The result of handing frames to the device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Handover {
    /// The device has taken all frames.
    Done,
    /// The device takes no more until a completion.
    Stopped,
}

impl Work {
    pub(super) fn new(pool: &PagePool, can: TxInfo) -> Self {
        let batch = || Batch::new(BATCH_FRAMES_MAX);
        Self {
            pool: pool.clone(),
            cache: None,
            can,
            software: SoftwareGso::default(),
            own: OwnMemory::new(pool),
            flight: InFlight::new(pool.region().number(), pool.frames()),
            current: None,
            out: batch(),
            failed: VecDeque::new(),
            spent: batch(),
            part: batch(),
            rest: batch(),
        }
    }

    fn region(&self) -> &Arc<Region> {
        self.pool.region()
    }

    /// Returns true if no packet is held here.
    pub(super) fn is_idle(&self) -> bool {
        self.flight.packets() == 0 && self.failed.is_empty()
    }

    /// Returns true if failed packets wait to be reaped.
    pub(super) fn has_failed(&self) -> bool {
        !self.failed.is_empty()
    }

    /// Returns the frames that have been taken and not completed, if the device holds `inside`, segments included.
    pub(super) fn outstanding(&self, inside: usize) -> usize {
        let pieces_inside = self.flight.pieces() - self.out.len();
        inside.saturating_sub(pieces_inside) + self.flight.packets() + self.failed.len()
    }

    pub(super) fn visit(&self, see: &mut dyn FnMut(&Frame)) {
        self.flight.visit(see);
        self.own.visit(see);
        self.out.frames().iter().for_each(&mut *see);
        self.failed.iter().for_each(|(frame, _)| see(frame));
    }

    /// Sends the waiting segments, then the frames of `batch`, each as it is or segmented. Rings no doorbell; `rang` becomes true
    /// if the device rings one as it stops.
    pub(super) fn send(
        &mut self, batch: &mut Batch, device: &mut impl TxDevice, rang: &mut bool,
    ) -> Handover {
        self.fill_checksums(batch);
        loop {
            if self.push(device, rang) == Handover::Stopped {
                return Handover::Stopped;
            }
            if batch.is_empty() {
                return Handover::Done;
            }
            let as_they_are = batch.frames().iter().take_while(|frame| !self.asks_for_work(frame)).count();
            if as_they_are > 0 {
                if self.pass(batch, as_they_are, device, rang) == Handover::Stopped {
                    return Handover::Stopped;
                }
            } else if self.flight.is_full() || self.own.is_used() {
                return Handover::Stopped;
            } else if let Some(frame) = batch.pop() {
                self.begin(frame);
            }
        }
    }

    /// Completes the checksums that the device does not, of frames that are not segmented.
    fn fill_checksums(&self, batch: &mut Batch) {
        if self.can.checksum || !batch.any_meta() {
            return;
        }
        for frame in batch.frames_mut().iter_mut().filter(|frame| frame.has_meta()) {
            let meta = self.region().meta(frame).unwrap_or_default();
            if meta.needs_checksum && !is_super(&meta) {
                // If the checksum offset lies outside the frame, the request stays, and the frame fails when
                // it is sent.
                let _ = offload::complete_frame(self.region(), frame);
            }
        }
        batch.refresh();
    }

    /// Returns true if the device cannot take `frame` as it is.
    #[inline]
    fn asks_for_work(&self, frame: &Frame) -> bool {
        if !frame.has_meta() {
            return false;
        }
        let Ok(meta) = self.region().meta(frame) else { return false };
        let segments = || {
            self.can.segmentation
                || self.can.tcp_segmentation && offload::adapter_headers(self.region(), frame).is_some()
        };
        (is_super(&meta) && !segments())
            || (meta.needs_checksum && !self.can.checksum)
            || self.region().chunks(frame).is_ok_and(|chunks| chunks.count() > self.buffers_max())
    }

    /// Returns the buffers of one frame that the device gathers, at least 1.
    fn buffers_max(&self) -> usize {
        usize::from(self.can.segments_max).max(1)
    }

    /// Plans the work on `frame`.
    ///
    /// # Errors
    /// The reason why the device can never take it.
    fn job(&self, frame: &Frame) -> Result<SegmentJob, &'static str> {
        let region = self.region();
        let meta = region.meta(frame).map_err(|_| "foreign-pool")?;
        let job = match is_super(&meta) {
            true => SegmentJob::segment(frame, region).map_err(|error| error.reason())?,
            false if meta.needs_checksum && !self.can.checksum => return Err("unfinished-checksum"),
            false => SegmentJob::repack(frame, region).map_err(|_| "foreign-pool")?,
        };
        let buffers = job.piece_bytes_max().div_ceil(region.data_bytes_max() as usize);
        if buffers > self.buffers_max() { Err("too-many-chunks") } else { Ok(job) }
    }

    /// Takes a frame that needs work.
    fn begin(&mut self, frame: Frame) {
        if self.cache.is_none() {
            self.cache = self.pool.cache("segments").ok();
        }
        let job = if self.cache.is_some() { self.job(&frame) } else { Err("no-cache") };
        match job {
            Err(reason) => self.failed.push_back((frame, reason)),
            Ok(job) => match self.flight.add(frame) {
                Ok(place) => self.current = Some((place, job)),
                Err(frame) => self.failed.push_back((frame, "no-room")),
            },
        }
    }

    /// Hands the first `count` frames of `batch` to the device as they are.
    fn pass(
        &mut self, batch: &mut Batch, count: usize, device: &mut impl TxDevice, rang: &mut bool,
    ) -> Handover {
        let is_all = count == batch.len();
        let done = if is_all {
            device.transmit(batch, true)
        } else {
            self.part.append(batch, count);
            device.transmit(&mut self.part, true)
        };
        *rang |= done.doorbell;
        let is_left = if is_all { !batch.is_empty() } else { !self.part.is_empty() };
        if is_left && !is_all {
            self.rest.append(batch, usize::MAX);
            batch.append(&mut self.part, usize::MAX);
            batch.append(&mut self.rest, usize::MAX);
        }
        if done.stopped || is_left { Handover::Stopped } else { Handover::Done }
    }

    /// Hands over waiting segments and makes further ones, until none is left or the device takes no more.
    pub(super) fn push(&mut self, device: &mut impl TxDevice, rang: &mut bool) -> Handover {
        while self.current.is_some() || !self.out.is_empty() {
            if self.out.is_empty() && !self.segment() {
                return Handover::Stopped;
            }
            let done = device.transmit(&mut self.out, true);
            *rang |= done.doorbell;
            if done.stopped || !self.out.is_empty() {
                return Handover::Stopped;
            }
        }
        Handover::Done
    }

    /// Fills `out`, which is empty, with segments. Returns false if there is no memory before a segment completes.
    fn segment(&mut self) -> bool {
        let Some((place, mut job)) = self.current else { return false };
        self.make(place, &mut job);
        if self.out.is_empty() && self.flight.pieces() == 0 && self.dissolve(place) {
            // Segments in flight bring memory back when they complete. Without any, memory may never come.
            self.make(place, &mut job);
        }
        self.current = (!job.is_done()).then_some((place, job));
        !self.out.is_empty()
    }

    fn make(&mut self, place: Place, job: &mut SegmentJob) {
        let made = match (self.flight.frame(place), &mut self.cache) {
            (Some(frame), Some(cache)) => self.software.segment(job, frame, cache, &mut self.out),
            _ => self.own.segment(&mut self.software, job, &mut self.out),
        };
        debug_assert!(made.is_ok(), "a packet of this pool");
        self.flight.mark(place, self.out.frames());
    }

    #[cold]
    fn dissolve(&mut self, place: Place) -> bool {
        self.flight.take(place).is_some_and(|frame| self.own.dissolve(frame).is_ok())
    }

    /// Completes up to `budget` failed packets and returns their number.
    pub(super) fn give_failed(&mut self, budget: usize, into: &mut Completions) -> usize {
        let count = self.failed.len().min(budget);
        into.failed.extend(self.failed.drain(..count));
        count
    }

    /// Handles the completions of the device, for all of which `into` has room: keeps segments, and completes the packets whose
    /// last one this was, and all other frames. Returns the number of completions in `into`.
    pub(super) fn sort(&mut self, done: &mut Completions, into: &mut Completions) -> usize {
        let before = into.len();
        while let Some(frame) = done.sent.pop() {
            self.completed(frame, None, into);
        }
        while let Some((frame, reason)) = done.failed.pop() {
            self.completed(frame, Some(reason), into);
        }
        self.recycle();
        into.len() - before
    }

    fn completed(&mut self, frame: Frame, failure: Option<&'static str>, into: &mut Completions) {
        let Some(place) = self.flight.complete(&frame) else { return give(into, frame, failure) };
        if let Some(reason) = failure {
            self.flight.fail(place, reason);
        }
        self.spend(frame);
        if let Some((frame, failure)) = self.end(place) {
            give(into, frame, failure);
        }
    }

    /// Keeps the memory of a completed segment.
    fn spend(&mut self, frame: Frame) {
        if self.own.is_used() {
            let taken = self.own.take_back(frame);
            debug_assert!(taken.is_ok(), "a piece of this pool");
            return;
        }
        if self.spent.room() == 0 {
            self.recycle();
        }
        self.spent.push_within(frame);
    }

    fn recycle(&mut self) {
        if let (Some(cache), false) = (&mut self.cache, self.spent.is_empty()) {
            let given = cache.give_own(&mut self.spent);
            debug_assert!(given.is_ok(), "pieces of this pool");
        }
    }

    /// Ends a packet whose last segment has completed.
    fn end(&mut self, place: Place) -> Option<(Frame, Option<&'static str>)> {
        if !self.flight.is_back(place) || self.current.is_some_and(|(current, _)| current == place) {
            return None;
        }
        let (frame, failure) = self.flight.end(place);
        let frame = frame.or_else(|| self.own.rebuild())?;
        Some((frame, failure))
    }

    /// Fails all packets that the closed device has not taken.
    pub(super) fn close(&mut self) {
        let mut places: Vec<Place> = self.current.take().map(|(place, _)| place).into_iter().collect();
        while let Some(piece) = self.out.pop() {
            places.extend(self.flight.complete(&piece));
            self.spend(piece);
        }
        self.recycle();
        for place in places {
            self.flight.fail(place, "closed");
            if let Some((frame, failure)) = self.end(place) {
                self.failed.push_back((frame, failure.unwrap_or("closed")));
            }
        }
    }
}

fn is_super(meta: &Meta) -> bool {
    meta.gso_bytes > 0 || meta.gso_kind > 0
}

/// Completes a frame, for which there is room.
fn give(into: &mut Completions, frame: Frame, failure: Option<&'static str>) {
    match failure {
        Some(reason) => into.failed.push((frame, reason)),
        None => into.sent.push_within(frame),
    }
}
