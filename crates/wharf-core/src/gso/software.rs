//! `SoftwareGso`: from one frame that is a super-packet, or too many buffers, into frames that are not.
//!
//! Assumptions: the frame stays as it is until it has been cut to its end. Goal: memory and bytes are touched once, the
//! headers are not read again for each segment, and whoever has no memory or no room half-way goes on later.

use crate::offload::gso_request;
use crate::pool::PoolError;
use crate::sg_writer::{Memory, Placement, Reader, SgWriter};
use wharf_mem::batch::BATCH_FRAMES_MAX;
use wharf_mem::{Batch, Frame, MemError, Meta, Region};
use wharf_packet::gso::{GsoError, GsoPlan};

/// How one frame is cut, and how far that is.
#[derive(Debug, Clone, Copy)]
pub struct SegmentJob {
    /// `None`: one piece, the frame as it is in fewer buffers.
    cut: Option<GsoPlan>,
    next: usize,
    /// The headers lie in more than one buffer.
    scattered: bool,
    len_bytes: u32,
    /// Of the pieces.
    meta: Meta,
}

impl SegmentJob {
    /// For a super-packet of `region`, as its row of the side table asks.
    ///
    /// # Errors
    /// [`GsoError`]; a frame of another pool has no headers.
    pub fn cut(frame: &Frame, region: &Region) -> Result<Self, GsoError> {
        let len_bytes = frame.len_bytes();
        let foreign = |_: MemError| GsoError::Headers { len_bytes: len_bytes as usize, what: "foreign" };
        let (meta, start) = (region.meta(frame).map_err(foreign)?, region.bytes(frame).map_err(foreign)?);
        let (cut, scattered) = match GsoPlan::of_start(start, len_bytes as usize, &gso_request(&meta)) {
            Err(GsoError::Headers { .. }) if start.len() < len_bytes as usize => {
                let whole: Vec<u8> = region.chunks(frame).map_err(foreign)?.flatten().copied().collect();
                (GsoPlan::of_start(&whole, whole.len(), &gso_request(&meta))?, true)
            }
            cut => (cut?, false),
        };
        let meta = Meta { time_ns: meta.time_ns, ..Meta::default() };
        Ok(Self { cut: Some(cut), next: 0, scattered, len_bytes, meta })
    }

    /// To copy a frame into as few buffers as it fits, all that it asks for included.
    ///
    /// # Errors
    /// [`MemError::Foreign`].
    pub fn repack(frame: &Frame, region: &Region) -> Result<Self, MemError> {
        let meta = region.meta(frame)?;
        Ok(Self { cut: None, next: 0, scattered: false, len_bytes: frame.len_bytes(), meta })
    }

    /// Pieces that there will be.
    #[inline]
    pub fn pieces(&self) -> usize {
        self.cut.map_or(1, |cut| cut.segments())
    }

    /// Bytes of the longest piece.
    pub fn piece_bytes_max(&self) -> usize {
        self.cut.map_or(self.len_bytes as usize, |cut| cut.segment_bytes(0))
    }

    /// Whether a piece has been made.
    pub(super) fn has_begun(&self) -> bool {
        self.next > 0
    }

    /// Whether all pieces have been made.
    #[inline]
    pub fn is_done(&self) -> bool {
        self.next == self.pieces()
    }
}

/// Cuts frames as their [`SegmentJob`]s say; one per thread.
#[derive(Debug)]
pub struct SoftwareGso {
    /// Pieces before they are shown to anybody.
    fresh: Batch,
    /// A packet whose headers lie scattered, in one.
    gathered: Vec<u8>,
    /// A segment too long for one buffer.
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
    /// Makes further pieces of `frame`, for which `plan` was made, at the back of `to`, of frames of `memory`; how many.
    /// Fewer than there are when `to` is full or `memory` has no more: none is lost, the next call goes on.
    ///
    /// # Errors
    /// [`PoolError::Memory`]: the frame is of another pool.
    pub fn cut(
        &mut self, plan: &mut SegmentJob, frame: &Frame, memory: &mut impl Memory, to: &mut Batch,
    ) -> Result<usize, PoolError> {
        let region = memory.pool().region().clone();
        if plan.scattered {
            let mut gathered = std::mem::take(&mut self.gathered);
            gathered.clear();
            region.chunks(frame)?.for_each(|chunk| gathered.extend_from_slice(chunk));
            let made = self.cut_bytes(plan, &gathered, std::iter::once(&gathered[..]), memory, to);
            self.gathered = gathered;
            return made;
        }
        self.cut_bytes(plan, region.bytes(frame)?, region.chunks(frame)?, memory, to)
    }

