//! `RootQdisc`: the outermost discipline of a queue, with what its calls need.
//!
//! Assumptions: one caller at a time; all frames are of one region. Goal: a context for each call, at no cost
//! unless used; frames that a discipline drops are kept until the caller takes them home; in debug builds, a
//! discipline that loses a frame is named.

use super::context::ReadClocks;
use super::{Backpressure, Dropped, Limit, Qdisc, QdiscContext};
use crate::dscp::{self, DscpBands};
use crate::host::Clock;
use std::sync::Arc;
use wharf_mem::{Batch, Frame, Region, Sharer};

/// The reason of frames that waited in a discipline when a smaller one took its place.
pub const QDISC_CHANGED: &str = "qdisc-changed";

/// See the module.
pub struct RootQdisc {
    qdisc: Box<dyn Qdisc>,
    region: Arc<Region>,
    /// Its part of the region is the smaller, the more queues there are.
    _sharer: Sharer,
    clock: Arc<dyn Clock>,
    read: ReadClocks,
    dropped: Dropped,
    /// Frames inside and frames dropped that are not home yet.
    held: usize,
    /// Storage beyond its limit that a discipline has to have, frames.
    reserved: usize,
    /// The band of each DSCP, if the discipline looks at bands and senders do not classify their frames.
    bands: Option<DscpBands>,
}

impl std::fmt::Debug for RootQdisc {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RootQdisc({}, {} frames)", self.qdisc.name(), self.held)
    }
}

impl RootQdisc {
    /// For an empty discipline and frames of `region`.
    pub fn new(mut qdisc: Box<dyn Qdisc>, region: &Arc<Region>, clock: Arc<dyn Clock>) -> Self {
        // No more can be dropped than there are.
        let dropped = Dropped::with_capacity(region.spec().frames as usize);
        qdisc.bound_memory(region);
        Self {
            qdisc,
            region: region.clone(),
            _sharer: region.sharers().join(),
            clock,
            read: ReadClocks::default(),
            dropped,
            held: 0,
            reserved: 0,
            bands: None,
        }
    }

    /// The discipline.
    pub fn qdisc(&self) -> &dyn Qdisc {
        &*self.qdisc
    }

    /// The memory that frames lie in.
    pub(crate) fn region(&self) -> &Region {
        &self.region
    }

    /// Returns the number of frames inside, with those dropped that [`RootQdisc::take_dropped`] has not given
    /// out yet.
    #[inline(always)]
    pub fn held(&self) -> usize {
        self.held
    }

    /// Adds storage for `frames` further frames.
    pub fn reserve(&mut self, frames: usize) {
        self.reserved += frames;
        self.qdisc.reserve(frames);
    }

    /// Puts `qdisc` in the place of the discipline. The frames inside go into it, in the order in which they would leave if the queue
    /// were closed; those for which it has no storage are dropped. `classified` says that senders give each frame its band. `passing`
    /// is an empty batch. Allocates.
    #[doc(hidden)]
    pub fn replace(&mut self, mut qdisc: Box<dyn Qdisc>, classified: bool, passing: &mut Batch) {
        qdisc.reserve(self.reserved);
        qdisc.bound_memory(&self.region);
        self.bands = (qdisc.uses_bands() && !classified).then(|| qdisc.dscp_bands().into());
        let mut before = std::mem::replace(&mut self.qdisc, qdisc);
        self.begin();
        while !before.is_empty() {
            before.purge(passing);
            self.classify(passing);
            self.call(|qdisc, cx| qdisc.enqueue(cx, passing));
            while let Some(frame) = passing.pop() {
                self.call(|_, cx| cx.drop(frame, QDISC_CHANGED));
            }
        }
        self.check("replace");
    }

    /// See [`Qdisc::set_rate`].
    pub fn set_rate(&mut self, rate: super::Rate) -> bool {
        self.begin();
        self.qdisc.set_rate(rate)
    }

    /// Gives frames their bands, if senders do not.
    #[inline]
    fn classify(&self, frames: &mut Batch) {
        if let Some(bands) = &self.bands {
            frames.frames_mut().iter_mut().for_each(|frame| dscp::classify(frame, &self.region, bands));
            frames.refresh();
        }
    }

    /// Has the discipline read the clock anew, should it ask: a bulk begins.
    #[inline]
    pub fn begin(&mut self) {
        self.read = ReadClocks::default();
    }

    /// See [`Qdisc::enqueue`].
    #[inline]
    pub fn enqueue(&mut self, from: &mut Batch) {
        let before = from.len();
        self.classify(from);
        self.call(|qdisc, cx| qdisc.enqueue(cx, from));
        self.held += before - from.len();
        self.check("enqueue");
    }

    /// See [`Qdisc::dequeue`]; returns the number of frames moved. A byte limit of 0 lets one frame through,
    /// as one of 1 does.
    #[inline]
    pub fn dequeue(&mut self, to: &mut Batch, limit: Limit) -> usize {
        let (before, limit) = (to.len(), Limit { bytes: limit.bytes.max(1), ..limit });
        self.call(|qdisc, cx| qdisc.dequeue(cx, to, limit));
        let moved = to.len() - before;
        self.held -= moved;
        self.check("dequeue");
        moved
    }

    /// See [`Qdisc::trim`].
    pub fn trim(&mut self) {
        self.call(|qdisc, cx| qdisc.trim(cx));
        self.check("trim");
    }

    /// See [`Qdisc::purge`]; returns the number of frames moved. Frames dropped before stay with
    /// [`RootQdisc::take_dropped`].
    pub fn purge(&mut self, to: &mut Batch) -> usize {
        let before = to.len();
        self.qdisc.purge(to);
        let moved = to.len() - before;
        self.held -= moved;
        self.check("purge");
        moved
    }

    /// See [`Qdisc::storage`].
    #[inline]
    pub fn storage(&self) -> usize {
        self.qdisc.storage()
    }

    /// See [`Qdisc::backpressure`].
    pub fn backpressure(&self) -> Backpressure {
        self.qdisc.backpressure()
    }

    /// Moves dropped frames to `to`, up to its room, and shows the counts of their reasons to `count`.
    /// Returns the number moved.
    pub fn take_dropped(&mut self, to: &mut Batch, count: impl FnMut((&'static str, u64))) -> usize {
        let before = to.len();
        self.dropped.take(to);
        self.dropped.take_reasons(count);
        let moved = to.len() - before;
        self.held -= moved;
        moved
    }

    /// Returns the nanoseconds until a frame that is held back may leave, if any is.
    pub fn next_event_ns(&self) -> Option<u64> {
        let due_ns = self.qdisc.next_event_ns()?;
        Some(if due_ns == 0 { 0 } else { due_ns.saturating_sub(self.clock.exact_ns()) })
    }

    /// Shows each frame inside, and each dropped one that is not home, to `see`.
    pub fn visit(&self, see: &mut dyn FnMut(&Frame)) {
        self.dropped.frames().iter().for_each(&mut *see);
        self.qdisc.visit(see);
    }

    #[inline]
    fn call(&mut self, call: impl FnOnce(&mut dyn Qdisc, &mut QdiscContext<'_>)) {
        let Self { qdisc, region, clock, read, dropped, .. } = self;
        call(&mut **qdisc, &mut QdiscContext { region, clock: &**clock, read, dropped });
    }

    /// Conservation: see the module above.
    #[inline]
    fn check(&self, what: &str) {
        debug_assert_eq!(
            self.held,
            self.qdisc.len() + self.dropped.len(),
            "the discipline {} has lost or invented frames in {what}",
            self.qdisc.name()
        );
    }
}
