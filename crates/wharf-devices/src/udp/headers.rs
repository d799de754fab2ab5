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
pub const HEADERS_BYTES_MAX: usize = ETHERNET_BYTES + IPV6_BYTES + UDP_BYTES;
const IDENTIFICATION_AT: usize = ETHERNET_BYTES + IPV4_IDENTIFICATION_AT;
const CHECKSUM_AT: usize = ETHERNET_BYTES + IPV4_CHECKSUM_AT;

/// Headers of datagrams of one length between two ends, without the fields that differ from one to the next.
#[derive(Debug, Clone, Copy)]
pub struct Headers {
    bytes: [u8; HEADERS_BYTES_MAX],
    len_bytes: usize,
    /// Sums of the fields that the checksums cover, without identification and payload.
    ipv4_sum: u64,
    udp_sum: u64,
}

impl Headers {
    /// Makes the headers of datagrams of `payload_bytes`, at most 65 527, that came by interface number
    /// `interface`. Returns `None` if the two ends are of different IP versions.
    pub fn new(from: SocketAddr, to: SocketAddr, interface: u32, payload_bytes: usize) -> Option<Self> {
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

    pub fn len_bytes(&self) -> usize {
        self.len_bytes
    }

    /// Returns the headers of the datagram `payload`.
    #[inline]
    pub fn finish(&self, payload: &[u8], identification: u16) -> [u8; HEADERS_BYTES_MAX] {
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
