//! The UDP datagram in a frame: RFC 768, 791, 8200.

use std::net::{IpAddr, SocketAddr, SocketAddrV6};
use wharf_packet::{Headers, UDP, UDP_BYTES, word};

/// Reason: the frame is no whole UDP datagram that a socket can send. It has another protocol, is a fragment,
/// has headers cut short, a routing header with segments left, or an authentication header.
pub const NOT_UDP: &str = "not-udp";
/// Reason: the frame's lengths contradict each other.
pub const MALFORMED: &str = "malformed";

/// Locally administered MAC address; its last four bytes name the interface that a datagram came by.
pub(super) const INTERFACE_MAC: [u8; 2] = [0x02, 0x57];

/// A datagram in a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Datagram {
    headers: Headers,
    pub payload_at: usize,
    pub payload_bytes: usize,
}

impl Datagram {
    /// Finds the datagram in a frame of `len_bytes` that begins with `first`, which holds all headers.
    ///
    /// # Errors
    /// [`NOT_UDP`], [`MALFORMED`].
    #[inline]
    pub fn find(first: &[u8], len_bytes: usize) -> Result<Self, &'static str> {
        let headers = Headers::parse(first).map_err(|_| NOT_UDP)?;
        // A socket can send neither: the datagram would go to a router on the way, or without its
        // authentication.
        let is_plain = !headers.is_source_routed() && !headers.is_authenticated;
        if headers.protocol != UDP || !is_plain {
            return Err(NOT_UDP);
        }
        let payload_at = headers.payload_at(first).ok_or(NOT_UDP)?;
        let udp_at = headers.transport_at;
        let udp_bytes = word(first, udp_at + 4).map(usize::from).ok_or(NOT_UDP)?;
        let end = headers.packet_end(first).ok_or(NOT_UDP)?;
        // Padding may follow the packet. Bytes of the packet behind the datagram are ignored.
        if end > len_bytes || udp_at + udp_bytes > end || udp_bytes < UDP_BYTES {
            return Err(MALFORMED);
        }
        Ok(Self { headers, payload_at, payload_bytes: udp_bytes - UDP_BYTES })
    }

    /// Returns the source address, and the destination with its port, from the start of the frame in which
    /// the datagram was found.
    pub fn ends(&self, first: &[u8]) -> Option<(IpAddr, SocketAddr)> {
        let (_, port) = self.headers.ports(first)?;
        let (source, destination) = self.headers.addresses(first)?;
        let destination = match destination {
            IpAddr::V4(address) => (address, port).into(),
            IpAddr::V6(address) => {
                // A link-local address names a host only together with an interface.
                let scope = if address.is_unicast_link_local() { interface_of(first) } else { 0 };
                SocketAddrV6::new(address, port, 0, scope).into()
            }
        };
        Some((source, destination))
    }
}

/// Returns the interface that the destination's MAC address names, if it is one of ours.
fn interface_of(frame: &[u8]) -> u32 {
    match frame.first_chunk::<6>() {
        Some([a, b, number @ ..]) if [*a, *b] == INTERFACE_MAC => u32::from_be_bytes(*number),
        _ => 0,
    }
}
