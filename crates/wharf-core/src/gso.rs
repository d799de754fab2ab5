//! Cutting super-packets (GSO): one packet of up to 64 KiB and more into segments that fit a wire.
//!
//! Every segment has the headers. Per segment: IPv4 identification (counting up), lengths, TCP's sequence number, its FIN and
//! PSH (only the last has them) and CWR (only the first), and both checksums, in full. Sources: RFC 791, 8200, 9293, 768;
//! the kernel's `tcp_gso_segment` and `__udp_gso_segment` for what changes.
//!
//! [`Cut::new`] reads the headers once; [`Cut::write`] then makes any segment, so that whoever runs out of memory half-way
//! goes on later.

use crate::checksum::{UDP_OFFSET, of_sum, sum};
use crate::qdisc::{IpPacket, ip_packet};

/// Kinds of segmentation, as in the virtio net header (virtio 1.2, section 5.1.6): TCP over IPv4.
pub const GSO_TCPV4: u8 = 1;
/// TCP over IPv6.
pub const GSO_TCPV6: u8 = 4;
/// UDP datagrams of one length, over either.
pub const GSO_UDP: u8 = 5;

const TCP: u8 = 6;
const UDP: u8 = 17;
const UDP_BYTES: usize = 8;
const IPV4_BYTES: usize = 20;
const IPV6_BYTES: usize = 40;
const IPV6_HOP_BY_HOP: u8 = 0;
const IPV6_ROUTING: u8 = 43;
const IPV6_DESTINATION: u8 = 60;
/// Extension headers looked through.
const EXTENSIONS_MAX: usize = 8;
const IP_BYTES_MAX: usize = 65535;
const TCP_FLAGS_AT: usize = 13;
const TCP_CHECKSUM_OFFSET: usize = 16;
const FIN_PSH: u8 = 0x09;
const CWR: u8 = 0x80;

/// Why a super-packet cannot be cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GsoError {
    /// A kind that is not cut here (UDP fragmentation, kind 3, for one).
    #[error("super-packets of kind {kind} are not cut: TCP over IPv4 (1) and IPv6 (4) and UDP (5) are")]
    Kind {
        /// The kind.
        kind: u8,
    },
    /// Segments of no bytes, or longer than IP allows.
    #[error("segments of {gso_bytes} bytes cannot be")]
    Size {
        /// Asked for.
        gso_bytes: u16,
    },
    /// Its headers end early, contradict themselves, or are not of its kind.
    #[error("no whole headers of its kind in {len_bytes} bytes: {what}")]
    Headers {
        /// Bytes of the packet.
        len_bytes: usize,
        /// What is wrong.
        what: &'static str,
    },
}

/// How one super-packet is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    ip_at: usize,
    is_ipv6: bool,
    protocol: u8,
    /// Where the TCP or UDP header begins, and the payload.
    transport_at: usize,
    payload_at: usize,
    len_bytes: usize,
    gso_bytes: usize,
}

impl Cut {
    /// Of `packet`, an Ethernet frame behind up to two VLAN tags, into segments of `gso_bytes` of payload.
    ///
    /// # Errors
    /// [`GsoError`].
    pub fn new(packet: &[u8], kind: u8, gso_bytes: u16) -> Result<Self, GsoError> {
        let fault = |what| GsoError::Headers { len_bytes: packet.len(), what };
        let (is_ipv6, protocol) = match (kind, ip_packet(packet)) {
            (GSO_TCPV4, Some(IpPacket::V4(_))) => (false, TCP),
            (GSO_TCPV6, Some(IpPacket::V6(_))) => (true, TCP),
            (GSO_UDP, Some(ip)) => (matches!(ip, IpPacket::V6(_)), UDP),
            (GSO_TCPV4 | GSO_TCPV6 | GSO_UDP, _) => return Err(fault("another version of IP, or none")),
            _ => return Err(GsoError::Kind { kind }),
        };
        let (Some(IpPacket::V4(ip) | IpPacket::V6(ip)), true) = (ip_packet(packet), gso_bytes > 0) else {
            return Err(GsoError::Size { gso_bytes });
        };
        let ip_at = packet.len() - ip.len();
        let header_bytes =
            if is_ipv6 { ipv6_header_bytes(ip, protocol) } else { ipv4_header_bytes(ip, protocol) };
        let transport_at = ip_at + header_bytes.map_err(fault)?;
        let transport = packet.get(transport_at..).unwrap_or_default();
        let payload_at = transport_at + transport_bytes(transport, protocol).map_err(fault)?;
        let gso_bytes_max = (IP_BYTES_MAX + ip_at).saturating_sub(payload_at);
        if usize::from(gso_bytes) > gso_bytes_max {
            return Err(GsoError::Size { gso_bytes });
        }
        let (len_bytes, gso_bytes) = (packet.len(), gso_bytes.into());
        Ok(Self { ip_at, is_ipv6, protocol, transport_at, payload_at, len_bytes, gso_bytes })
    }

