//! The parser beside etherparse.

use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use proptest::prelude::*;
use std::net::IpAddr;
use wharf_packet::checksum::{fold, sum};
use wharf_packet::{HeaderError, Headers};

/// Frames that are often IP with a chain of extension headers.
fn frames() -> impl Strategy<Value = Vec<u8>> {
    let numbers = prop::sample::select(vec![0u8, 43, 44, 51, 60, 60, 6, 17, 132, 59, 1]);
    let extension =
        (numbers.clone(), 0u8..3, any::<[u8; 6]>(), prop::sample::select(vec![0u8, 0, 1, 8, 255]));
    let chain = (numbers, prop::collection::vec(extension, 0..6));
    (any::<bool>(), 0usize..3, chain, prop::collection::vec(any::<u8>(), 0..60)).prop_map(
        |(is_ipv6, tags, (first, chain), rest)| {
            let mut body = Vec::new();
            let mut kind = first;
            for (next, units, bytes, fragment) in chain {
                let len = match kind {
                    51 => 4 * (usize::from(units) + 2),
                    44 => 8,
                    _ => 8 + 8 * usize::from(units),
                };
                let at = body.len();
                body.extend([next, units]);
                body.extend(bytes);
                body[at + 2..at + 4].copy_from_slice(&[0, fragment]);
                body.resize(at + len, 7);
                kind = next;
            }
            body.extend(rest);
            let mut frame = vec![2; 12];
            (0..tags).for_each(|_| frame.extend([0x81, 0, 0, 5]));
            if is_ipv6 {
                frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
                frame.extend((body.len() as u16).to_be_bytes());
                frame.extend([first, 64]);
                frame.extend([9; 32]);
            } else {
                frame.extend([8, 0, 0x45, 0]);
                frame.extend((20 + body.len() as u16).to_be_bytes());
                frame.extend([0, 1, 0, 0, 64, first, 0, 0, 192, 0, 2, 1, 198, 51, 100, 2]);
            }
            frame.extend(body);
            frame
        },
    )
}

/// Protocol, offset of the payload, whether it is a fragment.
fn by_etherparse(frame: &[u8]) -> Option<(u8, usize, bool)> {
    let offset = |part: &[u8]| part.as_ptr() as usize - frame.as_ptr() as usize;
    let payload = match SlicedPacket::from_ethernet(frame).ok()?.net? {
        NetSlice::Ipv4(ip) => ip.payload().clone(),
        NetSlice::Ipv6(ip) => ip.payload().clone(),
        NetSlice::Arp(_) => return None,
    };
    Some((payload.ip_number.0, offset(payload.payload), payload.fragmented))
}

proptest! {
    #[test]
    fn etherparse_reads_a_packet_then_the_headers_are_the_same(frame in frames()) {
        let ours = Headers::parse(&frame);
        if let Some((protocol, at, is_fragment)) = by_etherparse(&frame) {
            match ours {
                Ok(headers) => {
                    prop_assert_eq!(headers.is_whole(), !is_fragment);
                    // Behind a fragment header etherparse reads on.
                    if headers.is_whole() {
                        prop_assert_eq!((headers.protocol, headers.transport_at), (protocol, at));
                    }
                }
                Err(error) => prop_assert_eq!(error, HeaderError::TooManyExtensions),
            }
        }
    }

    #[test]
    fn any_bytes_then_no_offset_lies_outside(
        mut bytes in prop::collection::vec(any::<u8>(), 0..160), kind in 0usize..3, next in 0usize..6,
    ) {
        let start: &[u8] = [&[8, 0][..], &[0x86, 0xdd, 0x60], &[]][kind];
        if let Some(place) = bytes.get_mut(12..12 + start.len()) {
            place.copy_from_slice(start);
        }
        let next = [0, 43, 44, 51, 60, 17][next];
        for at in [20, 23, 54, 62] {
            bytes.get_mut(at).into_iter().for_each(|place| *place = next);
        }
        if let Ok(headers) = Headers::parse(&bytes) {
            prop_assert!(headers.ip_at < headers.transport_at && headers.transport_at <= bytes.len());
            let address_bytes = if headers.is_ipv6 { 16 } else { 4 };
            prop_assert!(headers.final_destination_at.is_none_or(|at| at + address_bytes <= headers.transport_at));
            prop_assert!(headers.payload_at(&bytes).is_none_or(|at| at <= bytes.len()));
            prop_assert_eq!(headers.pseudo_sum(&bytes, 0).is_some(), headers.final_destination_at.is_some());
            prop_assert_eq!(Headers::parse_ip(&bytes, headers.ip_at), Ok(headers));
        }
    }

    #[test]
    fn etherparse_writes_a_checksum_then_the_pseudo_sum_agrees(
        is_ipv6: bool, is_tcp: bool, addresses: ([u8; 16], [u8; 16]), payload in prop::collection::vec(any::<u8>(), 0..90),
    ) {
        let ethernet = etherparse::PacketBuilder::ethernet2([2; 6], [4; 6]);
        let (from, to) = addresses;
        let short = |bytes: [u8; 16]| [bytes[0], bytes[1], bytes[2], bytes[3]];
        let ip = if is_ipv6 { ethernet.ipv6(from, to, 9) } else { ethernet.ipv4(short(from), short(to), 9) };
        let mut frame = Vec::new();
        if is_tcp { ip.tcp(7, 9, 1, 2).write(&mut frame, &payload) } else { ip.udp(7, 9).write(&mut frame, &payload) }.unwrap();
        let headers = Headers::parse(&frame).unwrap();
        prop_assert_eq!(headers.addresses(&frame), headers.source(&frame).zip(headers.destination(&frame)));
        prop_assert_eq!(headers.destination(&frame).unwrap(), if is_ipv6 { IpAddr::from(to) } else { IpAddr::from(short(to)) });
        let len = headers.transport_len(&frame).unwrap();
        prop_assert_eq!(headers.payload_at(&frame), Some(frame.len() - payload.len()));
        prop_assert_eq!(fold(headers.pseudo_sum(&frame, len).unwrap() + sum(&frame[headers.transport_at..])), 0xffff);
        let ports = match SlicedPacket::from_ethernet(&frame).unwrap().transport.unwrap() {
            TransportSlice::Tcp(tcp) => (tcp.source_port(), tcp.destination_port()),
            TransportSlice::Udp(udp) => (udp.source_port(), udp.destination_port()),
            _ => unreachable!(),
        };
        prop_assert_eq!(headers.ports(&frame), Some(ports));
    }
}
