//! Lengths and numbers of the headers that frames begin with: RFC 768 (UDP), 791 (IPv4), 8200 (IPv6); IANA, protocol numbers.

/// Ethernet header.
pub const ETHERNET_BYTES: usize = 14;
/// One VLAN tag.
pub const VLAN_BYTES: usize = 4;
/// IPv4 header without options.
pub const IPV4_BYTES: usize = 20;
/// IPv6 header without extension headers.
pub const IPV6_BYTES: usize = 40;
/// UDP header.
pub const UDP_BYTES: usize = 8;

/// Protocol number of TCP.
pub const TCP: u8 = 6;
/// Protocol number of UDP.
pub const UDP: u8 = 17;
/// Hop-by-hop options, an extension header of IPv6.
pub const HOP_BY_HOP: u8 = 0;
/// Routing, an extension header of IPv6.
pub const ROUTING: u8 = 43;
/// Destination options, an extension header of IPv6.
pub const DESTINATION_OPTIONS: u8 = 60;

/// Returns the two bytes at `at` as a number, or `None` if the slice ends before them.
#[inline]
pub fn word(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}