    /// Segments that there are: at least 1.
    pub fn segments(&self) -> usize {
        (self.len_bytes - self.payload_at).div_ceil(self.gso_bytes).max(1)
    }

    /// Bytes of segment `at`, headers included.
    pub fn segment_bytes(&self, at: usize) -> usize {
        let left = (self.len_bytes - self.payload_at).saturating_sub(at.saturating_mul(self.gso_bytes));
        self.payload_at + left.min(self.gso_bytes)
    }

    /// Writes segment `at` of `packet`, the one that this was made for, to `to`, which has [`Cut::segment_bytes`].
    ///
    /// # Panics
    /// When one of the two is shorter than that, or there is no such segment.
    pub fn write(&self, packet: &[u8], at: usize, to: &mut [u8]) {
        let to = &mut to[..self.segment_bytes(at)];
        let (headers, payload) = to.split_at_mut(self.payload_at);
        headers.copy_from_slice(&packet[..self.payload_at]);
        let from = self.payload_at + at * self.gso_bytes;
        payload.copy_from_slice(&packet[from..from + payload.len()]);
        self.write_ip(to, at);
        match self.protocol {
            TCP => self.write_tcp(to, at),
            _ => self.write_udp(to),
        }
    }

    fn write_ip(&self, to: &mut [u8], at: usize) {
        let ip = &mut to[self.ip_at..];
        let len = ip.len();
        if self.is_ipv6 {
            put(ip, 4, (len - IPV6_BYTES) as u16);
            return;
        }
        put(ip, 2, len as u16);
        let identification = u16::from_be_bytes([ip[4], ip[5]]).wrapping_add(at as u16);
        put(ip, 4, identification);
        put(ip, 10, 0);
        let checksum = !crate::checksum::fold(sum(&ip[..self.transport_at - self.ip_at]));
        put(ip, 10, checksum);
    }

    fn write_tcp(&self, to: &mut [u8], at: usize) {
        let tcp = &mut to[self.transport_at..];
        let sequence = u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]);
        let sequence = sequence.wrapping_add((at * self.gso_bytes) as u32);
        tcp[4..8].copy_from_slice(&sequence.to_be_bytes());
        if at + 1 < self.segments() {
            tcp[TCP_FLAGS_AT] &= !FIN_PSH;
        }
        if at > 0 {
            tcp[TCP_FLAGS_AT] &= !CWR;
        }
        self.write_checksum(to, TCP_CHECKSUM_OFFSET);
    }

    fn write_udp(&self, to: &mut [u8]) {
        let udp = &mut to[self.transport_at..];
        let len = udp.len() as u16;
        put(udp, 4, len);
        self.write_checksum(to, UDP_OFFSET);
    }

    /// The transport's checksum, which lies `offset` behind the start of its header.
    fn write_checksum(&self, to: &mut [u8], offset: usize) {
        let addresses = if self.is_ipv6 { 8..IPV6_BYTES } else { 12..IPV4_BYTES };
        let pseudo = sum(&to[self.ip_at..][addresses]) + u64::from(self.protocol);
        let transport = &mut to[self.transport_at..];
        put(transport, offset, 0);
        let checksum = of_sum(pseudo + transport.len() as u64 + sum(transport), offset);
        put(transport, offset, checksum);
    }
}

fn put(bytes: &mut [u8], at: usize, number: u16) {
    bytes[at..at + 2].copy_from_slice(&number.to_be_bytes());
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

#[cfg(test)]
#[path = "gso/tests.rs"]
mod tests;
