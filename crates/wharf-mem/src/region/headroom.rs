//! The start of a frame's data, moved into the headroom for a header or behind one that was read (`skb_push`,
//! `skb_pull`).
//!
//! The move is noted in the frame's row of the side table, so that ordinary frames stay as they are: their data starts at a
//! fixed place.
#![forbid(unsafe_code)]

use super::Region;
use crate::frame::{Frame, LENGTH_BYTES_MAX};
use crate::spec::MemError;

impl Region {
    /// Returns the bytes free in front of a frame's data.
    ///
    /// # Errors
    /// [`MemError::Foreign`] for another pool's frame.
    pub fn headroom_bytes(&self, frame: &Frame) -> Result<usize, MemError> {
        self.check(frame)?;
        // Never negative: `move_start` checks it.
        Ok((self.spec.headroom_bytes as usize).saturating_add_signed(self.shift(frame)))
    }

    /// Returns the bytes between the usual start of data and that of `frame`, of this pool: negative within the headroom.
    #[inline(always)]
    pub(super) fn shift(&self, frame: &Frame) -> isize {
        if frame.has_meta() { self.row(frame).shift() as isize } else { 0 }
    }

    /// Makes a frame longer by the `bytes` in front of its data, of a chain its first buffer. They hold what the last user
    /// left.
    ///
    /// # Errors
    /// [`MemError::Foreign`]; [`MemError::TooLong`] for more than [`Region::headroom_bytes`], or more than a frame can have.
    pub fn prepend(&self, frame: &mut Frame, bytes: usize) -> Result<(), MemError> {
        let max_bytes = self.headroom_bytes(frame)?.min((LENGTH_BYTES_MAX - frame.len_bytes()) as usize);
        self.move_start(frame, bytes, max_bytes, -1)
    }

    /// Takes `bytes` off the front of a frame's data, of a chain from its first buffer, which keeps at least one.
    ///
    /// # Errors
    /// [`MemError::Foreign`]; [`MemError::TooLong`] for more than there are, or if a checksum that is still to be filled in
    /// begins before.
    pub fn trim_front(&self, frame: &mut Frame, bytes: usize) -> Result<(), MemError> {
        let first_bytes = self.bytes(frame)?.len();
        let is_chain = first_bytes < frame.len_bytes() as usize;
        self.move_start(frame, bytes, first_bytes - usize::from(is_chain), 1)
    }

    /// Moves the start by `bytes` in the direction `sign`.
    fn move_start(
        &self, frame: &mut Frame, bytes: usize, max_bytes: usize, sign: i32,
    ) -> Result<(), MemError> {
        let meta = self.meta(frame)?;
        let too_long = |max_bytes: usize| MemError::TooLong {
            len_bytes: u32::try_from(bytes).unwrap_or(u32::MAX),
            max_bytes: max_bytes as u32,
        };
        // At most the length of a chain: it fits.
        let by = if bytes <= max_bytes { sign * bytes as i32 } else { return Err(too_long(max_bytes)) };
        let row = self.row(frame);
        if meta.needs_checksum {
            let start = i32::from(meta.checksum_start) - by;
            row.set_checksum_start(u16::try_from(start).map_err(|_| too_long(meta.checksum_start.into()))?);
        }
        row.set_shift(row.shift() + by);
        if row.chunk_bytes() != 0 {
            row.set_chunk_bytes(row.chunk_bytes().saturating_add_signed(-by));
        }
        frame.set_len_bytes(frame.len_bytes().saturating_add_signed(-by));
        frame.set_has_meta(true);
        Ok(())
    }
}
