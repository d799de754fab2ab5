//! Every fault of a capture, and its error.

use std::io::{self, Read};

use super::*;

#[test]
fn empty_file() {
    let expected = "memory: byte 0: the file is empty; a pcap file starts with a 24-byte header";
    assert_eq!(Capture(Vec::new()).fault(), expected);
}

#[test]
fn wrong_magic_shows_the_bytes_found() {
    let expected = "memory: byte 0: not a pcap file: it starts with 25 50 44 46";
    assert_eq!(Capture(b"%PDF-1.7".to_vec()).fault(), expected);
}

#[test]
fn magic_of_a_known_other_format_gives_a_hint() {
    let cases: [(&[u8], &str); 5] = [
        (&[0x1f, 0x8b, 8, 0], "gzip: `zcat FILE | wharf ...`"),
        (&[0x28, 0xb5, 0x2f, 0xfd], "zstd: `zstdcat FILE | wharf ...`"),
        (&[0xfd, 0x37, 0x7a, 0x58, 0x5a, 0], "xz: `xzcat FILE | wharf ...`"),
        (b"BZh9", "bzip2: `bzcat FILE | wharf ...`"),
        (&[4, 0x22, 0x4d, 0x18], "lz4: `lz4cat FILE | wharf ...`"),
    ];
    for (magic, hint) in cases {
        let message = Capture([magic, &[0; 40]].concat()).fault();
        assert!(message.starts_with("memory: byte 0: not a pcap file"), "{message}");
        assert!(message.contains(hint), "{message}");
    }
}

#[test]
fn other_version() {
    let mut capture = Capture::new();
    capture.0[6] = 6;
    let expected = "memory: byte 4: pcap version 2.6 is not supported, only 2.0 to 2.5";
    assert_eq!(capture.fault(), expected);
}

#[test]
fn other_link_types_are_named() {
    let message = |link_type| Capture::with_header(0xa1b2_c3d4, 65_535, link_type).fault();
    let rest = "is not supported, only Ethernet (1), Linux cooked, raw IP and loopback";
    assert_eq!(message(105), format!("memory: byte 20: link type 105 (IEEE 802.11) {rest}"));
    assert_eq!(message(147), format!("memory: byte 20: link type 147 {rest}"));
}

#[test]
fn every_prefix_gives_its_whole_records_and_then_an_error_with_the_place() {
    let bytes = Capture::new().packet(60).packet(1).packet(99).0;
    let starts = [24, 100, 117, bytes.len()];
    for len in 0..=bytes.len() {
        let (packets, error) = read_all(&bytes[..len]);
        let whole = starts.iter().filter(|start| **start <= len).count();
        assert_eq!(packets.len(), whole.saturating_sub(1), "prefix of {len} bytes");
        if starts.contains(&len) {
            assert!(error.is_none(), "prefix of {len} bytes: {error:?}");
            continue;
        }
        let place = whole.checked_sub(1).map_or(0, |last| starts[last]);
        let message = error.unwrap().to_string();
        let expected = match len - place {
            0 => "the file is empty; a pcap file starts with a 24-byte header".to_string(),
            present if place == 0 => {
                format!("file header cut short ({present} of 24 bytes)")
            }
            present if present < 16 => {
                format!("record header cut short ({present} of 16 bytes)")
            }
            present => {
                let captured = [60, 1, 99][whole - 1];
                format!("record cut short ({} of {captured} captured bytes)", present - 16)
            }
        };
        assert_eq!(message, format!("x.pcap: byte {place}: {expected}"));
    }
}

#[test]
fn a_record_of_length_0_is_read_without_bytes() {
    let capture = Capture::new().packet(60).record((1, 2), 0, 60, &[]).record((1, 2), 0, 0, &[]).packet(9);
    let (packets, error) = read_all(&capture.0);
    assert!(error.is_none(), "{error:?}");
    let lens: Vec<_> = packets.iter().map(|(record, bytes)| (record.wire_len, bytes.len())).collect();
    assert_eq!(lens, [(60, 60), (60, 0), (0, 0), (9, 9)]);
    let cut = Capture::new().record((1, 2), 0, 60, &[]).0;
    assert_eq!(
        Capture(cut[..39].to_vec()).fault(),
        "memory: byte 24: record header cut short (15 of 16 bytes)"
    );
}

#[test]
fn a_record_longer_than_the_snap_length_is_read() {
    let (packets, error) = read_all(&Capture::with_header(0xa1b2_c3d4, 64, 1).packet(64).packet(65).0);
    assert!(error.is_none(), "{error:?}");
    assert_eq!(packets.iter().map(|(_, bytes)| bytes.len()).collect::<Vec<_>>(), [64, 65]);
}

#[test]
fn huge_lengths() {
    for (snap_len, captured) in
        [(65_535, u32::MAX), (0, 262_145), (u32::MAX, 262_145), (u32::MAX, i32::MAX as u32)]
    {
        let capture = Capture::with_header(0xa1b2_c3d4, snap_len, 1);
        let capture = capture.record((1, 2), captured, captured, &[7; 100]);
        let expected =
            format!("memory: byte 24: record of {captured} bytes is longer than the limit of 262144");
        assert_eq!(capture.fault(), expected);
    }
}

