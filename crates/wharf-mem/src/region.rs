//! The memory under one pool, and the only place where a buffer becomes a `Frame` or a `Frame` becomes bytes.
//!
//! Buffers lie at a fixed stride. Their data starts after the headroom and a *colour*, (index mod 8) x 64
//! bytes: at strides of 2 KiB, starts without colour all fall into the same few cache sets.

use crate::batch::{Batch, Summary};
use crate::frame::{Frame, FreeFrame, LENGTH_BYTES_MAX};
use crate::free_list::FreeList;
use crate::home::HomeOut;
use crate::meta::{Meta, Row};
use crate::number;
use crate::spec::{MemError, RegionSpec};
use std::ptr::NonNull;
use std::slice;
use std::sync::atomic::{AtomicBool, Ordering};
use wharf_sys::mapping::Mapping;

const COLOURS: usize = 8;
const COLOUR_BYTES: usize = 64;
/// Buffers below this many bytes are not coloured: 448 bytes would be too much of them.
const COLOURED_FROM_BYTES: u32 = 2048;

/// One pool's buffers: shared memory, their side table, and the pool's number.
#[derive(Debug)]
pub struct Region {
    mapping: Mapping,
    spec: RegionSpec,
    layout: Layout,
    rows: Box<[Row]>,
    retired: AtomicBool,
}

/// Where buffers lie: copied into loops, so that a write to a buffer does not make them read it again.
#[derive(Debug, Clone, Copy)]
struct Layout {
    /// The first buffer's data, without colour.
    start: NonNull<u8>,
    stride_bytes: usize,
    /// Which bits of an index make its colour.
    colour_mask: usize,
    number: u8,
    /// Longest packet that fits one buffer.
    data_bytes_max: u32,
}

// SAFETY: an address and numbers: what may be done with the address is said where it is used.
unsafe impl Send for Layout {}
// SAFETY: as above.
unsafe impl Sync for Layout {}

impl Layout {
    /// Bytes from the first buffer's data to that of buffer `index`.
    #[inline(always)]
    fn offset_of(&self, index: u32) -> usize {
        let index = index as usize;
        index * self.stride_bytes + (index & self.colour_mask) * COLOUR_BYTES
    }

