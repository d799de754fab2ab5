//! Sums, completion and CRC-32C beside the words of their RFCs.

use proptest::prelude::*;
use wharf_packet::SCTP;
use wharf_packet::checksum::{
    ChunkSum, SCTP_OFFSET, UDP_OFFSET, complete, complete_sctp, complete_transport, crc32c, fold, from_sum,
    sum, update,
};

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
