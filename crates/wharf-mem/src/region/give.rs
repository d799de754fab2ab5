//! Frames become free buffers.
#![forbid(unsafe_code)]

use super::Region;
use crate::batch::Batch;
use crate::frame::{Frame, FreeFrame};
use crate::spec::MemError;

impl Region {
    /// Turns the first `count` frames of `from` into free buffers on `to`, a chain with all its buffers.
    ///
    /// # Errors
    /// [`MemError::Foreign`] for another pool's frame, which is then the first one of `from`.
    #[doc(hidden)]
    #[inline(always)]
    pub fn give(&self, from: &mut Batch, to: &mut Vec<FreeFrame>, count: usize) -> Result<(), MemError> {
        let count = count.min(from.len());
        if from.is_plain_of(self.layout.number) {
            from.free_into(to, count);
            return Ok(());
        }
        self.give_with_care(from, to, count)
    }

    /// Does the same for frames that may be chains or another pool's.
    #[cold]
    fn give_with_care(
        &self, from: &mut Batch, to: &mut Vec<FreeFrame>, count: usize,
    ) -> Result<(), MemError> {
        for _ in 0..count {
            if let Some(first) = from.frames_mut().first_mut() {
                self.check(first)?;
                self.strip(first, to)?;
            }
            from.free_into(to, 1);
        }
        Ok(())
    }

    /// Turns one frame into a free buffer on `to`, a chain with all its buffers.
    ///
    /// # Errors
    /// [`MemError::Foreign`] for another pool's frame, with the frame.
    #[doc(hidden)]
    pub fn give_one(&self, mut frame: Frame, to: &mut Vec<FreeFrame>) -> Result<(), (MemError, Frame)> {
        if let Err(error) = self.strip(&mut frame, to) {
            return Err((error, frame));
        }
        to.push(frame.into_free());
        Ok(())
    }

    /// Clears a frame's row of the side table. Of a chain, the frame keeps the first buffer, and the others go to `to`.
    ///
    /// # Errors
    /// [`MemError::Foreign`] for another pool's frame.
    #[doc(hidden)]
    pub fn strip(&self, frame: &mut Frame, to: &mut Vec<FreeFrame>) -> Result<(), MemError> {
        self.check(frame)?;
        if !frame.has_meta() {
            return Ok(());
        }
        let row = self.row(frame);
        if row.chunk_bytes() != 0 {
            frame.set_len_bytes(row.chunk_bytes());
        }
        // Its data starts at the usual place from now on.
        frame.set_len_bytes(frame.len_bytes().min(self.data_bytes_max()));
        let mut next = row.next();
        row.clear();
        while let Some(piece) = next {
            let row = &self.rows[piece.index() as usize];
            next = row.next();
            row.clear();
            to.push(piece);
        }
        frame.set_has_meta(false);
        Ok(())
    }
}
