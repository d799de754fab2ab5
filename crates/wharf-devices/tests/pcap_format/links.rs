//! Packets of other link types become Ethernet frames, and check sequences are cut off.

use super::ng::Ng;
use super::*;
use wharf_devices::pcap::format::{Framing, Macs, Way};

const MACS: Macs = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]];
const IPV4: [u8; 24] = [0x45, 0, 0, 24, 0, 1, 0, 0, 64, 253, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 1, 2, 3, 4];
const IPV6: [u8; 40] = [0x60; 40];
const OTHER: [u8; 20] = [0; 20];

fn sll(kind: u8, device: u16, address_bytes: u8, protocol: u16) -> Vec<u8> {
    let [device, protocol] = [device, protocol].map(u16::to_be_bytes);
    [&[0, kind][..], &device, &[0, address_bytes, 6, 5, 4, 3, 2, 1, 0, 0], &protocol].concat()
}

fn sll2(kind: u8, device: u16, address_bytes: u8, protocol: u16) -> Vec<u8> {
    let [device, protocol] = [device, protocol].map(u16::to_be_bytes);
    let head = [&protocol[..], &[0, 0, 0, 0, 0, 3], &device, &[kind, address_bytes]].concat();
    [&head[..], &[6, 5, 4, 3, 2, 1, 0, 0]].concat()
}

/// A link type, the header and the rest of a packet, and the addresses and the protocol of its frame.
type Case<'a> = (u32, Vec<u8>, &'a [u8], Macs, u16);

/// The packets of `bytes` with these addresses.
fn read(bytes: &[u8], macs: Option<Macs>) -> Result<Vec<Packet>, PcapError> {
    let mut reader = PcapReader::new(Cursor::new(bytes), "x.pcap")?.framing(Framing { macs, only: None })?;
    let (mut packets, mut buf) = (Vec::new(), Vec::new());
    while let Some(record) = reader.next(&mut buf)? {
        packets.push((record, buf.clone()));
    }
    Ok(packets)
}

#[test]
fn each_link_type_becomes_ethernet() {
    let (captured, broadcast) = ([6, 5, 4, 3, 2, 1], [0xff; 6]);
    let cases: [Case; 18] = [
        (101, vec![], &IPV4, MACS, 0x0800),
        (101, vec![], &IPV6, MACS, 0x86dd),
        (12, vec![], &IPV4, MACS, 0x0800),
        (14, vec![], &IPV6, MACS, 0x86dd),
        (228, vec![], &IPV4, MACS, 0x0800),
        (229, vec![], &IPV6, MACS, 0x86dd),
        (0, vec![2, 0, 0, 0], &IPV4, MACS, 0x0800),
        (0, vec![0, 0, 0, 30], &IPV6, MACS, 0x86dd),
        (0, vec![24, 0, 0, 0], &IPV6, MACS, 0x86dd),
        (108, vec![0, 0, 0, 2], &IPV4, MACS, 0x0800),
        (108, vec![0, 0, 0, 28], &IPV6, MACS, 0x86dd),
        (113, sll(0, 1, 6, 0x0800), &IPV4, [captured, MACS[1]], 0x0800),
        (113, sll(4, 1, 0, 0x86dd), &IPV6, MACS, 0x86dd),
        (113, sll(1, 1, 6, 0x0806), &OTHER, [captured, broadcast], 0x0806),
        (113, sll(0, 1, 6, 4), &OTHER, [captured, MACS[1]], 29), // 802.2: its length on the wire
        (276, sll2(0, 1, 6, 0x0800), &IPV4, [captured, MACS[1]], 0x0800),
        (276, sll2(1, 1, 6, 0x0806), &OTHER, [captured, broadcast], 0x0806),
        (276, sll2(4, 772, 0, 0x86dd), &IPV6, MACS, 0x86dd),
    ];
    for (link_type, head, packet, [source, destination], protocol) in cases {
        let want = [&destination[..], &source, &protocol.to_be_bytes(), packet].concat();
        let data = [&head[..], packet].concat();
        let (len, snapped) = (data.len() as u32, data.len() as u32 + 9);
        let classic =
            Capture::with_header(0xa1b2_c3d4, 65_535, link_type).record((1, 2), len, snapped, &data);
        let block =
            Ng::new(ByteOrder::Big).interface(link_type as u16, 0, &[]).enhanced(0, 1, snapped, &data);
        for bytes in [&classic.0, &block.bytes] {
            let packets = read(bytes, Some(MACS)).unwrap();
            assert_eq!(packets[0].1, want, "link type {link_type}");
            assert_eq!(packets[0].0.wire_len, want.len() as u32 + 9, "link type {link_type}");
        }
        let refused = read(&classic.0, None).unwrap_err().to_string();
        let expected = "have no Ethernet addresses: --mac SRC,DST gives them";
        assert!(refused.starts_with("x.pcap: byte 20: ") && refused.ends_with(expected), "{refused}");
        let packets = read(&block.bytes, None).unwrap();
        assert!(packets[0].0.left_out.is_some() && packets[0].1.is_empty());
    }
}

