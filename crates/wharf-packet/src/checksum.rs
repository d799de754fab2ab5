//! The Internet checksum (RFC 1071): the one's complement sum of 16-bit words.

use crate::{IpPacket, ip_packet};

const SCTP: u8 = 132;

/// Sum of the 16-bit big-endian words of `bytes`, an odd last one filled up with zero; to be [`fold`]ed. Sums of
/// parts add up where every part but the last has an even length.
#[inline]
pub fn sum(bytes: &[u8]) -> u64 {
    // One's complement sums do not care which byte order they are made in (RFC 1071, section 2 B), nor how wide
    // the words are: 32 bits at a time, in the order of the machine. Eight bytes are read as one number: the sum of all
    // numbers, which overflows, less that of their upper halves in its place is the sum of the lower halves, exactly.
    // That is a step less for each than to take the lower halves out.
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

/// Folds a sum to 16 bits: what does not fit is added again.
#[inline]
pub fn fold(sum: u64) -> u16 {
    let sum = (sum >> 32) + (sum & 0xffff_ffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    sum as u16
}

/// Where UDP's checksum lies in its header (RFC 768), and no other's that a sender leaves unfinished.
pub const UDP_OFFSET: usize = 6;

/// The checksum to write, `offset` behind the start of its header, for a sum: its complement. In UDP all ones stand in
/// place of 0, which means "none" there (RFC 768) and is the same number; a TCP checksum is 0 when it comes to that.
#[inline]
pub fn of_sum(sum: u64, offset: usize) -> u16 {
    match !fold(sum) {
        0 if offset == UDP_OFFSET => 0xffff,
        checksum => checksum,
    }
}

/// Updates a checksum for one 16-bit word of what it covers that changes from `old` to `new` (RFC 1624, equation 3; the
/// kernel's `csum_replace2`). A checksum that was wrong stays wrong. In UDP the result 0 means "none" and is to be
/// written as 0xffff.
#[inline]
pub fn update(checksum: u16, old: u16, new: u16) -> u16 {
    !fold(u64::from(!checksum) + u64::from(!old) + u64::from(new))
}

/// Finishes the checksum of a packet from byte `start` on, which lies `offset` bytes behind that and holds the sum of
/// the pseudo header; whether there is such a place.
pub fn complete(packet: &mut [u8], start: usize, offset: usize) -> bool {
    let Some(covered) = packet.get_mut(start..) else { return false };
    let Some(end) = offset.checked_add(2).filter(|&end| end <= covered.len()) else { return false };
    let checksum = of_sum(sum(covered), offset);
    covered[offset..end].copy_from_slice(&checksum.to_be_bytes());
    true
}

/// By the transport that it is of: SCTP's is no sum, and its place in the header is no other's.
pub fn complete_as(packet: &mut [u8], start: usize, offset: usize) -> bool {
    let is_sctp = offset == SCTP_OFFSET && is_sctp(packet);
    let complete = if is_sctp { complete_sctp } else { complete };
    complete(packet, start, offset)
}

/// Returns true if the IP packet of an Ethernet frame carries SCTP.
pub fn is_sctp(packet: &[u8]) -> bool {
    let protocol = match ip_packet(packet) {
        Some(IpPacket::V4(ip)) => ip.get(9),
        Some(IpPacket::V6(ip)) => ip.get(6),
        None => None,
    };
    protocol == Some(&SCTP)
}

/// Where SCTP's checksum lies in its header (RFC 9260, section 3.1).
pub const SCTP_OFFSET: usize = 8;

/// As [`complete`], for SCTP: a CRC-32C of everything from `start` on, the place of the checksum taken as 0, least
/// significant byte first (RFC 9260, appendix A).
pub fn complete_sctp(packet: &mut [u8], start: usize, offset: usize) -> bool {
    let Some(covered) = packet.get_mut(start..) else { return false };
    let Some(end) = offset.checked_add(4).filter(|&end| end <= covered.len()) else { return false };
    covered[offset..end].fill(0);
    let crc = crc32c(covered);
    covered[offset..end].copy_from_slice(&crc.to_le_bytes());
    true
}

/// CRC-32C (Castagnoli), a bit at a time: SCTP left to its receiver is rare.
pub fn crc32c(bytes: &[u8]) -> u32 {
    const POLYNOMIAL: u32 = 0x82f6_3b78;
    let shift = |crc: u32, _| if crc & 1 != 0 { crc >> 1 ^ POLYNOMIAL } else { crc >> 1 };
    !bytes.iter().fold(u32::MAX, |crc, &byte| (0..8).fold(crc ^ u32::from(byte), shift))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// As RFC 1071 words it.
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
    fn the_example_of_the_rfc() {
        assert_eq!(fold(sum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7])), 0xddf2);
        assert_eq!(sum(&[]), 0);
    }

    #[test]
    fn only_udp_has_no_checksum_of_0() {
        assert_eq!((of_sum(0xffff, UDP_OFFSET), of_sum(0, UDP_OFFSET)), (0xffff, 0xffff));
        assert_eq!((of_sum(0xffff, 16), of_sum(0xffff, 2), of_sum(0, 16)), (0, 0, 0xffff));
    }

    #[test]
    fn a_place_that_is_not_there_is_refused() {
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
    fn sctp_has_a_crc() {
        // The check value of the CRC catalogue, and RFC 3720's 32 bytes of 0.
        assert_eq!((crc32c(b"123456789"), crc32c(&[0; 32])), (0xe306_9283, 0x8a91_36aa));
        let mut packet = [0xff; 36];
        assert!(!complete_sctp(&mut packet, 30, 4) && !complete_sctp(&mut packet, 37, 0));
        packet[4..].fill(0);
        packet[12..16].fill(7);
        assert!(complete_sctp(&mut packet, 4, SCTP_OFFSET));
        assert_eq!(packet[12..16], 0x8a91_36aau32.to_le_bytes());
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
        fn sums_as_the_rfc_does(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
            prop_assert_eq!(fold(sum(&bytes)), slow(&bytes));
        }

        #[test]
        fn parts_add_up(bytes in prop::collection::vec(any::<u8>(), 0..200), at in 0usize..100) {
            let at = (2 * at).min(bytes.len() & !1);
            prop_assert_eq!(fold(sum(&bytes[..at]) + sum(&bytes[at..])), fold(sum(&bytes)));
        }

        #[test]
        fn what_is_complete_sums_up_to_ones(mut bytes in prop::collection::vec(any::<u8>(), 10..200)) {
            // The pseudo header's sum, which the checksum takes the place of.
            let pseudo = sum(&bytes[6..8]);
            prop_assert!(complete(&mut bytes, 2, 4));
            prop_assert_eq!(fold(pseudo + sum(&bytes[2..])), 0xffff);
        }
    }
}
