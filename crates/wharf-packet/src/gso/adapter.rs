//! `AdapterHeaders`: the headers of a super-packet that an adapter segments by itself.

use crate::gso::headers::SharedHeaders;
use crate::gso::{CWR, GSO_TCPV4, GSO_TCPV6, GsoRequest};
use crate::{IPV6_BYTES, TCP_FLAGS_AT, checksum::fold};

/// Longest super-packet: lengths of buffers have 16 bits.
const LONGEST_BYTES: usize = u16::MAX as usize;

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
    /// Sum of the pseudo header without the length, which differs by segment. It goes in the place of TCP's
    /// checksum.
    pub pseudo_sum: u16,
}

impl AdapterHeaders {
    /// Reads the headers of a packet of `len_bytes` that begins with `start`, in which they are whole. `None`
    /// for a packet that not every adapter segments: by another kind than plain TCP, with extension headers
    /// of IPv6, without payload, longer than a descriptor can say, with the flag CWR, which belongs to the
    /// first segment alone (RFC 3168, section 6.1.2), or without the sum of the pseudo header in the place of
    /// the checksum.
    pub fn read(start: &[u8], len_bytes: usize, request: &GsoRequest) -> Option<Self> {
        let is_plain = matches!(request.kind, GSO_TCPV4 | GSO_TCPV6);
        if !is_plain || request.segment_bytes == 0 || !request.is_checksum_partial {
            return None;
        }
        let (headers, _) = SharedHeaders::read(start, request.kind).ok()?;
        let SharedHeaders { ip_at, transport_at, payload_at, is_ipv6, .. } = headers;
        if is_ipv6 && transport_at - ip_at != IPV6_BYTES
            || !(payload_at + 1..=LONGEST_BYTES).contains(&len_bytes)
        {
            return None;
        }
        if start.get(transport_at + TCP_FLAGS_AT).is_none_or(|flags| flags & CWR != 0) {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A super-packet of TCP over IPv4 with these flags.
    fn headers(flags: u8, len_bytes: usize) -> Option<AdapterHeaders> {
        let mut start = [0; 54];
        start[12] = 8;
        start[14] = 0x45;
        start[16..18].copy_from_slice(&((len_bytes - 14) as u16).to_be_bytes());
        start[23] = 6;
        (start[46], start[47]) = (5 << 4, flags);
        let asks = GsoRequest { kind: GSO_TCPV4, segment_bytes: 1448, is_checksum_partial: true };
        AdapterHeaders::read(&start, len_bytes, &asks)
    }

    #[test]
    fn a_packet_that_says_cwr_or_fits_no_descriptor_is_no_plain_one() {
        const ACK: u8 = 0x10;
        assert_eq!(headers(ACK, 30_000).unwrap().header_bytes, 54);
        assert!(headers(ACK, 65_535).is_some());
        assert!(headers(ACK | CWR, 30_000).is_none());
        assert!(headers(ACK, 65_536).is_none() && headers(ACK, 54).is_none());
    }
}