#[test]
fn a_long_record_that_is_not_there_takes_no_more_memory_than_the_limit() {
    let bytes = Capture::with_header(0xa1b2_c3d4, 0, 1).record((1, 2), 262_144, 262_144, &[]).0;
    let mut reader = PcapReader::new(Cursor::new(&bytes), "x.pcap").unwrap();
    let mut buf = Vec::new();
    let message = reader.next(&mut buf).unwrap_err().to_string();
    let expected = "x.pcap: byte 24: record cut short (0 of 262144 captured bytes)";
    assert_eq!(message, expected);
    assert!(buf.capacity() <= 2 * SNAP_LEN_MAX as usize);
}

#[test]
fn snap_length_0_or_huge_is_none() {
    for snap_len in [0, 262_145, u32::MAX] {
        let capture = Capture::with_header(0xa1b2_c3d4, snap_len, 1).packet(262_144);
        assert_eq!(parse_bytes(&capture.0).unwrap(), 1);
    }
}

#[test]
fn more_captured_than_was_on_the_wire_is_the_packet() {
    let (packets, error) = read_all(&Capture::new().record((1, 2), 60, 20, &[7; 60]).0);
    assert!(error.is_none(), "{error:?}");
    assert_eq!((packets[0].0.wire_len, packets[0].1.len()), (60, 60));
}

#[test]
fn fractions_of_a_second_or_more_are_carried_over() {
    for (magic, per_second) in [(0xa1b2_c3d4, 1_000_000u32), (0xa1b2_3c4d, 1_000_000_000)] {
        for (fraction, ns) in [(per_second - 1, None), (per_second, Some(2_000_000_000)), (u32::MAX, None)] {
            let capture = Capture::with_header(magic, 65_535, 1).record((1, fraction), 1, 1, &[7]);
            let unit_ns = u64::from(1_000_000_000 / per_second);
            let expected = ns.unwrap_or(1_000_000_000 + u64::from(fraction) * unit_ns);
            assert_eq!(read_all(&capture.0).0[0].0.ts_ns, expected);
        }
    }
}

#[test]
fn a_modified_header_and_the_lengths_of_old_versions_are_read() {
    let header =
        |order: fn(u32) -> [u8; 4], magic, version| [magic, version, 0, 0, 65_535, 1].map(order).concat();
    for order in [u32::to_le_bytes, u32::to_be_bytes] {
        let version = if order(1) == 1u32.to_le_bytes() { 0x0004_0002 } else { 0x0002_0004 };
        let record = [[1, 2, 60, 61].map(order).concat(), vec![9; 8], vec![7; 60]].concat();
        let file = [header(order, 0xa1b2_cd34, version), record.repeat(2)].concat();
        let (packets, error) = read_all(&file);
        assert!(error.is_none(), "{error:?}");
        let lens: Vec<_> = packets.iter().map(|(record, bytes)| (record.wire_len, bytes.len())).collect();
        assert_eq!((lens, packets[0].0.ts_ns), (vec![(61, 60); 2], 1_000_002_000));
        let cut = Capture(file[..24 + 84 + 20].to_vec()).fault();
        assert_eq!(cut, "memory: byte 108: record header cut short (20 of 24 bytes)");
        // Of a packet of 90 bytes, 60 were captured. Version 2.2 says 90 first, 2.3 either.
        let minors = [(2, [90, 60]), (3, [90, 60]), (3, [60, 90]), (4, [60, 90])];
        for (minor, [first, second]) in minors {
            let version = if version == 0x0004_0002 { minor << 16 | 2 } else { 2 << 16 | minor };
            let record = [[1, 2, first, second].map(order).concat(), vec![7; 60]].concat();
            let (packets, error) = read_all(&[header(order, 0xa1b2_c3d4, version), record].concat());
            assert!(error.is_none(), "2.{minor}: {error:?}");
            assert_eq!((packets[0].0.wire_len, packets[0].1.len()), (90, 60), "2.{minor}");
        }
    }
}

#[test]
fn snapped_record_is_read_and_marked() {
    let capture = Capture::new().record((1, 2), 3, 1514, b"abc");
    let (packets, error) = read_all(&capture.0);
    assert!(error.is_none());
    let record = Record { ts_ns: 1_000_002_000, wire_len: 1514, left_out: None };
    assert_eq!(packets, [(record, b"abc".to_vec())]);
}

/// Gives its bytes one by one, with interruptions, and then an error.
#[derive(Debug)]
struct Trickle {
    bytes: Vec<u8>,
    at: usize,
    interrupt: bool,
}

impl Read for Trickle {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.interrupt = !self.interrupt;
        if self.interrupt {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let byte = self.bytes.get(self.at).ok_or_else(|| io::Error::other("disk fell off"))?;
        buf[0] = *byte;
        self.at += 1;
        Ok(1)
    }
}

#[test]
fn short_reads_go_on_and_a_failing_one_names_its_place() {
    let trickle = |bytes: &[u8]| Trickle { bytes: bytes.to_vec(), at: 0, interrupt: false };
    let bytes = Capture::new().packet(60).packet(60).0;
    let mut reader = PcapReader::new(trickle(&bytes[..130]), "x.pcap").unwrap();
    let mut buf = Vec::new();
    assert!(reader.next(&mut buf).unwrap().is_some());
    assert_eq!(buf, [7; 60]);
    let message = reader.next(&mut buf).unwrap_err().to_string();
    assert_eq!(message, "x.pcap: byte 130: cannot read: disk fell off");
    let message = PcapReader::new(trickle(&bytes[..10]), "x.pcap").unwrap_err().to_string();
    assert_eq!(message, "x.pcap: byte 10: cannot read: disk fell off");
}
