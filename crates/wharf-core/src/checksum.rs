//! Completes checksums of frames that their senders left to the device (`CHECKSUM_PARTIAL`).

use wharf_mem::{Frame, MemError, Region};
use wharf_packet::checksum::{ChunkSum, SCTP_OFFSET, complete_transport, from_sum, is_sctp};

/// Completes the checksum that a frame's sender has left to the device ([`wharf_mem::Meta::needs_checksum`]), and records
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
