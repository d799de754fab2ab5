//! The layout of buffers, and the bytes of frames: the holder of a frame has its buffer's bytes to itself.
//!
//! Buffers lie at a fixed stride. Their data starts after the headroom and a *colour*, (index / 2 mod 8) x 64
//! bytes: at strides of 2 KiB, starts without colour fall into the same few cache sets. Index mod 2 is no part of it, since
//! it chooses between the two halves of a first-level cache of 64 sets: 16 neighbours lie in 16 sets.
//!
//! Every slice made here rests on this argument, (S) below:
//! - A `Frame` names one buffer of the region, and no other name of that buffer exists (`lib.rs`, Safety). The slice borrows
//!   the frame, and so nothing else in this process accesses these bytes meanwhile.
//! - The region outlives the slice; the bytes lie inside its mapping, since only `Region::new` makes indices and lengths are
//!   checked. Any bits are a valid byte.
//! - The kernel, or a peer process, accesses the buffer only while a device lends it, holding the frame and no slice
//!   (`region.rs`). For a peer process that is an assumption, stated at `Region::share_with_trusted_peer`.

use super::Region;
use crate::batch::Batch;
use crate::frame::{Frame, FreeFrame, LENGTH_BYTES_MAX};
use crate::spec::{MemError, RegionSpec};
use std::ptr::NonNull;
use std::slice;
use wharf_sys::mapping::Mapping;
use wharf_sys::shared;

const COLOURS: usize = 8;
const COLOUR_BYTES: usize = 64;
/// Buffers of fewer bytes have no colour: 448 bytes would be too large a part of them.
const COLOURED_FROM_BYTES: u32 = 2048;

/// The layout of buffers. Loops copy it, so that a write to a buffer does not force them to read it again.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    /// The first buffer's data, without colour.
    start: NonNull<u8>,
    stride_bytes: usize,
    /// The bits of an index that make its colour, in steps of half of [`COLOUR_BYTES`].
    colour_mask: usize,
    /// The pool's number.
    pub(super) number: u8,
    /// The longest packet that fits one buffer, bytes.
    pub(super) data_bytes_max: u32,
}

// SAFETY: an address and numbers. Each use of the address has its own argument.
unsafe impl Send for Layout {}
// SAFETY: as above.
unsafe impl Sync for Layout {}

impl Layout {
    /// Lays the buffers of `spec` out in `mapping`, which is long enough for them.
    pub(super) fn new(mapping: &Mapping, spec: &RegionSpec, number: u8) -> Self {
        let colour_mask = if spec.frame_bytes >= COLOURED_FROM_BYTES { 2 * (COLOURS - 1) } else { 0 };
        // SAFETY: the headroom is less than a buffer, of which the mapping has at least one.
        let start = unsafe { mapping.start().add(spec.headroom_bytes as usize) };
        let room_bytes = spec.frame_bytes - spec.headroom_bytes - (colour_mask * COLOUR_BYTES / 2) as u32;
        let data_bytes_max = room_bytes.min(LENGTH_BYTES_MAX);
        Self { start, stride_bytes: spec.frame_bytes as usize, colour_mask, number, data_bytes_max }
    }

    /// Returns the offset of buffer `index`'s data from the first buffer's, bytes.
    #[inline(always)]
    pub(super) fn offset_of(&self, index: u32) -> usize {
        let index = index as usize;
        index * self.stride_bytes + (index & self.colour_mask) * (COLOUR_BYTES / 2)
    }

    /// Returns the index of the buffer that has byte `offset_bytes` of the region. Nearly all strides are powers of two; a
    /// division takes as long as the rest of a completion.
    #[inline(always)]
    pub(super) fn index_of(&self, offset_bytes: usize) -> usize {
        match self.stride_bytes.is_power_of_two() {
            true => offset_bytes >> self.stride_bytes.trailing_zeros(),
            false => offset_bytes / self.stride_bytes,
        }
    }

    /// Returns the address of the data of a frame of this pool.
    #[inline(always)]
    fn place(&self, frame: &Frame) -> NonNull<u8> {
        // SAFETY: a frame's index is below the number of buffers, since only `Region::new` makes indices: the address
        // lies inside the mapping.
        unsafe { self.start.add(self.offset_of(frame.index())) }
    }
}

impl Region {
    /// Returns the bytes of a frame; of a chain, those in its first buffer.
    ///
    /// # Errors
    /// [`MemError::Foreign`] for another pool's frame.
    #[inline]
    pub fn bytes<'a>(&'a self, frame: &'a Frame) -> Result<&'a [u8], MemError> {
        let (start, len) = self.place(frame)?;
        // SAFETY: (S), and the slice borrows the frame.
        Ok(unsafe { slice::from_raw_parts(start, len) })
    }

    /// Returns the bytes of a frame, to write; of a chain, those in its first buffer.
    ///
    /// # Errors
    /// [`MemError::Foreign`] for another pool's frame.
    #[inline]
    pub fn bytes_mut<'a>(&'a self, frame: &'a mut Frame) -> Result<&'a mut [u8], MemError> {
        let (start, len) = self.place(frame)?;
        // SAFETY: (S), and the slice borrows the frame mutably.
        Ok(unsafe { slice::from_raw_parts_mut(start, len) })
    }

