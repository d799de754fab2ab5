//! `TxBook`: the frames that a transmit side has done with, until they are reaped.

use std::collections::VecDeque;
use wharf_core::device::Completions;
use wharf_mem::batch::BATCH_FRAMES_MAX;
use wharf_mem::{Batch, Frame};

/// Frames that a transmit side has done with: sent ones and failed ones, which [`TxBook::reap`] gives back.
#[derive(Debug)]
pub struct TxBook {
    sent: Batch,
    /// Sent frames that the batch has no room for: a ring may leave more when it is closed.
    beyond: VecDeque<Frame>,
    failed: Vec<(Frame, &'static str)>,
}

impl TxBook {
    /// Makes an empty book. It allocates nothing until more than `failed` frames have failed.
    pub fn new(failed: usize) -> Self {
        let sent = Batch::new(BATCH_FRAMES_MAX);
        Self { sent, beyond: VecDeque::new(), failed: Vec::with_capacity(failed) }
    }

    /// Returns true if no frame is inside.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of frames inside.
    #[inline]
    pub fn len(&self) -> usize {
        self.sent.len() + self.beyond.len() + self.failed.len()
    }

    /// Adds a frame that was sent.
    #[inline]
    pub fn sent(&mut self, frame: Frame) {
        if let Err(frame) = self.sent.push(frame) {
            self.beyond.push_back(frame);
        }
    }

    /// Moves the first `count` frames of `batch`, which were sent; the book holds at most
    /// [`BATCH_FRAMES_MAX`] frames then.
    #[inline]
    pub fn sent_first(&mut self, batch: &mut Batch, count: usize) {
        self.sent.append(batch, count);
    }

    /// Adds frames that failed for `reason`.
    #[inline]
    pub fn fail(&mut self, frames: impl IntoIterator<Item = Frame>, reason: &'static str) {
        self.failed.extend(frames.into_iter().map(|frame| (frame, reason)));
    }

    /// Fails up to `count` of the frames that were sent, the last ones, for `reason`. Returns their number.
    #[cold]
    pub fn fail_last(&mut self, count: u64, reason: &'static str) -> u64 {
        let mut failed = 0;
        while failed < count
            && let Some(frame) = self.beyond.pop_back().or_else(|| self.sent.pop_back())
        {
            self.failed.push((frame, reason));
            failed += 1;
        }
        failed
    }

    /// Gives back up to `budget` frames: sent ones first, each kind in order.
    #[inline]
    pub fn reap(&mut self, budget: usize, into: &mut Completions) {
        if !self.is_empty() {
            let room = budget - into.sent.append(&mut self.sent, budget);
            self.reap_rest(room, into);
        }
    }

    #[inline]
    fn reap_rest(&mut self, mut room: usize, into: &mut Completions) {
        let count = self.beyond.len().min(room).min(into.sent.room());
        room -= count;
        self.beyond.drain(..count).for_each(|frame| into.sent.push_within(frame));
        let count = self.failed.len().min(room);
        into.failed.extend(self.failed.drain(..count));
    }

    /// Shows each frame inside: see [`Device::visit`](wharf_core::device::Device::visit).
    pub fn visit(&self, see: &mut dyn FnMut(&Frame)) {
        self.sent.frames().iter().chain(&self.beyond).for_each(&mut *see);
        self.failed.iter().for_each(|(frame, _)| see(frame));
    }
}
