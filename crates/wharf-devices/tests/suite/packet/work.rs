//! Frames as the kernel might hand them over, and as it never should.

use proptest::prelude::*;
use wharf_devices::packet::SuperPackets;
use wharf_devices::packet::work::{RxReject, Work, is_plain};
use wharf_devices::vnet::VnetHeader;
use wharf_mem::Meta;
use wharf_packet::checksum::{self, fold, sum};
use wharf_packet::gso::{GSO_TCPV4, GSO_UDP};
use wharf_sys::packet::Received;

fn received(bytes: &[u8], header: VnetHeader, vlan: Option<(u16, u16)>) -> Received<'_> {
    let (wire_bytes, vnet_header) = (bytes.len() as u32, header.bytes());
    Received { bytes, wire_bytes, vnet_header, vlan, time_ns: 99, is_outgoing: false }
}

/// Returns the frames that arrive of one that the kernel hands over.
fn arrived(frame: &Received<'_>, super_packets: SuperPackets) -> Result<Vec<(Vec<u8>, Meta)>, RxReject> {
    let mut work = Work::default();
    work.load(frame, super_packets)?;
    let mut frames = Vec::new();
    while work.is_pending() {
        let (bytes, meta) = work.next();
        frames.push((bytes.to_vec(), meta));
        work.done();
    }
    Ok(frames)
}

/// UDP over IPv4 with `payload` bytes; the pseudo header's sum stands for its checksum.
fn udp(payload: usize) -> Vec<u8> {
    let len = (8 + payload) as u16;
    let mut bytes = [[2; 6], [4; 6]].concat();
    bytes.extend([8, 0, 0x45, 0]);
    bytes.extend((20 + len).to_be_bytes());
    bytes.extend([0, 1, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0, 7, 0, 9]);
    bytes.extend(len.to_be_bytes());
    bytes.extend(fold(sum(&bytes[26..34]) + 17 + u64::from(len)).to_be_bytes());
    bytes.extend((0..payload).map(|at| at as u8));
    bytes
}

/// Returns the sum over a UDP packet with its pseudo header: all ones if the checksum is right.
fn udp_sum(ip: &[u8]) -> u16 {
    fold(sum(&ip[12..20]) + 17 + (ip.len() - 20) as u64 + sum(&ip[20..]))
}

const UNFINISHED: VnetHeader = VnetHeader {
    needs_checksum: true,
    gso_kind: 0,
    has_ecn: false,
    header_bytes: 42,
    gso_bytes: 0,
    checksum_start: 34,
    checksum_offset: 6,
};

#[test]
fn whole_untagged_finished_frame_is_plain() {
    let bytes = udp(20);
    let plain = VnetHeader { header_bytes: 60, ..VnetHeader::default() };
    assert!(is_plain(&received(&bytes, plain, None)));
    assert!(!is_plain(&received(&bytes, plain, Some((0x8100, 5)))));
    assert!(!is_plain(&received(&bytes, UNFINISHED, None)));
    assert!(!is_plain(&received(&bytes, VnetHeader { gso_kind: 1, ..plain }, None)));
    assert!(!is_plain(&Received { wire_bytes: 9999, ..received(&bytes, plain, None) }));
}

#[test]
fn a_checksum_is_filled_in_behind_a_tag_that_is_put_back() {
    for payload in [0, 1, 100, 1001] {
        let bytes = udp(payload);
        let untagged = arrived(&received(&bytes, UNFINISHED, None), SuperPackets::Cut).unwrap();
        let tagged =
            arrived(&received(&bytes, UNFINISHED, Some((0x88a8, 0x6005))), SuperPackets::Keep).unwrap();
        let ((untagged, meta), (tagged, _)) = (&untagged[0], &tagged[0]);
        assert_eq!(udp_sum(&untagged[14..]), 0xffff);
        assert_eq!(*meta, Meta { time_ns: 99, ..Meta::default() });
        assert_eq!(tagged[12..16], [0x88, 0xa8, 0x60, 0x05]);
        assert_eq!([&tagged[..12], &tagged[16..]].concat(), *untagged);
    }
}

