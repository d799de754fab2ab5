//! `Sending`: the near end of one direction.
//!
//! A frame's way: `unrung` (while the doorbell is left out) → `on_line` (during its transmission, with a
//! rate) → the lane to the far end → the lane of completions. All four together hold at most the ring's
//! frames, so neither lane is ever full.

use super::link::{Link, Unread};
use super::rate::Line;
use std::collections::VecDeque;
use std::sync::Arc;
use wharf_core::device::{Completions, Transmitted};
use wharf_core::host::Clock;
use wharf_mem::lane::{LaneConsumer, LaneProducer};
use wharf_mem::{Batch, Frame, Region};

/// Frames that go from the line to the lane at a time.
const LEAVING: usize = 64;

pub(super) struct Sending {
    link: Arc<Link>,
    /// `None` once closed.
    to_far: Option<LaneProducer>,
    from_far: LaneConsumer,
    /// Frames that this end holds, in any place.
    outstanding: usize,
    /// Frames that it may hold; 0 once closed.
    limit: usize,
    unrung: VecDeque<Frame>,
    /// Frames on their way from `unrung`, or from the line, to the lane.
    leaving: Batch,
    line: Option<TimedLine>,
    /// Frames that the far end left unread when it went.
    unread: Option<Unread>,
    failed: VecDeque<(Frame, &'static str)>,
}

/// A line with a rate, and the frames on it.
struct TimedLine {
    line: Line,
    clock: Arc<dyn Clock>,
    /// Each frame with the time at which it will have left.
    frames: VecDeque<(Frame, u64)>,
}

impl Sending {
    pub(super) fn new(
        link: Arc<Link>, to_far: LaneProducer, from_far: LaneConsumer, line: Option<Line>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let limit = to_far.capacity();
        let line = line.map(|line| TimedLine { line, clock, frames: VecDeque::with_capacity(limit) });
        let (unrung, failed, leaving) = (VecDeque::new(), VecDeque::new(), Batch::new(LEAVING));
        let (to_far, unread, outstanding) = (Some(to_far), None, 0);
        Self { link, to_far, from_far, outstanding, limit, unrung, leaving, line, unread, failed }
    }

    /// Sets the memory of the frames. Returns false if it was set before.
    pub(super) fn attach(&self, region: Arc<Region>) -> bool {
        self.link.attach(region)
    }

    #[inline]
    pub(super) fn transmit(&mut self, batch: &mut Batch, more: bool) -> Transmitted {
        let room = self.limit.saturating_sub(self.outstanding);
        if more || !self.unrung.is_empty() {
            return self.transmit_unrung(batch, room, more);
        }
        let taken = self.launch(batch, room);
        self.outstanding += taken;
        Transmitted { doorbell: taken > 0, stopped: self.outstanding >= self.limit }
    }

    /// Keeps the frames for a doorbell, which may follow at once.
    fn transmit_unrung(&mut self, batch: &mut Batch, room: usize, more: bool) -> Transmitted {
        let taken = batch.len().min(room);
        self.unrung.extend(batch.pop_each().take(taken));
        self.outstanding += taken;
        let stopped = self.outstanding >= self.limit;
        Transmitted { doorbell: (!more || stopped) && self.flush(), stopped }
    }

    #[inline]
    pub(super) fn flush(&mut self) -> bool {
        if self.unrung.is_empty() {
            return false;
        }
        self.launch_unrung();
        true
    }

    #[cold]
    fn launch_unrung(&mut self) {
        let Some(to_far) = &mut self.to_far else { return };
        match &mut self.line {
            None => push_all(self.unrung.drain(..), &mut self.leaving, to_far),
            Some(line) => {
                line.put(self.unrung.drain(..));
                self.release();
            }
        }
    }

    /// Puts up to `max` frames onto the line, or into the lane without a rate. Returns the number of frames.
    #[inline]
    fn launch(&mut self, from: &mut Batch, max: usize) -> usize {
        let Some(to_far) = &mut self.to_far else { return 0 };
        let Some(line) = &mut self.line else { return to_far.push_first(from, max) };
        let count = from.len().min(max);
        line.put(from.pop_each().take(count));
        count
    }

