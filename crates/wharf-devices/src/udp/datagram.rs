//! The UDP datagram in a frame: RFC 768, 791, 8200.

use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use wharf_packet::{Headers, UDP, UDP_BYTES, word};

/// Reason: the frame is no whole UDP datagram that a socket can send. It has another protocol, is a fragment,
/// has headers cut short, a routing header with segments left, or an authentication header.
pub(super) const NOT_UDP: &str = "not-udp";
/// Reason: the frame's lengths contradict each other.
pub(super) const MALFORMED: &str = "malformed";

/// Locally administered MAC address; its last four bytes name the interface that a datagram came by.
pub(super) const INTERFACE_MAC: [u8; 2] = [0x02, 0x57];

/// A datagram in a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Datagram {
    headers: Headers,
    pub(super) payload_at: usize,
    pub(super) payload_bytes: usize,
}

impl Datagram {
    /// Finds the datagram in a frame of `len_bytes` that begins with `first`, which holds all headers.
    ///
    /// # Errors
    /// [`NOT_UDP`], [`MALFORMED`].
    #[inline]
    pub(super) fn find(first: &[u8], len_bytes: usize) -> Result<Self, &'static str> {
        let headers = Headers::parse(first).map_err(|_| NOT_UDP)?;
        // A socket can send neither: the datagram would go to a router on the way, or without its
        // authentication.
        let is_plain = !headers.is_source_routed() && !headers.is_authenticated;
        if headers.protocol != UDP || !is_plain {
            return Err(NOT_UDP);
        }
        let payload_at = headers.payload_at(first).ok_or(NOT_UDP)?;
        let udp_at = headers.transport_at;
        let udp_bytes = word(first, udp_at + 4).map(usize::from).ok_or(NOT_UDP)?;
        let end = headers.packet_end(first).ok_or(NOT_UDP)?;
        // Padding may follow the packet. Bytes of the packet behind the datagram are ignored.
        if end > len_bytes || udp_at + udp_bytes > end || udp_bytes < UDP_BYTES {
            return Err(MALFORMED);
        }
        Ok(Self { headers, payload_at, payload_bytes: udp_bytes - UDP_BYTES })
    }

    /// Returns the source address, and the destination with its port, from the start of the frame in which
    /// the datagram was found.
    pub(super) fn ends(&self, first: &[u8]) -> Option<(IpAddr, SocketAddr)> {
        let (_, port) = self.headers.ports(first)?;
        let (source, destination) = self.headers.addresses(first)?;
        let destination = match destination {
            IpAddr::V4(address) => (address, port).into(),
            IpAddr::V6(address) => {
                // A link-local address names a host only together with an interface.
                let scope = if address.is_unicast_link_local() { interface_of(first) } else { 0 };
                SocketAddrV6::new(address, port, 0, scope).into()
            }
        };
        Some((source, destination))
    }
}

/// Returns the interface that the destination's MAC address names, if it is one of ours.
fn interface_of(frame: &[u8]) -> u32 {
    match frame.first_chunk::<6>() {
        Some([a, b, number @ ..]) if [*a, *b] == INTERFACE_MAC => u32::from_be_bytes(*number),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::PacketBuilder;
    use proptest::prelude::*;
    use std::net::Ipv6Addr;

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
}