    /// Returns the bytes of a frame in one buffer; `None` for another pool's frame.
    ///
    /// # Panics
    /// If the frame is a chain.
    #[inline]
    pub fn whole_bytes<'a>(&'a self, frame: &'a Frame) -> Option<&'a [u8]> {
        if !frame.is_plain_of(self.layout.number) {
            self.refuse_chain(frame);
        }
        self.bytes(frame).ok()
    }

    /// Works like [`Region::whole_bytes`], to write.
    ///
    /// # Panics
    /// If the frame is a chain.
    #[inline]
    pub fn whole_bytes_mut<'a>(&'a self, frame: &'a mut Frame) -> Option<&'a mut [u8]> {
        if !frame.is_plain_of(self.layout.number) {
            self.refuse_chain(frame);
        }
        self.bytes_mut(frame).ok()
    }

    /// Returns the bytes of a frame with the `before` bytes in front of them, to write: headroom, for a header.
    ///
    /// # Errors
    /// [`MemError::Foreign`] for another pool's frame, [`MemError::TooLong`] for more than the headroom.
    #[inline]
    pub fn bytes_and_before_mut<'a>(
        &'a self, frame: &'a mut Frame, before: usize,
    ) -> Result<&'a mut [u8], MemError> {
        let (start, len) = self.place(frame)?;
        self.check_before(frame, before)?;
        // SAFETY: (S): the headroom in front of the data is the same buffer's; the slice borrows the frame mutably.
        Ok(unsafe { slice::from_raw_parts_mut(start.sub(before), len + before) })
    }

    /// Copies the `BYTES` bytes in front of a frame's data, by volatile reads and without a reference to them: the header
    /// that a peer has written there. A later write by the peer does not change the copy.
    ///
    /// # Errors
    /// [`MemError::Foreign`] for another pool's frame, [`MemError::TooLong`] for more than the headroom.
    #[inline]
    pub fn copy_before<const BYTES: usize>(&self, frame: &Frame) -> Result<[u8; BYTES], MemError> {
        self.check(frame)?;
        self.check_before(frame, BYTES)?;
        // SAFETY: the headroom in front of the data is the same buffer's, and so inside the mapping, wherever in the buffer
        // the data starts.
        Ok(unsafe { shared::snapshot(self.layout.place(frame).offset(self.shift(frame)).sub(BYTES)) })
    }

    #[inline(always)]
    fn check_before(&self, frame: &Frame, before: usize) -> Result<(), MemError> {
        let max_bytes = self.headroom_bytes(frame)?;
        if before <= max_bytes {
            return Ok(());
        }
        Err(MemError::TooLong { len_bytes: before as u32, max_bytes: max_bytes as u32 })
    }

    /// Returns the bytes of each frame of `batch` in turn, to write. Frames of another pool are skipped.
    ///
    /// # Panics
    /// The iterator, at a chain.
    #[inline]
    pub fn each_bytes_mut<'a>(&'a self, batch: &'a mut Batch) -> impl Iterator<Item = &'a mut [u8]> {
        let layout = self.layout;
        let all_plain = batch.is_plain_of(layout.number);
        batch.frames_to_write().iter_mut().filter_map(move |frame| {
            if !all_plain && !frame.is_plain_of(layout.number) {
                return self.whole_bytes_mut(frame);
            }
            // SAFETY: (S), and the slice borrows the frame mutably.
            Some(unsafe {
                slice::from_raw_parts_mut(layout.place(frame).as_ptr(), frame.len_bytes() as usize)
            })
        })
    }

    /// Returns the first byte and the length of a frame's data. They fit the buffer: `set_len`, `take` and
    /// `region/headroom.rs` check it.
    #[inline(always)]
    fn place(&self, frame: &Frame) -> Result<(*mut u8, usize), MemError> {
        if !frame.is_plain_of(self.layout.number) {
            return self.first_chunk(frame);
        }
        Ok((self.layout.place(frame).as_ptr(), frame.len_bytes() as usize))
    }

    /// Returns the first byte and the length of the first buffer of a frame with a row in the side table.
    #[cold]
    fn first_chunk(&self, frame: &Frame) -> Result<(*mut u8, usize), MemError> {
        self.check(frame)?;
        let start = self.layout.place(frame).as_ptr().wrapping_offset(self.shift(frame));
        Ok(match self.row(frame).chunk_bytes() {
            0 => (start, frame.len_bytes() as usize),
            chunk_bytes => (start, chunk_bytes as usize),
        })
    }

    /// Returns the chunks of a frame, first to last: one for an ordinary frame.
    ///
    /// # Errors
    /// [`MemError::Foreign`] for another pool's frame.
    pub fn chunks<'a>(&'a self, frame: &'a Frame) -> Result<impl Iterator<Item = &'a [u8]>, MemError> {
        let first = self.bytes(frame)?;
        let next = if frame.has_meta() { self.row(frame).next() } else { None };
        Ok(Chunks { region: self, first: Some(first), next })
    }
}

/// The chunks of a frame: see [`Region::chunks`].
#[derive(Debug)]
struct Chunks<'a> {
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
        // SAFETY: (S): a linked piece belongs to the chain's head, which is borrowed for 'a. Its index came from a frame of
        // this region, and `link` stored the length of that frame.
        Some(unsafe { slice::from_raw_parts(self.region.layout.start.as_ptr().add(offset), len) })
    }
}
