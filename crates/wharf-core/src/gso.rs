//! Cutting super-packets (GSO): one packet of up to 64 KiB and more into segments that fit a wire.
//!
//! Every segment has the headers. Per segment: IPv4 identification (counting up), lengths, TCP's sequence number, its FIN and
//! PSH (only the last has them) and CWR (only the first), and both checksums, in full. Sources: RFC 791, 8200, 9293, 768;
//! the kernel's `tcp_gso_segment` and `__udp_gso_segment` for what changes. A test of `packet`
//! (`wharf-devices/tests/packet/segments.rs`) has the kernel cut the same packets, and compares every byte.
//!
//! [`Cut::new`] reads the headers once, and sums up what all segments have in common; [`Cut::write`] then makes any segment,
//! so that whoever runs out of memory half-way goes on later. [`Cutter`] does that from a frame of a pool into others, and
//! [`Segmenter`] for a device that cannot.
//!
//! On its way a super-packet is one packet, with its bytes: in lanes, in the qdisc, in a bulk (which may have several), in
//! quotas, counters, the byte limit and small queues. The headers that its further segments will have are not counted, where
//! the kernel's qdiscs do (`qdisc_pkt_len_init`): they are one part in 26 of a TCP segment of 1514 bytes. Where each
//! segment's bytes matter they are added up ([`crate::qdisc::Tbf`]), and what is longer than such a discipline lets through at
//! once is cut before it ([`Shortener`]).

mod cutter;
mod flight;
mod headers;
mod own;
mod segmenter;
mod shortener;
mod work;

pub use cutter::{Cutter, Plan};
pub use segmenter::Segmenter;
pub(crate) use segmenter::completed;
pub use shortener::Shortener;

use crate::sg_writer::Reader;
use headers::Headers;
use wharf_mem::Meta;
use wharf_packet::checksum::{UDP_OFFSET, fold, from_sum, sum};

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

impl GsoError {
    /// In a word, for counters.
    pub fn reason(&self) -> &'static str {
        match self {
            GsoError::Kind { .. } => "gso-kind",
            GsoError::Size { .. } => "gso-size",
            GsoError::Headers { .. } => "gso-header",
        }
    }
}

/// How one super-packet is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cut {
    headers: Headers,
    len_bytes: usize,
    gso_bytes: usize,
    identification: u16,
    sequence: u32,
    /// TCP's data offset and flags.
    flags: u16,
    /// Sum of the IPv4 header without what each segment has of its own: total length, identification, checksum.
    ip_sum: u64,
    /// Of the pseudo header and the transport's header, without lengths, sequence number, flags and checksum.
    transport_sum: u64,
}

impl Cut {
    /// Of `packet`, an Ethernet frame behind up to two VLAN tags, into segments of `gso_bytes` of payload.
    ///
    /// # Errors
    /// [`GsoError`].
    pub fn new(packet: &[u8], kind: u8, gso_bytes: u16) -> Result<Self, GsoError> {
        let meta = Meta { gso_kind: kind, gso_bytes, ..Meta::default() };
        Self::of_start(packet, packet.len(), &meta)
    }

    /// As [`Cut::new`], of a packet of `len_bytes` of which `start` is the first part, all headers in it, and to be cut as
    /// `meta` asks. With [`Meta::needs_checksum`] the sum that stands in the transport's header is taken for that of the
    /// pseudo header, as the kernel does: the sender alone knows where a routing header leads.
    ///
    /// # Errors
    /// [`GsoError`].
    pub fn of_start(start: &[u8], len_bytes: usize, meta: &Meta) -> Result<Self, GsoError> {
        let fault = |what| GsoError::Headers { len_bytes, what };
        let Meta { gso_kind: kind, gso_bytes, needs_checksum, .. } = *meta;
        if !matches!(kind, GSO_TCPV4 | GSO_TCPV6 | GSO_UDP) {
            return Err(GsoError::Kind { kind });
        }
        let headers = Headers::read(start, kind).map_err(fault)?;
        let gso_bytes_max = (IP_BYTES_MAX + headers.ip_at).saturating_sub(headers.payload_at);
        if gso_bytes == 0 || usize::from(gso_bytes) > gso_bytes_max {
            return Err(GsoError::Size { gso_bytes });
        }
        if len_bytes < headers.payload_at {
            return Err(fault("cut short"));
        }
        let transport = &start[headers.transport_at..headers.payload_at];
        let word = |at: usize| u16::from_be_bytes([transport[at], transport[at + 1]]);
        let is_tcp = headers.protocol == TCP;
        Ok(Self {
            headers,
            len_bytes,
            gso_bytes: gso_bytes.into(),
            identification: u16::from_be_bytes([start[headers.ip_at + 4], start[headers.ip_at + 5]]),
            sequence: if is_tcp { u32::from(word(4)) << 16 | u32::from(word(6)) } else { 0 },
            flags: if is_tcp { word(12) } else { 0 },
            ip_sum: headers.ip_sum(start),
            transport_sum: match needs_checksum {
                true => headers.finished_sum(start, len_bytes),
                false => headers.pseudo_sum(start) + headers.transport_sum(start),
            },
        })
    }

