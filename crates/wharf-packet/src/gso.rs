//! Segmentation of super-packets (GSO): the headers of each segment, and the plan that all segments share.
//!
//! A super-packet is one packet of up to 64 KiB and more, with one set of headers. Every segment has these
//! headers with its own IPv4 identification (counting up), lengths, TCP sequence number, FIN and PSH (the
//! last segment only), CWR (the first only), and both checksums in full. Sources: RFC 791, 8200, 9293, 768;
//! the kernel's `tcp_gso_segment` and `__udp_gso_segment` for the fields that change.
//!
//! [`GsoPlan::new`] reads the headers once and sums up what the segments have in common. [`GsoPlan::write`]
//! then makes any segment, in any order. [`wire_bytes`] is the length of all segments together.
//!
//! ```
//! # mod wharf { pub use wharf_packet as net; }
//! use wharf::net::gso::{GSO_UDP, GsoPlan};
//!
//! // Ethernet, IPv4, UDP, and 2500 bytes of payload.
//! let mut packet = vec![0; 14 + 20 + 8 + 2500];
//! packet[12..15].copy_from_slice(&[0x08, 0x00, 0x45]);
//! packet[23] = wharf::net::UDP;
//! let plan = GsoPlan::new(&packet, GSO_UDP, 1000)?;
//! assert_eq!((plan.segments(), plan.segment_bytes(0), plan.segment_bytes(2)), (3, 1042, 542));
//! let mut segment = vec![0; plan.segment_bytes(2)];
//! plan.write(&packet, 2, &mut segment);
//! assert_eq!(segment[16..18], 528u16.to_be_bytes()); // IPv4's total length
//! # Ok::<(), wharf_packet::gso::GsoError>(())
//! ```

use crate::checksum::{TCP_OFFSET, UDP_OFFSET, fold, from_sum, sum};
use crate::{IPV6_BYTES, TCP_FLAGS_AT, TCP_LENGTH_AT, UDP_BYTES, put_word};
use core::fmt;
use headers::SharedHeaders;

mod adapter;
mod headers;

pub use adapter::AdapterHeaders;

/// TCP over IPv4: `VIRTIO_NET_HDR_GSO_TCPV4` (virtio 1.2, section 5.1.6).
pub const GSO_TCPV4: u8 = 1;
/// TCP over IPv6: `VIRTIO_NET_HDR_GSO_TCPV6`.
pub const GSO_TCPV6: u8 = 4;
/// UDP datagrams of one length over IPv4 or IPv6: `VIRTIO_NET_HDR_GSO_UDP_L4`.
pub const GSO_UDP: u8 = 5;

const IP_BYTES_MAX: usize = 65535;
const FIN_PSH: u8 = 0x09;
/// The flag by which a sender says that it has slowed down.
pub const CWR: u8 = 0x80;

/// The reason why a super-packet cannot be segmented.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum GsoError {
    /// Another kind than [`GSO_TCPV4`], [`GSO_TCPV6`] and [`GSO_UDP`], such as UDP fragmentation (3).
    Kind {
        /// The kind.
        kind: u8,
    },
    /// Segments of no payload, or longer than IP allows.
    Size {
        /// Payload of a segment, bytes.
        gso_bytes: u16,
    },
    /// Headers that end early, contradict themselves, or are not of the kind.
    Headers {
        /// Bytes of the packet.
        len_bytes: usize,
        /// The fault.
        what: &'static str,
    },
}

impl GsoError {
    /// Returns the drop reason: `gso-kind`, `gso-size` or `gso-header`.
    pub fn reason(&self) -> &'static str {
        match self {
            GsoError::Kind { .. } => "gso-kind",
            GsoError::Size { .. } => "gso-size",
            GsoError::Headers { .. } => "gso-header",
        }
    }
}

impl fmt::Display for GsoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GsoError::Kind { kind } => write!(
                f,
                "super-packets of kind {kind} are not cut: TCP over IPv4 (1) and IPv6 (4) and UDP (5) are"
            ),
            GsoError::Size { gso_bytes } => write!(f, "segments of {gso_bytes} bytes cannot be"),
            GsoError::Headers { len_bytes, what } => {
                write!(f, "no whole headers of its kind in {len_bytes} bytes: {what}")
            }
        }
    }
}

impl core::error::Error for GsoError {}

/// The segmentation that a sender asks for, as in the virtio net header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GsoRequest {
    /// [`GSO_TCPV4`], [`GSO_TCPV6`] or [`GSO_UDP`].
    pub kind: u8,
    /// Payload of every segment but the last, bytes: the kernel's `gso_size`.
    pub segment_bytes: u16,
    /// True if the sum of the pseudo header stands in place of the transport's checksum (`CHECKSUM_PARTIAL`).
    pub is_checksum_partial: bool,
}

