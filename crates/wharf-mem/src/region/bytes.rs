//! Where buffers lie, and the bytes of frames: whoever holds a frame has those of its buffer to itself.
//!
//! Buffers lie at a fixed stride. Their data starts after the headroom and a *colour*, (index mod 8) x 64
//! bytes: at strides of 2 KiB, starts without colour all fall into the same few cache sets.

use super::Region;
use crate::batch::Batch;
use crate::frame::{Frame, FreeFrame};
use crate::spec::{MemError, RegionSpec};
use std::ptr::NonNull;
use std::slice;
use wharf_sys::mapping::Mapping;

const COLOURS: usize = 8;
const COLOUR_BYTES: usize = 64;
/// Buffers below this many bytes are not coloured: 448 bytes would be too much of them.
const COLOURED_FROM_BYTES: u32 = 2048;

/// Where buffers lie: copied into loops, so that a write to a buffer does not make them read it again.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    /// The first buffer's data, without colour.
    start: NonNull<u8>,
    stride_bytes: usize,
    /// Which bits of an index make its colour.
    colour_mask: usize,
    /// The pool's number.
    pub(super) number: u8,
    /// Longest packet that fits one buffer.
    pub(super) data_bytes_max: u32,
}

// SAFETY: an address and numbers: what may be done with the address is said where it is used.
unsafe impl Send for Layout {}
// SAFETY: as above.
unsafe impl Sync for Layout {}

impl Layout {
    /// Of the buffers of `spec` in `mapping`, which is long enough for them.
    pub(super) fn new(mapping: &Mapping, spec: &RegionSpec, number: u8) -> Self {
        let colour_mask = if spec.frame_bytes >= COLOURED_FROM_BYTES { COLOURS - 1 } else { 0 };
        // SAFETY: the headroom is less than a buffer, of which the mapping has at least one.
        let start = unsafe { mapping.start().add(spec.headroom_bytes as usize) };
        let data_bytes_max = spec.frame_bytes - spec.headroom_bytes - (colour_mask * COLOUR_BYTES) as u32;
        Self { start, stride_bytes: spec.frame_bytes as usize, colour_mask, number, data_bytes_max }
    }

    /// Bytes from the first buffer's data to that of buffer `index`.
    #[inline(always)]
    pub(super) fn offset_of(&self, index: u32) -> usize {
        let index = index as usize;
        index * self.stride_bytes + (index & self.colour_mask) * COLOUR_BYTES
    }

    /// Which buffer a byte of the region lies in. Nearly all strides are powers of two, and a division takes as long as all else
    /// that a completion costs.
    #[inline(always)]
    pub(super) fn index_of(&self, offset_bytes: usize) -> usize {
        match self.stride_bytes.is_power_of_two() {
            true => offset_bytes >> self.stride_bytes.trailing_zeros(),
            false => offset_bytes / self.stride_bytes,
        }
    }

    /// The data of a frame of this pool.
    #[inline(always)]
    fn place(&self, frame: &Frame) -> NonNull<u8> {
        // SAFETY: a frame's index is below the number of buffers, since only `Region::new` makes indices; so
        // this lies inside the mapping.
        unsafe { self.start.add(self.offset_of(frame.index())) }
    }
}

impl Region {
    /// Bytes of a frame; of a chain, those in its first buffer.
    ///
    /// # Errors
    /// [`MemError::Foreign`].
    #[inline]
    pub fn bytes<'a>(&'a self, frame: &'a Frame) -> Result<&'a [u8], MemError> {
        let (start, len) = self.place(frame)?;
        // SAFETY: `place` lies inside the mapping, which lives as long as `self`. The frame is the only name
        // of these bytes, it is borrowed for as long as the slice, and all bits are valid bytes.
        Ok(unsafe { slice::from_raw_parts(start, len) })
    }

