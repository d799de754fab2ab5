//! Datagrams found in frames, and the headers made around received ones, against an independent parser.

use etherparse::{NetSlice, PacketBuilder, SlicedPacket, TransportSlice};
use proptest::prelude::*;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use wharf_devices::udp::datagram::{Datagram, MALFORMED, NOT_UDP};
use wharf_devices::udp::headers::Headers;
use wharf_packet::UDP;

fn ethernet() -> etherparse::PacketBuilderStep<etherparse::Ethernet2Header> {
    PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0x57, 0, 0, 0, 9])
}

fn written(builder: etherparse::PacketBuilderStep<etherparse::UdpHeader>, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    builder.write(&mut bytes, payload).unwrap();
    bytes
}

#[test]
fn payloads_are_found_behind_tags_and_either_ip() {
    let payload = b"seventeen bytes..";
    let ipv4 = ethernet().ipv4([192, 0, 2, 1], [198, 51, 100, 7], 64).udp(4000, 53);
    let tagged = ethernet().double_vlan(5.try_into().unwrap(), 6.try_into().unwrap());
    let tagged = tagged.ipv4([192, 0, 2, 1], [198, 51, 100, 7], 64).udp(4000, 53);
    for builder in [ipv4, tagged] {
        let mut frame = written(builder, payload);
        // Ethernet pads to 60 bytes: bytes behind the packet are not part of it.
        frame.resize(frame.len().max(60) + 3, 0xee);
        let found = Datagram::find(&frame, frame.len()).unwrap();
        assert_eq!(&frame[found.payload_at..][..found.payload_bytes], payload);
        let ends = ("192.0.2.1".parse().unwrap(), "198.51.100.7:53".parse().unwrap());
        assert_eq!(found.ends(&frame), Some(ends));
    }
    let link_local: Ipv6Addr = "fe80::7".parse().unwrap();
    let frame = written(ethernet().ipv6([1; 16], link_local.octets(), 64).udp(4000, 53), payload);
    let found = Datagram::find(&frame, frame.len()).unwrap();
    assert_eq!(&frame[found.payload_at..], payload);
    assert_eq!(found.ends(&frame).unwrap().1, "[fe80::7%9]:53".parse().unwrap(), "by interface 9");
}

#[test]
fn frame_without_datagram_gives_its_reason() {
    let whole = written(ethernet().ipv4([1; 4], [2; 4], 64).udp(1, 2), b"four");
    let with = |at: usize, byte: u8| {
        let mut changed = whole.clone();
        changed[at] = byte;
        Datagram::find(&changed, changed.len())
    };
    assert_eq!(with(12, 9), Err(NOT_UDP), "EtherType");
    assert_eq!(with(23, 6), Err(NOT_UDP), "TCP");
    assert_eq!(with(20, 0x20), Err(NOT_UDP), "more fragments");
    assert_eq!(with(21, 1), Err(NOT_UDP), "not the first fragment");
    assert_eq!(with(14, 0x44), Err(NOT_UDP), "header of 16 bytes");
    assert_eq!(with(17, 33), Err(MALFORMED), "longer than the frame");
    assert_eq!(with(39, 13), Err(MALFORMED), "longer than its packet");
    assert_eq!(with(39, 7), Err(MALFORMED), "shorter than its header");
    assert_eq!(with(39, 8).map(|found| found.payload_bytes), Ok(0), "empty");
    for len in 0..42 {
        assert_eq!(Datagram::find(&whole[..len], len), Err(NOT_UDP), "{len} bytes");
    }
    assert_eq!(Datagram::find(&whole[..44], 44), Err(MALFORMED));
    assert!(Datagram::find(&whole[..42], 46).is_ok(), "the payload lies in another piece");
}

/// True if the packet is for a router on the way, which does not handle the payload.
#[test]
fn segments_left_in_a_routing_header_then_no_datagram() {
    let mut frame = written(ethernet().ipv6([1; 16], [2; 16], 64).udp(4000, 53), b"payload");
    frame.splice(54..54, [&[UDP, 2, 2, 1, 0, 0, 0, 0][..], &[7; 16]].concat());
    (frame[19], frame[20]) = (frame[19] + 24, 43);
    assert_eq!(Datagram::find(&frame, frame.len()), Err(NOT_UDP));
    frame[57] = 0;
    let found = Datagram::find(&frame, frame.len()).unwrap();
    assert_eq!(&frame[found.payload_at..], b"payload");
}