/// The plan by which one super-packet is segmented.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GsoPlan {
    headers: SharedHeaders,
    len_bytes: usize,
    gso_bytes: usize,
    identification: u16,
    sequence: u32,
    /// TCP's data offset and flags.
    flags: u16,
    /// Sum of the IPv4 header without the fields of each segment: total length, identification, checksum.
    ip_sum: u64,
    /// Sum of pseudo header and transport header, without lengths, sequence number, flags and checksum.
    transport_sum: u64,
}

impl GsoPlan {
    /// Plans the segmentation of `packet`, an Ethernet frame behind up to two VLAN tags, into segments with
    /// `segment_bytes` of payload, 1 to about 65,400. The checksum in the transport header does not count.
    ///
    /// # Errors
    /// [`GsoError`].
    pub fn new(packet: &[u8], kind: u8, segment_bytes: u16) -> Result<Self, GsoError> {
        Self::of_start(packet, packet.len(), &GsoRequest { kind, segment_bytes, is_checksum_partial: false })
    }

    /// Plans the segmentation of a packet of `len_bytes` that begins with `start`, in which all its headers
    /// are whole.
    ///
    /// With a partial checksum the sum in the transport header is trusted. Otherwise the pseudo header is
    /// summed up with the final destination, and a routing header whose last hop cannot be told is an error.
    ///
    /// # Errors
    /// [`GsoError`].
    pub fn of_start(start: &[u8], len_bytes: usize, request: &GsoRequest) -> Result<Self, GsoError> {
        let fault = |what| GsoError::Headers { len_bytes, what };
        let GsoRequest { kind, segment_bytes: gso_bytes, is_checksum_partial } = *request;
        if !matches!(kind, GSO_TCPV4 | GSO_TCPV6 | GSO_UDP) {
            return Err(GsoError::Kind { kind });
        }
        let (headers, all) = SharedHeaders::read(start, kind).map_err(fault)?;
        let gso_bytes_max = (IP_BYTES_MAX + headers.ip_at).saturating_sub(headers.payload_at);
        if gso_bytes == 0 || usize::from(gso_bytes) > gso_bytes_max {
            return Err(GsoError::Size { gso_bytes });
        }
        if len_bytes < headers.payload_at {
            return Err(fault("cut short"));
        }
        let pseudo_sum = match is_checksum_partial {
            true => headers.partial_sum(start, len_bytes),
            false => all.pseudo_sum(start, 0).ok_or(fault("a routing header of unknown type"))?,
        };
        let transport = &start[headers.transport_at..headers.payload_at];
        let word = |at: usize| u16::from_be_bytes([transport[at], transport[at + 1]]);
        let is_tcp = headers.is_tcp;
        Ok(Self {
            headers,
            len_bytes,
            gso_bytes: gso_bytes.into(),
            identification: u16::from_be_bytes([start[headers.ip_at + 4], start[headers.ip_at + 5]]),
            sequence: if is_tcp { u32::from(word(4)) << 16 | u32::from(word(6)) } else { 0 },
            flags: if is_tcp { word(TCP_LENGTH_AT) } else { 0 },
            ip_sum: headers.ip_sum(start),
            transport_sum: pseudo_sum + headers.transport_sum(start),
        })
    }

    /// Returns the number of segments, at least 1.
    #[inline]
    pub fn segments(&self) -> usize {
        (self.len_bytes - self.headers.payload_at).div_ceil(self.gso_bytes).max(1)
    }

    /// Returns the bytes of the headers, which every segment has before its payload.
    #[inline]
    pub fn header_bytes(&self) -> usize {
        self.headers.payload_at
    }

    /// Returns the offset in the packet of the payload of segment `at`.
    #[inline]
    pub fn payload_at(&self, at: usize) -> usize {
        self.header_bytes() + at * self.gso_bytes
    }

    /// Returns the bytes of segment `at`, headers included; of one behind the last, those of the headers.
    #[inline]
    pub fn segment_bytes(&self, at: usize) -> usize {
        let left = (self.len_bytes - self.header_bytes()).saturating_sub(at.saturating_mul(self.gso_bytes));
        self.header_bytes() + left.min(self.gso_bytes)
    }

    /// Returns the number of segments from `at` on that are as long as that one, at least 1.
    #[inline]
    pub fn equal_segments(&self, at: usize) -> usize {
        let full = (self.len_bytes - self.header_bytes()) / self.gso_bytes;
        full.saturating_sub(at).max(1)
    }

