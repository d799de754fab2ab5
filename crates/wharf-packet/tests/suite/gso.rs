//! Segments as etherparse reads them.

use etherparse::{NetSlice, PacketBuilder, SlicedPacket, TransportSlice};
use proptest::prelude::*;
use wharf_packet::checksum::{TCP_OFFSET, UDP_OFFSET, fold, sum};
use wharf_packet::gso::{GSO_TCPV4, GSO_TCPV6, GSO_UDP, GsoError, GsoPlan, GsoRequest, wire_bytes};
use wharf_packet::{Headers, TCP, TCP_FLAGS_AT, UDP};

/// A super-packet.
#[derive(Debug, Clone)]
struct Case {
    kind: u8,
    is_ipv6: bool,
    tags: usize,
    identification: u16,
    sequence: u32,
    flags: u8,
    payload: Vec<u8>,
    gso_bytes: u16,
}

impl Case {
    fn packet(&self) -> Vec<u8> {
        let mut transport = Vec::new();
        if self.kind == GSO_UDP {
            let mut udp =
                etherparse::UdpHeader { source_port: 1000, destination_port: 9, ..Default::default() };
            // A super-packet's checksum is that of a pseudo header, or anything: it must not matter.
            udp.checksum = 0x1234;
            udp.write(&mut transport).unwrap();
        } else {
            let mut tcp = etherparse::TcpHeader::new(1000, 80, self.sequence, 500);
            tcp.checksum = 0x1234;
            tcp.set_options_raw(&[1, 1, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8]).unwrap();
            tcp.write(&mut transport).unwrap();
            transport[TCP_FLAGS_AT] = self.flags;
        }
        transport.extend(&self.payload);
        let ethernet = PacketBuilder::ethernet2([2; 6], [4; 6]);
        let protocol = if self.kind == GSO_UDP { UDP } else { TCP };
        let mut bytes = Vec::new();
        if self.is_ipv6 {
            let ip = ethernet.ipv6([0x20; 16], [0x30; 16], 64);
            ip.write(&mut bytes, protocol.into(), &[]).unwrap();
        } else {
            let ip = ethernet.ipv4([192, 0, 2, 1], [198, 51, 100, 1], 64);
            ip.write(&mut bytes, protocol.into(), &[]).unwrap();
            bytes[18..20].copy_from_slice(&self.identification.to_be_bytes());
        }
        for tag in 0..self.tags {
            let protocol = if tag == 0 { [0x81, 0x00] } else { [0x88, 0xa8] };
            let tag = [protocol[0], protocol[1], 0, 7];
            bytes.splice(12..12, tag);
        }
        bytes.extend(transport);
        bytes
    }
}

/// The longest payload: less for an interpreter.
const PAYLOAD_BYTES: usize = if cfg!(miri) { 1_000 } else { 20_000 };

fn cases() -> impl Strategy<Value = Case> {
    let shape = (prop::sample::select(vec![GSO_TCPV4, GSO_TCPV6, GSO_UDP]), any::<bool>(), 0usize..3);
    let numbers = (any::<u16>(), any::<u32>(), any::<u8>(), 1u16..3000);
    (shape, numbers, prop::collection::vec(any::<u8>(), 0..PAYLOAD_BYTES)).prop_map(
        |((kind, is_ipv6, tags), (identification, sequence, flags, gso_bytes), payload)| {
            let is_ipv6 = if kind == GSO_UDP { is_ipv6 } else { kind == GSO_TCPV6 };
            let gso_bytes = gso_bytes.max(payload.len() as u16 / 60 + 1);
            Case { kind, is_ipv6, tags, identification, sequence, flags, payload, gso_bytes }
        },
    )
}

