//! `OwnMemory`: the buffers of a super-packet serve its own segments when the pool has no frame left.
//!
//! Senders may hold all frames of a pool and wait for the packet that is to be segmented next: waiting for memory would be a
//! deadlock. The packet's bytes are copied out, its buffers serve its segments in turn, and are linked again when the last one has
//! completed. No memory is set aside for this, and a pool of one frame is enough.
//!
//! The ledger does not change: the buffers still belong to the sender that took them.

use super::{SegmentJob, SoftwareGso};
use crate::pool::{PagePool, PoolError};
use crate::sg_writer::Memory;
use wharf_mem::batch::BATCH_FRAMES_MAX;
use wharf_mem::{Batch, Frame, FreeFrame};

#[derive(Debug)]
pub(super) struct OwnMemory {
    pool: PagePool,
    /// The packet's bytes.
    bytes: Vec<u8>,
    /// Its buffers that hold no segment now.
    free: Vec<Frame>,
    /// Bytes of each of its chunks, in order; empty while there is no packet.
    chunk_bytes: Vec<u32>,
    /// Index of its first buffer, its sender and its band.
    head: (u32, u16, u8),
    /// Buffers between a piece and `free`.
    loose: Vec<FreeFrame>,
    taken: Batch,
}

impl OwnMemory {
    pub(super) fn new(pool: &PagePool) -> Self {
        let (bytes, free, chunk_bytes, loose) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let taken = Batch::new(BATCH_FRAMES_MAX);
        Self { pool: pool.clone(), bytes, free, chunk_bytes, head: (0, 0, 0), loose, taken }
    }

    /// Returns true while a packet is segmented into its own memory.
    #[inline]
    pub(super) fn is_used(&self) -> bool {
        !self.chunk_bytes.is_empty()
    }

    /// Writes further segments of the packet: see [`SoftwareGso::segment`].
    pub(super) fn segment(
        &mut self, software: &mut SoftwareGso, job: &mut SegmentJob, to: &mut Batch,
    ) -> Result<usize, PoolError> {
        let bytes = std::mem::take(&mut self.bytes);
        let made = software.segment_chunks(job, &bytes, std::iter::once(&bytes[..]), self, to);
        self.bytes = bytes;
        made
    }

    /// Takes a packet apart: its bytes and its buffers.
    ///
    /// # Errors
    /// A frame of another pool, which is returned.
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

    /// Takes back the buffers of a segment.
    ///
    /// # Errors
    /// A frame of another pool, which is returned.
    pub(super) fn take_back(&mut self, mut frame: Frame) -> Result<(), Frame> {
        let region = self.pool.region();
        if region.strip(&mut frame, &mut self.loose).is_err() {
            return Err(frame);
        }
        self.free.push(frame);
        while !self.loose.is_empty() {
            // At most a batch at a time. The ledger still has them as taken.
            let taken = region.take(&mut self.loose, &mut self.taken, BATCH_FRAMES_MAX, 0, 0, |_| {});
            debug_assert!(taken.is_ok_and(|count| count > 0), "buffers of this pool");
            self.free.extend(self.taken.pop_each());
        }
        Ok(())
    }

    /// Links the packet's buffers again once all segments have completed: with its lengths, but with other bytes.
    pub(super) fn rebuild(&mut self) -> Option<Frame> {
        debug_assert_eq!(self.free.len(), self.chunk_bytes.len(), "all buffers are back");
        let region = self.pool.region();
        let (index, sender, band) = self.head;
        let at = self.free.iter().position(|frame| frame.index() == index)?;
        self.free.swap(0, at);
        let mut pieces = self.free.drain(..).zip(self.chunk_bytes.drain(..)).map(|(mut frame, bytes)| {
            // The first chunk may begin in the headroom.
            let usual_bytes = bytes.min(region.data_bytes_max());
            let set = region.set_len(&mut frame, usual_bytes);
            let set = set.and_then(|()| match bytes - usual_bytes {
                0 => Ok(()),
                more => region.prepend(&mut frame, more as usize),
            });
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

impl Memory for OwnMemory {
    fn pool(&self) -> &PagePool {
        &self.pool
    }

    fn take(&mut self, to: &mut Batch, count: usize, len_bytes: u32) -> Result<usize, PoolError> {
        let before = to.len();
        for _ in 0..count.min(to.room()) {
            let Some(mut frame) = self.free.pop() else { break };
            let set = self.pool.region().set_len(&mut frame, len_bytes);
            to.push_within(frame);
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
