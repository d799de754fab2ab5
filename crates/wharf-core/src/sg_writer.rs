//! `SgWriter`: copies packets into frames: into one frame, or into a chain (scatter-gather) if one is too
//! small.

use crate::pool::{Burst, Cache, Packet, PagePool, PoolError};
use wharf_mem::batch::BATCH_FRAMES_MAX;
use wharf_mem::frame::LENGTH_BYTES_MAX;
use wharf_mem::{Batch, Frame, Meta, Region};

/// The result of copying a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// The packet is at the back of the batch.
    Done,
    /// There are not enough frames now.
    NoMemory,
    /// The packet exceeds the whole pool, or the longest super-packet.
    TooLong,
}

/// A supply of free frames.
pub trait Memory {
    /// The frames' pool.
    fn pool(&self) -> &PagePool;

    /// Takes frames like [`Cache::take`].
    ///
    /// # Errors
    /// The errors of [`Cache::take`].
    fn take(&mut self, to: &mut Batch, count: usize, len_bytes: u32) -> Result<usize, PoolError>;

    /// Gives back one frame that was taken here.
    ///
    /// # Errors
    /// The errors of [`Cache::give_one`].
    fn give_one(&mut self, frame: Frame) -> Result<(), (PoolError, Frame)>;
}

impl Memory for Cache {
    fn pool(&self) -> &PagePool {
        self.pool()
    }

    #[inline]
    fn take(&mut self, to: &mut Batch, count: usize, len_bytes: u32) -> Result<usize, PoolError> {
        self.take(to, count, len_bytes)
    }

    fn give_one(&mut self, frame: Frame) -> Result<(), (PoolError, Frame)> {
        self.give_one(frame)
    }
}

/// A reader of bytes that lie in several chunks.
#[derive(Debug, Clone)]
pub struct Reader<'a, I> {
    chunks: I,
    /// The unread rest of the present chunk.
    chunk: &'a [u8],
}

impl<'a, I: Iterator<Item = &'a [u8]>> Reader<'a, I> {
    /// Starts at the first byte of the first chunk.
    #[inline]
    pub fn new(mut chunks: I) -> Self {
        let chunk = chunks.next().unwrap_or_default();
        Self { chunks, chunk }
    }

    /// Fills `to` as far as there are bytes. Returns their number.
    #[inline]
    pub fn read(&mut self, to: &mut [u8]) -> usize {
        match self.chunk.split_at_checked(to.len()) {
            Some((bytes, rest)) => {
                to.copy_from_slice(bytes);
                self.chunk = rest;
                to.len()
            }
            None => self.read_across(to),
        }
    }

    #[inline(never)]
    fn read_across(&mut self, to: &mut [u8]) -> usize {
        let mut done = 0;
        while let Some(bytes) = self.next_part(to.len() - done) {
            to[done..done + bytes.len()].copy_from_slice(bytes);
            done += bytes.len();
        }
        done
    }

    /// Skips `bytes` bytes, or all that are left.
    pub fn skip(&mut self, mut bytes: usize) {
        while let Some(part) = self.next_part(bytes) {
            bytes -= part.len();
        }
    }

    /// Returns up to `max` contiguous bytes; `None` at the end.
    fn next_part(&mut self, max: usize) -> Option<&'a [u8]> {
        while self.chunk.is_empty() && max > 0 {
            self.chunk = self.chunks.next()?;
        }
        let (part, rest) = self.chunk.split_at(max.min(self.chunk.len()));
        self.chunk = rest;
        (!part.is_empty()).then_some(part)
    }
}

/// A writer of packets into frames. It reuses its storage from one packet to the next.
#[derive(Debug)]
pub struct SgWriter {
    pieces: Vec<Frame>,
    /// Holds pieces on their way from and to the memory.
    taken: Batch,
}

impl Default for SgWriter {
    fn default() -> Self {
        Self { pieces: Vec::new(), taken: Batch::new(BATCH_FRAMES_MAX) }
    }
}

