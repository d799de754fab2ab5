//! `Work`: what is done for a device that takes frames only as they go out.
//!
//! Assumptions: one caller at a time; what the device is given it gives back. Goal: frames leave in order, each packet comes
//! back once, as sent when all its pieces were, as failed with the reason of the first that failed; no memory is waited for
//! that might never come.
//!
//! A packet is *taken* when it has left the batch: from then on it is here. `current` is being cut, `out` holds pieces that
//! the device had no room for. Both go on leaving whenever the path transmits or reaps.

use super::flight::{Flight, Place};
use super::own::Own;
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
    /// From the first packet on that is to be cut.
    cache: Option<Cache>,
    /// What the device can do.
    can: TxInfo,
    software: SoftwareGso,
    own: Own,
    flight: Flight,
    /// The packet that is being cut.
    current: Option<(Place, SegmentJob)>,
    /// Pieces of it, and of those before it, that the device has not taken.
    out: Batch,
    failed: VecDeque<(Frame, &'static str)>,
    /// Pieces that are back, on their way home.
    spent: Batch,
    /// Frames that need no work, on their way to the device, and those behind them.
    part: Batch,
    rest: Batch,
}

/// How far a call came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Went {
    /// To the end.
    On,
    /// The device takes no more until something has come back.
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
            own: Own::new(pool),
            flight: Flight::new(pool.region().number(), pool.frames()),
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

    /// Whether nothing is here.
    pub(super) fn is_idle(&self) -> bool {
        self.flight.packets() == 0 && self.failed.is_empty()
    }

    /// Whether failed packets can be had at once.
    pub(super) fn has_failed(&self) -> bool {
        !self.failed.is_empty()
    }

    /// Frames taken and not given back, where the device holds `inside`, pieces among them.
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

    /// Sends what waits, then the frames of `batch`, each as it is or in pieces. Doorbells are left out, but for those that
    /// the device rings as it stops, which `rang` notes.
    pub(super) fn send(&mut self, batch: &mut Batch, device: &mut impl TxDevice, rang: &mut bool) -> Went {
        self.fill_checksums(batch);
        loop {
            if self.push(device, rang) == Went::Stopped {
                return Went::Stopped;
            }
            if batch.is_empty() {
                return Went::On;
            }
            let as_they_are = batch.frames().iter().take_while(|frame| !self.asks_for_work(frame)).count();
            if as_they_are > 0 {
                if self.pass(batch, as_they_are, device, rang) == Went::Stopped {
                    return Went::Stopped;
                }
            } else if self.flight.is_full() || self.own.is_used() {
                return Went::Stopped;
            } else if let Some(frame) = batch.pop() {
                self.begin(frame);
            }
        }
    }

    /// Fills in the checksums that the device does not, where a frame goes out as it is.
    fn fill_checksums(&self, batch: &mut Batch) {
        if self.can.checksum || !batch.any_meta() {
            return;
        }
        for frame in batch.frames_mut().iter_mut().filter(|frame| frame.has_meta()) {
            let meta = self.region().meta(frame).unwrap_or_default();
            if meta.needs_checksum && !is_super(&meta) {
                // One that cannot be filled in goes on asking, and fails when it is its turn.
                let _ = offload::complete_frame(self.region(), frame);
            }
        }
        batch.refresh();
    }

    /// Whether the device cannot take a frame as it is.
    #[inline]
    fn asks_for_work(&self, frame: &Frame) -> bool {
        if !frame.has_meta() {
            return false;
        }
        let Ok(meta) = self.region().meta(frame) else { return false };
        (is_super(&meta) && !self.can.segmentation)
            || (meta.needs_checksum && !self.can.checksum)
            || self.region().chunks(frame).is_ok_and(|chunks| chunks.count() > self.buffers_max())
    }

    /// Buffers of one frame that the device gathers.
    fn buffers_max(&self) -> usize {
        usize::from(self.can.segments_max).max(1)
    }

    /// What is to be done about a frame that asks for work, or why that cannot be.
    fn plan(&self, frame: &Frame) -> Result<SegmentJob, &'static str> {
        let region = self.region();
        let meta = region.meta(frame).map_err(|_| "foreign-pool")?;
        let plan = match is_super(&meta) {
            true => SegmentJob::cut(frame, region).map_err(|error| error.reason())?,
            false if meta.needs_checksum && !self.can.checksum => return Err("unfinished-checksum"),
            false => SegmentJob::repack(frame, region).map_err(|_| "foreign-pool")?,
        };
        let buffers = plan.piece_bytes_max().div_ceil(region.data_bytes_max() as usize);
        if buffers > self.buffers_max() { Err("too-many-chunks") } else { Ok(plan) }
    }

    /// Takes a frame that asks for work.
    fn begin(&mut self, frame: Frame) {
        if self.cache.is_none() {
            self.cache = self.pool.cache("segments").ok();
        }
        let plan = if self.cache.is_some() { self.plan(&frame) } else { Err("no-cache") };
        match plan {
            Err(reason) => self.failed.push_back((frame, reason)),
            Ok(plan) => match self.flight.add(frame) {
                Ok(place) => self.current = Some((place, plan)),
                Err(frame) => self.failed.push_back((frame, "no-room")),
            },
        }
    }

    /// The first `count` frames of `batch` as they are.
    fn pass(&mut self, batch: &mut Batch, count: usize, device: &mut impl TxDevice, rang: &mut bool) -> Went {
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
        if done.stopped || is_left { Went::Stopped } else { Went::On }
    }

    /// Hands over what waits, and cuts on, until nothing waits or the device takes no more.
    pub(super) fn push(&mut self, device: &mut impl TxDevice, rang: &mut bool) -> Went {
        while self.current.is_some() || !self.out.is_empty() {
            if self.out.is_empty() && !self.cut() {
                return Went::Stopped;
            }
            let done = device.transmit(&mut self.out, true);
            *rang |= done.doorbell;
            if done.stopped || !self.out.is_empty() {
                return Went::Stopped;
            }
        }
        Went::On
    }

    /// Cuts what fits into `out`, which is empty; false when there is no memory now, and there will be.
    fn cut(&mut self) -> bool {
        let Some((place, mut plan)) = self.current else { return false };
        self.make(place, &mut plan);
        if self.out.is_empty() && self.flight.pieces() == 0 && self.dissolve(place) {
            // With pieces under way there is memory when they are back; without any, nobody may ever give some back.
            self.make(place, &mut plan);
        }
        self.current = (!plan.is_done()).then_some((place, plan));
        !self.out.is_empty()
    }

    fn make(&mut self, place: Place, plan: &mut SegmentJob) {
        let made = match (self.flight.frame(place), &mut self.cache) {
            (Some(frame), Some(cache)) => self.software.cut(plan, frame, cache, &mut self.out),
            _ => self.own.cut(&mut self.software, plan, &mut self.out),
        };
        debug_assert!(made.is_ok(), "a packet of this pool");
        self.flight.mark(place, self.out.frames());
    }

    #[cold]
    fn dissolve(&mut self, place: Place) -> bool {
        self.flight.take(place).is_some_and(|frame| self.own.dissolve(frame).is_ok())
    }

    /// Gives up to `budget` failed packets; how many.
    pub(super) fn give_failed(&mut self, budget: usize, into: &mut Completions) -> usize {
        let count = self.failed.len().min(budget);
        into.failed.extend(self.failed.drain(..count));
        count
    }

    /// Sees to what the device has given back, for all of which `into` has room: keeps pieces, gives the packets that are
    /// through, and what is none; how many.
    pub(super) fn sort(&mut self, done: &mut Completions, into: &mut Completions) -> usize {
        let before = into.len();
        while let Some(frame) = done.sent.pop() {
            self.landed(frame, None, into);
        }
        while let Some((frame, reason)) = done.failed.pop() {
            self.landed(frame, Some(reason), into);
        }
        self.send_home();
        into.len() - before
    }

    fn landed(&mut self, frame: Frame, failure: Option<&'static str>, into: &mut Completions) {
        let Some(place) = self.flight.land(&frame) else { return give(into, frame, failure) };
        if let Some(reason) = failure {
            self.flight.fail(place, reason);
        }
        self.spend(frame);
        if let Some((frame, failure)) = self.end(place) {
            give(into, frame, failure);
        }
    }

    /// A piece is back.
    fn spend(&mut self, frame: Frame) {
        if self.own.is_used() {
            let taken = self.own.take_back(frame);
            debug_assert!(taken.is_ok(), "a piece of this pool");
            return;
        }
        if self.spent.room() == 0 {
            self.send_home();
        }
        let pushed = self.spent.push(frame);
        debug_assert!(pushed.is_ok(), "there is room");
    }

    fn send_home(&mut self) {
        if let (Some(cache), false) = (&mut self.cache, self.spent.is_empty()) {
            let given = cache.give_own(&mut self.spent);
            debug_assert!(given.is_ok(), "pieces of this pool");
        }
    }

    /// Lets go of a packet that is through.
    fn end(&mut self, place: Place) -> Option<(Frame, Option<&'static str>)> {
        if !self.flight.is_back(place) || self.current.is_some_and(|(current, _)| current == place) {
            return None;
        }
        let (frame, failure) = self.flight.end(place);
        let frame = frame.or_else(|| self.own.rebuild())?;
        Some((frame, failure))
    }

    /// Fails whatever the device has not taken: it is closed.
    pub(super) fn close(&mut self) {
        let mut places: Vec<Place> = self.current.take().map(|(place, _)| place).into_iter().collect();
        while let Some(piece) = self.out.pop() {
            places.extend(self.flight.land(&piece));
            self.spend(piece);
        }
        self.send_home();
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

/// Gives a frame back that there is room for.
fn give(into: &mut Completions, frame: Frame, failure: Option<&'static str>) {
    match failure {
        Some(reason) => into.failed.push((frame, reason)),
        None => {
            let pushed = into.sent.push(frame);
            debug_assert!(pushed.is_ok(), "the device was asked for no more than there is room for");
        }
    }
}
