//! `Batch`: a queue of frames of fixed capacity, the currency between all stages.
//!
//! Frames enter at the back and are taken from the front, in order; what a device does not take stays, and
//! goes first next time. Nothing is allocated after `new`. Moving frames between batches copies 8 bytes each.
#![forbid(unsafe_code)]

use crate::frame::{Frame, FreeFrame};

/// Frames in order, taken from the front.
#[derive(Debug)]
pub struct Batch {
    slots: Box<[Frame]>,
    head: usize,
    tail: usize,
}

impl Batch {
    /// An empty batch for up to `capacity` frames.
    pub fn new(capacity: usize) -> Self {
        let slots = (0..capacity).map(|_| Frame::NONE).collect();
        Self { slots, head: 0, tail: 0 }
    }

    /// Frames inside.
    #[inline]
    pub fn len(&self) -> usize {
        self.tail - self.head
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.tail == self.head
    }

    /// Most frames that it can hold.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.slots.len()
    }

    /// Frames that can still be pushed.
    #[inline]
    pub fn room(&self) -> usize {
        self.capacity() - self.len()
    }

    /// The frames inside, first to leave first.
    #[inline]
    pub fn frames(&self) -> &[Frame] {
        &self.slots[self.head..self.tail]
    }

    /// As [`Batch::frames`], to write to their buffers or set their band.
    #[inline]
    pub fn frames_mut(&mut self) -> &mut [Frame] {
        &mut self.slots[self.head..self.tail]
    }

    /// Adds a frame at the back; gives it back when the batch is full.
    ///
    /// # Errors
    /// The frame itself.
    #[inline]
    pub fn push(&mut self, frame: Frame) -> Result<(), Frame> {
        if self.tail == self.slots.len() {
            if self.head == 0 {
                return Err(frame);
            }
            self.shift();
        }
        self.slots[self.tail] = frame;
        self.tail += 1;
        Ok(())
    }

    /// Takes the first frame.
    #[inline]
    pub fn pop(&mut self) -> Option<Frame> {
        if self.head == self.tail {
            return None;
        }
        let frame = self.slots[self.head].moved();
        self.advance(1);
        Some(frame)
    }

    /// Takes the last frame: for whoever asked for more than there was room for.
    #[inline]
    pub fn pop_back(&mut self) -> Option<Frame> {
        if self.head == self.tail {
            return None;
        }
        self.tail -= 1;
        Some(self.slots[self.tail].moved())
    }

    /// Moves up to `max` frames from the front of `from` to the back of this one; how many.
    #[inline]
    pub fn append(&mut self, from: &mut Batch, max: usize) -> usize {
        let count = self.take_slice(from.frames(), max);
        from.advance(count);
        count
    }

    /// Bytes of all frames inside.
    #[inline]
    pub fn bytes(&self) -> u64 {
        sum_bytes(self.frames())
    }

    /// Bytes of the first `count` frames.
    #[inline]
    pub fn bytes_of_first(&self, count: usize) -> u64 {
        sum_bytes(&self.frames()[..count])
    }

    /// How many frames from the front have the sender of the first one: 0 only when empty.
    #[inline]
    pub fn run_of_sender(&self) -> usize {
        let frames = self.frames();
        let Some(first) = frames.first() else { return 0 };
        let sender = first.sender();
        if frames.iter().fold(true, |same, frame| same & (frame.sender() == sender)) {
            return frames.len();
        }
        frames.iter().take_while(|frame| frame.sender() == sender).count()
    }

    /// Whether any frame inside has a row in its pool's side table.
    #[inline]
    pub fn any_meta(&self) -> bool {
        self.frames().iter().fold(0, |bits, frame| bits | frame.bits()) & 1 != 0
    }

    /// Whether every frame inside belongs to pool `pool`.
    #[inline]
    pub fn all_of_pool(&self, pool: u8) -> bool {
        self.frames().iter().fold(true, |all, frame| all & (frame.pool() == pool))
    }

    /// Copies frame names in; the caller forgets them where they came from.
    #[inline]
    pub(crate) fn take_slice(&mut self, from: &[Frame], max: usize) -> usize {
        let count = from.len().min(max).min(self.room());
        self.make_space(count);
        let to = &mut self.slots[self.tail..self.tail + count];
        for (to, from) in to.iter_mut().zip(&from[..count]) {
            *to = from.moved();
        }
        self.tail += count;
        count
    }

    /// Up to `max` places at the back, to be filled and then counted by [`Batch::filled`].
    #[inline]
    pub(crate) fn space(&mut self, max: usize) -> &mut [Frame] {
        let count = max.min(self.room());
        self.make_space(count);
        &mut self.slots[self.tail..self.tail + count]
    }

    #[inline]
    pub(crate) fn filled(&mut self, count: usize) {
        debug_assert!(self.tail + count <= self.slots.len());
        self.tail += count;
    }

    /// Forgets `count` frames from the front: they have been moved elsewhere.
    #[inline]
    pub(crate) fn advance(&mut self, count: usize) {
        self.head += count;
        debug_assert!(self.head <= self.tail);
        if self.head == self.tail {
            (self.head, self.tail) = (0, 0);
        }
    }

    /// Takes the first `count` frames as free buffers, to be written into `to`.
    #[inline]
    pub(crate) fn free_into(&mut self, to: &mut Vec<FreeFrame>, count: usize) {
        to.extend(self.slots[self.head..self.head + count].iter().map(|frame| frame.moved().into_free()));
        self.advance(count);
    }

    #[inline]
    fn make_space(&mut self, count: usize) {
        if self.tail + count > self.slots.len() {
            self.shift();
        }
    }

    #[cold]
    fn shift(&mut self) {
        for (to, from) in (self.head..self.tail).enumerate() {
            self.slots[to] = self.slots[from].moved();
        }
        (self.head, self.tail) = (0, self.len());
    }
}

#[inline]
fn sum_bytes(frames: &[Frame]) -> u64 {
    frames.iter().map(|frame| u64::from(frame.len_bytes())).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(index: u32, sender: u16) -> Frame {
        Frame::from_parts(FreeFrame::new(1, index), Frame::template(1, sender, 100 + index))
    }

    #[test]
    fn keeps_order_and_capacity_through_shifts() {
        let mut batch = Batch::new(4);
        let (mut next_in, mut next_out) = (0, 0);
        for round in 0..50u32 {
            while batch.push(frame(next_in, 3)).is_ok() {
                next_in += 1;
            }
            assert_eq!(batch.len(), 4);
            for _ in 0..1 + round % 4 {
                assert_eq!(batch.pop().unwrap().index(), next_out);
                next_out += 1;
            }
        }
    }

    #[test]
    fn sums_runs_and_moves() {
        let mut batch = Batch::new(8);
        for (index, sender) in [(0, 1), (1, 1), (2, 9), (3, 1)] {
            batch.push(frame(index, sender)).unwrap();
        }
        assert_eq!((batch.bytes(), batch.bytes_of_first(2), batch.run_of_sender()), (406, 201, 2));
        let mut other = Batch::new(3);
        assert_eq!(other.append(&mut batch, 8), 3);
        assert_eq!((other.len(), batch.len(), batch.run_of_sender()), (3, 1, 1));
        assert_eq!(other.pop_back().unwrap().index(), 2);
        assert!(batch.all_of_pool(1) && !batch.all_of_pool(2) && !batch.any_meta());
    }
}
