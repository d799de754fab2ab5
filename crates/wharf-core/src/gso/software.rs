//! `SoftwareGso`: writes the segments of a super-packet into other frames, or copies a frame into fewer buffers.
//!
//! Assumption: the frame does not change before its last segment is written. Goal: each byte is touched once, the headers are
//! read once, and a caller without memory or room can continue later.

use crate::offload::gso_request;
use crate::pool::PoolError;
use crate::sg_writer::{Memory, Placement, Reader, SgWriter};
use wharf_mem::batch::BATCH_FRAMES_MAX;
use wharf_mem::{Batch, Frame, MemError, Meta, Region, Times};
use wharf_packet::gso::{GsoError, GsoPlan};

/// The segmentation of one frame, and its progress.
#[derive(Debug, Clone, Copy)]
pub struct SegmentJob {
    /// `None` for one piece: a copy of the frame in fewer buffers.
    plan: Option<GsoPlan>,
    next: usize,
    /// True if the headers lie in more than one buffer.
    scattered: bool,
    len_bytes: u32,
    /// The metadata and the times of the pieces.
    meta: Meta,
    times: Times,
}

impl SegmentJob {
    /// Plans the segmentation that the metadata of `frame`, of `region`, asks for.
    ///
    /// # Errors
    /// [`GsoError`]; for a frame of another pool [`GsoError::Headers`].
    pub fn segment(frame: &Frame, region: &Region) -> Result<Self, GsoError> {
        let len_bytes = frame.len_bytes();
        let foreign = |_: MemError| GsoError::Headers { len_bytes: len_bytes as usize, what: "foreign" };
        let (meta, start) = (region.meta(frame).map_err(foreign)?, region.bytes(frame).map_err(foreign)?);
        let (plan, scattered) = match GsoPlan::of_start(start, len_bytes as usize, &gso_request(&meta)) {
            Err(GsoError::Headers { .. }) if start.len() < len_bytes as usize => {
                let whole: Vec<u8> = region.chunks(frame).map_err(foreign)?.flatten().copied().collect();
                (GsoPlan::of_start(&whole, whole.len(), &gso_request(&meta))?, true)
            }
            plan => (plan?, false),
        };
        let times = region.times(frame).map_err(foreign)?;
        let meta = Meta { time_ns: meta.time_ns, ..Meta::default() };
        Ok(Self { plan: Some(plan), next: 0, scattered, len_bytes, meta, times })
    }

    /// Plans a copy of `frame` in as few buffers as possible, with its metadata and times.
    ///
    /// # Errors
    /// [`MemError::Foreign`].
    pub fn repack(frame: &Frame, region: &Region) -> Result<Self, MemError> {
        let (meta, times) = (region.meta(frame)?, region.times(frame)?);
        Ok(Self { plan: None, next: 0, scattered: false, len_bytes: frame.len_bytes(), meta, times })
    }

    /// Returns the number of pieces, at least 1.
    #[inline]
    pub fn pieces(&self) -> usize {
        self.plan.map_or(1, |plan| plan.segments())
    }

    /// Returns the bytes of the longest piece.
    pub fn piece_bytes_max(&self) -> usize {
        self.plan.map_or(self.len_bytes as usize, |plan| plan.segment_bytes(0))
    }

    /// Returns true if a piece has been made.
    pub(super) fn has_begun(&self) -> bool {
        self.next > 0
    }

    /// Returns true if all pieces have been made.
    #[inline]
    pub fn is_done(&self) -> bool {
        self.next == self.pieces()
    }
}

/// Carries out [`SegmentJob`]s; one per thread. It keeps its buffers from one job to the next.
#[derive(Debug)]
pub struct SoftwareGso {
    /// Pieces while they are written.
    fresh: Batch,
    /// The bytes of a packet whose headers lie in several buffers.
    gathered: Vec<u8>,
    /// A segment that is longer than a buffer.
    segment: Vec<u8>,
    placer: SgWriter,
}

impl Default for SoftwareGso {
    fn default() -> Self {
        let fresh = Batch::new(BATCH_FRAMES_MAX);
        Self { fresh, gathered: Vec::new(), segment: Vec::new(), placer: SgWriter::default() }
    }
}

impl SoftwareGso {
    /// Writes further pieces of `frame`, whose job is `job`, into frames of `memory` at the back of `to`.
    ///
    /// Returns the number of pieces written. The next call continues where `to` was full or `memory` had no frames left.
    ///
    /// # Errors
    /// [`PoolError::Memory`]: the frame is of another pool.
    pub fn segment(
        &mut self, job: &mut SegmentJob, frame: &Frame, memory: &mut (impl Memory + ?Sized), to: &mut Batch,
    ) -> Result<usize, PoolError> {
        let region = memory.pool().region().clone();
        if job.scattered {
            let mut gathered = std::mem::take(&mut self.gathered);
            gathered.clear();
            region.chunks(frame)?.for_each(|chunk| gathered.extend_from_slice(chunk));
            let made = self.segment_chunks(job, &gathered, std::iter::once(&gathered[..]), memory, to);
            self.gathered = gathered;
            return made;
        }
        self.segment_chunks(job, region.bytes(frame)?, region.chunks(frame)?, memory, to)
    }

