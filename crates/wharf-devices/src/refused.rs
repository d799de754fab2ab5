//! `Refused`: the transmit side of a device that only receives. It takes frames, as every device must, and gives
//! them back as failed.

use wharf_core::device::{Completions, Transmitted};
use wharf_mem::{Batch, Frame};

#[derive(Debug)]
pub(crate) struct Refused {
    frames: Vec<(Frame, &'static str)>,
    reason: &'static str,
}

impl Refused {
    pub(crate) fn new(reason: &'static str) -> Self {
        Self { frames: Vec::new(), reason }
    }

    pub(crate) fn transmit(&mut self, batch: &mut Batch) -> Transmitted {
        self.frames.extend(std::iter::from_fn(|| batch.pop()).map(|frame| (frame, self.reason)));
        Transmitted { doorbell: !self.frames.is_empty(), stopped: false }
    }

    /// Takes frames that were inside the device when it was closed.
    pub(crate) fn hold(&mut self, frames: impl Iterator<Item = Frame>, reason: &'static str) {
        self.frames.extend(frames.map(|frame| (frame, reason)));
    }

    /// As [`Refused::hold`], each with a reason of its own.
    pub(crate) fn hold_failed(&mut self, failed: impl Iterator<Item = (Frame, &'static str)>) {
        self.frames.extend(failed);
    }

    pub(crate) fn reap(&mut self, budget: usize, into: &mut Completions) {
        let count = self.frames.len().min(budget);
        into.failed.extend(self.frames.drain(..count));
    }

    /// Moves them to the back of `to`, as far as there is room, as if they had never been given; how many.
    pub(crate) fn take(&mut self, to: &mut Batch) -> usize {
        let count = self.frames.len().min(to.room());
        for (frame, _) in self.frames.drain(..count) {
            let pushed = to.push(frame);
            debug_assert!(pushed.is_ok(), "there was room");
        }
        count
    }

    /// All of them, as if they had never been given.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = Frame> {
        self.frames.drain(..).map(|(frame, _)| frame)
    }

    pub(crate) fn len(&self) -> usize {
        self.frames.len()
    }

    pub(crate) fn visit(&self, see: &mut dyn FnMut(&Frame)) {
        self.frames.iter().for_each(|(frame, _)| see(frame));
    }
}