#[test]
fn packets_that_can_be_no_frame_are_marked_and_the_rest_is_read() {
    let file = Ng::new(ByteOrder::Little).interface(105, 0, &[]).interface(101, 0, &[]).interface(1, 0, &[]);
    let file = file.enhanced(2, 1, 4, b"abcd").enhanced(0, 1, 4, b"abcd").enhanced(1, 1, 4, b"\x20bcd");
    let packets = read(&file.enhanced(2, 1, 4, b"efgh").bytes, Some(MACS)).unwrap();
    let marks: Vec<_> =
        packets.iter().map(|(record, bytes)| (record.left_out.is_some(), bytes.len())).collect();
    assert_eq!(marks, [(false, 4), (true, 0), (true, 0), (false, 4)]);
    // Headers that are cut short, unknown families, and devices whose packets have no protocol.
    let none: [(u32, Vec<u8>); 7] = [
        (0, vec![2, 0, 0]),
        (0, vec![7, 0, 0, 0, 1]),
        (113, sll(0, 1, 6, 0x0800)[..15].to_vec()),
        (276, sll2(0, 1, 6, 0x0800)[..19].to_vec()),
        (113, sll(4, 824, 0, 0x0800)),
        (276, sll2(4, 803, 0, 0x0800)),
        (113, sll(0, 280, 0, 12)), // CAN
    ];
    for (link_type, data) in none {
        let len = data.len() as u32;
        let file = Capture::with_header(0xa1b2_c3d4, 65_535, link_type).record((1, 2), len, len, &data);
        assert!(
            read(&file.0, Some(MACS)).unwrap()[0].0.left_out.is_some(),
            "link type {link_type}, {data:?}"
        );
    }
}

#[test]
fn check_sequences_are_cut_off_whole_or_as_far_as_they_were_captured() {
    let lens = |packets: Vec<Packet>| -> Vec<_> {
        packets.iter().map(|(record, bytes)| (record.wire_len, bytes.len())).collect()
    };
    let classic = |field| {
        let file = Capture::with_header(0xa1b2_c3d4, 65_535, field).packet(64);
        let file = file.record((1, 2), 62, 64, &[7; 62]).record((1, 2), 50, 64, &[7; 50]).packet(3);
        lens(read(&file.0, None).unwrap())
    };
    assert_eq!(classic(0x2400_0001), [(60, 60), (60, 60), (60, 50), (0, 0)]);
    assert_eq!(classic(0x0400_0001)[0], (64, 64), "stated to be absent");
    assert_eq!(classic(0x2000_0001)[0], (64, 64), "not stated");
    for order in [ByteOrder::Little, ByteOrder::Big] {
        let flags = |value: u32| [&[0; 0][..], &Ng::new(order).u32(value)].concat();
        let file = Ng::new(order).interface(1, 0, &[(13, vec![4])]).interface(1, 0, &[]);
        let file = file.simple(64, &[7; 64]).obsolete(0, 1, 64, &[7; 64]).enhanced(0, 2, 63, &[7; 63]);
        let file =
            file.flagged(1, 61, &flags(4 << 5)).flagged(1, 64, &flags(2 << 5 | 1)).flagged(1, 64, &flags(1));
        let want = [(60, 60), (60, 60), (59, 59), (57, 57), (62, 62), (64, 64)];
        assert_eq!(lens(read(&file.bytes, None).unwrap()), want, "{order:?}");
        // The option is in bits by the specification, and in bytes by many writers.
        for (stated, want) in [(32, 60), (16, 62), (4, 60), (0, 64), (255, 64)] {
            let file = Ng::new(order).interface(1, 0, &[(13, vec![stated])]).simple(64, &[7; 64]);
            assert_eq!(lens(read(&file.bytes, None).unwrap()), [(want, want as usize)], "{stated}");
        }
    }
}

#[test]
fn one_direction_is_read_by_the_cooked_header_alone() {
    let cooked = [(113, sll(0, 1, 6, 0x0800)), (113, sll(4, 1, 6, 0x0800)), (276, sll2(2, 1, 6, 0x0800))];
    let other = [(276, sll2(4, 1, 6, 0x0800)), (101, vec![]), (1, vec![0; 14])];
    let mut file = Ng::new(ByteOrder::Little);
    for (at, (link_type, head)) in cooked.iter().chain(&other).enumerate() {
        let data = [head, &IPV4[..]].concat();
        file = file.interface(*link_type, 0, &[]).enhanced(at as u32, 1, data.len() as u32, &data);
    }
    for (only, want) in [(Way::In, [0, 2]), (Way::Out, [1, 3])] {
        let framing = Framing { macs: Some(MACS), only: Some(only) };
        let mut reader =
            PcapReader::new(Cursor::new(&file.bytes), "x.pcap").unwrap().framing(framing).unwrap();
        let (mut left_out, mut buf) = (Vec::new(), Vec::new());
        while let Some(record) = reader.next(&mut buf).unwrap() {
            left_out.push(record.left_out);
        }
        let taken: Vec<usize> = (0..left_out.len()).filter(|&at| left_out[at].is_none()).collect();
        assert_eq!(taken, want, "{only:?}");
        assert!(left_out.iter().flatten().all(|reason| *reason == "direction"), "{left_out:?}");
    }
}
