//! Offload requests of frames ([`Meta`]): checksums that a sender has left to the device (`CHECKSUM_PARTIAL`), segmentation,
//! and the length on a wire.

use wharf_mem::{Frame, MemError, Meta, Region};
use wharf_packet::checksum::{ChunkSum, SCTP_OFFSET, complete_transport, from_sum, is_sctp};
use wharf_packet::gso::{self, AdapterHeaders, GsoRequest};

/// Completes the checksum that a frame's sender has left to the device ([`Meta::needs_checksum`]), and records
/// that it is complete.
///
/// Returns false if the frame's first buffer has no place for it, or if SCTP lies in more than one buffer.
///
/// # Errors
/// [`MemError::Foreign`].
pub fn complete_frame(region: &Region, frame: &mut Frame) -> Result<bool, MemError> {
    let mut meta = region.meta(frame)?;
    let (start, offset) = (usize::from(meta.checksum_start), usize::from(meta.checksum_offset));
    let (first_bytes, len_bytes) = (region.bytes(frame)?.len(), frame.len_bytes() as usize);
    let is_done = if first_bytes == len_bytes {
        complete_transport(region.bytes_mut(frame)?, start, offset)
    } else {
        complete_chain(region, frame, start, offset)?
    };
    meta.needs_checksum = !is_done;
    region.set_meta(frame, &meta)?;
    Ok(is_done)
}

#[cold]
fn complete_chain(region: &Region, frame: &mut Frame, start: usize, offset: usize) -> Result<bool, MemError> {
    let (mut sum, mut skip) = (ChunkSum::default(), start);
    for chunk in region.chunks(frame)? {
        sum.add(chunk.get(skip..).unwrap_or_default());
        skip = skip.saturating_sub(chunk.len());
    }
    let first = region.bytes_mut(frame)?;
    let place = start + offset;
    let is_there = place + 2 <= first.len() && !(offset == SCTP_OFFSET && is_sctp(first));
    if is_there {
        first[place..place + 2].copy_from_slice(&from_sum(sum.sum(), offset).to_be_bytes());
    }
    Ok(is_there)
}

/// Returns the segmentation that `meta` asks for.
#[inline]
pub fn gso_request(meta: &Meta) -> GsoRequest {
    let Meta { gso_kind: kind, gso_bytes: segment_bytes, needs_checksum: is_checksum_partial, .. } = *meta;
    GsoRequest { kind, segment_bytes, is_checksum_partial }
}

/// Returns the headers of `frame` if it is a super-packet that any adapter with TCP segmentation segments.
pub fn adapter_headers(region: &Region, frame: &Frame) -> Option<AdapterHeaders> {
    let (meta, start) = (region.meta(frame).ok()?, region.bytes(frame).ok()?);
    AdapterHeaders::read(start, frame.len_bytes() as usize, &gso_request(&meta))
}

/// Returns the bytes of a frame on a wire, each segment counted with its headers; the frame's own length if its headers make no sense.
pub fn wire_bytes(frame: &Frame, region: &Region) -> u64 {
    let len_bytes = u64::from(frame.len_bytes());
    if !frame.has_meta() {
        return len_bytes;
    }
    super_packet_bytes(frame, region).unwrap_or(len_bytes)
}

/// Returns the number of packets that a frame is on a wire: the segments of a super-packet; 1 if its headers make no sense.
pub fn wire_packets(frame: &Frame, region: &Region) -> u64 {
    if frame.has_meta() { super_packet_segments(frame, region).unwrap_or(1) } else { 1 }
}

#[cold]
fn super_packet_segments(frame: &Frame, region: &Region) -> Option<u64> {
    let (meta, start) = (region.meta(frame).ok()?, region.bytes(frame).ok()?);
    let (len_bytes, request) = (frame.len_bytes() as usize, gso_request(&meta));
    let (segments, _) = gso::wire_segments(start, len_bytes, &request, meta.checksum_start.into())?;
    Some(segments as u64)
}

#[cold]
fn super_packet_bytes(frame: &Frame, region: &Region) -> Option<u64> {
    let (meta, start) = (region.meta(frame).ok()?, region.bytes(frame).ok()?);
    gso::wire_bytes(start, frame.len_bytes() as usize, &gso_request(&meta), meta.checksum_start.into())
}
