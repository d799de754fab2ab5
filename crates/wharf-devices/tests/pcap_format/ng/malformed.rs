//! Every fault of a pcapng file, and its error.

use super::*;

fn start() -> Ng {
    Ng::new(ByteOrder::Little).interface(1, 0, &[])
}

/// Offset of the block after `start()`: behind a section header of 28 bytes and an interface of 20.
const THIRD: usize = 48;

#[track_caller]
fn assert_fault(file: &Ng, at: usize, what: &str) {
    assert_eq!(file.fault(), format!("memory: byte {at}: {what}"));
}

/// A file with `bytes` written over those at `at`.
fn changed(mut file: Ng, at: usize, bytes: &[u8]) -> Ng {
    file.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    file
}

#[test]
fn every_prefix_gives_its_whole_packets_and_then_an_error_with_the_place() {
    for order in BOTH {
        let file = Ng::new(order).interface(1, 0, &[(9, vec![9])]);
        let blocks = [file.bytes.len(), 0, 0];
        let file = file.enhanced(0, 1, 60, &[7; 60]).simple(9, &[8; 9]).obsolete(0, 2, 3, b"abc");
        let ends: Vec<usize> = [28, blocks[0], blocks[0] + 92, blocks[0] + 92 + 28, file.bytes.len()].into();
        for len in 0..file.bytes.len() {
            let (packets, error) = read_all(&file.bytes[..len]);
            let whole = ends.iter().filter(|end| **end <= len).count();
            assert_eq!(packets.len(), whole.saturating_sub(2), "prefix of {len} bytes");
            let place = whole.checked_sub(1).map_or(0, |last| ends[last]);
            if place == len && len > 0 {
                assert!(error.is_none(), "prefix of {len} bytes: {error:?}");
                continue;
            }
            let message = error.unwrap().to_string();
            assert!(
                message.starts_with(&format!("x.pcap: byte {place}: ")),
                "prefix of {len} bytes: {message}"
            );
            assert!(len < 4 || message.contains("block") && message.contains("cut short"), "{message}");
        }
    }
}

#[test]
fn sections_that_are_none() {
    let file = || Ng::new(ByteOrder::Big);
    assert_fault(&changed(file(), 8, b"WHAT"), 0, "section without a byte order: 57 48 41 54 in its place");
    assert_fault(&changed(file(), 12, &[0, 2]), 0, "pcapng version 2.0 is not supported, only 1.0 and 1.2");
    assert_fault(
        &changed(file(), 4, &[0, 0, 0, 24]),
        0,
        "section header of 24 bytes is shorter than the least of 28",
    );
    assert_eq!(parse_bytes(&changed(file(), 15, &[2]).bytes).unwrap(), 0, "1.2 is 1.0");
}

#[test]
fn blocks_whose_lengths_are_wrong() {
    let file = || start().enhanced(0, 1, 4, b"abcd");
    let first = |len: u32| changed(file(), THIRD + 4, &len.to_le_bytes());
    assert_fault(&first(38), THIRD, "block of 38 bytes: the length must be a multiple of 4");
    assert_fault(&first(28), THIRD, "enhanced packet of 28 bytes is shorter than the least of 32");
    assert_fault(&first(0), THIRD, "enhanced packet of 0 bytes is shorter than the least of 32");
    assert_fault(&first(u32::MAX - 3), THIRD, "block cut short (36 of 4294967292 bytes)");
    let last = file().bytes.len() - 4;
    let other = changed(file(), last, &[40, 0, 0, 0]);
    assert_fault(&other, THIRD, "block begins with a length of 36 and ends with one of 40");
    let (packets, _) = read_all(&other.bytes);
    assert!(packets.is_empty(), "a packet in a broken block is none");
    for (kind, what) in [
        (INTERFACE, "interface description of 12 bytes is shorter than the least of 20"),
        (SIMPLE, "simple packet of 12 bytes is shorter than the least of 16"),
        (OBSOLETE, "packet of 12 bytes is shorter than the least of 32"),
    ] {
        assert_fault(&start().block(kind, &[]), THIRD, what);
    }
}

#[test]
fn packets_of_length_0_are_read_without_bytes() {
    let snapped = changed(start().enhanced(0, 1, 60, b"abcd"), THIRD + 20, &0u32.to_le_bytes());
    for (file, wire_len) in [(snapped, 60), (start().simple(0, b""), 0), (start().obsolete(0, 1, 7, b""), 7)]
    {
        let (packets, error) = read_all(&file.simple(1, b"x").bytes);
        assert!(error.is_none(), "{error:?}");
        let lens: Vec<_> = packets.iter().map(|(record, bytes)| (record.wire_len, bytes.len())).collect();
        assert_eq!(lens, [(wire_len, 0), (1, 1)]);
    }
}

