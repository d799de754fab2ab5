//! `Batch`: a queue of frames of fixed capacity, which all stages hand to each other.
//!
//! Frames are pushed at the back and taken from the front. Frames that a device does not take stay, and go
//! first next time. Only `new` allocates. All batches keep their frames in boxes of one size: moving all
//! frames into an empty batch swaps two boxes. Any other move copies 8 bytes a frame.
#![forbid(unsafe_code)]

mod each;
mod summary;

pub(crate) use summary::Summary;

use crate::frame::{Charge, Frame, FreeFrame};

/// The most frames that a batch can hold, and that a device may complete in one call.
pub const BATCH_FRAMES_MAX: usize = 256;

/// A queue of frames, in order, of fixed capacity: see the example of this crate.
#[derive(Debug)]
pub struct Batch {
    contents: Box<Contents>,
    capacity: usize,
}

#[derive(Debug)]
struct Contents {
    slots: [Frame; BATCH_FRAMES_MAX],
    /// The first frame's slot.
    head: usize,
    len: usize,
    /// Kept up to date as frames come and go, so that no stage must read each frame.
    summary: Summary,
    /// True after frames were lent out to be changed: `summary.bytes` is out of date, and `summary` bounds
    /// nothing.
    stale: bool,
}

impl Contents {
    /// Returns the slot behind the last frame.
    #[inline(always)]
    fn tail(&self) -> usize {
        self.head + self.len
    }
}

impl Batch {
    /// Makes an empty batch for up to `capacity` frames; [`BATCH_FRAMES_MAX`] is the upper bound.
    pub fn new(capacity: usize) -> Self {
        let slots = [const { Frame::NONE }; BATCH_FRAMES_MAX];
        let contents = Contents { slots, head: 0, len: 0, summary: Summary::NONE, stale: false };
        Self { contents: Box::new(contents), capacity: capacity.min(BATCH_FRAMES_MAX) }
    }

    /// Returns the number of frames.
    #[inline]
    pub fn len(&self) -> usize {
        self.contents.len
    }

