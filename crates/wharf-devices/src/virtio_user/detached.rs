//! `DetachedFrames`: frames in no virtqueue. They wait for a back end, come from queues that ended, or cannot
//! be sent.

use super::pairs::Pairs;
use crate::iface::TxBook;
use crate::virtio::DriverRing;
use wharf_core::device::Transmitted;
use wharf_mem::batch::BATCH_FRAMES_MAX;
use wharf_mem::{Batch, Frame};

/// Reason of frames that fail because the back end is gone.
pub(super) const PEER_GONE: &str = "peer-gone";

#[derive(Debug)]
pub(super) struct DetachedFrames {
    /// Frames given while there was no back end: the next one is sent them first.
    pub(super) line: Batch,
    /// Frames that have left, or never will, to be reaped.
    pub(super) book: TxBook,
    /// Memory that was posted for arrivals.
    pub(super) posted: Vec<Frame>,
}

impl Default for DetachedFrames {
    fn default() -> Self {
        Self { line: Batch::new(BATCH_FRAMES_MAX), book: TxBook::new(0), posted: Vec::new() }
    }
}

impl DetachedFrames {
    pub(super) fn len(&self) -> usize {
        self.line.len() + self.book.len() + self.posted.len()
    }

    pub(super) fn visit(&self, see: &mut dyn FnMut(&Frame)) {
        self.line.frames().iter().chain(&self.posted).for_each(&mut *see);
        self.book.visit(see);
    }

    /// Takes the frames that had left by queues of a back end that is gone.
    pub(super) fn take_left(&mut self, pairs: &mut Pairs<impl DriverRing>) {
        pairs.left().for_each(|frame| self.book.sent(frame));
    }

    /// Takes all frames of queues that end; those to be sent failed for `reason`.
    pub(super) fn take(&mut self, pairs: Pairs<impl DriverRing>, reason: &'static str) {
        let (posted, book) = (&mut self.posted, &mut self.book);
        pairs.end(|frame| posted.push(frame), |frame| book.fail([frame], reason));
    }

    /// Fails the frames that wait for a back end.
    pub(super) fn fail_line(&mut self, reason: &'static str) {
        self.book.fail(self.line.pop_each(), reason);
    }

    /// Takes frames for a back end that is gone for good: they fail.
    pub(super) fn reject(&mut self, batch: &mut Batch) -> Transmitted {
        self.book.fail(batch.pop_each(), PEER_GONE);
        Transmitted { doorbell: !self.book.is_empty(), stopped: false }
    }
}
