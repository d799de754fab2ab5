//! `Between`: frames that are in no queue: those that wait for a back end, and those of queues that there are no more.

use super::pairs::Pairs;
use crate::refused::Refused;
use crate::virtio::DriverRing;
use wharf_core::device::{Completions, Transmitted};
use wharf_mem::batch::BATCH_FRAMES_MAX;
use wharf_mem::{Batch, Frame};

#[derive(Debug)]
pub(super) struct Between {
    /// Given while there was no back end: the next one is sent them first.
    pub(super) line: Batch,
    /// To be given back: what has left, and what has not, or was given when there was nobody any more.
    left: Refused,
    unsent: Refused,
    /// Memory that waited for frames to arrive.
    waiting: Refused,
}

impl Default for Between {
    fn default() -> Self {
        Self {
            line: Batch::new(BATCH_FRAMES_MAX),
            left: Refused::new("sent"),
            unsent: Refused::new("peer-gone"),
            waiting: Refused::new("closed"),
        }
    }
}

impl Between {
    pub(super) fn len(&self) -> usize {
        self.line.len() + self.left.len() + self.unsent.len() + self.waiting.len()
    }

    pub(super) fn visit(&self, see: &mut dyn FnMut(&Frame)) {
        self.line.frames().iter().for_each(&mut *see);
        self.left.visit(see);
        self.unsent.visit(see);
        self.waiting.visit(see);
    }

    /// Takes what has left by queues of a back end that is gone.
    pub(super) fn take_left(&mut self, pairs: &mut Pairs<impl DriverRing>) {
        self.left.hold(pairs.left(), "sent");
    }

    /// Takes all that is in queues that end.
    pub(super) fn take(&mut self, pairs: Pairs<impl DriverRing>, reason: &'static str) {
        let (waiting, unsent) = (&mut self.waiting, &mut self.unsent);
        pairs.end(
            reason,
            |frame| waiting.hold(std::iter::once(frame), reason),
            |failed| unsent.hold_failed(std::iter::once(failed)),
        );
    }

    /// Nobody will come any more, for those that wait.
    pub(super) fn give_up(&mut self, reason: &'static str) {
        self.unsent.hold(std::iter::from_fn(|| self.line.pop()), reason);
    }

    /// There is nobody to send to.
    pub(super) fn refuse(&mut self, batch: &mut Batch) -> Transmitted {
        self.unsent.transmit(batch)
    }

    /// Gives back up to `budget` frames.
    #[inline]
    pub(super) fn reap(&mut self, budget: usize, into: &mut Completions) {
        if self.left.len() + self.unsent.len() > 0 {
            if budget > 0 {
                self.left.take(&mut into.sent);
            }
            self.unsent.reap(budget, into);
        }
    }

    /// Memory that waited for frames, for queues where it waits on.
    pub(super) fn waited(&mut self) -> impl Iterator<Item = Frame> {
        self.waiting.drain()
    }

    /// As that, to the back of `to`, as far as there is room; how much.
    pub(super) fn reclaim(&mut self, to: &mut Batch) -> usize {
        self.waiting.take(to)
    }
}
