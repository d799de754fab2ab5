//! `Batch`: a queue of frames of fixed capacity, the currency between all stages.
//!
//! Frames enter at the back and are taken from the front, in order; what a device does not take stays, and
//! goes first next time. Nothing is allocated after `new`. All batches have their frames in boxes of one size,
//! so that moving all of one into an empty other swaps the boxes, whatever the number of frames; else 8 bytes
//! a frame are copied.
#![forbid(unsafe_code)]

mod summary;
#[cfg(test)]
mod tests;

pub(crate) use summary::Summary;

use crate::frame::{Frame, FreeFrame};

/// Most frames that any batch can hold: what a device may complete in one call.
pub const BATCH_FRAMES_MAX: usize = 256;

/// Frames in order, taken from the front.
#[derive(Debug)]
pub struct Batch {
    inside: Box<Inside>,
    capacity: usize,
}

#[derive(Debug)]
struct Inside {
    slots: [Frame; BATCH_FRAMES_MAX],
    /// The first frame's place.
    head: usize,
    len: usize,
    /// Kept up to date as frames come and go, so that no stage must look at each of them.
    summary: Summary,
    /// Frames were lent out to be changed: `summary.bytes` is out of date, and `summary` says nothing else.
    stale: bool,
}

impl Inside {
    /// The place behind the last frame.
    #[inline(always)]
    fn tail(&self) -> usize {
        self.head + self.len
    }
}

impl Batch {
    /// An empty batch for up to `capacity` frames, at most [`BATCH_FRAMES_MAX`].
    pub fn new(capacity: usize) -> Self {
        let slots = [const { Frame::NONE }; BATCH_FRAMES_MAX];
        let inside = Inside { slots, head: 0, len: 0, summary: Summary::NONE, stale: false };
        Self { inside: Box::new(inside), capacity: capacity.min(BATCH_FRAMES_MAX) }
    }

    /// Frames inside.
    #[inline]
    pub fn len(&self) -> usize {
        self.inside.len
    }