#[test]
fn packets_that_do_not_fit() {
    let captured =
        |len: u32| changed(start().enhanced(0, 1, u32::MAX, b"abcd"), THIRD + 20, &len.to_le_bytes());
    assert_fault(&captured(5), THIRD, "packet of 5 bytes in a block with room for 4");
    assert_fault(&captured(262_144), THIRD, "packet of 262144 bytes in a block with room for 4");
    assert_fault(&captured(262_145), THIRD, "record of 262145 bytes is longer than the limit of 262144");
    assert_fault(&captured(u32::MAX), THIRD, "record of 4294967295 bytes is longer than the limit of 262144");
    let snapped = Ng::new(ByteOrder::Little).interface(1, 3, &[]);
    let (packets, error) = read_all(&snapped.clone().enhanced(0, 1, 4, b"abcd").bytes);
    assert!(error.is_none() && packets[0].1 == b"abcd", "longer than the snap length, and read");
    let (packets, error) = read_all(&start().enhanced(0, 1, 3, b"abcd").bytes);
    assert!(error.is_none() && packets[0].0.wire_len == 4, "more than the packet was long");
    assert_fault(&start().simple(9, b"abcd"), THIRD, "packet of 9 bytes in a block with room for 4");
    assert_fault(
        &start().simple(262_145, b"abcd"),
        THIRD,
        "record of 262145 bytes is longer than the limit of 262144",
    );
}

#[test]
fn packets_of_nowhere() {
    assert_fault(&start().enhanced(1, 1, 1, b"a"), THIRD, "packet of interface 1, but 1 were described");
    let what = "packet of interface 4294967295, but 1 were described";
    assert_fault(&start().enhanced(u32::MAX, 1, 1, b"a"), THIRD, what);
    assert_fault(&start().obsolete(9, 1, 1, b"a"), THIRD, "packet of interface 9, but 1 were described");
    let what = "packet of interface 0, but 0 were described";
    assert_fault(&Ng::new(ByteOrder::Little).simple(1, b"a"), 28, what);
}

#[test]
fn options_that_cannot_be() {
    let with = |options: &[(u16, Vec<u8>)]| Ng::new(ByteOrder::Little).interface(1, 0, options);
    assert_fault(&with(&[(9, vec![6, 0])]), 28, "option 9 of 2 bytes, which has 1");
    assert_fault(&with(&[(14, vec![0; 4])]), 28, "option 14 of 4 bytes, which has 8");
    for resolution in [20, 127, 0x80 | 64, 0xff] {
        let what =
            format!("interface with a time resolution of 0x{resolution:02x}, finer than 64 bits can count");
        assert_fault(&with(&[(9, vec![resolution])]), 28, &what);
    }
    for resolution in [19, 0x80 | 63] {
        assert_eq!(parse_bytes(&with(&[(9, vec![resolution])]).bytes).unwrap(), 0);
    }
    let body = [&[1, 0, 0, 0, 0, 0, 0, 0][..], &[1, 0, 5, 0], b"abcd"].concat();
    let file = Ng::new(ByteOrder::Little).block(INTERFACE, &body);
    assert_fault(&file, 28, "option 1 of 5 bytes in a block with room for 4");
}

#[test]
fn times_that_cannot_be() {
    let early = Ng::new(ByteOrder::Little).clock(6, -2).enhanced(0, 1_999_999, 1, b"a");
    assert!(
        early.fault().ends_with("time stamp of 1999999 units is before 1970 or after 2554"),
        "{}",
        early.fault()
    );
    let edge = Ng::new(ByteOrder::Little).clock(6, -2).enhanced(0, 2_000_000, 1, b"a");
    assert_eq!(good(&edge)[0].0, 0);
    let late = Ng::new(ByteOrder::Little).clock(9, 1 << 62).enhanced(0, u64::MAX, 1, b"a");
    assert!(late.fault().contains("is before 1970 or after 2554"), "{}", late.fault());
}

#[test]
fn more_interfaces_than_there_can_be() {
    let mut file = Ng::new(ByteOrder::Little);
    for _ in 0..INTERFACES_MAX {
        file = file.interface(1, 0, &[]);
    }
    assert_eq!(parse_bytes(&file.bytes).unwrap(), 0);
    let what = "more than 65536 interfaces in a section";
    assert_fault(&file.clone().interface(1, 0, &[]), 28 + 20 * INTERFACES_MAX, what);
    assert_eq!(parse_bytes(&file.section(ByteOrder::Big).interface(1, 0, &[]).bytes).unwrap(), 0);
}
