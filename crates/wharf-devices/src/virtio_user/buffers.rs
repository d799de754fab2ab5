//! `Buffers`: the memory in which a back end reads and writes frames.
//!
//! A back end maps that memory and may write any of it at any time, so a reference to its bytes must not
//! exist. By default the memory is a *mirror*: a file of the device's own with the pool's layout, where a
//! frame's buffer has the offset that it has in the pool. The device alone accesses the mirror here, and
//! only by volatile copies. While a frame is lent, its place in the mirror is the back end's.
//!
//! With `copy=off` the memory is the pool itself, and the back end is trusted: see
//! [`Region::share_with_trusted_peer`].

use super::HEADER_BYTES;
use std::io;
use std::sync::Arc;
use wharf_mem::{Frame, MemError, Region};
use wharf_sys::cache_line::prefetch_to_write;
use wharf_sys::mapping::Mapping;
use wharf_sys::shared::{Area, View};

/// Address of the memory for the back end; it means nothing elsewhere.
pub const POOL_AT: u64 = 1 << 32;

#[derive(Debug, Clone)]
pub struct Buffers {
    pub region: Arc<Region>,
    /// `None` if the back end has the pool itself.
    mirror: Option<View>,
}

impl Buffers {
    /// Makes the memory for one connection: a mirror if `copies` says so.
    ///
    /// # Errors
    /// Those of mapping memory.
    pub fn new(region: &Arc<Region>, copies: bool) -> io::Result<Self> {
        let len_bytes = region.mapping().len_bytes();
        let area = copies.then(|| Area::for_peer(len_bytes, region.spec().huge_pages)).transpose()?;
        let mirror = area.and_then(|area| View::new(&Arc::new(area), 0, len_bytes));
        Ok(Self { region: region.clone(), mirror })
    }

    /// True if the back end has punched holes into the mirror.
    pub fn is_broken(&self) -> bool {
        self.mirror.as_ref().is_some_and(|mirror| mirror.area().is_broken())
    }

    /// Returns the memory, for the back end to map.
    pub fn mapping(&self) -> &Mapping {
        let mirror = self.mirror.as_ref().and_then(|mirror| mirror.area().mapping());
        mirror.unwrap_or_else(|| self.region.share_with_trusted_peer())
    }

    /// Returns the offset of the header in front of a frame.
    ///
    /// # Errors
    /// [`MemError::Foreign`] for another pool's frame, [`MemError::TooLong`] without headroom for it.
    #[inline(always)]
    pub fn header_at(&self, frame: &Frame) -> Result<usize, MemError> {
        let (at, max_bytes) = (self.region.offset_bytes(frame)?, self.region.headroom_bytes(frame)?);
        if max_bytes < HEADER_BYTES {
            return Err(MemError::TooLong { len_bytes: HEADER_BYTES as u32, max_bytes: max_bytes as u32 });
        }
        Ok(at - HEADER_BYTES)
    }

    /// Writes the header in front of a frame, and returns its offset. Most often it is there from the last
    /// time: then its cache line need not travel to the back end again.
    ///
    /// # Errors
    /// Those of [`Buffers::header_at`].
    #[inline(always)]
    pub fn put_header(&self, frame: &mut Frame, header: &[u8; HEADER_BYTES]) -> Result<usize, MemError> {
        let at = self.header_at(frame)?;
        if let Some(mirror) = &self.mirror {
            let mut there = [0; HEADER_BYTES];
            if !mirror.copy_out(at, &mut there) || there != *header {
                mirror.copy_in(at, header);
            }
            return Ok(at);
        }
        let bytes = self.region.bytes_and_before_mut(frame, HEADER_BYTES)?;
        if bytes[..HEADER_BYTES] != *header {
            bytes[..HEADER_BYTES].copy_from_slice(header);
        }
        Ok(at)
    }

    /// Shows the back end a frame's bytes, which begin at offset `at` of the pool.
    #[inline(always)]
    pub fn put(&self, at: usize, bytes: &[u8]) {
        if let Some(mirror) = &self.mirror {
            mirror.copy_in(at, bytes);
        }
    }

    /// Prefetches for writing the first line of a frame that the back end has read: its processor has the
    /// line, and the frame's next user or the next copy writes it. With a mirror that is the mirror's line;
    /// the pool's has never left this processor.
    #[inline(always)]
    pub fn prefetch_sent(&self, frame: &Frame) {
        match (&self.mirror, self.region.bytes(frame)) {
            (Some(mirror), _) => {
                _ = self.region.offset_bytes(frame).map(|at| mirror.prefetch_to_write(at));
            }
            (None, Ok(bytes)) => prefetch_to_write(bytes.as_ptr()),
            (None, Err(_)) => {}
        }
    }

    /// Copies the header that the back end has written in front of a frame.
    ///
    /// # Errors
    /// [`MemError::Foreign`] for another pool's frame.
    #[inline(always)]
    pub fn header(&self, frame: &Frame) -> Result<[u8; HEADER_BYTES], MemError> {
        let Some(mirror) = &self.mirror else { return self.region.copy_before(frame) };
        let mut header = [0; HEADER_BYTES];
        mirror.copy_out(self.header_at(frame)?, &mut header);
        Ok(header)
    }

    /// Takes the `len_bytes` that the back end has written from `before` bytes in front of a frame's data on:
    /// they become its data. Returns true if they fit.
    #[inline(always)]
    pub fn take(&self, frame: &mut Frame, len_bytes: u32, before: usize) -> bool {
        if self.region.set_len(frame, len_bytes).is_err() {
            return false;
        }
        match &self.mirror {
            Some(mirror) => {
                let at = self.region.offset_bytes(frame);
                let bytes = self.region.bytes_mut(frame);
                at.is_ok_and(|at| bytes.is_ok_and(|bytes| mirror.copy_out(at - before, bytes)))
            }
            None if before == 0 => true,
            None => self
                .region
                .bytes_and_before_mut(frame, before)
                .map(|bytes| bytes.copy_within(..len_bytes as usize, before))
                .is_ok(),
        }
    }
}