    /// Which buffer a byte of the region lies in. Nearly all strides are powers of two, and a division takes as long as all else
    /// that a completion costs.
    #[inline(always)]
    fn index_of(&self, offset_bytes: usize) -> usize {
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
    /// Maps a region and hands out all its buffers, once.
    ///
    /// # Errors
    /// [`MemError::Spec`], [`MemError::Map`] and [`MemError::PoolNumbers`].
    pub fn new(spec: RegionSpec) -> Result<(Self, Vec<FreeFrame>), MemError> {
        spec.check()?;
        let bytes = spec.frames as usize * spec.frame_bytes as usize;
        let map = if spec.huge_pages { Mapping::shared } else { Mapping::shared_small_pages };
        let mapping = map(bytes).map_err(|source| MemError::Map { bytes, source })?;
        let number = number::take().ok_or(MemError::PoolNumbers)?;
        let colour_mask = if spec.frame_bytes >= COLOURED_FROM_BYTES { COLOURS - 1 } else { 0 };
        let rows = (0..spec.frames).map(|_| Row::default()).collect();
        // SAFETY: the headroom is less than a buffer, of which the mapping has at least one.
        let start = unsafe { mapping.start().add(spec.headroom_bytes as usize) };
        let data_bytes_max = spec.frame_bytes - spec.headroom_bytes - (colour_mask * COLOUR_BYTES) as u32;
        let stride_bytes = spec.frame_bytes as usize;
        let layout = Layout { start, stride_bytes, colour_mask, number, data_bytes_max };
        let region = Self { mapping, spec, layout, rows, retired: AtomicBool::new(false) };
        // Last first, so that a stack hands out low addresses first.
        let free = (0..spec.frames).rev().map(|index| FreeFrame::new(number, index)).collect();
        Ok((region, free))
    }

    /// The pool's number, from 1.
    #[inline]
    pub fn number(&self) -> u8 {
        self.layout.number
    }

    /// What it was made to be.
    pub fn spec(&self) -> &RegionSpec {
        &self.spec
    }

    /// The mapping under it, for registration with the kernel or a peer.
    pub fn mapping(&self) -> &Mapping {
        &self.mapping
    }

    /// Longest packet that fits one buffer, bytes.
    #[inline]
    pub fn data_bytes_max(&self) -> u32 {
        self.layout.data_bytes_max
    }

    /// Where a frame's data lies, bytes from the region's start.
    ///
    /// # Errors
    /// [`MemError::Foreign`].
    #[inline]
    pub fn offset_bytes(&self, frame: &Frame) -> Result<usize, MemError> {
        self.check(frame)?;
        Ok(self.spec.headroom_bytes as usize + self.layout.offset_of(frame.index()))
    }

    /// The buffer that byte `offset_bytes` of the region lies in, and where that buffer's data begin: the way back from
    /// [`Region::offset_bytes`]. `None` beyond the last one.
    #[inline]
    pub fn buffer_at(&self, offset_bytes: usize) -> Option<(u32, usize)> {
        let index = u32::try_from(self.layout.index_of(offset_bytes)).ok()?;
        let start = || self.spec.headroom_bytes as usize + self.layout.offset_of(index);
        (index < self.spec.frames).then(|| (index, start()))
    }

    #[inline(always)]
    fn check(&self, frame: &Frame) -> Result<(), MemError> {
        if frame.pool() == self.layout.number {
            Ok(())
        } else {
            Err(self.foreign(frame.index(), frame.pool()))
        }
    }

    #[cold]
    fn foreign(&self, index: u32, theirs: u8) -> MemError {
        MemError::Foreign { index, theirs, ours: self.layout.number }
    }

    #[cold]
    fn first_foreign(&self, free: &[FreeFrame]) -> MemError {
        let theirs = free.iter().find(|free| free.pool() != self.layout.number);
        theirs.map_or(MemError::PoolNumbers, |free| self.foreign(free.index(), free.pool()))
    }

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

    #[inline(always)]
    fn row(&self, frame: &Frame) -> &Row {
        &self.rows[frame.index() as usize]
    }

    /// Sets a frame's length.
    ///
    /// # Errors
    /// [`MemError::Foreign`], [`MemError::TooLong`], [`MemError::Chain`].
    #[inline]
    pub fn set_len(&self, frame: &mut Frame, len_bytes: u32) -> Result<(), MemError> {
        self.check(frame)?;
        self.check_len(len_bytes)?;
        if frame.has_meta() && self.row(frame).chunk_bytes() != 0 {
            return Err(MemError::Chain { index: frame.index() });
        }
        frame.set_len_bytes(len_bytes);
        Ok(())
    }

    #[inline(always)]
    fn check_len(&self, len_bytes: u32) -> Result<(), MemError> {
        let max_bytes = self.data_bytes_max();
        if len_bytes <= max_bytes { Ok(()) } else { Err(MemError::TooLong { len_bytes, max_bytes }) }
    }

    /// Turns up to `count` buffers from the top of `from` into frames of `len_bytes`, charged to `sender`,
    /// at the back of `to`, and calls `each` with every index; how many. The bytes are whatever the last user
    /// left.
    ///
    /// # Errors
    /// [`MemError::TooLong`], and [`MemError::Foreign`] when one of them is another pool's; then none is taken.
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
        // In one go over all of them, not until the first: that needs no branch per buffer.
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

    /// As [`Region::take`], from a home ring that has `count` buffers and where `to` has room for them; else none.
    ///
    /// # Errors
    /// [`MemError::TooLong`].
    #[inline]
    pub fn take_from_home(
        &self, from: &mut HomeOut, to: &mut Batch, count: usize, sender: u16, len_bytes: u32,
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

    /// As [`Region::take`], from the front of a list.
    ///
    /// # Errors
    /// [`MemError::TooLong`]; [`MemError::Foreign`] when it is another pool's list.
    #[inline]
    pub fn take_from_list(
        &self, from: &mut FreeList, to: &mut Batch, count: usize, sender: u16, len_bytes: u32,
        each: impl Fn(u32),
    ) -> Result<usize, MemError> {
        self.check_len(len_bytes)?;
        let number = self.layout.number;
        if let (true, Some(index)) = (from.pool() != number, from.first()) {
            return Err(MemError::Foreign { index, theirs: from.pool(), ours: number });
        }
        let template = Frame::template(number, sender, len_bytes);
        let count = from.pop_to(to.space(count), |free| {
            each(free.index());
            Frame::from_parts(free, template)
        });
        if count > 0 {
            to.filled(count, Summary::of_template(template, count));
        }
        Ok(count)
    }

    /// As [`Region::take`] for one buffer: what a quiet path takes is spared the set-up of a loop.
    ///
    /// # Errors
    /// As [`Region::take`].
    #[inline(always)]
    pub fn take_one(
        &self, from: &mut Vec<FreeFrame>, to: &mut Batch, sender: u16, len_bytes: u32, each: impl Fn(u32),
    ) -> Result<usize, MemError> {
        self.check_len(len_bytes)?;
        let template = Frame::template(self.layout.number, sender, len_bytes);
        let Some(free) = from.pop() else { return Ok(0) };
        let is_ours = free.pool() == self.layout.number;
        if !is_ours || to.room() == 0 {
            let fault = self.foreign(free.index(), free.pool());
            from.push(free);
            return if is_ours { Ok(0) } else { Err(fault) };
        }
        each(free.index());
        to.put(Frame::from_parts(free, template));
        Ok(1)
    }

    /// Turns the first `count` frames of `from` into free buffers on `to`, chains with all their buffers.
    ///
    /// # Errors
    /// [`MemError::Foreign`]; then `from` begins with the frame that is not this pool's.
    #[inline(always)]
    pub fn give(&self, from: &mut Batch, to: &mut Vec<FreeFrame>, count: usize) -> Result<(), MemError> {
        let count = count.min(from.len());
        if from.is_plain_of(self.layout.number) {
            from.free_into(to, count);
            return Ok(());
        }
        self.give_with_care(from, to, count)
    }

    /// As [`Region::give`], to the front of a list, and calls `each` with every index; whether it could, which it cannot
    /// unless all frames of `from` are known to be plain ones of the list's pool and this.
    #[inline]
    pub fn give_to_list(
        &self, from: &mut Batch, to: &mut FreeList, count: usize, each: impl Fn(u32),
    ) -> bool {
        let (count, number) = (count.min(from.len()), self.layout.number);
        if to.pool() != number || !from.is_plain_of(number) {
            return false;
        }
        // First: a panic in `each` leaves them all in the batch.
        from.frames()[..count].iter().for_each(|frame| each(frame.index()));
        let left = from.len() - count;
        to.push_from(from, count);
        from.len() == left
    }

    /// Takes the only frame of `from` as a free buffer, where there is one only and nothing special about it.
    #[inline(always)]
    pub fn give_only(&self, from: &mut Batch) -> Option<FreeFrame> {
        Some(from.pop_only(self.layout.number)?.into_free())
    }

    /// Chains, or frames that may be another pool's.
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
    /// [`MemError::Foreign`] and the frame.
    pub fn give_one(&self, mut frame: Frame, to: &mut Vec<FreeFrame>) -> Result<(), (MemError, Frame)> {
        if let Err(error) = self.strip(&mut frame, to) {
            return Err((error, frame));
        }
        to.push(frame.into_free());
        Ok(())
    }

    /// Clears a frame's row; of a chain, the further buffers go to `to`, and the frame keeps the first.
    ///
    /// # Errors
    /// [`MemError::Foreign`].
    pub fn strip(&self, frame: &mut Frame, to: &mut Vec<FreeFrame>) -> Result<(), MemError> {
        self.check(frame)?;
        if !frame.has_meta() {
            return Ok(());
        }
        let row = self.row(frame);
        if row.chunk_bytes() != 0 {
            frame.set_len_bytes(row.chunk_bytes());
        }
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

    /// Links `piece` behind the last buffer of `head`, which becomes a super-packet.
    ///
    /// # Errors
    /// [`MemError::Foreign`], [`MemError::TooLong`] beyond 262 143 B in all, [`MemError::Chain`] when the
    /// piece is a chain or empty; each with the piece.
    pub fn link(&self, head: &mut Frame, piece: Frame) -> Result<(), (MemError, Frame)> {
        let mut last = head.index();
        if self.check(head).is_ok() {
            while let Some(next) = self.rows[last as usize].next() {
                last = next.index();
            }
        }
        self.link_behind(head, last, piece)
    }

    /// Begins to link pieces behind `head`, many of them without looking for the end each time.
    pub fn chain(&self, head: Frame) -> Chain<'_> {
        let last = head.index();
        Chain { region: self, head, last }
    }

    /// As [`Region::link`], where the last buffer of the chain is known.
    fn link_behind(&self, head: &mut Frame, last: u32, piece: Frame) -> Result<(), (MemError, Frame)> {
        let total = head.len_bytes() + piece.len_bytes();
        let fault = match (self.check(head).and_then(|()| self.check(&piece)), piece.has_meta()) {
            (Err(foreign), _) => Some(foreign),
            (Ok(()), true) => Some(MemError::Chain { index: piece.index() }),
            _ if piece.len_bytes() == 0 || head.len_bytes() == 0 => {
                Some(MemError::Chain { index: piece.index() })
            }
            _ if total > LENGTH_BYTES_MAX => {
                Some(MemError::TooLong { len_bytes: total, max_bytes: LENGTH_BYTES_MAX })
            }
            _ => None,
        };
        if let Some(fault) = fault {
            return Err((fault, piece));
        }
        let row = self.row(head);
        if row.chunk_bytes() == 0 {
            row.set_chunk_bytes(head.len_bytes());
        }
        self.row(&piece).set_chunk_bytes(piece.len_bytes());
        self.rows[last as usize].set_next(Some(&piece.into_free()));
        head.set_has_meta(true);
        head.set_len_bytes(total);
        Ok(())
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

    /// A frame's row of the side table; the default when it has none.
    ///
    /// # Errors
    /// [`MemError::Foreign`].
    pub fn meta(&self, frame: &Frame) -> Result<Meta, MemError> {
        self.check(frame)?;
        Ok(if frame.has_meta() { self.row(frame).meta() } else { Meta::default() })
    }

    /// Writes a frame's row of the side table.
    ///
    /// # Errors
    /// [`MemError::Foreign`].
    pub fn set_meta(&self, frame: &mut Frame, meta: &Meta) -> Result<(), MemError> {
        self.check(frame)?;
        self.row(frame).set_meta(meta);
        frame.set_has_meta(true);
        Ok(())
    }

    /// Takes back every buffer, so that the pool's number is free once this region is dropped; whether they
    /// were all there. A region dropped with frames out keeps its number for good.
    pub fn retire(&self, free: Vec<FreeFrame>) -> bool {
        let ours = free.iter().filter(|frame| frame.pool() == self.layout.number).count();
        let complete = ours == self.spec.frames as usize;
        self.retired.store(complete, Ordering::Release);
        complete
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        if self.retired.load(Ordering::Acquire) {
            number::give_back(self.layout.number);
        }
    }
}

/// A super-packet in the making: see [`Region::chain`].
#[derive(Debug)]
pub struct Chain<'a> {
    region: &'a Region,
    head: Frame,
    /// The last buffer.
    last: u32,
}

impl Chain<'_> {
    /// Links `piece` behind the last buffer.
    ///
    /// # Errors
    /// As [`Region::link`], each with the piece.
    #[inline]
    pub fn push(&mut self, piece: Frame) -> Result<(), (MemError, Frame)> {
        let index = piece.index();
        // The first one finds a chain that `head` has been already.
        let linked = if self.last == self.head.index() {
            self.region.link(&mut self.head, piece)
        } else {
            self.region.link_behind(&mut self.head, self.last, piece)
        };
        if linked.is_ok() {
            self.last = index;
        }
        linked
    }

    /// All of it.
    pub fn done(self) -> Frame {
        self.head
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
