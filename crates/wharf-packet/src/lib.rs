//! Packet headers: Ethernet with VLAN tags, IPv4, IPv6 with its extension headers, and what they carry.
//!
//! Everything here works on `&[u8]` or `&mut [u8]` that begins with an Ethernet header, without preamble and
//! frame check sequence. No function allocates, panics on the bytes of a packet, or needs `std`. Examples
//! name it `wharf::net`, as a user of the crate `wharf` does.
//!
//! - [`Headers`] has the offsets of all headers: the parser;
//! - [`ip_packet`] finds the IP packet behind up to two VLAN tags;
//! - [`traffic_class`], [`dscp`], [`ecn`] read the TOS byte, [`mark_ce`] sets Congestion Experienced (RFC
//!   3168);
//! - [`flow_hash`] and [`QueueMap`] spread flows over queues;
//! - [`tunnel`] finds the packet inside VXLAN, Geneve, GRE and IP in IP;
//! - [`EthernetHeader`], [`IpHeader`] and [`UdpHeader`] write headers, [`UdpHeaders`] those of a flow of
//!   datagrams, or of an answer; [`Datagram`] reads one;
//! - [`gso`] segments super-packets: the plan, and the headers of each segment;
//! - [`checksum`] has the Internet checksum (RFC 1071), its incremental update (RFC 1624) and SCTP's CRC-32C.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

mod build;
pub mod checksum;
mod datagram;
mod ecn;
mod ether;
mod extensions;
mod flow;
mod front;
pub mod gso;
mod headers;
mod ip;
pub mod tunnel;
mod udp_headers;

pub use build::{EthernetHeader, IPV4_CHECKSUM_AT, IPV4_IDENTIFICATION_AT, IpHeader, UdpHeader};
pub use datagram::Datagram;
pub use ecn::{Ecn, dscp, ecn, mark_ce, traffic_class};
pub use ether::{
    ETHERNET_BYTES, ETHERTYPE_IPV4, ETHERTYPE_IPV6, ETHERTYPE_QINQ, ETHERTYPE_VLAN, IpPacket, VLAN_BYTES,
    VLAN_TAGS_MAX, ip_packet,
};
pub use extensions::EXTENSIONS_MAX;
pub use flow::{QueueMap, flow_hash, flow_hash_seeded, index_of};
pub use front::{Front, NoRoom};
pub use headers::{Headers, SCTP, SCTP_BYTES, TCP, TCP_BYTES, TCP_FLAGS_AT, TCP_LENGTH_AT, UDP, UDP_BYTES};
pub use ip::{Fragment, HeaderError, IPV4_BYTES, IPV6_BYTES};
pub use udp_headers::UdpHeaders;

/// Reads the big-endian 16-bit number at `at`; `None` where `bytes` ends before it.
#[inline(always)]
pub fn word(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]))
}

/// Writes a big-endian 16-bit number at `at`, where `bytes` has room for it.
#[doc(hidden)]
#[inline]
pub fn put_word(bytes: &mut [u8], at: usize, number: u16) {
    bytes[at..at + 2].copy_from_slice(&number.to_be_bytes());
}

/// Replaces the word at `at` of an IP header, and updates IPv4's checksum for it (RFC 1624).
#[doc(hidden)]
#[inline]
pub fn replace_ip_word(ip: &mut [u8], is_ipv4: bool, at: usize, new: u16) {
    let number = |ip: &[u8], at: usize| u16::from_be_bytes([ip[at], ip[at + 1]]);
    let old = number(ip, at);
    put_word(ip, at, new);
    if is_ipv4 && old != new {
        let checksum = checksum::update(number(ip, IPV4_CHECKSUM_AT), old, new);
        put_word(ip, IPV4_CHECKSUM_AT, checksum);
    }
}

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
