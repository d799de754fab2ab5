//! `AdapterHeaders`: the headers of a super-packet that an adapter segments by itself.

use crate::gso::headers::SharedHeaders;
use crate::gso::{GSO_TCPV4, GSO_TCPV6, GsoRequest};
use crate::{IPV6_BYTES, checksum::fold};

/// Offsets and the sum that adapters with TCP segmentation (TSO) want, in bytes from the frame's start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AdapterHeaders {
    /// Start of the IP header.
    pub network_at: u8,
    /// Start of the TCP header.
    pub transport_at: u8,
    /// Bytes of all headers: start of the payload.
    pub header_bytes: u8,
    /// True for IPv6.
    pub is_ipv6: bool,
    /// Sum of the pseudo header without the length, which differs by segment. It goes in the place of TCP's checksum.
    pub pseudo_sum: u16,
}

impl AdapterHeaders {
    /// Reads the headers of a packet of `len_bytes` that begins with `start`, in which they are whole. `None` for a packet
    /// that not every adapter segments: by another kind than plain TCP, with extension headers of IPv6, without payload, or
    /// without the sum of the pseudo header in the place of the checksum.
    pub fn read(start: &[u8], len_bytes: usize, request: &GsoRequest) -> Option<Self> {
        let is_plain = matches!(request.kind, GSO_TCPV4 | GSO_TCPV6);
        if !is_plain || request.segment_bytes == 0 || !request.is_checksum_partial {
            return None;
        }
        let (headers, _) = SharedHeaders::read(start, request.kind).ok()?;
        let SharedHeaders { ip_at, transport_at, payload_at, is_ipv6, .. } = headers;
        if is_ipv6 && transport_at - ip_at != IPV6_BYTES || len_bytes <= payload_at {
            return None;
        }
        Some(Self {
            network_at: ip_at.try_into().ok()?,
            transport_at: transport_at.try_into().ok()?,
            header_bytes: payload_at.try_into().ok()?,
            is_ipv6,
            pseudo_sum: fold(headers.partial_sum(start, len_bytes)),
        })
    }
}