    /// As [`SoftwareGso::cut`], of a packet that lies in `chunks`, the first of them `start`.
    pub(super) fn cut_bytes<'a>(
        &mut self, plan: &mut SegmentJob, start: &[u8], chunks: impl Iterator<Item = &'a [u8]>,
        memory: &mut impl Memory, to: &mut Batch,
    ) -> Result<usize, PoolError> {
        let before = to.len();
        let Some(cut) = plan.cut else {
            if plan.next == 0 && to.room() > 0 {
                let placed = self.placer.place(memory, to, chunks, plan.len_bytes, &plan.meta)?;
                plan.next += usize::from(placed == Placement::Done);
            }
            return Ok(to.len() - before);
        };
        let mut payload = Reader::new(chunks);
        payload.skip(cut.payload_at(plan.next));
        let buffer_bytes = memory.pool().region().data_bytes_max() as usize;
        while !plan.is_done() && to.room() > 0 {
            let is_short = cut.segment_bytes(plan.next) <= buffer_bytes;
            let made = match is_short {
                true => self.write_alike(plan, &cut, start, &mut payload, memory, to)?,
                false => self.write_long(plan, &cut, start, &mut payload, memory, to)?,
            };
            if made == 0 {
                break;
            }
            plan.next += made;
        }
        Ok(to.len() - before)
    }

    /// Segments of one length, each in a buffer; how many.
    #[inline]
    fn write_alike<'a>(
        &mut self, plan: &SegmentJob, cut: &GsoPlan, start: &[u8],
        payload: &mut Reader<'a, impl Iterator<Item = &'a [u8]>>, memory: &mut impl Memory, to: &mut Batch,
    ) -> Result<usize, PoolError> {
        let (count, len_bytes) = (cut.equal_segments(plan.next).min(to.room()), cut.segment_bytes(plan.next));
        let made = match memory.take(&mut self.fresh, count, len_bytes as u32) {
            Err(PoolError::Exhausted { .. }) => return Ok(0),
            made => made?,
        };
        let region = memory.pool().region();
        for (bytes, at) in region.each_bytes_mut(&mut self.fresh).zip(plan.next..) {
            write_segment(cut, start, payload, at, bytes);
        }
        if plan.meta != Meta::default() {
            for frame in self.fresh.frames_mut() {
                region.set_meta(frame, &plan.meta)?;
            }
            self.fresh.refresh();
        }
        to.append(&mut self.fresh, made);
        Ok(made)
    }

    /// One segment that is longer than a buffer: a chain.
    #[cold]
    fn write_long<'a>(
        &mut self, plan: &SegmentJob, cut: &GsoPlan, start: &[u8],
        payload: &mut Reader<'a, impl Iterator<Item = &'a [u8]>>, memory: &mut impl Memory, to: &mut Batch,
    ) -> Result<usize, PoolError> {
        self.segment.resize(cut.segment_bytes(plan.next), 0);
        write_segment(cut, start, payload, plan.next, &mut self.segment);
        let (chunks, len_bytes) = ([&self.segment[..]].into_iter(), self.segment.len() as u32);
        let placed = self.placer.place(memory, to, chunks, len_bytes, &plan.meta)?;
        Ok(usize::from(placed == Placement::Done))
    }
}

/// Writes segment `at` of a packet that begins with `start` to `to`, by `plan`. `payload` stands where this segment's payload
/// begins, and stands at the next one's afterwards.
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
    assert_eq!(read, bytes.len(), "the packet is as long as it was");
    plan.write_headers(start, at, to);
}
