//! Where the UDP datagram lies in a frame: RFC 768, 791, 8200.

use crate::headers::{
    DESTINATION_OPTIONS, HOP_BY_HOP, IPV4_BYTES, IPV6_BYTES, ROUTING, UDP, UDP_BYTES, word,
};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use wharf_packet::{IpPacket, ip_packet};

/// How many IPv6 extension headers before it are looked through.
const EXTENSIONS_MAX: usize = 8;

/// The frame is something else than one whole UDP datagram: another protocol, a fragment, headers cut short.
pub(super) const NOT_UDP: &str = "not-udp";
/// Its lengths contradict each other.
pub(super) const MALFORMED: &str = "malformed";

/// A MAC address of ours that names the interface which a datagram came by, in its last four bytes.
pub(super) const INTERFACE_MAC: [u8; 2] = [0x02, 0x57];

/// A datagram in a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Datagram {
    is_ipv6: bool,
    ip_at: usize,
    pub(super) payload_at: usize,
    pub(super) payload_bytes: usize,
}

impl Datagram {
    /// In a frame of `len_bytes`, whose first bytes, headers and all, are `first`.
    #[inline]
    pub(super) fn find(first: &[u8], len_bytes: usize) -> Result<Self, &'static str> {
        let (is_ipv6, ip, udp_at) = match ip_packet(first) {
            Some(IpPacket::V4(ip)) => (false, ip, ipv4_header_bytes(ip)),
            Some(IpPacket::V6(ip)) => (true, ip, ipv6_header_bytes(ip)),
            None => return Err(NOT_UDP),
        };
        let udp_at = udp_at.ok_or(NOT_UDP)?;
        let udp_bytes =
            length_at(ip, udp_at + 4).filter(|_| ip.len() >= udp_at + UDP_BYTES).ok_or(NOT_UDP)?;
        let ip_at = first.len() - ip.len();
        let ip_bytes =
            if is_ipv6 { length_at(ip, 4).map(|bytes| IPV6_BYTES + bytes) } else { length_at(ip, 2) };
        let ip_bytes = ip_bytes.ok_or(NOT_UDP)?;
        // Behind the packet there may be padding, behind the datagram nothing that is ours to judge.
        if ip_at + ip_bytes > len_bytes || udp_at + udp_bytes > ip_bytes || udp_bytes < UDP_BYTES {
            return Err(MALFORMED);
        }
        let payload_at = ip_at + udp_at + UDP_BYTES;
        Ok(Self { is_ipv6, ip_at, payload_at, payload_bytes: udp_bytes - UDP_BYTES })
    }

    /// Source address, and destination with its port, in the frame that it was found in.
    pub(super) fn ends(&self, first: &[u8]) -> Option<(IpAddr, SocketAddr)> {
        let port = first.get(self.payload_at - UDP_BYTES + 2..)?.first_chunk::<2>()?;
        let port = u16::from_be_bytes(*port);
        let addresses = first.get(self.ip_at + if self.is_ipv6 { 8 } else { 12 }..)?;
        if !self.is_ipv6 {
            let [source, destination]: [[u8; 4]; 2] =
                [*addresses.first_chunk()?, *addresses.get(4..)?.first_chunk()?];
            return Some((Ipv4Addr::from(source).into(), (Ipv4Addr::from(destination), port).into()));
        }
        let [source, destination]: [[u8; 16]; 2] =
            [*addresses.first_chunk()?, *addresses.get(16..)?.first_chunk()?];
        let destination = Ipv6Addr::from(destination);
        // Only together with an interface does such an address say where to.
        let scope = if destination.is_unicast_link_local() { interface_of(first) } else { 0 };
        Some((Ipv6Addr::from(source).into(), SocketAddrV6::new(destination, port, 0, scope).into()))
    }
}

/// The interface that the destination's MAC address names, where it is one of ours.
fn interface_of(frame: &[u8]) -> u32 {
    match frame.first_chunk::<6>() {
        Some([a, b, number @ ..]) if [*a, *b] == INTERFACE_MAC => u32::from_be_bytes(*number),
        _ => 0,
    }
}

#[inline]
fn length_at(bytes: &[u8], at: usize) -> Option<usize> {
    word(bytes, at).map(usize::from)
}

/// Bytes before the UDP header; `None` where none follows, or not all of it.
#[inline]
fn ipv4_header_bytes(ip: &[u8]) -> Option<usize> {
    let header: &[u8; IPV4_BYTES] = ip.first_chunk()?;
    let bytes = usize::from(header[0] & 0xf) * 4;
    // More fragments, or not the first one.
    let is_fragment = word(header, 6)? & 0x3fff != 0;
    (header[0] >> 4 == 4 && bytes >= IPV4_BYTES && header[9] == UDP && !is_fragment).then_some(bytes)
}

/// The same, past extension headers: of a fragment, none follows.
#[inline]
fn ipv6_header_bytes(ip: &[u8]) -> Option<usize> {
    let header: &[u8; IPV6_BYTES] = ip.first_chunk()?;
    let (mut next, mut at) = (header[6], IPV6_BYTES);
    for _ in 0..EXTENSIONS_MAX {
        match next {
            UDP => return (header[0] >> 4 == 6).then_some(at),
            HOP_BY_HOP | ROUTING | DESTINATION_OPTIONS => {
                let [following, units] = *ip.get(at..)?.first_chunk()?;
                (next, at) = (following, at + 8 + 8 * usize::from(units));
            }
            _ => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::PacketBuilder;
    use proptest::prelude::*;

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
            // Ethernet's least is 60 bytes: what lies behind the packet is none of it.
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
    fn what_is_no_datagram_says_so() {
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
