//! Checksums that a sender on this host has left to a network adapter, which a veth does not have. An AF_XDP
//! socket gets such frames unchanged, and unlike AF_PACKET's nothing marks them.
//!
//! The sum of the pseudo header (RFC 9293, section 3.1) stands in place of the checksum, as the adapter wants
//! it. A finished checksum equals it by chance once in 65 536 frames; then the whole segment is summed up,
//! and a frame that is right stays unchanged. SCTP, which has no pseudo header, leaves 0.
//!
//! In a tunnel the inner segment is unfinished: the outer checksum, if any, is right once that is finished
//! (the kernel's `lco_csum`).

use wharf_mem::{Batch, Frame, Region};
use wharf_packet::checksum::{self, ChunkSum, SCTP_OFFSET, TCP_OFFSET, UDP_OFFSET, fold};
use wharf_packet::{Headers, SCTP, TCP, UDP, tunnel, word};

/// A transport segment in its frame: offset and length in bytes, and the sum of its pseudo header; SCTP has
/// none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Segment {
    protocol: u8,
    start: usize,
    len: usize,
    pseudo: u64,
}

impl Segment {
    /// Returns the segment that has `headers`; `None` for a fragment, behind an authentication header, and if
    /// the final destination of TCP or UDP is unknown.
    #[inline]
    fn new(bytes: &[u8], headers: &Headers) -> Option<Self> {
        if !headers.is_whole() || headers.is_authenticated {
            return None;
        }
        let len = headers.transport_len(bytes)?;
        let pseudo = match headers.protocol {
            TCP | UDP => headers.pseudo_sum(bytes, len)?,
            _ => 0,
        };
        Some(Self { protocol: headers.protocol, start: headers.transport_at, len, pseudo })
    }
}

/// Sums up `len` bytes of a frame from byte `start` of its first buffer on; `None` if it has fewer.
fn sum_of(region: &Region, frame: &Frame, start: usize, len: usize) -> Option<u64> {
    let (mut skip, mut left, mut total) = (start, len, ChunkSum::default());
    for chunk in region.chunks(frame).ok()? {
        let part = chunk.get(skip..)?;
        let part = &part[..part.len().min(left)];
        total.add(part);
        (skip, left) = (0, left - part.len());
    }
    (left == 0).then_some(total.sum())
}

/// Finishes the unfinished checksums of the frames of `batch` from number `from` on.
#[inline]
pub fn finish_all(region: &Region, batch: &mut Batch, from: usize) {
    let frames = batch.frames().get(from..).unwrap_or_default();
    // The first lines of the frames lie in the cache of the processor that received them. All are fetched at
    // once, since none of these loads waits for another.
    let first = |frame| region.bytes(frame).ok().and_then(|bytes| bytes.first().copied()).unwrap_or(0);
    std::hint::black_box(frames.iter().map(first).fold(0, |all, byte| all ^ byte));
    if frames.iter().any(|frame| unfinished(region, frame).is_some()) {
        batch.frames_mut()[from..].iter_mut().for_each(|frame| finish(region, frame));
        batch.refresh();
    }
}

/// Finishes the checksum of a frame received, if it is unfinished.
fn finish(region: &Region, frame: &mut Frame) {
    let Some(segment) = unfinished(region, frame) else { return };
    match segment.protocol {
        TCP => finish_sum(region, frame, &segment, TCP_OFFSET),
        UDP => finish_sum(region, frame, &segment, UDP_OFFSET),
        _ => finish_sctp(region, frame, &segment),
    }
}

/// Returns the segment of a frame if its sender seems to have left the checksum to an adapter.
#[inline]
fn unfinished(region: &Region, frame: &Frame) -> Option<Segment> {
    let bytes = region.bytes(frame).ok()?;
    let headers = Headers::parse(bytes).ok()?;
    is_unfinished(bytes, &headers).or_else(|| {
        let inner = tunnel::inner(bytes, &headers)?.headers(bytes).ok()?;
        is_unfinished(bytes, &inner)
    })
}

#[inline]
fn is_unfinished(bytes: &[u8], headers: &Headers) -> Option<Segment> {
    let segment = Segment::new(bytes, headers)?;
    let offset = match segment.protocol {
        TCP => TCP_OFFSET,
        UDP => UDP_OFFSET,
        SCTP => return Some(segment),
        _ => return None,
    };
    let is_asked_for = word(bytes, segment.start + offset) == Some(fold(segment.pseudo));
    (is_asked_for && offset + 2 <= segment.len).then_some(segment)
}

#[inline(never)]
fn finish_sum(region: &Region, frame: &mut Frame, segment: &Segment, offset: usize) {
    let Some(sum) = sum_of(region, frame, segment.start, segment.len) else { return };
    if fold(segment.pseudo + sum) == 0xffff {
        return;
    }
    let (at, checksum) = (segment.start + offset, checksum::from_sum(sum, offset));
    if let Some(place) = region.bytes_mut(frame).ok().and_then(|bytes| bytes.get_mut(at..at + 2)) {
        place.copy_from_slice(&checksum.to_be_bytes());
    }
}

/// A checksum of 0 is either unfinished or stays 0.
#[cold]
fn finish_sctp(region: &Region, frame: &mut Frame, segment: &Segment) {
    let Ok(bytes) = region.bytes_mut(frame) else { return };
    let Some(whole) = bytes.get_mut(..segment.start + segment.len) else { return };
    let at = segment.start + SCTP_OFFSET;
    if whole.get(at..at + 4) == Some(&[0; 4]) {
        checksum::complete_sctp(whole, segment.start, SCTP_OFFSET);
    }
}
