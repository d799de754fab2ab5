//! Super-packets, made and looked at.

use etherparse::{SlicedPacket, TransportSlice};
use wharf_mem::Meta;
use wharf_packet::gso::{GSO_TCPV6, GSO_UDP};
use wharf_testkit::end::End;
use wharf_testkit::packets::Shape;

/// Source address and TCP or UDP payload with its sequence number, of a frame whose checksums are all good.
pub fn opened(frame: &[u8]) -> Option<([u8; 4], u32, Vec<u8>)> {
    let sliced = SlicedPacket::from_ethernet(frame).unwrap();
    let Some(etherparse::NetSlice::Ipv4(ip)) = &sliced.net else { return None };
    let header = ip.header().to_header();
    assert_eq!(header.header_checksum, header.calc_header_checksum());
    let (sequence, payload, checksum, right) = match sliced.transport? {
        TransportSlice::Tcp(tcp) => {
            let right =
                tcp.to_header().calc_checksum_ipv4_raw(header.source, header.destination, tcp.payload());
            (tcp.sequence_number(), tcp.payload().to_vec(), tcp.checksum(), right)
        }
        TransportSlice::Udp(udp) => {
            let right =
                udp.to_header().calc_checksum_ipv4_raw(header.source, header.destination, udp.payload());
            (0, udp.payload().to_vec(), udp.checksum(), right)
        }
        _ => return None,
    };
    assert_eq!(checksum % 0xffff, right.unwrap() % 0xffff, "{} bytes", frame.len());
    Some((header.source, sequence, payload))
}

/// A super-packet with headers like the kernel's.
pub fn super_packet(kind: u8, payload: usize) -> (Vec<u8>, Meta) {
    let (is_ipv6, is_udp) = (kind == GSO_TCPV6, kind == GSO_UDP);
    Shape { is_ipv6, is_udp, tcp_options: 0, tcp_flags: 0x19, payload, ..Shape::default() }.packet()
}

/// Adds a packet as a chain of frames.
pub fn offer_chain(end: &mut End, bytes: &[u8], meta: &Meta) {
    end.offer_with(bytes, Some(meta));
}
