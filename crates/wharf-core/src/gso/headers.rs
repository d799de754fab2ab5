//! The headers of a super-packet: read once, and held to.

use super::{
    GSO_TCPV4, GSO_TCPV6, IPV4_BYTES, IPV6_BYTES, TCP, TCP_CHECKSUM_OFFSET, TCP_FLAGS_AT, UDP, UDP_BYTES,
};
use wharf_packet::checksum::{UDP_OFFSET, fold, sum};
use wharf_packet::{IpPacket, ip_packet};

const IPV6_HOP_BY_HOP: u8 = 0;
const IPV6_ROUTING: u8 = 43;
const IPV6_DESTINATION: u8 = 60;
/// Extension headers looked through.
const EXTENSIONS_MAX: usize = 8;
const IPV4_BYTES_MAX: usize = 60;
const TCP_BYTES_MAX: usize = 60;

/// Where they begin, bytes from the packet's start; all are there in full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Headers {
    pub(super) ip_at: usize,
    pub(super) transport_at: usize,
    pub(super) payload_at: usize,
    pub(super) is_ipv6: bool,
    pub(super) protocol: u8,
}

impl Headers {
    /// Of an Ethernet frame that begins with `start`, to be cut as `kind` says; or what is wrong with them.
    pub(super) fn read(start: &[u8], kind: u8) -> Result<Self, &'static str> {
        let (is_ipv6, protocol) = match (kind, ip_packet(start)) {
            (GSO_TCPV4, Some(IpPacket::V4(_))) => (false, TCP),
            (GSO_TCPV6, Some(IpPacket::V6(_))) => (true, TCP),
            (GSO_TCPV4 | GSO_TCPV6, _) | (_, None) => return Err("another version of IP, or none"),
            (_, Some(ip)) => (matches!(ip, IpPacket::V6(_)), UDP),
        };
        let Some(IpPacket::V4(ip) | IpPacket::V6(ip)) = ip_packet(start) else { return Err("no IP") };
        let ip_at = start.len() - ip.len();
        let ip_bytes =
            if is_ipv6 { ipv6_header_bytes(ip, protocol) } else { ipv4_header_bytes(ip, protocol) };
        let transport_at = ip_at + ip_bytes?;
        let transport = start.get(transport_at..).unwrap_or_default();
        let payload_at = transport_at + transport_bytes(transport, protocol)?;
        Ok(Self { ip_at, transport_at, payload_at, is_ipv6, protocol })
    }

    /// Sum of the IPv4 header without total length, identification and checksum; 0 for IPv6, which has no checksum.
    pub(super) fn ip_sum(&self, start: &[u8]) -> u64 {
        if self.is_ipv6 {
            return 0;
        }
        let mut ip = [0; IPV4_BYTES_MAX];
        ip[..self.transport_at - self.ip_at].copy_from_slice(&start[self.ip_at..self.transport_at]);
        ip[2..6].fill(0);
        ip[10..12].fill(0);
        sum(&ip)
    }

    /// Sum of the pseudo header, without the length.
    pub(super) fn pseudo_sum(&self, start: &[u8]) -> u64 {
        let addresses = if self.is_ipv6 { 8..IPV6_BYTES } else { 12..IPV4_BYTES };
        sum(&start[self.ip_at..][addresses]) + u64::from(self.protocol)
    }

    /// Sum of the transport's header, without lengths, sequence number, flags and checksum.
    pub(super) fn transport_sum(&self, start: &[u8]) -> u64 {
        let mut header = [0; TCP_BYTES_MAX];
        header[..self.payload_at - self.transport_at]
            .copy_from_slice(&start[self.transport_at..self.payload_at]);
        if self.protocol == TCP {
            header[4..8].fill(0);
            header[TCP_FLAGS_AT - 1..=TCP_FLAGS_AT].fill(0);
            header[TCP_CHECKSUM_OFFSET..TCP_CHECKSUM_OFFSET + 2].fill(0);
        } else {
            header[4..UDP_BYTES].fill(0);
        }
        sum(&header)
    }

    /// As both, where the sum of the pseudo header stands in place of the checksum: with the length of all, which goes out.
    pub(super) fn finished_sum(&self, start: &[u8], len_bytes: usize) -> u64 {
        let transport = &start[self.transport_at..];
        let word = |at: usize| u16::from_be_bytes([transport[at], transport[at + 1]]);
        let (pseudo, len) = match self.protocol {
            TCP => (word(TCP_CHECKSUM_OFFSET), fold((len_bytes - self.transport_at) as u64)),
            _ => (word(UDP_OFFSET), word(4)),
        };
        u64::from(pseudo) + u64::from(!len) + self.transport_sum(start)
    }
}

fn ipv4_header_bytes(ip: &[u8], protocol: u8) -> Result<usize, &'static str> {
    let header: &[u8; IPV4_BYTES] = ip.first_chunk().ok_or("IPv4 header cut short")?;
    let bytes = usize::from(header[0] & 0xf) * 4;
    if header[0] >> 4 != 4 || bytes < IPV4_BYTES || bytes > ip.len() {
        return Err("IPv4 header of a wrong length");
    }
    if header[9] != protocol {
        return Err("another protocol");
    }
    // More fragments, or not the first one.
    if u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0 {
        return Err("a fragment");
    }
    Ok(bytes)
}

fn ipv6_header_bytes(ip: &[u8], protocol: u8) -> Result<usize, &'static str> {
    let header: &[u8; IPV6_BYTES] = ip.first_chunk().ok_or("IPv6 header cut short")?;
    if header[0] >> 4 != 6 {
        return Err("IPv6 header of another version");
    }
    let (mut next, mut at) = (header[6], IPV6_BYTES);
    for _ in 0..EXTENSIONS_MAX {
        if next == protocol {
            return Ok(at);
        }
        if !matches!(next, IPV6_HOP_BY_HOP | IPV6_ROUTING | IPV6_DESTINATION) {
            return Err("another protocol");
        }
        let Some(&[following, units]) = ip.get(at..).and_then(|rest| rest.first_chunk::<2>()) else {
            return Err("IPv6 extension header cut short");
        };
        (next, at) = (following, at + 8 + 8 * usize::from(units));
    }
    Err("too many IPv6 extension headers")
}

fn transport_bytes(transport: &[u8], protocol: u8) -> Result<usize, &'static str> {
    if protocol == UDP {
        return if transport.len() < UDP_BYTES { Err("UDP header cut short") } else { Ok(UDP_BYTES) };
    }
    let bytes = transport.get(12).map_or(0, |offset| usize::from(offset >> 4) * 4);
    if bytes < 20 || bytes > transport.len() { Err("TCP header of a wrong length") } else { Ok(bytes) }
}
