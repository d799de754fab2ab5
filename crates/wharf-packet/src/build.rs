//! Headers to write: Ethernet, IPv4, IPv6, UDP.

use crate::checksum::{fold, sum};
use crate::{
    ETHERNET_BYTES, ETHERTYPE_IPV4, ETHERTYPE_IPV6, ETHERTYPE_VLAN, IPV4_BYTES, IPV6_BYTES, UDP_BYTES,
    VLAN_BYTES,
};
use core::net::IpAddr;

/// Offset of the identification in an IPv4 header.
pub const IPV4_IDENTIFICATION_AT: usize = 4;
/// Offset of the checksum in an IPv4 header.
pub const IPV4_CHECKSUM_AT: usize = 10;

/// An Ethernet header, with a VLAN tag (IEEE 802.1Q) or without.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EthernetHeader {
    /// Destination MAC address.
    pub destination: [u8; 6],
    /// Source MAC address.
    pub source: [u8; 6],
    /// Tag control information: priority (3 bits), DEI, VLAN identifier (12 bits).
    pub vlan: Option<u16>,
    /// EtherType of the payload.
    pub ethertype: u16,
}

impl EthernetHeader {
    /// Returns the bytes of the header: 14 or 18.
    pub fn len_bytes(&self) -> usize {
        ETHERNET_BYTES + if self.vlan.is_some() { VLAN_BYTES } else { 0 }
    }

    /// Writes the header to the start of `to` and returns its length in bytes; `None` if `to` is too short.
    pub fn write(&self, to: &mut [u8]) -> Option<usize> {
        let to = to.get_mut(..self.len_bytes())?;
        to[..6].copy_from_slice(&self.destination);
        to[6..12].copy_from_slice(&self.source);
        if let Some(vlan) = self.vlan {
            to[12..14].copy_from_slice(&ETHERTYPE_VLAN.to_be_bytes());
            to[14..16].copy_from_slice(&vlan.to_be_bytes());
        }
        let at = to.len() - 2;
        to[at..].copy_from_slice(&self.ethertype.to_be_bytes());
        Some(to.len())
    }
}

/// An IPv4 header without options or an IPv6 header without extension headers, by the version of its
/// addresses.
///
/// ```
/// # mod wharf { pub use wharf_packet as net; }
/// use wharf::net::{Headers, IpHeader, UDP};
///
/// let ip = IpHeader::new([192, 0, 2, 1].into(), [198, 51, 100, 1].into(), UDP);
/// let mut bytes = [0; 20];
/// assert_eq!(ip.write(&mut bytes, 26), Some(20));
/// let headers = Headers::parse_ip(&bytes, 0)?;
/// assert_eq!((headers.protocol, headers.transport_len(&bytes)), (UDP, Some(26)));
/// # Ok::<(), wharf_packet::HeaderError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IpHeader {
    /// Source address.
    pub source: IpAddr,
    /// Destination address, of the same version.
    pub destination: IpAddr,
    /// Protocol of the payload (IANA, protocol numbers).
    pub protocol: u8,
    /// TOS byte or traffic class: DSCP and ECN.
    pub traffic_class: u8,
    /// Time to live or hop limit; 64 by default.
    pub hop_limit: u8,
    /// IPv4's identification; IPv6 has none.
    pub identification: u16,
    /// IPv4's "don't fragment" flag; IPv6 has none.
    pub dont_fragment: bool,
}

impl IpHeader {
    /// Makes a header with hop limit 64, that may be fragmented, and zeros in the other fields.
    pub fn new(source: IpAddr, destination: IpAddr, protocol: u8) -> Self {
        let (traffic_class, hop_limit, identification, dont_fragment) = (0, 64, 0, false);
        Self { source, destination, protocol, traffic_class, hop_limit, identification, dont_fragment }
    }

    /// Returns the bytes of the header: 20 or 40.
    pub fn len_bytes(&self) -> usize {
        if self.source.is_ipv4() { IPV4_BYTES } else { IPV6_BYTES }
    }

    /// Returns the EtherType of the packet.
    pub fn ethertype(&self) -> u16 {
        if self.source.is_ipv4() { ETHERTYPE_IPV4 } else { ETHERTYPE_IPV6 }
    }

    /// Writes the header of a packet with `payload_bytes` to the start of `to`, IPv4's checksum included, and
    /// returns its length in bytes.
    ///
    /// `None` if `to` is too short, the versions of the addresses differ, or the length does not fit its
    /// 16-bit field.
    pub fn write(&self, to: &mut [u8], payload_bytes: usize) -> Option<usize> {
        let to = to.get_mut(..self.len_bytes())?;
        match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let total = u16::try_from(payload_bytes + IPV4_BYTES).ok()?;
                to[..2].copy_from_slice(&[0x45, self.traffic_class]);
                to[2..4].copy_from_slice(&total.to_be_bytes());
                to[4..6].copy_from_slice(&self.identification.to_be_bytes());
                let flags = if self.dont_fragment { 0x40 } else { 0 };
                to[6..12].copy_from_slice(&[flags, 0, self.hop_limit, self.protocol, 0, 0]);
                to[12..16].copy_from_slice(&source.octets());
                to[16..20].copy_from_slice(&destination.octets());
                let checksum = !fold(sum(to));
                to[IPV4_CHECKSUM_AT..IPV4_CHECKSUM_AT + 2].copy_from_slice(&checksum.to_be_bytes());
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let payload = u16::try_from(payload_bytes).ok()?;
                to[..4].copy_from_slice(&[0x60 | self.traffic_class >> 4, self.traffic_class << 4, 0, 0]);
                to[4..6].copy_from_slice(&payload.to_be_bytes());
                to[6..8].copy_from_slice(&[self.protocol, self.hop_limit]);
                to[8..24].copy_from_slice(&source.octets());
                to[24..40].copy_from_slice(&destination.octets());
            }
            _ => return None,
        }
        Some(to.len())
    }

    /// Sums up the pseudo header of a payload of `payload_bytes`, to be [`fold`]ed.
    pub fn pseudo_sum(&self, payload_bytes: usize) -> u64 {
        let address = |address: IpAddr| match address {
            IpAddr::V4(address) => sum(&address.octets()),
            IpAddr::V6(address) => sum(&address.octets()),
        };
        address(self.source) + address(self.destination) + u64::from(self.protocol) + payload_bytes as u64
    }
}

/// A UDP header (RFC 768).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UdpHeader {
    /// Source port.
    pub source: u16,
    /// Destination port.
    pub destination: u16,
}

impl UdpHeader {
    /// Writes the header of a datagram with `payload_bytes` to the start of `to`, with checksum 0, and
    /// returns its length, 8.
    ///
    /// `None` if `to` is too short or the length does not fit its 16-bit field.
    pub fn write(&self, to: &mut [u8], payload_bytes: usize) -> Option<usize> {
        let to: &mut [u8; UDP_BYTES] = to.first_chunk_mut()?;
        let len = u16::try_from(payload_bytes + UDP_BYTES).ok()?;
        to[..2].copy_from_slice(&self.source.to_be_bytes());
        to[2..4].copy_from_slice(&self.destination.to_be_bytes());
        to[4..6].copy_from_slice(&len.to_be_bytes());
        to[6..].fill(0);
        Some(UDP_BYTES)
    }
}
