//! Written files are read back.

use std::iter;

use super::*;

const NS_PER_SECOND: u64 = 1_000_000_000;

fn write_all(options: PcapOptions, packets: &[Packet]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = PcapWriter::new(&mut bytes, "x.pcap", options).unwrap();
    for (record, data) in packets {
        // In two chunks, one of them sometimes empty.
        let (start, rest) = data.split_at(data.len() / 2);
        writer.write(record.ts_ns, [start, rest], record.wire_len).unwrap();
    }
    writer.finish().unwrap();
    bytes
}

fn all_options() -> impl Iterator<Item = PcapOptions> {
    [Resolution::Microseconds, Resolution::Nanoseconds].into_iter().flat_map(|resolution| {
        [ByteOrder::Little, ByteOrder::Big].map(|byte_order| PcapOptions {
            format: None,
            rotation: None,
            resolution,
            byte_order,
        })
    })
}

fn sample_packets() -> Vec<Packet> {
    let times = [0, 1_000, NS_PER_SECOND - 1_000, u64::from(u32::MAX) * NS_PER_SECOND];
    iter::zip(times, [1, 60, 1514, 65_535])
        .map(|(ts_ns, len)| {
            let data = (0..len).map(|i: u32| (i % 251) as u8).collect();
            (Record { ts_ns, wire_len: len, left_out: None }, data)
        })
        .collect()
}

#[test]
fn both_resolutions_and_byte_orders_come_back() {
    for options in all_options() {
        let packets = sample_packets();
        let bytes = write_all(options, &packets);
        let (read, error) = read_all(&bytes);
        assert!(error.is_none(), "{options:?}: {error:?}");
        assert_eq!(read, packets, "{options:?}");
        let reader = PcapReader::new(Cursor::new(&bytes), "x.pcap").unwrap();
        assert_eq!(reader.byte_order(), options.byte_order);
    }
}

/// The four magic numbers as the specification prints them, byte by byte.
#[test]
fn headers_have_the_bytes_of_the_specification() {
    let magics = [
        [0xd4, 0xc3, 0xb2, 0xa1],
        [0xa1, 0xb2, 0xc3, 0xd4],
        [0x4d, 0x3c, 0xb2, 0xa1],
        [0xa1, 0xb2, 0x3c, 0x4d],
    ];
    for (options, magic) in iter::zip(all_options(), magics) {
        assert_eq!(write_all(options, &[])[..4], magic, "{options:?}");
    }
    let micros = PcapOptions { resolution: Resolution::Microseconds, ..PcapOptions::default() };
    let record = Record { ts_ns: 1_000_002_999, wire_len: 60, left_out: None };
    let mut expected = Capture::with_header(0xa1b2_c3d4, 262_144, 1);
    expected = expected.record((1, 2), 60, 60, &[7; 60]);
    assert_eq!(write_all(micros, &[(record, vec![7; 60])]), expected.0);
}

#[test]
fn nanoseconds_are_kept_or_cut_off_to_the_resolution() {
    for options in all_options() {
        let packet = (Record { ts_ns: 1_999_999_999, wire_len: 1, left_out: None }, vec![7]);
        let (read, _) = read_all(&write_all(options, &[packet]));
        let expected = match options.resolution {
            Resolution::Microseconds => 1_999_999_000,
            Resolution::Nanoseconds => 1_999_999_999,
        };
        assert_eq!(read[0].0.ts_ns, expected);
    }
}

#[test]
fn packets_are_cut_at_the_snap_length_across_chunks() {
    let mut bytes = Vec::new();
    let mut writer = PcapWriter::new(&mut bytes, "x.pcap", PcapOptions::default()).unwrap();
    let most = vec![7; SNAP_LEN_MAX as usize];
    let chunks: [&[u8]; 4] = [&most[3..], b"", b"def", b"ghi"];
    let wire_len = SNAP_LEN_MAX + 3;
    writer.write(1, chunks, wire_len).unwrap();
    writer.finish().unwrap();
    let (read, error) = read_all(&bytes);
    assert!(error.is_none());
    let kept = [&most[3..], b"def"].concat();
    assert_eq!(read, [(Record { ts_ns: 1, wire_len, left_out: None }, kept)]);
}

#[test]
fn a_snapped_packet_stays_snapped() {
    let packets = [(Record { ts_ns: 1, wire_len: 1514, left_out: None }, b"abc".to_vec())];
    let (read, error) = read_all(&write_all(PcapOptions::default(), &packets));
    assert!(error.is_none());
    assert_eq!(read, packets);
}

#[test]
fn a_refused_packet_leaves_no_trace() {
    let mut bytes = Vec::new();
    let mut writer = PcapWriter::new(&mut bytes, "x.pcap", PcapOptions::default()).unwrap();
    let refused = [
        (writer.write(1, [], 0), "record of length 0"),
        (writer.write(1, [], 60), "record of length 0"),
        (writer.write(1, [&[7; 60][..]], 59), "record of 60 bytes is longer than its packet of 59"),
        (
            writer.write(u64::MAX, [&[7; 60][..]], 60),
            "time stamp of 18446744073709551615 ns does not fit the format's 32 bits of seconds",
        ),
    ];
    writer.write(1, [&b"abc"[..]], 3).unwrap();
    writer.finish().unwrap();
    for (outcome, reason) in refused {
        assert_eq!(outcome.unwrap_err().to_string(), format!("x.pcap: byte 24: {reason}"));
    }
    let (read, error) = read_all(&bytes);
    assert!(error.is_none());
    assert_eq!(read, [(Record { ts_ns: 1, wire_len: 3, left_out: None }, b"abc".to_vec())]);
}

#[test]
fn the_last_records_are_written_on_drop_too() {
    let mut bytes = Vec::new();
    let mut writer = PcapWriter::new(&mut bytes, "x.pcap", PcapOptions::default()).unwrap();
    writer.write(1, [&b"abc"[..]], 3).unwrap();
    drop(writer);
    assert_eq!(parse_bytes(&bytes).unwrap(), 1);
}

#[test]
fn after_an_error_the_reader_is_at_its_end() {
    let bytes = Capture::new().packet(60).record((1, 2), 300_000, 0, &[7]).0;
    let mut reader = PcapReader::new(Cursor::new(&bytes), "x.pcap").unwrap();
    let mut buf = Vec::new();
    assert!(reader.next(&mut buf).unwrap().is_some());
    let message = reader.next(&mut buf).unwrap_err().to_string();
    assert_eq!(message, "x.pcap: byte 100: record of 300000 bytes is longer than the limit of 262144");
    assert!(reader.next(&mut buf).unwrap().is_none() && buf.is_empty());
    assert_eq!(reader.record_offset_bytes(), 100);
}
