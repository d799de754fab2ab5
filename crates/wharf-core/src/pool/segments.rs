//! `Segments`: the segments of a super-packet, each a packet of its own.

use super::{Packet, PoolError};
use crate::gso::{SegmentJob, SoftwareGso};
use crate::sg_writer::Memory;
use std::fmt::{self, Debug};
use wharf_mem::Batch;
use wharf_packet::gso::GsoError;

/// Segments made at a time.
const BULK: usize = 32;

/// The segments of a super-packet, in order: see [`Packet::segments`].
struct Segments<'a, M> {
    packet: &'a Packet,
    memory: &'a mut M,
    job: SegmentJob,
    software: SoftwareGso,
    made: Batch,
}

impl Packet {
    /// Cuts the segments that its metadata asks for, into memory of `memory`: a sender, or a cache of the packet's pool.
    /// Headers, lengths and checksums of each are complete. A packet without a request yields one copy of itself,
    /// with its request for a checksum.
    ///
    /// The iterator yields [`PoolError::Exhausted`] while there is no memory, and then goes on with the same segment.
    ///
    /// # Errors
    /// [`GsoError`] for headers that are not of the kind of segmentation asked for.
    pub fn segments<'a, M: Memory>(
        &'a self, memory: &'a mut M,
    ) -> Result<impl Iterator<Item = Result<Packet, PoolError>> + Debug + 'a, GsoError> {
        let (frame, region) = (self.frame(), self.pool().region());
        let job = match self.meta().gso_bytes {
            0 => SegmentJob::repack(frame, region)
                .map_err(|_| GsoError::Headers { len_bytes: self.len(), what: "foreign" })?,
            _ => SegmentJob::segment(frame, region)?,
        };
        let (software, made) = (SoftwareGso::default(), Batch::new(BULK));
        Ok(Segments { packet: self, memory, job, software, made })
    }
}

impl<M: Memory> Iterator for Segments<'_, M> {
    type Item = Result<Packet, PoolError>;

    fn next(&mut self) -> Option<Result<Packet, PoolError>> {
        if self.made.is_empty() && !self.job.is_done() {
            let Self { packet, memory, job, software, made } = self;
            match software.segment(job, packet.frame(), *memory, made) {
                Ok(0) => return Some(Err(memory.pool().exhausted())),
                Ok(_) => {}
                Err(error) => return Some(Err(error)),
            }
        }
        self.made.pop().map(|frame| Ok(Packet::new(frame, self.memory.pool().clone())))
    }
}

impl<M> Debug for Segments<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Segments({:?})", self.packet)
    }
}

impl<M> Drop for Segments<'_, M> {
    /// Frees the segments that were not taken.
    fn drop(&mut self) {
        if !self.made.is_empty() {
            // Cannot fail: they are of this pool.
            let _ = self.packet.pool().give_back(&mut self.made);
        }
    }
}
