//! `Region`: the memory under one pool. A free buffer becomes a frame in `region/take.rs`, a frame becomes a free buffer in
//! `region/give.rs`, frames become a super-packet in `region/chain.rs`; `region/bytes.rs` gives access to bytes.
//!
//! # Which bytes a peer may access, and when
//!
//! A region is shared memory: a memfd that devices register with the kernel (the UMEM of AF_XDP), or, where the user asks
//! for that, pass to another process (the back end of `virtio-user` with `copy=off`). Both map all of it, writable.
//!
//! A device *lends* a buffer by publishing its address in a ring. It holds the buffer's [`Frame`] from then on, and makes no
//! reference to its bytes, until the peer has given the buffer back in the same ring, or the connection to it has ended. A
//! peer that keeps to this protocol accesses a buffer only while it is lent; no reference to its bytes exists then.
//!
//! A device copies what the peer says of a frame (a header, a length) once, by volatile reads, and checks the copy:
//! [`Region::copy_before`].
//!
//! **The protocol is an assumption where the peer is an adapter.** Drivers of adapters map the region for the
//! adapter behind an IOMMU. An adapter that writes to a buffer of the region that is not lent breaks the same rules as the
//! process below; the IOMMU keeps it from all other memory. Drivers check each word of a descriptor.
//!
//! **So it is where the peer is a process.** [`Region::share_with_trusted_peer`] trusts it as a guest
//! trusts its virtual network card. A back end that writes to a buffer that is not lent breaks the aliasing rules under
//! which [`Region::bytes`] hands out slices: what is then read is undefined. Nothing but `copy=off` calls it. Devices that do
//! not trust their peer copy frames between the pool and memory that they access by volatile words only: `vhost-user`, and
//! `virtio-user` by default.

#[allow(unsafe_code, reason = "the bytes of a frame")]
mod bytes;
mod chain;
mod give;
mod headroom;
mod posting;
mod sharers;
mod take;

pub use chain::Chain;
pub use posting::Posting;
use posting::Wishes;
pub use sharers::{Sharer, Sharers};

use crate::frame::{Frame, FreeFrame, LENGTH_BYTES_MAX};
use crate::meta::{Meta, Row, Times, TimesRow};
use crate::pool_number;
use crate::spec::{MemError, RegionSpec};
use bytes::Layout;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use wharf_sys::mapping::Mapping;

/// The buffers of one pool: shared memory, a side table with a row per buffer, and the pool's number.
///
/// ```
/// // A device has its region from `attach`, and frames from `transmit` or `Cache::take`.
/// # use wharf_mem::{Batch, Region, RegionSpec};
/// # let spec = RegionSpec { frames: 16, frame_bytes: 2048, headroom_bytes: 128, huge_pages: false };
/// # let (region, mut free) = Region::new(spec)?;
/// # let mut batch = Batch::new(1);
/// # region.take(&mut free, &mut batch, 1, 0, 60, |_| {})?;
/// # let mut frame = batch.pop().expect("one was taken");
/// region.bytes_mut(&mut frame)?.fill(0xff);
/// assert_eq!(region.bytes(&frame)?, [0xff; 60]);
/// # region.give_one(frame, &mut free).map_err(|(error, _)| error)?;
/// # assert!(region.retire(free));
/// # Ok::<(), wharf_mem::MemError>(())
/// ```
#[derive(Debug)]
pub struct Region {
    mapping: Mapping,
    spec: RegionSpec,
    layout: Layout,
    rows: Box<[Row]>,
    times: Box<[TimesRow]>,
    retired: AtomicBool,
    wishes: Wishes,
    sharers: Sharers,
}

impl Region {
    /// Maps a region, and returns it with all its buffers.
    ///
    /// # Errors
    /// [`MemError::Spec`] for a specification out of bounds, [`MemError::Map`] without memory, [`MemError::PoolNumbers`]
    /// while 63 pools live.
    #[doc(hidden)]
    pub fn new(spec: RegionSpec) -> Result<(Self, Vec<FreeFrame>), MemError> {
        spec.check()?;
        let bytes = spec.frames as usize * spec.frame_bytes as usize;
        let map = if spec.huge_pages { Mapping::shared } else { Mapping::shared_small_pages };
        let mapping = map(bytes).map_err(|source| MemError::Map { bytes, source })?;
        let number = pool_number::take().ok_or(MemError::PoolNumbers)?;
        let layout = Layout::new(&mapping, &spec, number);
        let rows = (0..spec.frames).map(|_| Row::default()).collect();
        let times = (0..spec.frames).map(|_| TimesRow::default()).collect();
        let (retired, wishes) = (AtomicBool::new(false), Wishes::default());
        let sharers = Sharers::default();
        let region = Self { mapping, spec, layout, rows, times, retired, wishes, sharers };
        // Last first, so that a stack hands out low addresses first.
        let free = (0..spec.frames).rev().map(|index| FreeFrame::new(number, index)).collect();
        Ok((region, free))
    }

    /// Returns the pool's number, 1 to 63.
    #[inline]
    pub fn number(&self) -> u8 {
        self.layout.number
    }

    /// Returns the specification that the region was made by.
    #[doc(hidden)]
    pub fn spec(&self) -> &RegionSpec {
        &self.spec
    }

    /// The queues that may hold the region's frames while their devices take none.
    #[doc(hidden)]
    pub fn sharers(&self) -> &Sharers {
        &self.sharers
    }

    /// Returns the address of the first byte, for registration with an adapter.
    pub fn start(&self) -> NonNull<u8> {
        self.mapping.start()
    }

    /// Returns the bytes of all buffers, for the same.
    pub fn len_bytes(&self) -> usize {
        self.mapping.len_bytes()
    }

