//! Ethernet II headers (IEEE 802.3) and VLAN tags (IEEE 802.1Q).

use crate::word;

/// Bytes of an Ethernet header: destination, source, EtherType.
pub const ETHERNET_BYTES: usize = 14;
/// Bytes of one VLAN tag.
pub const VLAN_BYTES: usize = 4;
/// VLAN tags that are read past; a frame with more counts as not IP.
pub const VLAN_TAGS_MAX: usize = 2;
/// EtherType of IPv4.
pub const ETHERTYPE_IPV4: u16 = 0x0800;
/// EtherType of IPv6.
pub const ETHERTYPE_IPV6: u16 = 0x86dd;
/// EtherType of a VLAN tag (802.1Q, the C-tag).
pub const ETHERTYPE_VLAN: u16 = 0x8100;
/// EtherType of a service VLAN tag (802.1ad, the S-tag).
pub const ETHERTYPE_QINQ: u16 = 0x88a8;

/// The IP packet of an Ethernet frame: the bytes from the IP header to the frame's end, padding included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IpPacket<'a> {
    /// IPv4 (RFC 791): at least one byte, whose upper half is 4.
    V4(&'a [u8]),
    /// IPv6 (RFC 8200): at least one byte, whose upper half is 6.
    V6(&'a [u8]),
}

impl<'a> IpPacket<'a> {
    /// Returns the bytes from the IP header on.
    #[inline]
    pub fn bytes(self) -> &'a [u8] {
        match self {
            IpPacket::V4(ip) | IpPacket::V6(ip) => ip,
        }
    }
}

/// Finds the IP packet behind up to [`VLAN_TAGS_MAX`] VLAN tags.
///
/// Returns `None` for another EtherType, and where the version in the first byte contradicts the EtherType.
/// The packet may be cut short anywhere behind that byte.
#[inline(always)]
pub fn ip_packet(frame: &[u8]) -> Option<IpPacket<'_>> {
    by_ethertype(frame).filter(|packet| match packet {
        IpPacket::V4(ip) => ip.first().is_some_and(|first| first >> 4 == 4),
        IpPacket::V6(ip) => ip.first().is_some_and(|first| first >> 4 == 6),
    })
}

/// The packet by its EtherType alone: the version is not looked at, and the packet may be empty.
#[inline(always)]
pub(crate) fn by_ethertype(frame: &[u8]) -> Option<IpPacket<'_>> {
    let mut at = ETHERNET_BYTES;
    for _ in 0..=VLAN_TAGS_MAX {
        match word(frame, at - 2)? {
            ETHERTYPE_IPV4 => return frame.get(at..).map(IpPacket::V4),
            ETHERTYPE_IPV6 => return frame.get(at..).map(IpPacket::V6),
            ETHERTYPE_VLAN | ETHERTYPE_QINQ => at += VLAN_BYTES,
            _ => return None,
        }
    }
    None
}