    /// As [`Region::bytes`], to write.
    ///
    /// # Errors
    /// [`MemError::Foreign`].
    #[inline]
    pub fn bytes_mut<'a>(&'a self, frame: &'a mut Frame) -> Result<&'a mut [u8], MemError> {
        let (start, len) = self.place(frame)?;
        // SAFETY: as in `bytes`, and the frame is borrowed mutably: nobody else has its bytes meanwhile.
        Ok(unsafe { slice::from_raw_parts_mut(start, len) })
    }

    /// As [`Region::bytes_mut`], with the `before` bytes in front of them: headroom, for a header that is put there.
    ///
    /// # Errors
    /// [`MemError::Foreign`], [`MemError::TooLong`] where there is not so much headroom.
    #[inline]
    pub fn bytes_and_before_mut<'a>(
        &'a self, frame: &'a mut Frame, before: usize,
    ) -> Result<&'a mut [u8], MemError> {
        let (start, len) = self.place(frame)?;
        if before > self.spec.headroom_bytes as usize {
            let (len_bytes, max_bytes) = (before as u32, self.spec.headroom_bytes);
            return Err(MemError::TooLong { len_bytes, max_bytes });
        }
        // SAFETY: a buffer begins with its headroom, or before that where it has a colour, so these bytes are of this
        // buffer, too; else as in `bytes_mut`.
        Ok(unsafe { slice::from_raw_parts_mut(start.sub(before), len + before) })
    }

    /// The bytes of each frame of `batch` in turn, to write; those of another pool are passed over.
    #[inline]
    pub fn each_bytes_mut<'a>(&'a self, batch: &'a mut Batch) -> impl Iterator<Item = &'a mut [u8]> {
        let layout = self.layout;
        let all_plain = batch.is_plain_of(layout.number);
        batch.frames_to_write().iter_mut().filter_map(move |frame| {
            if !all_plain && !frame.is_plain_of(layout.number) {
                return self.bytes_mut(frame).ok();
            }
            // SAFETY: as in `bytes_mut`.
            Some(unsafe {
                slice::from_raw_parts_mut(layout.place(frame).as_ptr(), frame.len_bytes() as usize)
            })
        })
    }

    /// First byte and length of a frame's data. Its length fits its buffer since `set_len` and `take` check that.
    #[inline(always)]
    fn place(&self, frame: &Frame) -> Result<(*mut u8, usize), MemError> {
        let plain = frame.is_plain_of(self.layout.number);
        let len_bytes = if plain { frame.len_bytes() } else { self.first_chunk(frame)? };
        Ok((self.layout.place(frame).as_ptr(), len_bytes as usize))
    }

    /// Bytes in the first buffer of a frame with a row in the side table.
    #[cold]
    fn first_chunk(&self, frame: &Frame) -> Result<u32, MemError> {
        self.check(frame)?;
        Ok(match self.row(frame).chunk_bytes() {
            0 => frame.len_bytes(),
            chunk_bytes => chunk_bytes,
        })
    }

    /// The chunks of a frame, first to last: one for an ordinary frame.
    ///
    /// # Errors
    /// [`MemError::Foreign`].
    pub fn chunks<'a>(&'a self, frame: &'a Frame) -> Result<Chunks<'a>, MemError> {
        let first = self.bytes(frame)?;
        let next = if frame.has_meta() { self.row(frame).next() } else { None };
        Ok(Chunks { region: self, first: Some(first), next })
    }
}

/// See [`Region::chunks`].
#[derive(Debug)]
pub struct Chunks<'a> {
    region: &'a Region,
    first: Option<&'a [u8]>,
    next: Option<FreeFrame>,
}

impl<'a> Iterator for Chunks<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        let piece = self.next.take()?;
        let row = &self.region.rows[piece.index() as usize];
        let (len, offset) = (row.chunk_bytes() as usize, self.region.layout.offset_of(piece.index()));
        self.next = row.next();
        // SAFETY: a linked piece belongs to the chain's head, which is borrowed for 'a; its index came from a
        // frame of this region, and `link` stored the length of that frame.
        Some(unsafe { slice::from_raw_parts(self.region.layout.start.as_ptr().add(offset), len) })
    }
}
