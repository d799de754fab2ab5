//! Lengths and numbers of the headers that frames begin with: RFC 768 (UDP), 791 (IPv4), 8200 (IPv6); IANA, protocol numbers.

pub(crate) const ETHERNET_BYTES: usize = 14;
pub(crate) const VLAN_BYTES: usize = 4;
/// Without options.
pub(crate) const IPV4_BYTES: usize = 20;
/// Without extension headers.
pub(crate) const IPV6_BYTES: usize = 40;
pub(crate) const UDP_BYTES: usize = 8;

pub(crate) const TCP: u8 = 6;
pub(crate) const UDP: u8 = 17;
/// Extension headers of IPv6.
pub(crate) const HOP_BY_HOP: u8 = 0;
pub(crate) const ROUTING: u8 = 43;
pub(crate) const DESTINATION_OPTIONS: u8 = 60;

/// The number of two bytes at `at`; `None` where they are not all there.
#[inline]
pub(crate) fn word(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}
