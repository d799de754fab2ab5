//! A return ring: free buffers on their way from the owner of a queue back to the sender they came from.
#![forbid(unsafe_code)]

use crate::batch::Batch;
use crate::frame::{Frame, FreeFrame};
use crate::ring::{Consumer, Producer, ring};

/// The owner's end.
pub struct ReturnProducer(Producer<u32>);

/// The sender's end.
pub struct ReturnConsumer(Consumer<u32>);

/// A return ring for `capacity` buffers (a power of two), its indices starting at `start`.
///
/// # Panics
/// When `capacity` is not a power of two.
pub fn return_ring(capacity: u32, start: u32) -> (ReturnProducer, ReturnConsumer) {
    let (producer, consumer) = ring(capacity, start);
    (ReturnProducer(producer), ReturnConsumer(consumer))
}

impl ReturnProducer {
    /// Sends the first `count` frames of `from` home, as many as there is room for, published at once;
    /// how many. The frames must have no row in the side table: `Region::strip` first.
    #[inline(always)]
    pub fn push(&mut self, from: &mut Batch, count: usize) -> usize {
        if from.len() == 1 && count == 1 {
            return self.push_one(from);
        }
        self.push_many(from, count)
    }

    /// What a quiet path sends home is spared the set-up of a loop.
    #[inline(always)]
    fn push_one(&mut self, from: &mut Batch) -> usize {
        let pushed = self.0.push_one(|| from.frames()[0].moved().into_free().bits());
        from.advance(usize::from(pushed));
        usize::from(pushed)
    }

    #[inline(never)]
    fn push_many(&mut self, from: &mut Batch, count: usize) -> usize {
        let frames = &from.frames()[..count.min(from.len())];
        let pushed = self.0.push(frames, |frame| frame.moved().into_free().bits());
        from.advance(pushed);
        pushed
    }

    /// Buffers sent and not fetched yet.
    pub fn waiting(&mut self) -> usize {
        self.0.waiting()
    }

    /// Lets at most `frames` wait in it at a time; at most its capacity.
    pub fn set_limit(&mut self, frames: u32) {
        self.0.set_limit(frames);
    }
}

impl ReturnConsumer {
    /// Moves all that has come home, up to `max`, onto `to`; how many.
    pub fn pop(&mut self, to: &mut Vec<FreeFrame>, max: usize) -> usize {
        self.pop_each(to, max, |_| {})
    }

    /// As [`ReturnConsumer::pop`], and calls `each` with every index.
    #[inline]
    pub fn pop_each(&mut self, to: &mut Vec<FreeFrame>, max: usize, each: impl Fn(u32)) -> usize {
        let (ready, before) = (self.0.ready_now().min(max), to.len());
        self.0.pop_onto(to, ready, FreeFrame::from_bits);
        // Only now: a panic in `each` before the slots are freed would leave the buffers in two places.
        to[before..].iter().for_each(|free| each(free.index()));
        ready
    }

    /// Whether `count` buffers wait, all of them of pool `pool`.
    #[inline(always)]
    pub(crate) fn has_of(&mut self, pool: u8, count: usize) -> bool {
        let mut differs = 0;
        let there = self.0.ready(count) >= count;
        if there {
            self.0.look(count, |bits| differs |= FreeFrame::from_bits(bits).pool() ^ pool);
        }
        there && differs == 0
    }

    /// Takes as many buffers as `to` has places, of which [`ReturnConsumer::has_of`] has said that they are there.
    #[inline(always)]
    pub(crate) fn pop_to(&mut self, to: &mut [Frame], mut each: impl FnMut(FreeFrame) -> Frame) {
        self.0.pop_to(to, |bits| each(FreeFrame::from_bits(bits)));
    }

    /// Buffers waiting in it.
    pub fn len(&mut self) -> usize {
        self.0.ready_now()
    }

    /// Whether none waits.
    pub fn is_empty(&mut self) -> bool {
        self.len() == 0
    }
}
