//! `Store`: a first-in first-out list of frames whose capacity is fixed until it is reserved.

use super::Limit;
use super::buffers::Buffers;
use std::collections::VecDeque;
use wharf_mem::{Batch, Frame};

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Store {
    pub(super) frames: VecDeque<Frame>,
    pub(super) bytes: u64,
    pub(super) capacity: usize,
    pub(super) buffers: Buffers,
}

impl Store {
    pub(super) fn with_capacity(capacity: usize) -> Self {
        Self { frames: VecDeque::with_capacity(capacity), bytes: 0, capacity, buffers: Buffers::default() }
    }

    pub(super) fn reserve(&mut self, frames: usize) {
        self.capacity += frames;
        self.frames.reserve(self.capacity - self.frames.len());
    }

    /// Adds a frame, or gives it back when the store is full.
    #[inline]
    pub(super) fn push(&mut self, frame: Frame) -> Result<(), Frame> {
        if self.frames.len() == self.capacity {
            return Err(frame);
        }
        self.bytes += u64::from(frame.len_bytes());
        self.buffers.enter(frame.len_bytes());
        self.frames.push_back(frame);
        Ok(())
    }

    pub(super) fn pop(&mut self) -> Option<Frame> {
        let frame = self.frames.pop_front()?;
        self.bytes -= u64::from(frame.len_bytes());
        self.buffers.leave(frame.len_bytes());
        Some(frame)
    }

    /// Moves frames within `limit`; returns the number of frames and bytes moved.
    pub(super) fn drain(&mut self, to: &mut Batch, limit: Limit) -> (usize, u64) {
        let Self { frames, buffers, .. } = self;
        let (moved, moved_bytes) = move_within(to, limit, || {
            frames.pop_front().inspect(|frame| _ = buffers.leave(frame.len_bytes()))
        });
        self.bytes -= moved_bytes;
        (moved, moved_bytes)
    }
}

/// Moves the frames that `next` gives within `limit`; returns the number of frames and bytes moved.
#[inline]
pub(super) fn move_within(
    to: &mut Batch, limit: Limit, mut next: impl FnMut() -> Option<Frame>,
) -> (usize, u64) {
    let (mut moved, mut moved_bytes) = (0, 0);
    let packets = limit.packets.min(to.room());
    while moved < packets && (moved == 0 || moved_bytes < limit.bytes) {
        let Some(frame) = next() else { break };
        moved_bytes += u64::from(frame.len_bytes());
        moved += 1;
        to.push_within(frame);
    }
    (moved, moved_bytes)
}
