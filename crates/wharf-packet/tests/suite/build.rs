//! Headers beside those that etherparse writes.

use proptest::prelude::*;
use std::net::{IpAddr, SocketAddr};
use wharf_packet::checksum::{UDP_OFFSET, complete, from_sum, sum};
use wharf_packet::{EthernetHeader, Headers, IpHeader, UDP, UDP_BYTES, UdpHeader, UdpHeaders};

proptest! {
    #[test]
    fn headers_written_then_they_are_etherparses(
        is_ipv6: bool, addresses: ([u8; 16], [u8; 16]), ports: (u16, u16), class: u8, vlan in prop::option::of(0u16..4096),
        payload in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let short = |bytes: [u8; 16]| [bytes[0], bytes[1], bytes[2], bytes[3]];
        let (from, to) = addresses;
        let builder = etherparse::PacketBuilder::ethernet2([4; 6], [2; 6]);
        let mut theirs = Vec::new();
        let address = |bytes: [u8; 16]| -> IpAddr { if is_ipv6 { bytes.into() } else { short(bytes).into() } };
        let mut ip = IpHeader::new(address(from), address(to), UDP);
        (ip.traffic_class, ip.dont_fragment) = (class, true);
        let header = if is_ipv6 {
            let mut header = etherparse::Ipv6Header { source: from, destination: to, hop_limit: 64, ..Default::default() };
            header.traffic_class = class;
            etherparse::IpHeaders::Ipv6(header, Default::default())
        } else {
            let mut header = etherparse::Ipv4Header::new(0, 64, etherparse::ip_number::UDP, short(from), short(to)).unwrap();
            (header.dscp, header.ecn) = ((class >> 2).try_into().unwrap(), (class & 3).try_into().unwrap());
            etherparse::IpHeaders::Ipv4(header, Default::default())
        };
        match vlan {
            Some(vlan) => builder.single_vlan(vlan.try_into().unwrap()).ip(header).udp(ports.0, ports.1).write(&mut theirs, &payload).unwrap(),
            None => builder.ip(header).udp(ports.0, ports.1).write(&mut theirs, &payload).unwrap(),
        }
        let ethernet = EthernetHeader { destination: [2; 6], source: [4; 6], vlan, ethertype: ip.ethertype() };
        let mut ours = vec![0xee; theirs.len()];
        let mut at = ethernet.write(&mut ours).unwrap();
        at += ip.write(&mut ours[at..], UDP_BYTES + payload.len()).unwrap();
        let udp = UdpHeader { source: ports.0, destination: ports.1 };
        udp.write(&mut ours[at..], payload.len()).unwrap();
        ours[at + UDP_BYTES..].copy_from_slice(&payload);
        let checksum = from_sum(ip.pseudo_sum(UDP_BYTES + payload.len()) + sum(&ours[at..]), UDP_OFFSET);
        ours[at + UDP_OFFSET..at + UDP_BYTES].copy_from_slice(&checksum.to_be_bytes());
        prop_assert_eq!(&ours, &theirs);

        let headers = UdpHeaders::new(ethernet, ip, udp).unwrap();
        let mut by_flow = ours.clone();
        by_flow[..headers.len_bytes()].fill(0xee);
        prop_assert_eq!(headers.write(&mut by_flow, 0), Some(at + UDP_BYTES));
        prop_assert_eq!(&by_flow, &theirs);
        // The device completes what is left to it.
        let start = headers.write_partial(&mut by_flow, 0).unwrap();
        prop_assert!(complete(&mut by_flow, start, UDP_OFFSET));
        prop_assert_eq!(&by_flow, &theirs);
        // Another identification, summed up in full.
        ip.identification = class.into();
        ip.write(&mut ours[at - ip.len_bytes()..], UDP_BYTES + payload.len()).unwrap();
        headers.write(&mut by_flow, class.into()).unwrap();
        prop_assert_eq!(by_flow, ours);
    }
}

#[test]
fn frame_too_short_or_too_long_then_no_headers() {
    let ethernet = EthernetHeader { destination: [2; 6], source: [4; 6], vlan: Some(7), ethertype: 0 };
    let udp = UdpHeader { source: 1, destination: 2 };
    let v4 = IpHeader::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 0);
    let v6 = IpHeader::new([1; 16].into(), [2; 16].into(), 0);
    assert_eq!(UdpHeaders::new(ethernet, IpHeader { source: v6.source, ..v4 }, udp), None);
    for (ip, longest) in [(v4, 18 + 65_535), (v6, 18 + 40 + 65_535)] {
        let headers = UdpHeaders::new(ethernet, ip, udp).unwrap();
        let len = headers.len_bytes();
        assert!(len <= UdpHeaders::BYTES_MAX);
        let mut frame = vec![0; longest + 1];
        for write in [UdpHeaders::write, UdpHeaders::write_partial] {
            assert_eq!(write(&headers, &mut [], 0), None);
            assert_eq!(write(&headers, &mut frame[..len - 1], 0), None);
            assert!(write(&headers, &mut frame[..len], 0).is_some());
            assert!(write(&headers, &mut frame[..longest], 0).is_some());
            assert_eq!(write(&headers, &mut frame, 0), None);
        }
    }
}

#[test]
fn no_room_or_too_long_then_none() {
    let ip = IpHeader::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), UDP);
    assert_eq!([65_515, 65_516].map(|bytes| ip.write(&mut [0; 20], bytes)), [Some(20), None]);
    assert_eq!(ip.write(&mut [0; 19], 0), None);
    assert_eq!(IpHeader { source: [1; 16].into(), ..ip }.write(&mut [0; 40], 0), None);
    let udp = UdpHeader { source: 1, destination: 2 };
    assert_eq!([65_527, 65_528].map(|bytes| udp.write(&mut [0; 8], bytes)), [Some(8), None]);
    assert_eq!(udp.write(&mut [0; 7], 0), None);
    let ethernet = EthernetHeader { destination: [0; 6], source: [0; 6], vlan: Some(5), ethertype: 9 };
    assert_eq!((ethernet.write(&mut [0; 17]), ethernet.len_bytes()), (None, 18));
}

#[test]
fn headers_between_sockets_have_no_ethernet_addresses() {
    let address = |text: &str| text.parse::<SocketAddr>().unwrap();
    let [v4, other, v6] = ["192.0.2.1:5", "198.51.100.1:9", "[::1]:9"].map(address);
    let headers = UdpHeaders::between(v4, other).unwrap();
    let mut frame = [1; 60];
    assert_eq!(headers.write(&mut frame, 0), Some(42));
    let parsed = Headers::parse(&frame).unwrap();
    assert_eq!(frame[..12], [0; 12]);
    assert_eq!(parsed.addresses(&frame), Some((v4.ip(), other.ip())));
    assert_eq!((parsed.ports(&frame), UdpHeaders::between(v4, v6)), (Some((5, 9)), None));
}