    /// Moves frames that have left by now to the lane.
    #[inline]
    pub(super) fn release(&mut self) {
        if let (Some(line), Some(to_far)) = (&mut self.line, &mut self.to_far)
            && !line.frames.is_empty()
        {
            let now_ns = if self.unread.is_some() { u64::MAX } else { line.clock.now_ns() };
            line.release(now_ns, &mut self.leaving, to_far);
        }
    }

    #[inline]
    pub(super) fn reap(&mut self, budget: usize, into: &mut Completions) {
        self.release();
        // Read before the lane: frames completed before the flag was set are then in it.
        let has_notice = self.link.has_notice();
        let sent = self.from_far.pop(&mut into.sent, budget);
        self.outstanding -= sent;
        if has_notice || !self.failed.is_empty() {
            self.reap_failed(budget - sent, into);
        }
    }

    #[cold]
    fn reap_failed(&mut self, budget: usize, into: &mut Completions) {
        let (failed, unread) = self.link.collect();
        self.failed.extend(failed);
        if unread.is_some() {
            self.unread = unread;
            self.release();
        }
        if let Some(Unread { arrived, lane }) = &mut self.unread {
            loop {
                self.failed.extend(arrived.pop_each().map(|frame| (frame, "link-down")));
                if lane.pop(arrived, usize::MAX) == 0 {
                    break;
                }
            }
        }
        let count = budget.min(self.failed.len());
        into.failed.extend(self.failed.drain(..count));
        self.outstanding -= count;
    }

    /// Closes: frames that have not left come back as failed; the far end may still take the others. No frame
    /// is taken any more.
    pub(super) fn close(&mut self) {
        (self.to_far, self.limit) = (None, 0);
        if let Some(line) = &mut self.line {
            self.failed.extend(line.frames.drain(..).map(|(frame, _)| (frame, "closed")));
        }
        self.failed.extend(self.unrung.drain(..).map(|frame| (frame, "closed")));
    }

    pub(super) fn outstanding(&self) -> usize {
        self.outstanding
    }

    /// Shows the frames that are here; frames in lanes cannot be seen from one side.
    pub(super) fn visit(&self, see: &mut dyn FnMut(&Frame)) {
        self.unrung.iter().for_each(&mut *see);
        self.failed.iter().for_each(|(frame, _)| see(frame));
        self.line.iter().flat_map(|line| &line.frames).for_each(|(frame, _)| see(frame));
        self.unread.iter().flat_map(|unread| unread.arrived.frames()).for_each(see);
    }

    /// Returns in how many nanoseconds the first frame will have left.
    pub(super) fn next_leave_ns(&self) -> Option<u64> {
        let line = self.line.as_ref()?;
        let (_, leave_ns) = line.frames.front()?;
        Some(leave_ns.saturating_sub(line.clock.now_ns()))
    }
}

impl TimedLine {
    fn put(&mut self, frames: impl Iterator<Item = Frame>) {
        let now_ns = self.clock.now_ns();
        for frame in frames {
            let leave_ns = self.line.send(frame.len_bytes(), now_ns);
            self.frames.push_back((frame, leave_ns));
        }
    }

    fn release(&mut self, now_ns: u64, leaving: &mut Batch, to_far: &mut LaneProducer) {
        // Times never decrease.
        let due = self.frames.partition_point(|&(_, leave_ns)| leave_ns <= now_ns);
        push_all(self.frames.drain(..due).map(|(frame, _)| frame), leaving, to_far);
    }
}

/// Puts frames into the lane by way of `leaving`.
fn push_all(frames: impl Iterator<Item = Frame>, leaving: &mut Batch, to_far: &mut LaneProducer) {
    for frame in frames {
        leaving.push_within(frame);
        if leaving.room() == 0 {
            to_far.push(leaving);
        }
    }
    to_far.push(leaving);
    debug_assert!(leaving.is_empty(), "a lane holds as many frames as the ring");
}
