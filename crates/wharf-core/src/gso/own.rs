//! `Own`: a super-packet that is cut into its own memory, where there is no other.
//!
//! Senders may have all frames of a pool, each waiting for the one that is to be cut next: to wait for memory then would be to
//! wait for ever. So its bytes are copied out, its buffers serve its pieces, in turn, and are linked again when the last
//! piece is back. Nothing has to be set aside for that, and a pool of one frame is enough.
//!
//! The ledger is told nothing of it: the buffers stay with whoever had taken them.

use super::{SegmentJob, SoftwareGso};
use crate::pool::{PagePool, PoolError};
use crate::sg_writer::Memory;
use wharf_mem::batch::BATCH_FRAMES_MAX;
use wharf_mem::{Batch, Frame, FreeFrame};

#[derive(Debug)]
pub(super) struct Own {
    pool: PagePool,
    /// The packet's bytes.
    bytes: Vec<u8>,
    /// Its buffers in which no piece lies now.
    free: Vec<Frame>,
    /// Bytes of each of its chunks, in order; none while there is no packet.
    chunk_bytes: Vec<u32>,
    /// Index of its first buffer, its sender and its band.
    head: (u32, u16, u8),
    /// For buffers on their way.
    loose: Vec<FreeFrame>,
    taken: Batch,
}

impl Own {
    pub(super) fn new(pool: &PagePool) -> Self {
        let (bytes, free, chunk_bytes, loose) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let taken = Batch::new(BATCH_FRAMES_MAX);
        Self { pool: pool.clone(), bytes, free, chunk_bytes, head: (0, 0, 0), loose, taken }
    }

    /// Whether a packet is cut into its own memory.
    #[inline]
    pub(super) fn is_used(&self) -> bool {
        !self.chunk_bytes.is_empty()
    }

    /// Makes further pieces of it: see [`SoftwareGso::cut`].
    pub(super) fn cut(
        &mut self, software: &mut SoftwareGso, plan: &mut SegmentJob, to: &mut Batch,
    ) -> Result<usize, PoolError> {
        let bytes = std::mem::take(&mut self.bytes);
        let made = software.cut_bytes(plan, &bytes, std::iter::once(&bytes[..]), self, to);
        self.bytes = bytes;
        made
    }

    /// Takes a packet apart.
    ///
    /// # Errors
    /// It is another pool's.
    pub(super) fn dissolve(&mut self, frame: Frame) -> Result<(), Frame> {
        let region = self.pool.region().clone();
        let Ok(chunks) = region.chunks(&frame) else { return Err(frame) };
        self.bytes.clear();
        for chunk in chunks {
            self.bytes.extend_from_slice(chunk);
            self.chunk_bytes.push(chunk.len() as u32);
        }
        self.head = (frame.index(), frame.sender(), frame.band());
        self.take_back(frame)
    }

    /// Takes back a piece, with all its buffers.
    ///
    /// # Errors
    /// It is another pool's.
    pub(super) fn take_back(&mut self, mut frame: Frame) -> Result<(), Frame> {
        let region = self.pool.region();
        if region.strip(&mut frame, &mut self.loose).is_err() {
            return Err(frame);
        }
        self.free.push(frame);
        while !self.loose.is_empty() {
            // No more than a batch holds at a time; the ledger goes on having them as taken.
            let taken = region.take(&mut self.loose, &mut self.taken, BATCH_FRAMES_MAX, 0, 0, |_| {});
            debug_assert!(taken.is_ok_and(|count| count > 0), "buffers of this pool");
            self.free.extend(std::iter::from_fn(|| self.taken.pop()));
        }
        Ok(())
    }

    /// Puts the packet together again, once all pieces are back: as long as it was, whatever its bytes.
    pub(super) fn rebuild(&mut self) -> Option<Frame> {
        debug_assert_eq!(self.free.len(), self.chunk_bytes.len(), "all buffers are back");
        let region = self.pool.region();
        let (index, sender, band) = self.head;
        let at = self.free.iter().position(|frame| frame.index() == index)?;
        self.free.swap(0, at);
        let mut pieces = self.free.drain(..).zip(self.chunk_bytes.drain(..)).map(|(mut frame, bytes)| {
            let set = region.set_len(&mut frame, bytes);
            debug_assert!(set.is_ok(), "a chunk was as long");
            frame
        });
        let mut chain = region.chain(pieces.next()?);
        for piece in pieces {
            let linked = chain.push(piece);
            debug_assert!(linked.is_ok(), "they were one chain");
        }
        let mut head = chain.done();
        head.set_sender(sender);
        head.set_band(band);
        Some(head)
    }

    pub(super) fn visit(&self, see: &mut dyn FnMut(&Frame)) {
        self.free.iter().for_each(see);
    }
}

impl Memory for Own {
    fn pool(&self) -> &PagePool {
        &self.pool
    }

    fn take(&mut self, to: &mut Batch, count: usize, len_bytes: u32) -> Result<usize, PoolError> {
        let before = to.len();
        for _ in 0..count.min(to.room()) {
            let Some(mut frame) = self.free.pop() else { break };
            let set = self.pool.region().set_len(&mut frame, len_bytes);
            let pushed = to.push(frame);
            debug_assert!(pushed.is_ok(), "there is room");
            set?;
        }
        match to.len() - before {
            0 => Err(PoolError::Exhausted { frames: self.pool.frames() }),
            taken => Ok(taken),
        }
    }

    fn give_one(&mut self, frame: Frame) -> Result<(), (PoolError, Frame)> {
        self.free.push(frame);
        Ok(())
    }
}