fn check_segment(case: &Case, segment: &[u8], at: usize, segments: usize) -> Vec<u8> {
    let sliced = SlicedPacket::from_ethernet(segment).unwrap();
    let ip = 14 + 4 * case.tags;
    match sliced.net.unwrap() {
        NetSlice::Ipv4(ipv4) => {
            let header = ipv4.header().to_header();
            assert_eq!(header.identification, case.identification.wrapping_add(at as u16));
            assert_eq!(header.header_checksum, header.calc_header_checksum());
            assert_eq!(usize::from(header.total_len), segment.len() - ip);
        }
        NetSlice::Ipv6(ipv6) => {
            assert_eq!(usize::from(ipv6.header().payload_length()), segment.len() - ip - 40);
        }
        NetSlice::Arp(_) => panic!("no IP"),
    }
    let (payload, transport_checksum, calculated) = match (sliced.transport.unwrap(), case.is_ipv6) {
        (TransportSlice::Tcp(tcp), is_ipv6) => {
            assert_eq!(
                tcp.sequence_number(),
                case.sequence.wrapping_add((at * usize::from(case.gso_bytes)) as u32)
            );
            let (first, last) = (at == 0, at + 1 == segments);
            assert_eq!((tcp.fin(), tcp.psh()), (last && case.flags & 1 != 0, last && case.flags & 8 != 0));
            assert_eq!(tcp.cwr(), first && case.flags & 0x80 != 0);
            assert_eq!((tcp.ack(), tcp.syn()), (case.flags & 0x10 != 0, case.flags & 2 != 0));
            let (header, payload) = (tcp.to_header(), tcp.payload());
            let calculated = if is_ipv6 {
                header.calc_checksum_ipv6_raw([0x20; 16], [0x30; 16], payload)
            } else {
                header.calc_checksum_ipv4_raw([192, 0, 2, 1], [198, 51, 100, 1], payload)
            };
            (payload.to_vec(), tcp.checksum(), calculated.unwrap())
        }
        (TransportSlice::Udp(udp), is_ipv6) => {
            let (header, payload) = (udp.to_header(), udp.payload());
            assert_eq!(usize::from(header.length), 8 + payload.len());
            let calculated = if is_ipv6 {
                let ip = etherparse::Ipv6Header {
                    source: [0x20; 16],
                    destination: [0x30; 16],
                    ..Default::default()
                };
                header.calc_checksum_ipv6(&ip, payload)
            } else {
                header.calc_checksum_ipv4_raw([192, 0, 2, 1], [198, 51, 100, 1], payload)
            };
            (payload.to_vec(), udp.checksum(), calculated.unwrap())
        }
        other => panic!("{other:?}"),
    };
    // 0 and all ones are the same number: UDP writes the one, TCP the other.
    assert_eq!(transport_checksum % 0xffff, calculated % 0xffff);
    assert_ne!(transport_checksum, if case.kind == GSO_UDP { 0 } else { 0xffff });
    payload
}

proptest! {
    #[test]
    fn segmented_then_all_headers_are_right_and_all_payload_is_there(case in cases()) {
        let packet = case.packet();
        let plan = GsoPlan::new(&packet, case.kind, case.gso_bytes).unwrap();
        let segments = plan.segments();
        prop_assert_eq!(segments, case.payload.len().div_ceil(case.gso_bytes.into()).max(1));
        let mut payload = Vec::new();
        // Last first: each can be made by itself.
        for at in (0..segments).rev() {
            let mut segment = vec![0xee; plan.segment_bytes(at)];
            plan.write(&packet, at, &mut segment);
            prop_assert_eq!(&segment[..12 + 4 * case.tags], &packet[..12 + 4 * case.tags]);
            let part = check_segment(&case, &segment, at, segments);
            prop_assert!(part.len() == usize::from(case.gso_bytes) || at + 1 == segments);
            payload.splice(0..0, part);
        }
        prop_assert_eq!(payload, case.payload);
    }

    #[test]
    fn truncated_or_changed_headers_then_no_panic(
        case in cases(), len in 0usize..120, at in 0usize..90, byte: u8, kind: u8, gso_bytes: u16,
    ) {
        let mut packet = case.packet();
        if let Some(place) = packet.get_mut(at) {
            *place = byte;
        }
        for (packet, kind) in [(&packet[..len.min(packet.len())], case.kind), (&packet[..], case.kind), (&packet[..], kind)] {
            if let Ok(plan) = GsoPlan::new(packet, kind, gso_bytes) {
                for at in [0, plan.segments() - 1] {
                    let mut segment = vec![0; plan.segment_bytes(at)];
                    plan.write(packet, at, &mut segment);
                }
            }
        }
    }
}

/// One in 65 536 segments, and the captures of those are called wrong by other tools.
#[test]
fn checksum_comes_to_0_then_tcp_has_0_and_udp_ones() {
    for (kind, is_ipv6) in [(GSO_TCPV4, false), (GSO_TCPV6, true), (GSO_UDP, false), (GSO_UDP, true)] {
        let (identification, sequence, flags) = (1, 1, 0x10);
        let mut case = Case {
            kind,
            is_ipv6,
            tags: 0,
            identification,
            sequence,
            flags,
            payload: vec![0; 8],
            gso_bytes: 8,
        };
        let segment = |case: &Case| {
            let packet = case.packet();
            let plan = GsoPlan::new(&packet, kind, 8).unwrap();
            let mut segment = vec![0; plan.segment_bytes(0)];
            plan.write(&packet, 0, &mut segment);
            check_segment(case, &segment, 0, 1);
            let offset = if kind == GSO_UDP { UDP_OFFSET } else { TCP_OFFSET };
            let at = Headers::parse(&packet).unwrap().transport_at + offset;
            [segment[at], segment[at + 1]]
        };
        // The old value of the checksum is part of the sum.
        let checksum = segment(&case);
        case.payload[..2].copy_from_slice(&checksum);
        assert_eq!(segment(&case), if kind == GSO_UDP { [0xff; 2] } else { [0; 2] }, "kind {kind}");
    }
}

