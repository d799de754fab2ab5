//! The Internet checksum (RFC 1071) and the CRC-32C of SCTP (RFC 9260): sums, incremental updates, completion.
//!
//! [`sum`] adds up parts, [`fold`] folds them to 16 bits, [`from_sum`] makes the checksum to write. [`fold`] does not take
//! the complement, unlike the kernel's `csum_fold`. [`complete`] finishes what a sender has left to a device
//! (`CHECKSUM_PARTIAL`, `skb_checksum_help`).

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
    // The sum does not depend on byte order and word size (RFC 1071, section 2 B): it is made of 32-bit words in the
    // machine's order, two in one load. `all` overflows; less the upper halves in their place it is the exact sum of
    // the lower halves, which saves one step per load.
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

/// Updates a checksum for one 16-bit word of what it covers that changes from `old` to `new` (RFC 1624, equation 3; the
/// kernel's `csum_replace2`). A wrong checksum stays wrong. In UDP the result 0 is to be written as 0xffff.
#[inline]
pub fn update(checksum: u16, old: u16, new: u16) -> u16 {
    !fold(u64::from(!checksum) + u64::from(!old) + u64::from(new))
}

/// A sum of bytes that lie in chunks of any length, odd ones too.
///
/// ```
/// use wharf_packet::checksum::{ChunkSum, fold, sum};
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

/// Completes an Internet checksum: sums up `packet` from byte `start` on and writes the checksum `offset` bytes behind
/// `start`, where the sum of the pseudo header stood.
///
/// Returns false, and changes nothing, if the place lies outside `packet`.
pub fn complete(packet: &mut [u8], start: usize, offset: usize) -> bool {
    let Some(covered) = packet.get_mut(start..) else { return false };
    let Some(end) = offset.checked_add(2).filter(|&end| end <= covered.len()) else { return false };
    let checksum = from_sum(sum(covered), offset);
    covered[offset..end].copy_from_slice(&checksum.to_be_bytes());
    true
}

/// Completes the checksum of an Ethernet frame by its transport: [`complete_sctp`] for SCTP, else [`complete`].
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

/// Completes the CRC-32C of an SCTP packet, which begins at byte `start` of `packet` and has it `offset` bytes behind: the
/// field counts as 0 and is written least significant byte first (RFC 9260, appendix A).
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The sum in the words of RFC 1071.
    fn slow(bytes: &[u8]) -> u16 {
        let mut sum = 0u64;
        for pair in bytes.chunks(2) {
            sum += u64::from(pair[0]) << 8 | pair.get(1).copied().map_or(0, u64::from);
        }
        while sum > 0xffff {
            sum = (sum >> 16) + (sum & 0xffff);
        }
        sum as u16
    }

    #[test]
    fn rfc_1071_example_then_its_sum() {
        assert_eq!(fold(sum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7])), 0xddf2);
        assert_eq!(sum(&[]), 0);
    }

    #[test]
    fn sum_of_ones_then_udp_writes_ones_and_others_0() {
        assert_eq!((from_sum(0xffff, UDP_OFFSET), from_sum(0, UDP_OFFSET)), (0xffff, 0xffff));
        assert_eq!((from_sum(0xffff, 16), from_sum(0xffff, 2), from_sum(0, 16)), (0, 0, 0xffff));
    }

    #[test]
    fn place_outside_then_refused() {
        let mut packet = [0; 10];
        for (start, offset) in [(11, 0), (10, 0), (9, 0), (2, 7), (0, usize::MAX)] {
            assert!(!complete(&mut packet, start, offset), "{start} {offset}");
        }
        packet[8..].fill(0xff);
        assert!(complete(&mut packet, 2, UDP_OFFSET));
        assert_eq!(packet[8..], [0xff, 0xff]);
        assert!(complete(&mut packet, 4, 4));
        assert_eq!(packet[8..], [0, 0]);
    }

    #[test]
    fn sctp_completed_then_it_has_the_catalogues_crc() {
        // The check value of the CRC catalogue, and RFC 3720's 32 bytes of 0.
        assert_eq!((crc32c(b"123456789"), crc32c(&[0; 32])), (0xe306_9283, 0x8a91_36aa));
        let mut packet = [0xff; 36];
        assert!(!complete_sctp(&mut packet, 30, 4) && !complete_sctp(&mut packet, 37, 0));
        packet[4..].fill(0);
        packet[12..16].fill(7);
        assert!(complete_sctp(&mut packet, 4, SCTP_OFFSET));
        assert_eq!(packet[12..16], 0x8a91_36aau32.to_le_bytes());
    }

    #[test]
    fn sctp_behind_extension_headers_then_it_is_no_sum() {
        // IPv6, destination options, SCTP.
        let mut frame = [0; 14 + 40 + 8 + 36];
        frame[12..15].copy_from_slice(&[0x86, 0xdd, 0x60]);
        frame[18..21].copy_from_slice(&[0, 44, 60]);
        frame[54] = SCTP;
        assert!(complete_transport(&mut frame, 62, SCTP_OFFSET));
        assert_eq!(frame[70..74], crc32c(&[0; 36]).to_le_bytes());
    }

    proptest! {
        #[test]
        fn word_changes_then_update_equals_a_full_sum(
            mut bytes in prop::collection::vec(any::<u8>(), 4..60), at in 0usize..28, new: u16,
        ) {
            let at = (2 * at).min((bytes.len() - 2) & !1);
            let (old, before) = (u16::from_be_bytes([bytes[at], bytes[at + 1]]), !fold(sum(&bytes)));
            bytes[at..at + 2].copy_from_slice(&new.to_be_bytes());
            let (updated, full) = (update(before, old, new), !fold(sum(&bytes)));
            // All ones and 0 are the same number; only words that are all 0 sum up to 0.
            prop_assert!(updated == full || sum(&bytes) == 0 && updated == 0);
        }

        #[test]
        fn any_bytes_then_the_sum_is_the_rfcs(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
            prop_assert_eq!(fold(sum(&bytes)), slow(&bytes));
        }

        #[test]
        fn even_and_odd_parts_then_they_add_up(
            bytes in prop::collection::vec(any::<u8>(), 0..200), at in 0usize..100, room in 1usize..40,
        ) {
            let at = (2 * at).min(bytes.len() & !1);
            prop_assert_eq!(fold(sum(&bytes[..at]) + sum(&bytes[at..])), fold(sum(&bytes)));
            let mut chunks = ChunkSum::default();
            bytes.chunks(room).for_each(|chunk| chunks.add(chunk));
            prop_assert_eq!(fold(chunks.sum()), fold(sum(&bytes)));
        }

        #[test]
        fn completed_then_all_sums_up_to_ones(mut bytes in prop::collection::vec(any::<u8>(), 10..200)) {
            // The checksum takes the place of the pseudo header's sum.
            let pseudo = sum(&bytes[6..8]);
            prop_assert!(complete(&mut bytes, 2, 4));
            prop_assert_eq!(fold(pseudo + sum(&bytes[2..])), 0xffff);
        }
    }
}
