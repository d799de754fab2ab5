//! Packets that seven parsers disagreed about, and the one answer for each.

mod packets;

use packets::{Odd, odd_packets, udp};
use std::net::IpAddr;
use wharf_packet::{HeaderError, Headers};

fn last_byte(frame: &[u8], headers: &Headers) -> Option<u8> {
    headers.final_destination_at.map(|at| frame[at + if headers.is_ipv6 { 15 } else { 3 }])
}

#[test]
fn odd_packet_then_its_transport_is_found_or_refused() {
    for Odd { name, frame, transport } in odd_packets() {
        let headers = Headers::parse(&frame).ok().filter(Headers::is_whole);
        let found =
            headers.map(|headers| (headers.transport_at, headers.protocol, last_byte(&frame, &headers)));
        assert_eq!(found, transport, "{name}");
        let Some(headers) = headers.filter(|headers| matches!(headers.protocol, 17 | 132)) else { continue };
        assert_eq!(headers.ports(&frame), Some((7, 9)), "{name}");
        assert_eq!(headers.transport_len(&frame), Some(udp().len()), "{name}");
        assert_eq!(headers.packet_end(&frame), Some(frame.len()), "{name}");
        let destination = if headers.is_ipv6 { "2001:db8::2" } else { "198.51.100.2" };
        assert_eq!(headers.destination(&frame), destination.parse::<IpAddr>().ok(), "{name}");
        let routed = last_byte(&frame, &headers) != Some(2);
        assert_eq!(headers.is_source_routed(), routed, "{name}");
        assert_eq!(headers.is_authenticated, name.contains("authentication"), "{name}");
    }
}

#[test]
fn packet_cut_at_each_byte_then_headers_are_whole_or_an_error() {
    for Odd { name, frame, .. } in odd_packets() {
        let whole = Headers::parse(&frame);
        for len in 0..frame.len() {
            let cut = Headers::parse(&frame[..len]);
            match whole {
                Ok(headers) if len >= headers.transport_at => assert_eq!(cut, whole, "{name}, {len} bytes"),
                Ok(headers) => {
                    let expected =
                        if len <= headers.ip_at { HeaderError::NotIp } else { HeaderError::Truncated };
                    assert_eq!(cut, Err(expected), "{name}, {len} bytes");
                }
                Err(_) => assert!(cut.is_err(), "{name}, {len} bytes"),
            }
            if let Ok(headers) = cut {
                assert!(headers.payload_at(&frame[..len]).is_none_or(|at| at <= len));
                headers.ports(&frame[..len]);
                headers.pseudo_sum(&frame[..len], 9);
            }
        }
    }
}
