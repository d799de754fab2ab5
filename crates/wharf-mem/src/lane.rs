//! A lane: the ring of frames from one sender to the owner of its queue.
#![forbid(unsafe_code)]

use crate::batch::{Batch, Summary};
use crate::frame::Frame;
use crate::ring::{Consumer, Producer, ring};

/// The sender's end.
pub struct LaneProducer(Producer<u64>);

/// The owner's end.
pub struct LaneConsumer(Consumer<u64>);

/// A lane for `capacity` frames (a power of two), its indices starting at `start` (anything; tests start
/// near 2^32 to see them wrap).
///
/// # Panics
/// When `capacity` is not a power of two.
pub fn lane(capacity: u32, start: u32) -> (LaneProducer, LaneConsumer) {
    let (producer, consumer) = ring(capacity, start);
    (LaneProducer(producer), LaneConsumer(consumer))
}

impl LaneProducer {
    /// Moves frames from the front of `from` into the lane, as many as there is room for, and publishes
    /// them; how many.
    #[inline]
    pub fn push(&mut self, from: &mut Batch) -> usize {
        self.push_first(from, usize::MAX)
    }

    /// As [`LaneProducer::push`], for the first `max` frames only.
    #[inline]
    pub fn push_first(&mut self, from: &mut Batch, max: usize) -> usize {
        let count = from.len().min(max);
        let pushed = self.0.push(&from.frames()[..count], Frame::bits);
        from.advance(pushed);
        pushed
    }

    /// Frames that the lane can take now.
    pub fn room(&mut self) -> usize {
        self.0.room(usize::MAX)
    }

    /// Whether the owner has taken all.
    #[inline]
    pub fn is_drained(&mut self) -> bool {
        self.0.drained()
    }

    /// Bytes of this lane's frames that have come home, as a sum that wraps and begins at the index's start.
    #[inline]
    pub fn returned_bytes(&self) -> u32 {
        self.0.note()
    }

    /// Says that nothing more will be pushed, as dropping it does.
    pub fn abandon(&mut self) {
        self.0.abandon();
    }

    /// Frames that it can hold.
    pub fn capacity(&self) -> usize {
        self.0.capacity()
    }
}

impl LaneConsumer {
    /// Moves up to `max` frames into `to`; how many. Fewer than `max` and than `to` has room for means that no
    /// more were published when it looked.
    #[inline]
    pub fn pop(&mut self, to: &mut Batch, max: usize) -> usize {
        let want = max.min(to.room());
        let ready = self.0.ready(want).min(want);
        self.take(to, ready)
    }

    /// As [`LaneConsumer::pop`]; how many, and how many are left of those seen. None left means that the lane was empty
    /// when it looked, after this call began: only then is the sender's index looked at for certain.
    #[inline]
    pub fn pop_now(&mut self, to: &mut Batch, max: usize) -> (usize, usize) {
        let known = self.0.ready(0);
        let ready = if known > max { known } else { self.0.ready_now() };
        let taken = self.take(to, ready.min(max));
        (taken, ready - taken)
    }

    /// Frames published and not yet taken. Always looks at the sender's index.
    #[inline]
    pub fn ready_now(&mut self) -> usize {
        self.0.ready_now()
    }

    /// Frames ever taken out, counted modulo 2^32 from where the lane's indices began.
    pub fn taken(&self) -> u32 {
        self.0.head()
    }

    /// Adds to what the sender reads by [`LaneProducer::returned_bytes`].
    #[inline(always)]
    pub fn add_returned_bytes(&self, bytes: u32) {
        self.0.add_to_note(bytes);
    }

    /// As [`LaneProducer::returned_bytes`].
    pub fn returned_bytes(&self) -> u32 {
        self.0.note()
    }

    /// Whether the sender is gone; what it published before may still be inside.
    pub fn is_abandoned(&self) -> bool {
        self.0.producer_gone()
    }

    #[inline]
    fn take(&mut self, to: &mut Batch, max: usize) -> usize {
        let space = to.space(max);
        let count = space.len();
        let mut summary = Summary::NONE;
        self.0.pop_to(space, |bits| {
            let frame = Frame::from_bits(bits);
            summary.add(&frame);
            frame
        });
        to.filled(count, summary);
        count
    }
}
