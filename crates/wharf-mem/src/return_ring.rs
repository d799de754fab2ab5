//! The return ring: free buffers on their way from the owner of a queue back to the cache of the sender that
//! they came from (recycling, as in the kernel's `page_pool`). `tx/queue/lanes/return_ring.rs` of
//! `wharf-core` is the owner's part.
#![forbid(unsafe_code)]

use crate::batch::Batch;
use crate::frame::{Frame, FreeFrame};
use crate::ring::{Consumer, Producer, ring};

/// The owner's end of a return ring.
pub struct ReturnProducer(Producer<u32>);

/// The sender's end of a return ring.
pub struct ReturnConsumer(Consumer<u32>);

/// Makes a return ring for `capacity` buffers, a power of two. Its indices begin at `start`: any value, since they wrap.
///
/// # Panics
/// If `capacity` is not a power of two.
pub fn return_ring(capacity: u32, start: u32) -> (ReturnProducer, ReturnConsumer) {
    let (producer, consumer) = ring(capacity, start);
    (ReturnProducer(producer), ReturnConsumer(consumer))
}

impl ReturnProducer {
    /// Returns the first `count` frames of `from`, or as many as there is room for, to their sender, published at once.
    /// Returns their number. The frames have no row in the side table: [`Region::strip`](crate::Region::strip) has
    /// cleared it.
    #[inline(always)]
    pub fn push(&mut self, from: &mut Batch, count: usize) -> usize {
        if from.len() == 1 && count == 1 {
            return self.push_one(from);
        }
        self.push_many(from, count)
    }

    /// Pushes the only frame of `from`, without the set-up of a loop: a quiet path returns single buffers.
    #[inline(always)]
    fn push_one(&mut self, from: &mut Batch) -> usize {
        let pushed = self.0.push_one(|| from.frames()[0].free_bits());
        from.advance(usize::from(pushed));
        usize::from(pushed)
    }

    #[inline(never)]
    fn push_many(&mut self, from: &mut Batch, count: usize) -> usize {
        let frames = &from.frames()[..count.min(from.len())];
        let pushed = self.0.push(frames, Frame::free_bits);
        from.advance(pushed);
        pushed
    }

    /// Returns the number of buffers that the sender has not fetched yet.
    pub fn waiting(&mut self) -> usize {
        self.0.waiting()
    }

    /// Lets at most `frames` buffers wait in the ring at a time; the ring's capacity is the upper bound.
    pub fn set_limit(&mut self, frames: u32) {
        self.0.set_limit(frames);
    }
}

impl ReturnConsumer {
    /// Moves up to `max` returned buffers onto `to`, and returns their number.
    pub fn pop(&mut self, to: &mut Vec<FreeFrame>, max: usize) -> usize {
        self.pop_each(to, max, |_| {})
    }

    /// Does as [`ReturnConsumer::pop`], and calls `each` with every index.
    #[inline]
    pub fn pop_each(&mut self, to: &mut Vec<FreeFrame>, max: usize, each: impl Fn(u32)) -> usize {
        let (ready, before) = (self.0.ready_now().min(max), to.len());
        self.0.pop_onto(to, ready, FreeFrame::from_bits);
        // After the slots are freed: a panic in `each` would otherwise leave the buffers in two places.
        to[before..].iter().for_each(|free| each(free.index()));
        ready
    }

    /// True if `count` buffers wait, all of them of pool `pool`.
    #[inline(always)]
    pub(crate) fn has_of(&mut self, pool: u8, count: usize) -> bool {
        let mut differs = 0;
        let there = self.0.ready(count) >= count;
        if there {
            self.0.look(count, |bits| differs |= FreeFrame::from_bits(bits).pool() ^ pool);
        }
        there && differs == 0
    }

    /// Takes as many buffers as `to` has places; [`ReturnConsumer::has_of`] has found that many.
    #[inline(always)]
    pub(crate) fn pop_to(&mut self, to: &mut [Frame], mut each: impl FnMut(FreeFrame) -> Frame) {
        self.0.pop_to(to, |bits| each(FreeFrame::from_bits(bits)));
    }

    /// Returns the number of buffers in the ring.
    pub fn len(&mut self) -> usize {
        self.0.ready_now()
    }

    /// True if the ring has no buffer.
    pub fn is_empty(&mut self) -> bool {
        self.len() == 0
    }
}