proptest! {
    #[test]
    fn nothing_found_lies_outside(mut bytes in prop::collection::vec(any::<u8>(), 0..120), kind in 0..3) {
        let start: &[u8] = match kind {
            0 => &[8, 0, 0x45],
            1 => &[0x86, 0xdd, 0x60],
            _ => &[],
        };
        if let Some(place) = bytes.get_mut(12..12 + start.len()) {
            place.copy_from_slice(start);
        }
        for protocol_at in [20, 23] {
            bytes.get_mut(protocol_at).into_iter().for_each(|place| *place = UDP);
        }
        if let Ok(found) = Datagram::find(&bytes, bytes.len()) {
            prop_assert!(found.payload_at + found.payload_bytes <= bytes.len());
            prop_assert!(found.ends(&bytes).is_some());
        }
    }
}

fn check(from: SocketAddr, to: SocketAddr, identification: u16, payload: &[u8]) {
    let headers = Headers::new(from, to, 7, payload.len()).unwrap();
    let mut frame = headers.finish(payload, identification)[..headers.len_bytes()].to_vec();
    frame.extend(payload);
    let packet = SlicedPacket::from_ethernet(&frame).unwrap();
    match packet.net.unwrap() {
        NetSlice::Ipv4(ip) => {
            let header = ip.header().to_header();
            assert_eq!(
                (header.identification, header.total_len as usize),
                (identification, frame.len() - 14)
            );
            assert_eq!(header.header_checksum, header.calc_header_checksum());
            let Some(TransportSlice::Udp(udp)) = packet.transport else { panic!() };
            let right = udp.to_header().calc_checksum_ipv4_raw(header.source, header.destination, payload);
            assert_eq!(udp.checksum(), right.unwrap());
        }
        NetSlice::Ipv6(ip) => {
            let header = ip.header().to_header();
            assert_eq!(header.payload_length as usize, frame.len() - 54);
            let Some(TransportSlice::Udp(udp)) = packet.transport else { panic!() };
            let right = udp.to_header().calc_checksum_ipv6_raw(header.source, header.destination, payload);
            assert_eq!(udp.checksum(), right.unwrap());
        }
        other => panic!("{other:?}"),
    }
    let found = Datagram::find(&frame, frame.len()).unwrap();
    assert_eq!(&frame[found.payload_at..], payload);
    assert_eq!(found.ends(&frame).unwrap(), (from.ip(), to));
}

proptest! {
    #[test]
    fn headers_agree_with_an_independent_parser(
        v6: bool, from: [u8; 16], to: [u8; 16], ports: (u16, u16), identification: u16,
        payload in prop::collection::vec(any::<u8>(), 0..2000)
    ) {
        let address = |bytes: [u8; 16]| -> IpAddr {
            if v6 { bytes.into() } else { [bytes[0], bytes[1], bytes[2], bytes[3]].into() }
        };
        // A link-local address would carry the number of an interface.
        prop_assume!(to[0] != 0xfe);
        check((address(from), ports.0).into(), (address(to), ports.1).into(), identification, &payload);
    }
}

#[test]
fn impossible_addresses_and_lengths_have_no_headers() {
    let (v4, v6): (SocketAddr, SocketAddr) =
        ("192.0.2.1:7".parse().unwrap(), "[2001:db8::1]:7".parse().unwrap());
    assert!(Headers::new(v4, v6, 0, 9).is_none() && Headers::new(v6, v4, 0, 9).is_none());
    assert!(Headers::new(v4, v4, 0, 65_507).is_some() && Headers::new(v4, v4, 0, 65_508).is_none());
    assert!(Headers::new(v6, v6, 0, 65_527).is_some() && Headers::new(v6, v6, 0, 65_528).is_none());
}
