//! The headers that all segments of a super-packet share, and the sums of what they have in common.

use crate::checksum::{TCP_OFFSET, UDP_OFFSET, fold, sum};
use crate::gso::{GSO_TCPV6, GSO_UDP};
use crate::{Headers, TCP, TCP_FLAGS_AT, UDP, UDP_BYTES};

const IPV4_BYTES_MAX: usize = 60;
const TCP_BYTES_MAX: usize = 60;

/// Offsets in the packet's start, in which all headers are whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SharedHeaders {
    pub(super) ip_at: usize,
    pub(super) transport_at: usize,
    pub(super) payload_at: usize,
    pub(super) is_ipv6: bool,
    pub(super) is_tcp: bool,
}

impl SharedHeaders {
    /// Reads the headers of an Ethernet frame that begins with `start` and is to be segmented by `kind`.
    ///
    /// # Errors
    /// The fault, as a phrase.
    pub(super) fn read(start: &[u8], kind: u8) -> Result<(Self, Headers), &'static str> {
        let headers = Headers::parse(start).map_err(|error| error.as_str())?;
        let protocol = if kind == GSO_UDP { UDP } else { TCP };
        let Headers { ip_at, transport_at, is_ipv6, .. } = headers;
        if kind != GSO_UDP && is_ipv6 != (kind == GSO_TCPV6) {
            return Err("another version of IP, or none");
        }
        if headers.protocol != protocol {
            return Err("another protocol");
        }
        if !headers.is_whole() {
            return Err("a fragment");
        }
        if headers.is_authenticated {
            return Err("an authentication header");
        }
        let fault = if kind == GSO_UDP { "UDP header cut short" } else { "TCP header of a wrong length" };
        let payload_at = headers.payload_at(start).ok_or(fault)?;
        Ok((Self { ip_at, transport_at, payload_at, is_ipv6, is_tcp: protocol == TCP }, headers))
    }

    /// Sums up the IPv4 header without total length, identification and checksum; 0 for IPv6, which has no
    /// checksum.
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

    /// Sums up the transport header without lengths, sequence number, flags and checksum.
    pub(super) fn transport_sum(&self, start: &[u8]) -> u64 {
        let mut header = [0; TCP_BYTES_MAX];
        header[..self.payload_at - self.transport_at]
            .copy_from_slice(&start[self.transport_at..self.payload_at]);
        if self.is_tcp {
            header[4..8].fill(0);
            header[TCP_FLAGS_AT - 1..=TCP_FLAGS_AT].fill(0);
            header[TCP_OFFSET..TCP_OFFSET + 2].fill(0);
        } else {
            header[4..UDP_BYTES].fill(0);
        }
        sum(&header)
    }

    /// The sum of the pseudo header that stands in place of the checksum, less the length of the super-packet
    /// in it.
    pub(super) fn partial_sum(&self, start: &[u8], len_bytes: usize) -> u64 {
        let transport = &start[self.transport_at..];
        let word = |at: usize| u16::from_be_bytes([transport[at], transport[at + 1]]);
        let (pseudo, len) = if self.is_tcp {
            (word(TCP_OFFSET), fold((len_bytes - self.transport_at) as u64))
        } else {
            (word(UDP_OFFSET), word(4))
        };
        u64::from(pseudo) + u64::from(!len)
    }
}
