//! The headers around a datagram received: Ethernet, IPv4 or IPv6, UDP, with their checksums.
//!
//! The kernel has removed the real headers. Addresses and ports are true. MAC addresses are locally
//! administered; the source's names the interface. The identification counts up; the hop limit is 64.

use super::datagram::INTERFACE_MAC;
use std::net::SocketAddr;
use wharf_packet::checksum::{UDP_OFFSET, fold, from_sum, sum};
use wharf_packet::{
    ETHERNET_BYTES, EthernetHeader, IPV4_CHECKSUM_AT, IPV4_IDENTIFICATION_AT, IPV6_BYTES, IpHeader, UDP,
    UDP_BYTES, UdpHeader, word,
};

/// Bytes of the longest headers.
pub(super) const HEADERS_BYTES_MAX: usize = ETHERNET_BYTES + IPV6_BYTES + UDP_BYTES;
const IDENTIFICATION_AT: usize = ETHERNET_BYTES + IPV4_IDENTIFICATION_AT;
const CHECKSUM_AT: usize = ETHERNET_BYTES + IPV4_CHECKSUM_AT;

/// Headers of datagrams of one length between two ends, without the fields that differ from one to the next.
#[derive(Debug, Clone, Copy)]
pub(super) struct Headers {
    bytes: [u8; HEADERS_BYTES_MAX],
    len_bytes: usize,
    /// Sums of the fields that the checksums cover, without identification and payload.
    ipv4_sum: u64,
    udp_sum: u64,
}

impl Headers {
    /// Makes the headers of datagrams of `payload_bytes`, at most 65 527, that came by interface number
    /// `interface`. Returns `None` if the two ends are of different IP versions.
    pub(super) fn new(
        from: SocketAddr, to: SocketAddr, interface: u32, payload_bytes: usize,
    ) -> Option<Self> {
        let (mut bytes, udp_bytes) = ([0; HEADERS_BYTES_MAX], UDP_BYTES + payload_bytes);
        let ip = IpHeader::new(from.ip(), to.ip(), UDP);
        let (mut source, mut destination) = ([0; 6], [0; 6]);
        destination[..2].copy_from_slice(&INTERFACE_MAC);
        source[..2].copy_from_slice(&INTERFACE_MAC);
        source[2..].copy_from_slice(&interface.to_be_bytes());
        let ethernet = EthernetHeader { destination, source, vlan: None, ethertype: ip.ethertype() };
        let mut at = ethernet.write(&mut bytes)?;
        at += ip.write(&mut bytes[at..], udp_bytes)?;
        let udp = UdpHeader { source: from.port(), destination: to.port() };
        let len_bytes = at + udp.write(&mut bytes[at..], payload_bytes)?;
        let ipv4_sum = if from.is_ipv4() { u64::from(!word(&bytes, CHECKSUM_AT)?) } else { 0 };
        let udp_sum = ip.pseudo_sum(udp_bytes) + sum(&bytes[at..len_bytes]);
        Some(Self { bytes, len_bytes, ipv4_sum, udp_sum })
    }

    pub(super) fn len_bytes(&self) -> usize {
        self.len_bytes
    }

    /// Returns the headers of the datagram `payload`.
    #[inline]
    pub(super) fn finish(&self, payload: &[u8], identification: u16) -> [u8; HEADERS_BYTES_MAX] {
        let mut bytes = self.bytes;
        if self.ipv4_sum != 0 {
            bytes[IDENTIFICATION_AT..IDENTIFICATION_AT + 2].copy_from_slice(&identification.to_be_bytes());
            let checksum = !fold(self.ipv4_sum + u64::from(identification));
            bytes[CHECKSUM_AT..CHECKSUM_AT + 2].copy_from_slice(&checksum.to_be_bytes());
        }
        let checksum = from_sum(self.udp_sum + sum(payload), UDP_OFFSET);
        let at = self.len_bytes - UDP_BYTES + UDP_OFFSET;
        bytes[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::super::datagram::Datagram;
    use super::*;
    use etherparse::{NetSlice, SlicedPacket, TransportSlice};
    use proptest::prelude::*;
    use std::net::IpAddr;

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
                let right =
                    udp.to_header().calc_checksum_ipv4_raw(header.source, header.destination, payload);
                assert_eq!(udp.checksum(), right.unwrap());
            }
            NetSlice::Ipv6(ip) => {
                let header = ip.header().to_header();
                assert_eq!(header.payload_length as usize, frame.len() - 54);
                let Some(TransportSlice::Udp(udp)) = packet.transport else { panic!() };
                let right =
                    udp.to_header().calc_checksum_ipv6_raw(header.source, header.destination, payload);
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
}