impl SgWriter {
    /// Copies a packet of `len_bytes`, made of `chunks`, into frames of `memory` and pushes it onto `to`,
    /// which has room for it. Bytes beyond the chunks are 0.
    ///
    /// # Errors
    /// [`PoolError::Memory`]: a frame of another pool.
    pub fn place<'a>(
        &mut self, memory: &mut (impl Memory + ?Sized), to: &mut Batch,
        chunks: impl Iterator<Item = &'a [u8]>, len_bytes: u32, meta: &Meta,
    ) -> Result<Placement, PoolError> {
        let piece_bytes = memory.pool().region().data_bytes_max();
        let count = len_bytes.div_ceil(piece_bytes).max(1);
        if count > memory.pool().frames() || len_bytes > LENGTH_BYTES_MAX {
            return Ok(Placement::TooLong);
        }
        if count == 1 {
            return self.place_one(memory, to, Reader::new(chunks), len_bytes, meta);
        }
        if !self.take(memory, count as usize, piece_bytes)? {
            return Ok(Placement::NoMemory);
        }
        let region = &**memory.pool().region();
        if let Some(last) = self.pieces.last_mut() {
            region.set_len(last, len_bytes - (count - 1) * piece_bytes)?;
        }
        let mut reader = Reader::new(chunks);
        for piece in &mut self.pieces {
            let bytes = region.bytes_mut(piece)?;
            let read = reader.read(bytes);
            bytes[read..].fill(0);
        }
        if let Some(mut frame) = self.link(region)? {
            if *meta != Meta::default() {
                region.set_meta(&mut frame, meta)?;
            }
            to.push_within(frame);
        }
        Ok(Placement::Done)
    }

    /// Adds a copy of `packet` to `to`, in frames of `memory`, of one pool with `to`. Returns false without
    /// memory or room.
    pub fn copy(&mut self, packet: &Packet, memory: &mut impl Memory, to: &mut Burst) -> bool {
        let (chunks, len_bytes) = (packet.chunks(), packet.len() as u32);
        to.batch_mut().room() > 0
            && matches!(
                self.place(memory, to.batch_mut(), chunks, len_bytes, &packet.meta()),
                Ok(Placement::Done)
            )
    }

    /// Works like [`SgWriter::place`], for a packet that fits one frame.
    #[inline]
    fn place_one<'a>(
        &mut self, memory: &mut (impl Memory + ?Sized), to: &mut Batch,
        mut reader: Reader<'a, impl Iterator<Item = &'a [u8]>>, len_bytes: u32, meta: &Meta,
    ) -> Result<Placement, PoolError> {
        match memory.take(&mut self.taken, 1, len_bytes) {
            Ok(_) => {}
            Err(PoolError::Exhausted { .. }) => return Ok(Placement::NoMemory),
            Err(error) => return Err(error),
        }
        let Some(mut frame) = self.taken.pop() else { return Ok(Placement::NoMemory) };
        // A count of the region's users would wait for the copy of the packet before.
        let region = &**memory.pool().region();
        let bytes = region.bytes_mut(&mut frame)?;
        let read = reader.read(bytes);
        bytes[read..].fill(0);
        if *meta != Meta::default() {
            region.set_meta(&mut frame, meta)?;
        }
        to.push_within(frame);
        Ok(Placement::Done)
    }

    /// Takes `count` pieces, or none if there are fewer. Returns true if it took them.
    fn take(
        &mut self, memory: &mut (impl Memory + ?Sized), count: usize, piece_bytes: u32,
    ) -> Result<bool, PoolError> {
        while self.pieces.len() < count {
            match memory.take(&mut self.taken, count - self.pieces.len(), piece_bytes) {
                Ok(_) => self.pieces.extend(self.taken.pop_each()),
                Err(PoolError::Exhausted { .. }) => {
                    for frame in self.pieces.drain(..) {
                        // Cannot fail: the frame was taken here.
                        memory.give_one(frame).map_err(|(error, _)| error)?;
                    }
                    return Ok(false);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    fn link(&mut self, region: &Region) -> Result<Option<Frame>, PoolError> {
        let mut pieces = self.pieces.drain(..);
        let Some(mut chain) = pieces.next().map(|head| region.chain(head)) else { return Ok(None) };
        for piece in pieces {
            // Cannot fail: the pieces are of one pool, filled, no chains, and short enough in sum.
            chain.push(piece).map_err(|(error, _)| error)?;
        }
        Ok(Some(chain.done()))
    }
}