    /// Segments that there are: at least 1.
    #[inline]
    pub fn segments(&self) -> usize {
        (self.len_bytes - self.headers.payload_at).div_ceil(self.gso_bytes).max(1)
    }

    /// Bytes of the headers, which every segment has: its payload begins behind them.
    #[inline]
    pub fn header_bytes(&self) -> usize {
        self.headers.payload_at
    }

    /// Where the payload of segment `at` begins in the packet.
    #[inline]
    pub(crate) fn payload_at(&self, at: usize) -> usize {
        self.header_bytes() + at * self.gso_bytes
    }

    /// Bytes of segment `at`, headers included.
    #[inline]
    pub fn segment_bytes(&self, at: usize) -> usize {
        let left = (self.len_bytes - self.header_bytes()).saturating_sub(at.saturating_mul(self.gso_bytes));
        self.header_bytes() + left.min(self.gso_bytes)
    }

    /// How many segments from `at` on have as many bytes as that one: all, or all but the last.
    #[inline]
    pub(crate) fn alike(&self, at: usize) -> usize {
        let full = (self.len_bytes - self.header_bytes()) / self.gso_bytes;
        full.saturating_sub(at).max(1)
    }

    /// Writes segment `at` of `packet`, the one that this was made for, to `to`, which has [`Cut::segment_bytes`].
    ///
    /// # Panics
    /// When one of the two is shorter than that, or there is no such segment.
    pub fn write(&self, packet: &[u8], at: usize, to: &mut [u8]) {
        let mut payload = Reader::new(std::iter::once(&packet[self.payload_at(at)..]));
        self.write_next(packet, &mut payload, at, to);
    }

    /// As [`Cut::write`], of a packet that begins with `start` and whose payload is read by `payload`, which stands
    /// where that of this segment begins, and afterwards where the next one's does.
    ///
    /// # Panics
    /// As [`Cut::write`].
    #[inline]
    pub fn write_next<'a>(
        &self, start: &[u8], payload: &mut Reader<'a, impl Iterator<Item = &'a [u8]>>, at: usize,
        to: &mut [u8],
    ) {
        let (headers, rest) = to[..self.segment_bytes(at)].split_at_mut(self.header_bytes());
        headers.copy_from_slice(&start[..headers.len()]);
        let read = payload.read(rest);
        assert_eq!(read, rest.len(), "the packet is as long as it was");
        // Headers are of even length, so that sums of both add up.
        self.write_headers(headers, rest.len(), sum(rest), at);
    }

    #[inline]
    fn write_headers(&self, to: &mut [u8], payload_bytes: usize, payload_sum: u64, at: usize) {
        let Headers { ip_at, transport_at, payload_at, is_ipv6, protocol } = self.headers;
        let (ip, transport) = to[ip_at..].split_at_mut(transport_at - ip_at);
        let transport_bytes = payload_at - transport_at + payload_bytes;
        let ip_bytes = ip.len() + transport_bytes;
        if is_ipv6 {
            put(ip, 4, (ip_bytes - IPV6_BYTES) as u16);
        } else {
            let identification = self.identification.wrapping_add(at as u16);
            put(ip, 2, ip_bytes as u16);
            put(ip, 4, identification);
            put(ip, 10, !fold(self.ip_sum + ip_bytes as u64 + u64::from(identification)));
        }
        let sum = self.transport_sum + transport_bytes as u64 + payload_sum;
        if protocol == TCP {
            self.write_tcp(transport, sum, at);
        } else {
            put(transport, 4, transport_bytes as u16);
            put(transport, UDP_OFFSET, from_sum(sum + transport_bytes as u64, UDP_OFFSET));
        }
    }

    /// `sum` is that of all but the sequence number and the flags.
    #[inline]
    fn write_tcp(&self, tcp: &mut [u8], sum: u64, at: usize) {
        let sequence = self.sequence.wrapping_add((at * self.gso_bytes) as u32);
        tcp[4..8].copy_from_slice(&sequence.to_be_bytes());
        let mut flags = self.flags;
        if at + 1 < self.segments() {
            flags &= !u16::from(FIN_PSH);
        }
        if at > 0 {
            flags &= !u16::from(CWR);
        }
        put(tcp, TCP_FLAGS_AT - 1, flags);
        let sum = sum + u64::from(sequence) + u64::from(flags);
        put(tcp, TCP_CHECKSUM_OFFSET, from_sum(sum, TCP_CHECKSUM_OFFSET));
    }
}

#[inline]
fn put(bytes: &mut [u8], at: usize, number: u16) {
    bytes[at..at + 2].copy_from_slice(&number.to_be_bytes());
}

#[cfg(test)]
#[path = "gso/tests.rs"]
mod tests;