    /// Writes segment `at` of `packet`, for which the plan was made, to `to`, which has
    /// [`GsoPlan::segment_bytes`].
    ///
    /// # Panics
    /// If one of the two is shorter than that, or there is no such segment.
    pub fn write(&self, packet: &[u8], at: usize, to: &mut [u8]) {
        let len = self.segment_bytes(at);
        to[self.header_bytes()..len]
            .copy_from_slice(&packet[self.payload_at(at)..][..len - self.header_bytes()]);
        self.write_headers(packet, at, to);
    }

    /// Writes the headers of segment `at` to `to`, in which its payload lies already, behind
    /// [`GsoPlan::header_bytes`]. `start` is the packet's start, for which the plan was made.
    ///
    /// # Panics
    /// If `to` is shorter than [`GsoPlan::segment_bytes`], or `start` than the headers.
    #[inline]
    pub fn write_headers(&self, start: &[u8], at: usize, to: &mut [u8]) {
        let (headers, payload) = to[..self.segment_bytes(at)].split_at_mut(self.header_bytes());
        headers.copy_from_slice(&start[..headers.len()]);
        // Headers are of even length, so that sums of both add up.
        self.change_headers(headers, payload.len(), sum(payload), at);
    }

    #[inline]
    fn change_headers(&self, to: &mut [u8], payload_bytes: usize, payload_sum: u64, at: usize) {
        let SharedHeaders { ip_at, transport_at, payload_at, is_ipv6, is_tcp } = self.headers;
        let (ip, transport) = to[ip_at..].split_at_mut(transport_at - ip_at);
        let transport_bytes = payload_at - transport_at + payload_bytes;
        let ip_bytes = ip.len() + transport_bytes;
        if is_ipv6 {
            put_word(ip, 4, (ip_bytes - IPV6_BYTES) as u16);
        } else {
            let identification = self.identification.wrapping_add(at as u16);
            put_word(ip, 2, ip_bytes as u16);
            put_word(ip, 4, identification);
            put_word(ip, 10, !fold(self.ip_sum + ip_bytes as u64 + u64::from(identification)));
        }
        let sum = self.transport_sum + transport_bytes as u64 + payload_sum;
        if is_tcp {
            self.change_tcp(transport, sum, at);
        } else {
            put_word(transport, 4, transport_bytes as u16);
            put_word(transport, UDP_OFFSET, from_sum(sum + transport_bytes as u64, UDP_OFFSET));
        }
    }

    /// `sum` is that of everything but the sequence number and the flags.
    #[inline]
    fn change_tcp(&self, tcp: &mut [u8], sum: u64, at: usize) {
        let sequence = self.sequence.wrapping_add((at * self.gso_bytes) as u32);
        tcp[4..8].copy_from_slice(&sequence.to_be_bytes());
        let mut flags = self.flags;
        if at + 1 < self.segments() {
            flags &= !u16::from(FIN_PSH);
        }
        if at > 0 {
            flags &= !u16::from(CWR);
        }
        put_word(tcp, TCP_FLAGS_AT - 1, flags);
        let sum = sum + u64::from(sequence) + u64::from(flags);
        put_word(tcp, TCP_OFFSET, from_sum(sum, TCP_OFFSET));
    }
}

/// Returns the bytes of all segments of a super-packet on a wire, each from its Ethernet header on, without
/// preamble, gap and check sequence (the kernel's `qdisc_pkt_len_init`).
///
/// The packet has `len_bytes` and begins with `start`. With a partial checksum, `transport_at` is where the
/// sender says that the transport header begins (`csum_start`); otherwise the headers are walked. `None`
/// where the headers make no sense.
pub fn wire_bytes(start: &[u8], len_bytes: usize, request: &GsoRequest, transport_at: usize) -> Option<u64> {
    let (segments, header_bytes) = wire_segments(start, len_bytes, request, transport_at)?;
    Some((len_bytes - header_bytes + segments * header_bytes) as u64)
}

/// Returns the number of segments of a super-packet, at least 1, and the bytes of the headers of each. For
/// the arguments and for `None` see [`wire_bytes`].
pub fn wire_segments(
    start: &[u8], len_bytes: usize, request: &GsoRequest, transport_at: usize,
) -> Option<(usize, usize)> {
    let header_bytes = if !request.is_checksum_partial {
        GsoPlan::of_start(start, len_bytes, request).ok()?.header_bytes()
    } else if request.kind == GSO_UDP {
        transport_at + UDP_BYTES
    } else {
        transport_at + usize::from(start.get(transport_at + TCP_LENGTH_AT)? >> 4) * 4
    };
    let payload_bytes = len_bytes.checked_sub(header_bytes)?;
    let segment_bytes = Some(usize::from(request.segment_bytes)).filter(|&bytes| bytes > 0)?;
    Some((payload_bytes.div_ceil(segment_bytes).max(1), header_bytes))
}
