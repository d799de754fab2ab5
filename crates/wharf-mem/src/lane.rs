//! The lane: the single-producer, single-consumer ring of frames from one sender to the owner of its queue.
#![forbid(unsafe_code)]

use crate::batch::{Batch, Summary};
use crate::frame::Frame;
use crate::ring::{Consumer, Producer, ring};

/// The sender's end of a lane.
pub struct LaneProducer(Producer<u64>);

/// The owner's end of a lane.
pub struct LaneConsumer(Consumer<u64>);

/// Makes a lane for `capacity` frames, a power of two. Its indices begin at `start`: any value, since they wrap.
///
/// # Panics
/// If `capacity` is not a power of two.
pub fn lane(capacity: u32, start: u32) -> (LaneProducer, LaneConsumer) {
    let (producer, consumer) = ring(capacity, start);
    (LaneProducer(producer), LaneConsumer(consumer))
}

impl LaneProducer {
    /// Moves frames from the front of `from` into the lane, as many as there is room for, and publishes them. Returns their
    /// number.
    #[inline]
    pub fn push(&mut self, from: &mut Batch) -> usize {
        self.push_first(from, usize::MAX)
    }

    /// Does as [`LaneProducer::push`] for the first `max` frames only.
    #[inline]
    pub fn push_first(&mut self, from: &mut Batch, max: usize) -> usize {
        let count = from.len().min(max);
        let pushed = self.0.push(&from.frames()[..count], Frame::bits);
        from.advance(pushed);
        pushed
    }

    /// Returns the number of frames that the lane can take now.
    pub fn room(&mut self) -> usize {
        self.0.room(usize::MAX)
    }

    /// True if the owner has taken all frames.
    #[inline]
    pub fn is_drained(&mut self) -> bool {
        self.0.drained()
    }

    /// Returns the bytes of this lane's frames that have been returned: a sum that wraps, and begins at the lane's `start`.
    #[inline]
    pub fn returned_bytes(&self) -> u32 {
        self.0.note()
    }

    /// Announces that no more frames will be pushed; dropping this end does, too.
    pub fn abandon(&mut self) {
        self.0.abandon();
    }

    /// Returns the number of frames that the lane can hold.
    pub fn capacity(&self) -> usize {
        self.0.capacity()
    }
}

impl LaneConsumer {
    /// Moves up to `max` frames into `to`, and returns their number. If that is less than `max` and than the room in `to`, no
    /// more were published at the time of the call.
    #[inline]
    pub fn pop(&mut self, to: &mut Batch, max: usize) -> usize {
        let want = max.min(to.room());
        let ready = self.0.ready(want).min(want);
        self.take(to, ready)
    }

    /// Does as [`LaneConsumer::pop`], and returns the number of frames moved and the number left of those seen. If none is
    /// left, this call has read the sender's index, and found the lane empty.
    #[inline]
    pub fn pop_now(&mut self, to: &mut Batch, max: usize) -> (usize, usize) {
        let known = self.0.ready(0);
        let ready = if known > max { known } else { self.0.ready_now() };
        let taken = self.take(to, ready.min(max));
        (taken, ready - taken)
    }

    /// Returns the number of frames published and not yet taken. Always reads the sender's index.
    #[inline]
    pub fn ready_now(&mut self) -> usize {
        self.0.ready_now()
    }

    /// Returns the number of frames that the lane can hold.
    pub fn capacity(&self) -> usize {
        self.0.capacity()
    }

    /// Returns the lane's `start` plus the number of frames ever taken, modulo 2^32.
    pub fn taken(&self) -> u32 {
        self.0.head()
    }

    /// Adds `bytes` to the sum that the sender reads by [`LaneProducer::returned_bytes`].
    #[inline(always)]
    pub fn add_returned_bytes(&self, bytes: u32) {
        self.0.add_to_note(bytes);
    }

    /// Returns the same sum as [`LaneProducer::returned_bytes`].
    pub fn returned_bytes(&self) -> u32 {
        self.0.note()
    }

    /// True if the sender is gone. Frames that it published before may still be in the lane.
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