#[test]
fn super_packets_are_segmented_behind_their_tag_or_kept_with_their_request() {
    let bytes = udp(2500);
    let header = VnetHeader { gso_kind: GSO_UDP, gso_bytes: 1000, ..UNFINISHED };
    let frame = received(&bytes, header, Some((0x8100, 7)));
    let cut = arrived(&frame, SuperPackets::Cut).unwrap();
    let lens: Vec<usize> = cut.iter().map(|(bytes, _)| bytes.len()).collect();
    assert_eq!(lens, [1046, 1046, 546]);
    assert!(cut.iter().all(|(bytes, _)| udp_sum(&bytes[18..]) == 0xffff && bytes[12..14] == [0x81, 0]));
    let kept = arrived(&frame, SuperPackets::Keep).unwrap();
    let meta = Meta {
        gso_bytes: 1000,
        gso_kind: GSO_UDP,
        needs_checksum: true,
        checksum_start: 38,
        checksum_offset: 6,
        time_ns: 99,
    };
    assert_eq!((kept.len(), kept[0].0.len(), kept[0].1), (1, 2546, meta));
}

/// A datagram of `payload` bytes in VXLAN, the outer UDP checksum filled in or none: the inner one is left to
/// be filled in.
fn in_vxlan(payload: usize, has_checksum: bool, is_ipv6: bool) -> Vec<u8> {
    let inner = udp(payload);
    let vxlan = [&[8, 0, 0, 0, 0, 0, 5, 0][..], &inner].concat();
    let builder = etherparse::PacketBuilder::ethernet2([2; 6], [4; 6]);
    let udp_header =
        if is_ipv6 { builder.ipv6([3; 16], [5; 16], 9) } else { builder.ipv4([1; 4], [2; 4], 9) };
    let mut bytes = Vec::new();
    udp_header.udp(7777, 4789).write(&mut bytes, &vxlan).unwrap();
    if !has_checksum {
        let at = bytes.len() - vxlan.len() - 2;
        bytes[at..at + 2].fill(0);
    }
    bytes
}

#[test]
fn super_packets_in_a_tunnel_are_cut_with_the_headers_around_them() {
    for (has_checksum, is_ipv6) in [(false, false), (true, false), (false, true), (true, true)] {
        let whole = in_vxlan(2500, has_checksum, is_ipv6);
        let ip_bytes = if is_ipv6 { 40 } else { 20 };
        let inner_at = 14 + ip_bytes + 16;
        let header = VnetHeader {
            gso_kind: GSO_UDP,
            gso_bytes: 1000,
            checksum_start: (inner_at + 34) as u16,
            ..UNFINISHED
        };
        for (way, vlan) in [(SuperPackets::Cut, None), (SuperPackets::Keep, Some((0x8100, 7)))] {
            let tag = if vlan.is_some() { 4 } else { 0 };
            let pieces = arrived(&received(&whole, header, vlan), way).unwrap();
            let plain = VnetHeader { checksum_start: 34, ..header };
            let inner = arrived(&received(&udp(2500), plain, None), SuperPackets::Cut).unwrap();
            assert_eq!((pieces.len(), inner.len()), (3, 3));
            for (at, ((piece, meta), (inner, _))) in pieces.iter().zip(&inner).enumerate() {
                assert_eq!(*meta, Meta { time_ns: 99, ..Meta::default() });
                assert_eq!(piece[tag + inner_at..], *inner, "as without a tunnel");
                check_around(piece, at, has_checksum);
            }
        }
    }
}