    /// Works as [`SoftwareGso::segment`], on a packet that lies in `chunks`, the first of which is `start`.
    pub(super) fn segment_chunks<'a>(
        &mut self, job: &mut SegmentJob, start: &[u8], chunks: impl Iterator<Item = &'a [u8]>,
        memory: &mut (impl Memory + ?Sized), to: &mut Batch,
    ) -> Result<usize, PoolError> {
        let before = to.len();
        let made = self.write_pieces(job, start, chunks, memory, to);
        if job.times != Times::default() {
            for frame in &mut to.frames_mut()[before..] {
                memory.pool().region().set_times(frame, job.times)?;
            }
            to.refresh();
        }
        made.map(|()| to.len() - before)
    }

    /// Writes pieces without their times.
    fn write_pieces<'a>(
        &mut self, job: &mut SegmentJob, start: &[u8], chunks: impl Iterator<Item = &'a [u8]>,
        memory: &mut (impl Memory + ?Sized), to: &mut Batch,
    ) -> Result<(), PoolError> {
        let Some(plan) = job.plan else {
            if job.next == 0 && to.room() > 0 {
                let placed = self.placer.place(memory, to, chunks, job.len_bytes, &job.meta)?;
                job.next += usize::from(placed == Placement::Done);
            }
            return Ok(());
        };
        let mut payload = Reader::new(chunks);
        payload.skip(plan.payload_at(job.next));
        let buffer_bytes = memory.pool().region().data_bytes_max() as usize;
        while !job.is_done() && to.room() > 0 {
            let is_short = plan.segment_bytes(job.next) <= buffer_bytes;
            let made = match is_short {
                true => self.write_equal(job, &plan, start, &mut payload, memory, to)?,
                false => self.write_long(job, &plan, start, &mut payload, memory, to)?,
            };
            if made == 0 {
                break;
            }
            job.next += made;
        }
        Ok(())
    }

    /// Writes segments of one length, each into one buffer, and returns their number.
    #[inline]
    fn write_equal<'a>(
        &mut self, job: &SegmentJob, plan: &GsoPlan, start: &[u8],
        payload: &mut Reader<'a, impl Iterator<Item = &'a [u8]>>, memory: &mut (impl Memory + ?Sized),
        to: &mut Batch,
    ) -> Result<usize, PoolError> {
        let (count, len_bytes) = (plan.equal_segments(job.next).min(to.room()), plan.segment_bytes(job.next));
        let made = match memory.take(&mut self.fresh, count, len_bytes as u32) {
            Err(PoolError::Exhausted { .. }) => return Ok(0),
            made => made?,
        };
        let region = memory.pool().region();
        for (bytes, at) in region.each_bytes_mut(&mut self.fresh).zip(job.next..) {
            write_segment(plan, start, payload, at, bytes);
        }
        if job.meta != Meta::default() {
            for frame in self.fresh.frames_mut() {
                region.set_meta(frame, &job.meta)?;
            }
            self.fresh.refresh();
        }
        to.append(&mut self.fresh, made);
        Ok(made)
    }

    /// Writes one segment that is longer than a buffer, as a chain.
    #[cold]
    fn write_long<'a>(
        &mut self, job: &SegmentJob, plan: &GsoPlan, start: &[u8],
        payload: &mut Reader<'a, impl Iterator<Item = &'a [u8]>>, memory: &mut (impl Memory + ?Sized),
        to: &mut Batch,
    ) -> Result<usize, PoolError> {
        self.segment.resize(plan.segment_bytes(job.next), 0);
        write_segment(plan, start, payload, job.next, &mut self.segment);
        let (chunks, len_bytes) = ([&self.segment[..]].into_iter(), self.segment.len() as u32);
        let placed = self.placer.place(memory, to, chunks, len_bytes, &job.meta)?;
        Ok(usize::from(placed == Placement::Done))
    }
}

/// Writes segment `at` of a packet that begins with `start` to `to`, by `plan`. `payload` must stand at the payload of this
/// segment, and is moved to that of the next one.
///
/// # Panics
/// If `to` is shorter than [`GsoPlan::segment_bytes`], or the packet than it was when the plan was made.
#[inline]
pub fn write_segment<'a>(
    plan: &GsoPlan, start: &[u8], payload: &mut Reader<'a, impl Iterator<Item = &'a [u8]>>, at: usize,
    to: &mut [u8],
) {
    let bytes = &mut to[plan.header_bytes()..plan.segment_bytes(at)];
    let read = payload.read(bytes);
    assert_eq!(read, bytes.len(), "the packet is as long as its plan says");
    plan.write_headers(start, at, to);
}
