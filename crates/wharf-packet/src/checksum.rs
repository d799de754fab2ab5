//! The Internet checksum (RFC 1071) and the CRC-32C of SCTP (RFC 9260): sums, incremental updates,
//! completion.
//!
//! [`sum`] adds up parts, [`fold`] folds them to 16 bits, [`from_sum`] makes the checksum to write. [`fold`]
//! does not take the complement, unlike the kernel's `csum_fold`. [`complete`] finishes what a sender has
//! left to a device (`CHECKSUM_PARTIAL`, `skb_checksum_help`).

use crate::{Headers, SCTP};

/// Offset of the checksum in a UDP header (RFC 768). No other transport has it there.
pub const UDP_OFFSET: usize = 6;
/// Offset of the checksum in a TCP header (RFC 9293, section 3.1).
pub const TCP_OFFSET: usize = 16;
/// Offset of the checksum in SCTP's common header (RFC 9260, section 3.1).
pub const SCTP_OFFSET: usize = 8;

/// Sums up the 16-bit big-endian words of `bytes`, an odd last byte padded with zero; to be [`fold`]ed.
///
/// Sums of parts add up where every part but the last has an even length: see [`ChunkSum`] for others.
#[inline]
pub fn sum(bytes: &[u8]) -> u64 {
    // The sum does not depend on byte order and word size (RFC 1071, section 2 B): it is made of 32-bit words
    // in the machine's order, two in one load. `all` overflows; less the upper halves in their place it is
    // the exact sum of the lower halves, which saves one step per load.
    let mut words = bytes.chunks_exact(8);
    let (mut all, mut upper) = (0u64, 0u64);
    for word in &mut words {
        let word =
            u64::from_ne_bytes([word[0], word[1], word[2], word[3], word[4], word[5], word[6], word[7]]);
        all = all.wrapping_add(word);
        upper += word >> 32;
    }
    let mut rest = [0; 8];
    rest[..words.remainder().len()].copy_from_slice(words.remainder());
    let rest = u64::from_ne_bytes(rest);
    let lower = all.wrapping_sub(upper << 32);
    u64::from(u16::from_be(fold(lower + upper + (rest >> 32) + (rest & 0xffff_ffff))))
}

/// Folds a sum to 16 bits, carries added back. Not complemented.
#[inline]
pub fn fold(sum: u64) -> u16 {
    let sum = (sum >> 32) + (sum & 0xffff_ffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    sum as u16
}

/// Returns the checksum to write at `offset` of its header: the complement of `sum`.
///
/// In UDP 0 means "no checksum" (RFC 768), so that 0xffff takes its place; other transports write 0.
#[inline]
pub fn from_sum(sum: u64, offset: usize) -> u16 {
    match !fold(sum) {
        0 if offset == UDP_OFFSET => 0xffff,
        checksum => checksum,
    }
}

/// Updates a checksum for one 16-bit word of what it covers that changes from `old` to `new` (RFC 1624,
/// equation 3; the kernel's `csum_replace2`). A wrong checksum stays wrong. In UDP the result 0 is to be
/// written as 0xffff.
#[inline]
pub fn update(checksum: u16, old: u16, new: u16) -> u16 {
    !fold(u64::from(!checksum) + u64::from(!old) + u64::from(new))
}

/// A sum of bytes that lie in chunks of any length, odd ones too.
///
/// ```
/// # mod wharf { pub use wharf_packet as net; }
/// use wharf::net::checksum::{ChunkSum, fold, sum};
///
/// let mut chunks = ChunkSum::default();
/// chunks.add(&[1, 2, 3]);
/// chunks.add(&[4, 5]);
/// assert_eq!(fold(chunks.sum()), fold(sum(&[1, 2, 3, 4, 5])));
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct ChunkSum {
    sum: u64,
    is_odd: bool,
}

impl ChunkSum {
    /// Adds the bytes that follow those added before.
    #[inline]
    pub fn add(&mut self, bytes: &[u8]) {
        let part = fold(sum(bytes));
        // Behind an odd number of bytes each byte lies in the other half of its word.
        self.sum += u64::from(if self.is_odd { part.swap_bytes() } else { part });
        self.is_odd ^= !bytes.len().is_multiple_of(2);
    }

    /// Returns the sum, to be [`fold`]ed.
    #[inline]
    pub fn sum(&self) -> u64 {
        self.sum
    }
}

/// Completes an Internet checksum: sums up `packet` from byte `start` on and writes the checksum `offset`
/// bytes behind `start`, where the sum of the pseudo header stood.
///
/// Returns false, and changes nothing, if the place lies outside `packet`.
pub fn complete(packet: &mut [u8], start: usize, offset: usize) -> bool {
    let Some(covered) = packet.get_mut(start..) else { return false };
    let Some(end) = offset.checked_add(2).filter(|&end| end <= covered.len()) else { return false };
    let checksum = from_sum(sum(covered), offset);
    covered[offset..end].copy_from_slice(&checksum.to_be_bytes());
    true
}

/// Completes the checksum of an Ethernet frame by its transport: [`complete_sctp`] for SCTP, else
/// [`complete`].
///
/// Returns false, and changes nothing, if the place lies outside `frame`.
pub fn complete_transport(frame: &mut [u8], start: usize, offset: usize) -> bool {
    let is_sctp = offset == SCTP_OFFSET && is_sctp(frame);
    let complete = if is_sctp { complete_sctp } else { complete };
    complete(frame, start, offset)
}

/// Returns true if an Ethernet frame carries SCTP, behind extension headers too.
pub fn is_sctp(frame: &[u8]) -> bool {
    Headers::parse(frame).is_ok_and(|headers| headers.protocol == SCTP)
}

/// Completes the CRC-32C of an SCTP packet, which begins at byte `start` of `packet` and has it `offset`
/// bytes behind: the field counts as 0 and is written least significant byte first (RFC 9260, appendix A).
///
/// Returns false, and changes nothing, if the place lies outside `packet`.
pub fn complete_sctp(packet: &mut [u8], start: usize, offset: usize) -> bool {
    let Some(covered) = packet.get_mut(start..) else { return false };
    let Some(end) = offset.checked_add(4).filter(|&end| end <= covered.len()) else { return false };
    covered[offset..end].fill(0);
    let crc = crc32c(covered);
    covered[offset..end].copy_from_slice(&crc.to_le_bytes());
    true
}

/// Computes the CRC-32C (Castagnoli) of `bytes`, bit by bit: SCTP that is left to its receiver is rare.
pub fn crc32c(bytes: &[u8]) -> u32 {
    const POLYNOMIAL: u32 = 0x82f6_3b78;
    let shift = |crc: u32, _| if crc & 1 != 0 { crc >> 1 ^ POLYNOMIAL } else { crc >> 1 };
    !bytes.iter().fold(u32::MAX, |crc, &byte| (0..8).fold(crc ^ u32::from(byte), shift))
}
