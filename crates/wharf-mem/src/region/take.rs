//! Free buffers become frames.
#![forbid(unsafe_code)]

use super::Region;
use crate::batch::{Batch, Summary};
use crate::frame::{Charge, Frame, FreeFrame};
use crate::return_ring::ReturnConsumer;
use crate::spec::MemError;

impl Region {
    /// Turns up to `count` buffers from the top of `from` into frames of `len_bytes` at the back of `to`, and returns their
    /// number. The frames are charged to `sender`; their bytes are those that the last user left. Calls `each` with
    /// every index.
    ///
    /// # Errors
    /// [`MemError::TooLong`] beyond [`Region::data_bytes_max`]; [`MemError::Foreign`] if a buffer is another pool's: none is
    /// taken then.
    #[doc(hidden)]
    #[inline]
    pub fn take(
        &self, from: &mut Vec<FreeFrame>, to: &mut Batch, count: usize, sender: u16, len_bytes: u32,
        each: impl Fn(u32),
    ) -> Result<usize, MemError> {
        self.check_len(len_bytes)?;
        let number = self.layout.number;
        let template = Frame::template(number, sender, len_bytes);
        let space = to.space(count.min(from.len()));
        let count = space.len();
        if count == 0 {
            return Ok(0);
        }
        let left = from.len() - count;
        let taken = &from[left..];
        // Over all of them, so that the loop has no branch per buffer.
        if taken.iter().fold(0, |differs, free| differs | (free.pool() ^ number)) != 0 {
            return Err(self.first_foreign(taken));
        }
        for (to, free) in space.iter_mut().zip(taken) {
            each(free.index());
            *to = Frame::from_parts(FreeFrame::from_bits(free.bits()), template);
        }
        from.truncate(left);
        to.filled(count, Summary::of_template(template, count));
        Ok(count)
    }

    /// Does as [`Region::take`] from a return ring. Takes none unless the ring has `count` buffers of this pool, and `to` room
    /// for them.
    ///
    /// # Errors
    /// [`MemError::TooLong`] beyond [`Region::data_bytes_max`].
    #[doc(hidden)]
    #[inline]
    pub fn take_returned(
        &self, from: &mut ReturnConsumer, to: &mut Batch, count: usize, sender: u16, len_bytes: u32,
        each: impl Fn(u32),
    ) -> Result<usize, MemError> {
        self.check_len(len_bytes)?;
        let number = self.layout.number;
        if count > to.room() || !from.has_of(number, count) {
            return Ok(0);
        }
        let template = Frame::template(number, sender, len_bytes);
        from.pop_to(to.space(count), |free| {
            each(free.index());
            Frame::from_parts(free, template)
        });
        to.filled(count, Summary::of_template(template, count));
        Ok(count)
    }

    /// Does as [`Region::take`] for one buffer, charged to the sender of `charge`, without the set-up of a loop: a quiet path takes single buffers.
    ///
    /// # Errors
    /// Those of [`Region::take`].
    #[doc(hidden)]
    #[inline(always)]
    pub fn take_one(
        &self, from: &mut Vec<FreeFrame>, to: &mut Batch, charge: Charge, len_bytes: u32, each: impl Fn(u32),
    ) -> Result<usize, MemError> {
        self.check_len(len_bytes)?;
        let Some(free) = from.pop() else { return Ok(0) };
        let is_ours = free.pool() == self.layout.number;
        if !is_ours || to.room() == 0 {
            let fault = self.foreign(free.index(), free.pool());
            from.push(free);
            return if is_ours { Ok(0) } else { Err(fault) };
        }
        each(free.index());
        to.put(Frame::charged(free, charge, len_bytes));
        Ok(1)
    }

    #[cold]
    fn first_foreign(&self, free: &[FreeFrame]) -> MemError {
        let theirs = free.iter().find(|free| free.pool() != self.layout.number);
        theirs.map_or(MemError::PoolNumbers, |free| self.foreign(free.index(), free.pool()))
    }
}
