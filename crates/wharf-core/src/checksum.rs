//! Completes checksums of frames that their senders left to the device (`CHECKSUM_PARTIAL`).

pub use wharf_packet::checksum::*;

use wharf_mem::{Frame, MemError, Region};

/// Finishes the checksum that a frame's sender has left to others ([`wharf_mem::Meta::needs_checksum`]), and notes that it is done;
/// whether there is a place for it, in the frame's first buffer.
///
/// # Errors
/// [`MemError::Foreign`].
pub fn complete_frame(region: &Region, frame: &mut Frame) -> Result<bool, MemError> {
    let mut meta = region.meta(frame)?;
    let (start, offset) = (usize::from(meta.checksum_start), usize::from(meta.checksum_offset));
    let (first_bytes, len_bytes) = (region.bytes(frame)?.len(), frame.len_bytes() as usize);
    let is_done = if first_bytes == len_bytes {
        complete_as(region.bytes_mut(frame)?, start, offset)
    } else {
        complete_chain(region, frame, start, offset)?
    };
    meta.needs_checksum = !is_done;
    region.set_meta(frame, &meta)?;
    Ok(is_done)
}

#[cold]
fn complete_chain(region: &Region, frame: &mut Frame, start: usize, offset: usize) -> Result<bool, MemError> {
    let (mut total, mut behind, mut skip) = (0, 0, start);
    for chunk in region.chunks(frame)? {
        let covered = chunk.get(skip..).unwrap_or_default();
        skip = skip.saturating_sub(chunk.len());
        // A part that begins at an odd place has its bytes in the other halves of the words.
        let part = fold(sum(covered));
        total += u64::from(if behind % 2 == 0 { part } else { part.swap_bytes() });
        behind += covered.len();
    }
    let first = region.bytes_mut(frame)?;
    let place = start + offset;
    let is_there = behind > 0 && place + 2 <= first.len() && !(offset == SCTP_OFFSET && is_sctp(first));
    if is_there {
        first[place..place + 2].copy_from_slice(&of_sum(total, offset).to_be_bytes());
    }
    Ok(is_there)
}