#[test]
fn packet_cannot_be_segmented_then_the_error_names_the_fault() {
    let case = Case {
        kind: GSO_TCPV4,
        is_ipv6: false,
        tags: 0,
        identification: 1,
        sequence: 1,
        flags: 0x10,
        payload: vec![7; 3000],
        gso_bytes: 1448,
    };
    let packet = case.packet();
    let fault = |packet: &[u8], kind, gso_bytes| GsoPlan::new(packet, kind, gso_bytes).unwrap_err();
    assert_eq!(fault(&packet, 3, 1448), GsoError::Kind { kind: 3 });
    assert_eq!(fault(&packet, 1, 0), GsoError::Size { gso_bytes: 0 });
    assert_eq!(fault(&packet, 1, 65535), GsoError::Size { gso_bytes: 65535 });
    let what = |packet: &[u8], kind| match fault(packet, kind, 1448) {
        GsoError::Headers { what, .. } => what,
        other => panic!("{other}"),
    };
    assert_eq!(what(&packet, 4), "another version of IP, or none");
    assert_eq!(what(&packet, 5), "another protocol");
    assert_eq!(what(&packet[..20], 1), "a header cut short");
    assert_eq!(what(&packet[..60], 1), "TCP header of a wrong length");
    let mut fragment = packet.clone();
    fragment[20] = 0x20;
    assert_eq!(what(&fragment, 1), "a fragment");
}

/// IPv6 with a routing header of `kind` and one segment left, to 2001:db8::a in the end.
fn routed(kind: u8) -> Vec<u8> {
    let address = |last| [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last];
    let mut frame =
        [&[2; 12][..], &[0x86, 0xdd, 0x60, 0, 0, 0, 0, 132, 43, 64], &address(1), &address(2)].concat();
    frame.extend([6, 2, kind, 1, 0, 0, 0, 0]);
    frame.extend(address(0xa));
    frame.extend([0, 7, 0, 9, 0, 0, 0, 1, 0, 0, 0, 0, 0x50, 0x10, 0, 0, 0, 0, 0, 0]);
    frame.extend([5; 100]);
    frame
}

#[test]
fn routing_header_then_the_checksum_is_that_of_the_final_destination() {
    let packet = routed(2);
    let plan = GsoPlan::new(&packet, GSO_TCPV6, 40).unwrap();
    for at in 0..3 {
        let mut segment = vec![0; plan.segment_bytes(at)];
        plan.write(&packet, at, &mut segment);
        let tcp = &segment[78..];
        let addresses = sum(&segment[22..38]) + sum(&segment[62..78]);
        let pseudo = addresses + u64::from(TCP) + tcp.len() as u64;
        assert_eq!(fold(pseudo + sum(tcp)), 0xffff, "segment {at}");
    }
    let unknown = routed(200);
    let what = "a routing header of unknown type";
    assert_eq!(
        GsoPlan::new(&unknown, GSO_TCPV6, 40),
        Err(GsoError::Headers { len_bytes: unknown.len(), what })
    );
    // The sender of a partial checksum knows.
    let request = GsoRequest { kind: GSO_TCPV6, segment_bytes: 40, is_checksum_partial: true };
    assert!(GsoPlan::of_start(&unknown, unknown.len(), &request).is_ok());
}

#[test]
fn super_packet_then_its_wire_bytes_are_those_of_all_segments() {
    let packet = routed(2);
    for is_checksum_partial in [true, false] {
        let request = |segment_bytes| GsoRequest { kind: GSO_TCPV6, segment_bytes, is_checksum_partial };
        assert_eq!(wire_bytes(&packet, packet.len(), &request(40), 78), Some(100 + 3 * 98));
        assert_eq!(wire_bytes(&packet, packet.len(), &request(0), 78), None);
        assert_eq!(wire_bytes(&packet[..80], packet.len(), &request(40), 78), None);
    }
}