    /// Whether there is none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.inside.len == 0
    }

    /// Most frames that it can hold.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Frames that can still be pushed.
    #[inline]
    pub fn room(&self) -> usize {
        self.capacity() - self.len()
    }

    /// The frames inside, first to leave first.
    #[inline]
    pub fn frames(&self) -> &[Frame] {
        &self.inside.slots[self.inside.head..self.inside.tail()]
    }

    /// As [`Batch::frames`], to change their sender, band or length. [`Batch::refresh`] afterwards, or later
    /// stages look at each of them.
    #[inline]
    pub fn frames_mut(&mut self) -> &mut [Frame] {
        (self.inside.summary, self.inside.stale) = (Summary::UNKNOWN, true);
        self.frames_to_write()
    }

    /// As [`Batch::frames`], to borrow their buffers mutably; the frames themselves stay as they are.
    #[inline]
    pub(crate) fn frames_to_write(&mut self) -> &mut [Frame] {
        let (head, tail) = (self.inside.head, self.inside.tail());
        &mut self.inside.slots[head..tail]
    }

    /// Brings the summary up to date.
    pub fn refresh(&mut self) {
        self.inside.summary = Summary::of(self.frames());
        self.inside.stale = false;
    }

    /// Adds a frame at the back; gives it back when the batch is full.
    ///
    /// # Errors
    /// The frame itself.
    #[inline]
    pub fn push(&mut self, frame: Frame) -> Result<(), Frame> {
        if self.room() == 0 {
            return Err(frame);
        }
        self.put(frame);
        Ok(())
    }

    /// As [`Batch::push`], where there is known to be room.
    #[inline(always)]
    pub(crate) fn put(&mut self, frame: Frame) {
        debug_assert!(self.room() > 0);
        // A reference of its own: what is written through it cannot be the pointer to it.
        let inside = &mut *self.inside;
        inside.summary.add(&frame);
        match inside.slots.get_mut(inside.head + inside.len) {
            Some(slot) => {
                *slot = frame;
                inside.len += 1;
            }
            None => self.shift_and_put(frame),
        }
    }

    #[cold]
    fn shift_and_put(&mut self, frame: Frame) {
        self.shift();
        self.inside.slots[self.inside.len] = frame;
        self.inside.len += 1;
    }

    /// Takes the only frame, where there is one only, and of pool `pool` without a row in the side table.
    #[inline(always)]
    pub(crate) fn pop_only(&mut self, pool: u8) -> Option<Frame> {
        let frame = self.inside.slots.get(self.inside.head).filter(|frame| frame.is_plain_of(pool));
        if self.inside.len != 1 {
            return None;
        }
        let frame = frame?.moved();
        self.reset();
        Some(frame)
    }

    /// Takes the first frame.
    #[inline]
    pub fn pop(&mut self) -> Option<Frame> {
        if self.is_empty() {
            return None;
        }
        let frame = self.inside.slots[self.inside.head].moved();
        self.advance(1);
        Some(frame)
    }

    /// Takes frames from the front, in order, as long as `wants` one; `take` has each.
    #[inline(always)]
    pub fn take_while(&mut self, mut wants: impl FnMut(&Frame) -> bool, mut take: impl FnMut(Frame)) {
        /// Forgets those that were taken, should `take` panic, too.
        struct Taken<'a>(&'a mut Batch, usize);

        impl Drop for Taken<'_> {
            #[inline(always)]
            fn drop(&mut self) {
                if self.1 > 0 {
                    self.0.advance(self.1);
                }
            }
        }

        let mut taken = Taken(self, 0);
        while let Some(frame) = taken.0.frames().get(taken.1).filter(|frame| wants(frame)) {
            let frame = frame.moved();
            taken.1 += 1;
            take(frame);
        }
    }

    /// Takes the last frame: for whoever asked for more than there was room for.
    #[inline]
    pub fn pop_back(&mut self) -> Option<Frame> {
        if self.is_empty() {
            return None;
        }
        self.inside.len -= 1;
        let frame = self.inside.slots[self.inside.tail()].moved();
        self.leave(u64::from(frame.len_bytes()));
        Some(frame)
    }

    /// Moves up to `max` frames from the front of `from` to the back of this one; how many.
    #[inline]
    pub fn append(&mut self, from: &mut Batch, max: usize) -> usize {
        let count = from.len();
        if count <= max && self.replace(from) {
            return count;
        }
        self.append_slowly(from, max)
    }

    /// Takes all frames of `from`, if this one is empty and has room for them: two pointers change places.
    #[inline]
    pub fn replace(&mut self, from: &mut Batch) -> bool {
        let fits = self.is_empty() && from.len() <= self.capacity;
        if fits {
            // An empty inside is as new: `reset` has seen to that.
            std::mem::swap(&mut self.inside, &mut from.inside);
        }
        fits
    }

    #[inline(never)]
    fn append_slowly(&mut self, from: &mut Batch, max: usize) -> usize {
        let count = from.len().min(max).min(self.room());
        self.make_space(count);
        let tail = self.inside.tail();
        let to = &mut self.inside.slots[tail..tail + count];
        for (to, from) in to.iter_mut().zip(from.frames()) {
            *to = from.moved();
            self.inside.summary.add(from);
        }
        self.inside.len += count;
        from.advance(count);
        count
    }

    /// Bytes of all frames inside.
    #[inline]
    pub fn bytes(&self) -> u64 {
        if self.inside.stale { self.bytes_summed_anew() } else { self.inside.summary.bytes }
    }

    /// Whether all frames are known to belong to pool `pool`. This and the next two may name less in common than
    /// there is, after some frames have left or [`Batch::frames_mut`]; never more.
    // Field by field: a copy of the whole summary, just after it was written piece by piece, stalls the load.
    #[inline]
    pub fn is_of_pool(&self, pool: u8) -> bool {
        self.inside.summary.is_of_pool(pool)
    }

    /// Whether all frames are known to belong to pool `pool`, and none to have a row in its side table.
    #[inline]
    pub(crate) fn is_plain_of(&self, pool: u8) -> bool {
        self.inside.summary.is_plain_of(pool)
    }

    /// Whether all frames are known to belong to pool `pool` and to be charged to `sender`.
    #[inline]
    pub fn is_of(&self, pool: u8, sender: u16) -> bool {
        self.inside.summary.is_of(pool, sender)
    }

    /// Whether all frames are known to be charged to `sender`.
    #[inline(always)]
    pub fn is_from(&self, sender: u16) -> bool {
        self.inside.summary.is_from(sender)
    }

    /// The one sender that all frames are charged to, where that is known.
    #[inline]
    pub fn sender(&self) -> Option<u16> {
        self.inside.summary.sender()
    }

    /// Whether any frame may have a row in its pool's side table.
    #[inline]
    pub fn any_meta(&self) -> bool {
        self.inside.summary.any_meta()
    }

    /// Bytes of the first `count` frames.
    #[inline]
    pub fn bytes_of_first(&self, count: usize) -> u64 {
        Summary::of(&self.frames()[..count]).bytes
    }

    // Out of line: inlined, its loop would take the registers of every stage.
    #[cold]
    #[inline(never)]
    fn bytes_summed_anew(&self) -> u64 {
        Summary::of(self.frames()).bytes
    }

    /// How many frames from the front have the sender of the first one (0 only when empty), and their bytes.
    pub fn run_of_sender(&self) -> (usize, u64) {
        let frames = self.frames();
        let Some(first) = frames.first() else { return (0, 0) };
        let run = frames.iter().take_while(|frame| frame.sender() == first.sender());
        run.fold((0, 0), |(count, bytes), frame| (count + 1, bytes + u64::from(frame.len_bytes())))
    }

    /// Bytes of the last frame; 0 when there is none.
    #[inline]
    pub fn last_bytes(&self) -> u32 {
        match self.inside.len {
            0 => 0,
            _ => self.inside.slots.get(self.inside.tail() - 1).map_or(0, Frame::len_bytes),
        }
    }

    /// Bytes of the frame that was taken last, while there are others behind it.
    pub fn last_taken_bytes(&self) -> Option<u32> {
        // What was taken from the front still stands there until something is pushed or all are gone.
        (self.inside.head > 0 && !self.is_empty())
            .then(|| self.inside.slots[self.inside.head - 1].len_bytes())
    }

    /// Up to `max` places at the back, to be filled and then counted by [`Batch::filled`].
    #[inline]
    pub(crate) fn space(&mut self, max: usize) -> &mut [Frame] {
        let count = max.min(self.room());
        self.make_space(count);
        let tail = self.inside.tail();
        &mut self.inside.slots[tail..tail + count]
    }

    /// Counts `count` frames that were written to the places of [`Batch::space`], with their summary.
    #[inline]
    pub(crate) fn filled(&mut self, count: usize, summary: Summary) {
        debug_assert!(self.inside.tail() + count <= self.inside.slots.len());
        self.inside.len += count;
        self.inside.summary.join(summary);
    }

    /// Forgets `count` frames from the front: they have been moved elsewhere.
    #[inline]
    pub(crate) fn advance(&mut self, count: usize) {
        if count == self.len() {
            return self.reset();
        }
        let bytes = Summary::of(&self.frames()[..count]).bytes;
        self.inside.head += count;
        self.inside.len -= count;
        self.leave(bytes);
    }

    #[inline(always)]
    fn reset(&mut self) {
        (self.inside.head, self.inside.len) = (0, 0);
        (self.inside.summary, self.inside.stale) = (Summary::NONE, false);
    }

    /// Notes that `bytes` have gone. What the others have in common is not narrowed: it is a bound.
    #[inline]
    fn leave(&mut self, bytes: u64) {
        self.inside.summary.bytes = self.inside.summary.bytes.wrapping_sub(bytes);
        if self.is_empty() {
            self.reset();
        }
    }

    /// Takes the first `count` frames as free buffers, to be written into `to`.
    #[inline(always)]
    pub(crate) fn free_into(&mut self, to: &mut Vec<FreeFrame>, count: usize) {
        if self.len() == 1 && count == 1 {
            to.push(self.inside.slots[self.inside.head].moved().into_free());
            return self.reset();
        }
        self.free_many_into(to, count);
    }

    #[inline(never)]
    fn free_many_into(&mut self, to: &mut Vec<FreeFrame>, count: usize) {
        let first = &self.inside.slots[self.inside.head..self.inside.head + count];
        to.extend(first.iter().map(|frame| frame.moved().into_free()));
        self.advance(count);
    }

    #[inline]
    fn make_space(&mut self, count: usize) {
        if self.inside.tail() + count > self.inside.slots.len() {
            self.shift();
        }
    }

    #[cold]
    fn shift(&mut self) {
        for (to, from) in (self.inside.head..self.inside.tail()).enumerate() {
            self.inside.slots[to] = self.inside.slots[from].moved();
        }
        self.inside.head = 0;
    }
}