    /// Returns the mapping, for registration with the kernel.
    #[doc(hidden)]
    pub fn mapping(&self) -> &Mapping {
        &self.mapping
    }

    /// Returns the mapping, for another process to map.
    ///
    /// The caller *trusts* that process to access a buffer only while a device lends it: see [`crate::region`]. A process
    /// that breaks this protocol makes access to frames undefined. Ask the user before you call it.
    #[doc(hidden)]
    pub fn share_with_trusted_peer(&self) -> &Mapping {
        &self.mapping
    }

    /// Returns the length of the longest packet that fits one buffer, bytes.
    #[inline]
    pub fn data_bytes_max(&self) -> u32 {
        self.layout.data_bytes_max
    }

    /// Returns the offset of a frame's data from the region's start, bytes.
    ///
    /// # Errors
    /// [`MemError::Foreign`] for another pool's frame.
    #[inline]
    pub fn offset_bytes(&self, frame: &Frame) -> Result<usize, MemError> {
        self.check(frame)?;
        let usual = self.spec.headroom_bytes as usize + self.layout.offset_of(frame.index());
        Ok(usual.wrapping_add_signed(self.shift(frame)))
    }

    /// Returns the index of the buffer that has byte `offset_bytes` of the region, and the offset of the usual start of that
    /// buffer's data: the inverse of [`Region::offset_bytes`] for a frame whose start was not moved. `None` beyond the last buffer.
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

    /// Sets a frame's length, 0 to [`Region::data_bytes_max`] bytes: more by what was prepended, less by what was trimmed.
    ///
    /// # Errors
    /// [`MemError::Foreign`] for another pool's frame, [`MemError::TooLong`], [`MemError::Chain`] for a chain.
    #[inline]
    pub fn set_len(&self, frame: &mut Frame, len_bytes: u32) -> Result<(), MemError> {
        self.check(frame)?;
        let max_bytes = self.room_bytes(frame);
        if len_bytes > max_bytes {
            return Err(MemError::TooLong { len_bytes, max_bytes });
        }
        if frame.has_meta() && self.row(frame).chunk_bytes() != 0 {
            return Err(MemError::Chain { index: frame.index() });
        }
        frame.set_len_bytes(len_bytes);
        Ok(())
    }

    /// Returns the bytes that fit one buffer from the start of a frame of this pool.
    #[inline(always)]
    pub fn room_bytes(&self, frame: &Frame) -> u32 {
        let room_bytes = (self.data_bytes_max() as usize).saturating_add_signed(-self.shift(frame)) as u32;
        room_bytes.min(LENGTH_BYTES_MAX)
    }

    #[inline(always)]
    fn check_len(&self, len_bytes: u32) -> Result<(), MemError> {
        let max_bytes = self.data_bytes_max();
        if len_bytes <= max_bytes { Ok(()) } else { Err(MemError::TooLong { len_bytes, max_bytes }) }
    }

    /// Returns a frame's row of the side table; the default where it has none.
    ///
    /// # Errors
    /// [`MemError::Foreign`] for another pool's frame.
    pub fn meta(&self, frame: &Frame) -> Result<Meta, MemError> {
        self.check(frame)?;
        Ok(if frame.has_meta() { self.row(frame).meta() } else { Meta::default() })
    }

    /// Returns a frame's time stamp, if it has one: [`Meta::time_ns`] alone, without the rest of its row.
    #[inline]
    pub fn stamp_ns(&self, frame: &Frame) -> Option<u64> {
        let has_row = frame.has_meta() && self.check(frame).is_ok();
        has_row.then(|| self.row(frame).stamp_ns()).flatten()
    }

    /// Returns a frame's times; the default where it has none.
    ///
    /// # Errors
    /// [`MemError::Foreign`] for another pool's frame.
    #[doc(hidden)]
    pub fn times(&self, frame: &Frame) -> Result<Times, MemError> {
        self.check(frame)?;
        let has_times = frame.has_meta() && self.row(frame).has_times();
        Ok(if has_times { self.times[frame.index() as usize].get() } else { Times::default() })
    }

    /// Sets a frame's times.
    ///
    /// # Errors
    /// [`MemError::Foreign`] for another pool's frame.
    #[doc(hidden)]
    pub fn set_times(&self, frame: &mut Frame, times: Times) -> Result<(), MemError> {
        self.check(frame)?;
        self.times[frame.index() as usize].set(times);
        self.row(frame).set_has_times(times != Times::default());
        frame.set_has_meta(true);
        Ok(())
    }

    /// Writes a frame's row of the side table. Its times are gone.
    ///
    /// # Errors
    /// [`MemError::Foreign`] for another pool's frame.
    pub fn set_meta(&self, frame: &mut Frame, meta: &Meta) -> Result<(), MemError> {
        self.check(frame)?;
        self.row(frame).set_meta(meta);
        frame.set_has_meta(true);
        Ok(())
    }

    /// Takes back every buffer, and returns true if all were there. The pool's number is then free again once the region is
    /// dropped; a region that is dropped with frames out keeps its number for good.
    #[doc(hidden)]
    pub fn retire(&self, free: Vec<FreeFrame>) -> bool {
        let ours = free.iter().filter(|frame| frame.pool() == self.layout.number).count();
        let complete = ours == self.spec.frames as usize;
        self.retired.store(complete, Ordering::Release);
        complete
    }
}

/// Its mapping, for a registration that keeps the region.
impl AsRef<Mapping> for Region {
    fn as_ref(&self) -> &Mapping {
        &self.mapping
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        if self.retired.load(Ordering::Acquire) {
            pool_number::give_back(self.layout.number);
        }
    }
}
