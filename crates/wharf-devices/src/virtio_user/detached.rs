//! `DetachedFrames`: frames in no virtqueue: they wait for a back end, or come from queues that ended.

use super::pairs::Pairs;
use crate::virtio::DriverRing;
use wharf_core::device::{Completions, Transmitted};
use wharf_mem::batch::BATCH_FRAMES_MAX;
use wharf_mem::{Batch, Frame};

/// Reason of frames that fail because the back end is gone.
pub(super) const PEER_GONE: &str = "peer-gone";

#[derive(Debug)]
pub(super) struct DetachedFrames {
    /// Frames given while there was no back end: the next one is sent them first.
    pub(super) line: Batch,
    /// Frames that have left, to be reaped.
    left: Vec<Frame>,
    /// Frames that never left, to be reaped as failed.
    unsent: Vec<(Frame, &'static str)>,
    /// Memory that was posted for arrivals.
    posted: Vec<Frame>,
}

impl Default for DetachedFrames {
    fn default() -> Self {
        let (left, unsent, posted) = (Vec::new(), Vec::new(), Vec::new());
        Self { line: Batch::new(BATCH_FRAMES_MAX), left, unsent, posted }
    }
}

impl DetachedFrames {
    pub(super) fn len(&self) -> usize {
        self.line.len() + self.left.len() + self.unsent.len() + self.posted.len()
    }

    /// Returns true if there is a frame to be reaped.
    pub(super) fn has_ended(&self) -> bool {
        !self.left.is_empty() || !self.unsent.is_empty()
    }

    pub(super) fn visit(&self, see: &mut dyn FnMut(&Frame)) {
        self.line.frames().iter().for_each(&mut *see);
        self.left.iter().chain(&self.posted).for_each(&mut *see);
        self.unsent.iter().for_each(|(frame, _)| see(frame));
    }

    /// Takes the frames that had left by queues of a back end that is gone.
    pub(super) fn take_left(&mut self, pairs: &mut Pairs<impl DriverRing>) {
        self.left.extend(pairs.left());
    }

    /// Takes all frames of queues that end; those to be sent failed for `reason`.
    pub(super) fn take(&mut self, pairs: Pairs<impl DriverRing>, reason: &'static str) {
        let (posted, unsent) = (&mut self.posted, &mut self.unsent);
        pairs.end(reason, |frame| posted.push(frame), |failed| unsent.push(failed));
    }

    /// Fails the frames that wait for a back end.
    pub(super) fn fail_line(&mut self, reason: &'static str) {
        self.unsent.extend(std::iter::from_fn(|| self.line.pop()).map(|frame| (frame, reason)));
    }

    /// Takes frames for a back end that is gone for good: they fail.
    pub(super) fn reject(&mut self, batch: &mut Batch) -> Transmitted {
        self.unsent.extend(std::iter::from_fn(|| batch.pop()).map(|frame| (frame, PEER_GONE)));
        Transmitted { doorbell: !self.unsent.is_empty(), stopped: false }
    }

    /// Gives back up to `budget` frames.
    #[inline]
    pub(super) fn reap(&mut self, budget: usize, into: &mut Completions) {
        if self.left.len() + self.unsent.len() > 0 {
            if budget > 0 {
                move_to(&mut self.left, &mut into.sent);
            }
            let count = self.unsent.len().min(budget);
            into.failed.extend(self.unsent.drain(..count));
        }
    }

    /// Returns the memory that was posted for arrivals, to be posted again.
    pub(super) fn drain_posted(&mut self) -> impl Iterator<Item = Frame> {
        self.posted.drain(..)
    }

    /// Moves the memory that was posted for arrivals to the back of `to`. Returns the number of frames moved.
    pub(super) fn reclaim(&mut self, to: &mut Batch) -> usize {
        move_to(&mut self.posted, to)
    }
}

/// Moves as many frames as there is room for.
fn move_to(frames: &mut Vec<Frame>, to: &mut Batch) -> usize {
    let count = frames.len().min(to.room());
    for frame in frames.drain(..count) {
        let pushed = to.push(frame);
        debug_assert!(pushed.is_ok(), "there was room");
    }
    count
}