/// Checks lengths and checksums of the headers around piece `at` with an independent parser.
fn check_around(piece: &[u8], at: usize, has_checksum: bool) {
    let read = etherparse::PacketHeaders::from_ethernet_slice(piece).unwrap();
    let Some(etherparse::TransportHeader::Udp(udp)) = read.transport else { panic!("no UDP") };
    let payload = read.payload.slice();
    assert_eq!(usize::from(udp.length), 8 + payload.len());
    let want = match read.net.unwrap() {
        etherparse::NetHeaders::Ipv4(ip, _) => {
            assert_eq!(usize::from(ip.total_len), 28 + payload.len());
            assert_eq!((ip.identification, ip.header_checksum), (at as u16, ip.calc_header_checksum()));
            udp.calc_checksum_ipv4(&ip, payload).unwrap()
        }
        etherparse::NetHeaders::Ipv6(ip, _) => {
            assert_eq!(usize::from(ip.payload_length), 8 + payload.len());
            udp.calc_checksum_ipv6(&ip, payload).unwrap()
        }
        _ => panic!("no IP"),
    };
    assert_eq!(udp.checksum, if has_checksum { want } else { 0 });
}

#[test]
fn inconsistent_header_is_rejected() {
    let bytes = udp(100);
    let refused = |header: VnetHeader, len: usize, vlan| {
        let frame = received(&bytes[..len], header, vlan);
        let faults = [SuperPackets::Cut, SuperPackets::Keep].map(|way| arrived(&frame, way).err());
        assert_eq!(faults, [Some(RxReject::Malformed); 2], "{header:?}, {len} bytes");
    };
    refused(VnetHeader { checksum_start: 142, ..UNFINISHED }, 142, None);
    refused(VnetHeader { checksum_start: u16::MAX, ..UNFINISHED }, 142, Some((0x8100, 1)));
    refused(VnetHeader { checksum_offset: 107, ..UNFINISHED }, 142, None);
    refused(VnetHeader { checksum_offset: u16::MAX, ..UNFINISHED }, 142, None);
    refused(VnetHeader::default(), 11, Some((0x8100, 1)));
    refused(VnetHeader { gso_kind: GSO_TCPV4, gso_bytes: 50, ..UNFINISHED }, 142, None);
    refused(VnetHeader { gso_kind: GSO_UDP, gso_bytes: 0, ..UNFINISHED }, 142, None);
    refused(VnetHeader { gso_kind: GSO_UDP, gso_bytes: 50, ..UNFINISHED }, 40, None);
    refused(VnetHeader { gso_kind: 3, gso_bytes: 50, ..UNFINISHED }, 142, None);
    // Longer than IP can say, as no sender's is.
    let mut tunnel = in_vxlan(65400, true, false);
    tunnel.resize(66_000, 0);
    let header = VnetHeader { gso_kind: GSO_UDP, checksum_start: 84, ..UNFINISHED };
    for gso_bytes in [0, 65500] {
        let frame = received(&tunnel, VnetHeader { gso_bytes, ..header }, None);
        assert_eq!(arrived(&frame, SuperPackets::Cut).err(), Some(RxReject::Malformed), "{gso_bytes}");
    }
    let cut_short = Received { wire_bytes: 143, ..received(&bytes, UNFINISHED, None) };
    assert_eq!(arrived(&cut_short, SuperPackets::Cut).unwrap_err(), RxReject::Truncated);
}

#[test]
fn sctp_gets_its_crc() {
    let mut bytes = udp(100);
    bytes[23] = 132;
    let header = VnetHeader { checksum_offset: checksum::SCTP_OFFSET as u16, ..UNFINISHED };
    let frames = arrived(&received(&bytes, header, None), SuperPackets::Cut).unwrap();
    assert!(checksum::complete_sctp(&mut bytes, 34, 8));
    assert_eq!(frames[0].0, bytes);
}

proptest! {
    #[test]
    fn nothing_panics(
        len in 0usize..200, vnet_header: [u8; 10], vlan: Option<(u16, u16)>, cut: bool, is_tunnel: bool, more in 0u32..2,
    ) {
        let bytes = if is_tunnel { in_vxlan(108, true, false) } else { udp(158) };
        let frame = Received { vnet_header, wire_bytes: len as u32 + more, ..received(&bytes[..len], UNFINISHED, vlan) };
        let way = if cut { SuperPackets::Cut } else { SuperPackets::Keep };
        if let Ok(frames) = arrived(&frame, way) {
            let tag = if vlan.is_some() { 4 } else { 0 };
            prop_assert!(!frames.is_empty() && (frames.len() > 1 || frames[0].0.len() == len + tag));
        }
    }
}
