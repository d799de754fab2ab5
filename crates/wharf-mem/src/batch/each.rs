//! Frames of a batch one by one, as long as there are any, or room.
#![forbid(unsafe_code)]

use super::Batch;
use crate::frame::Frame;

impl Batch {
    /// Adds a frame at the back, for which the caller has seen to room.
    #[doc(hidden)]
    #[inline]
    pub fn push_within(&mut self, frame: Frame) {
        let pushed = self.push(frame);
        debug_assert!(pushed.is_ok(), "the caller has seen to room");
    }

    /// Adds the frames that `next` gives, until there are none or the batch is full. Returns their number.
    #[doc(hidden)]
    pub fn fill_by(&mut self, mut next: impl FnMut() -> Option<Frame>) -> usize {
        let before = self.len();
        while self.room() > 0
            && let Some(frame) = next()
        {
            self.put(frame);
        }
        self.len() - before
    }

    /// Takes frames from the front, one by one: those that are not asked for stay.
    #[doc(hidden)]
    pub fn pop_each(&mut self) -> impl Iterator<Item = Frame> {
        std::iter::from_fn(|| self.pop())
    }

    /// Takes frames from the front, in order, as long as `wants` accepts them, and hands each to `take`.
    #[inline(always)]
    pub fn take_while(&mut self, mut wants: impl FnMut(&Frame) -> bool, mut take: impl FnMut(Frame)) {
        /// Forgets the frames that were taken, even if `take` panics.
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
}