    /// True if the batch has no frames.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.contents.len == 0
    }

    /// Returns the most frames that the batch can hold.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Returns the number of frames that can still be pushed.
    #[inline]
    pub fn room(&self) -> usize {
        self.capacity() - self.len()
    }

    /// Returns the frames, front first.
    #[inline]
    pub fn frames(&self) -> &[Frame] {
        &self.contents.slots[self.contents.head..self.contents.tail()]
    }

    /// Returns the frames, front first, to change their sender or band. The caller calls [`Batch::refresh`]
    /// afterwards; otherwise later stages read each frame.
    #[inline]
    pub fn frames_mut(&mut self) -> &mut [Frame] {
        (self.contents.summary, self.contents.stale) = (Summary::UNKNOWN, true);
        self.frames_to_write()
    }

    /// Returns the frames, front first, to borrow their buffers mutably. The caller does not change the
    /// frames.
    #[inline]
    pub(crate) fn frames_to_write(&mut self) -> &mut [Frame] {
        let (head, tail) = (self.contents.head, self.contents.tail());
        &mut self.contents.slots[head..tail]
    }

    /// Computes the summary anew.
    pub fn refresh(&mut self) {
        self.contents.summary = Summary::of(self.frames());
        self.contents.stale = false;
    }

    /// Adds a frame at the back.
    ///
    /// # Errors
    /// The frame itself, if the batch is full.
    #[inline]
    pub fn push(&mut self, frame: Frame) -> Result<(), Frame> {
        if self.room() == 0 {
            return Err(frame);
        }
        self.put(frame);
        Ok(())
    }

    /// Adds a frame at the back. The batch has room.
    #[inline(always)]
    pub(crate) fn put(&mut self, frame: Frame) {
        debug_assert!(self.room() > 0);
        // A reference of its own: writes through it cannot change the pointer to it.
        let contents = &mut *self.contents;
        contents.summary.add(&frame);
        match contents.slots.get_mut(contents.head + contents.len) {
            Some(slot) => {
                *slot = frame;
                contents.len += 1;
            }
            None => self.shift_and_put(frame),
        }
    }

    #[cold]
    fn shift_and_put(&mut self, frame: Frame) {
        self.shift();
        self.contents.slots[self.contents.len] = frame;
        self.contents.len += 1;
    }

    /// Takes the only frame as a free buffer, with its length, bytes. Returns `None` if there are others, or it
    /// is not charged to `charge`, or has a row in the side table.
    #[doc(hidden)]
    #[inline(always)]
    pub fn free_only(&mut self, charge: Charge) -> Option<(FreeFrame, u32)> {
        if self.contents.len != 1 {
            return None;
        }
        let frame = self.contents.slots.get(self.contents.head)?;
        if !frame.is_plain_and_charged(charge) {
            return None;
        }
        let (free, len_bytes) = (frame.moved().into_free(), frame.len_bytes());
        self.reset();
        Some((free, len_bytes))
    }

    /// Takes the first frame.
    #[inline]
    pub fn pop(&mut self) -> Option<Frame> {
        if self.is_empty() {
            return None;
        }
        let frame = self.contents.slots[self.contents.head].moved();
        self.advance(1);
        Some(frame)
    }

    /// Takes the last frame: for a caller that took more frames than it has room for.
    #[inline]
    pub fn pop_back(&mut self) -> Option<Frame> {
        if self.is_empty() {
            return None;
        }
        self.contents.len -= 1;
        let frame = self.contents.slots[self.contents.tail()].moved();
        self.leave(u64::from(frame.len_bytes()));
        Some(frame)
    }

    /// Moves up to `max` frames from the front of `from` to the back of this batch, and returns their number.
    #[inline]
    pub fn append(&mut self, from: &mut Batch, max: usize) -> usize {
        let count = from.len();
        if count <= max && self.replace(from) {
            return count;
        }
        self.append_slowly(from, max)
    }

    /// Takes all frames of `from` by a swap of two pointers, if this batch is empty and has room for them.
    /// Returns true if so.
    #[inline]
    pub fn replace(&mut self, from: &mut Batch) -> bool {
        let fits = self.is_empty() && from.len() <= self.capacity;
        if fits {
            // Empty contents equal new ones: `reset` sees to that.
            std::mem::swap(&mut self.contents, &mut from.contents);
        }
        fits
    }

    #[inline(never)]
    fn append_slowly(&mut self, from: &mut Batch, max: usize) -> usize {
        let count = from.len().min(max).min(self.room());
        self.make_space(count);
        let tail = self.contents.tail();
        let to = &mut self.contents.slots[tail..tail + count];
        for (to, from) in to.iter_mut().zip(from.frames()) {
            *to = from.moved();
            self.contents.summary.add(from);
        }
        self.contents.len += count;
        from.advance(count);
        count
    }

    /// Returns the sum of all frames' lengths, bytes.
    #[inline]
    pub fn bytes(&self) -> u64 {
        if self.contents.stale { self.bytes_summed_anew() } else { self.contents.summary.bytes }
    }

    /// True if all frames are known to belong to pool `pool`. This and the next two may be false although
    /// it is so, after frames have left or after [`Batch::frames_mut`]; they are never true wrongly.
    // Field by field: a copy of the whole summary, just after it was written piece by piece, stalls the load.
    #[inline]
    pub fn is_of_pool(&self, pool: u8) -> bool {
        self.contents.summary.is_of_pool(pool)
    }

    /// True if all frames are known to belong to pool `pool`, and none has a row in its side table.
    #[inline]
    pub(crate) fn is_plain_of(&self, pool: u8) -> bool {
        self.contents.summary.is_plain_of(pool)
    }

    /// True if all frames are known to be charged to `charge`.
    #[doc(hidden)]
    #[inline]
    pub fn is_of(&self, charge: Charge) -> bool {
        self.contents.summary.is_of(charge)
    }

    /// Returns the sender that all frames are charged to, where it is one and known.
    #[inline]
    pub fn sender(&self) -> Option<u16> {
        self.contents.summary.sender()
    }

    /// True if some frame may have a row in its pool's side table.
    #[inline]
    pub fn any_meta(&self) -> bool {
        self.contents.summary.any_meta()
    }

    /// Returns the sum of the first `count` frames' lengths, bytes.
    #[inline]
    pub fn bytes_of_first(&self, count: usize) -> u64 {
        Summary::of(&self.frames()[..count]).bytes
    }

    // Out of line: inlined, its loop would occupy the registers of every stage.
    #[cold]
    #[inline(never)]
    fn bytes_summed_anew(&self) -> u64 {
        Summary::of(self.frames()).bytes
    }

    /// Returns the number of frames at the front that have the first one's sender (0 only if the batch is
    /// empty), and the sum of their lengths, bytes.
    pub fn run_of_sender(&self) -> (usize, u64) {
        let frames = self.frames();
        let Some(first) = frames.first() else { return (0, 0) };
        let run = frames.iter().take_while(|frame| frame.sender() == first.sender());
        run.fold((0, 0), |(count, bytes), frame| (count + 1, bytes + u64::from(frame.len_bytes())))
    }

    /// Returns the length of the last frame, bytes; 0 if the batch is empty.
    #[inline]
    pub fn last_bytes(&self) -> u32 {
        match self.contents.len {
            0 => 0,
            _ => self.contents.slots.get(self.contents.tail() - 1).map_or(0, Frame::len_bytes),
        }
    }

    /// Returns the length of the frame that was taken last, bytes, while other frames are behind it.
    pub fn last_taken_bytes(&self) -> Option<u32> {
        // A taken frame stays in its slot until a frame is pushed or all are gone.
        (self.contents.head > 0 && !self.is_empty())
            .then(|| self.contents.slots[self.contents.head - 1].len_bytes())
    }

    /// Returns up to `max` slots at the back, to be written and then counted by [`Batch::filled`].
    #[inline]
    pub(crate) fn space(&mut self, max: usize) -> &mut [Frame] {
        let count = max.min(self.room());
        self.make_space(count);
        let tail = self.contents.tail();
        &mut self.contents.slots[tail..tail + count]
    }

    /// Counts `count` frames that were written to the slots of [`Batch::space`], with their summary.
    #[inline]
    pub(crate) fn filled(&mut self, count: usize, summary: Summary) {
        debug_assert!(self.contents.tail() + count <= self.contents.slots.len());
        self.contents.len += count;
        self.contents.summary.join(summary);
    }

    /// Forgets `count` frames at the front, which were moved elsewhere.
    #[inline]
    pub(crate) fn advance(&mut self, count: usize) {
        if count == self.len() {
            return self.reset();
        }
        let bytes = Summary::of(&self.frames()[..count]).bytes;
        self.contents.head += count;
        self.contents.len -= count;
        self.leave(bytes);
    }

    #[inline(always)]
    fn reset(&mut self) {
        (self.contents.head, self.contents.len) = (0, 0);
        (self.contents.summary, self.contents.stale) = (Summary::NONE, false);
    }

    /// Subtracts `bytes` that have left. The summary's other parts are bounds, and stay.
    #[inline]
    fn leave(&mut self, bytes: u64) {
        self.contents.summary.bytes = self.contents.summary.bytes.wrapping_sub(bytes);
        if self.is_empty() {
            self.reset();
        }
    }

    /// Moves the first `count` frames to `to`, as free buffers.
    #[inline(always)]
    pub(crate) fn free_into(&mut self, to: &mut Vec<FreeFrame>, count: usize) {
        if self.len() == 1 && count == 1 {
            to.push(self.contents.slots[self.contents.head].moved().into_free());
            return self.reset();
        }
        self.free_many_into(to, count);
    }

    #[inline(never)]
    fn free_many_into(&mut self, to: &mut Vec<FreeFrame>, count: usize) {
        let first = &self.contents.slots[self.contents.head..self.contents.head + count];
        to.extend(first.iter().map(|frame| frame.moved().into_free()));
        self.advance(count);
    }

    #[inline]
    fn make_space(&mut self, count: usize) {
        if self.contents.tail() + count > self.contents.slots.len() {
            self.shift();
        }
    }

    #[cold]
    fn shift(&mut self) {
        for (to, from) in (self.contents.head..self.contents.tail()).enumerate() {
            self.contents.slots[to] = self.contents.slots[from].moved();
        }
        self.contents.head = 0;
    }
}
