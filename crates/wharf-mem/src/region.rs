//! The memory under one pool, and the only place where a buffer becomes a `Frame` (`region/take.rs`), a `Frame` a buffer
//! again (`region/give.rs`), several of them a super-packet (`region/chain.rs`), and a `Frame` bytes (`region/bytes.rs`).

#[allow(unsafe_code, reason = "bytes of a frame: one of the two files that may")]
mod bytes;
mod chain;
mod give;
mod take;

pub use bytes::Chunks;
pub use chain::Chain;

use crate::frame::{Frame, FreeFrame};
use crate::meta::{Meta, Row};
use crate::number;
use crate::spec::{MemError, RegionSpec};
use bytes::Layout;
use std::sync::atomic::{AtomicBool, Ordering};
use wharf_sys::mapping::Mapping;

/// One pool's buffers: shared memory, their side table, and the pool's number.
#[derive(Debug)]
pub struct Region {
    mapping: Mapping,
    spec: RegionSpec,
    layout: Layout,
    rows: Box<[Row]>,
    retired: AtomicBool,
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
        let layout = Layout::new(&mapping, &spec, number);
        let rows = (0..spec.frames).map(|_| Row::default()).collect();
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
