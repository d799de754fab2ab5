//! `VnetHeader`: the header before a frame that is not yet as on a wire: virtio 1.2, section 5.1.6; used by
//! packet(7), tun(4) and virtio devices.
//!
//! A header from outside is checked against its frame before it is acted on, and so are requests to be sent:
//! [`VnetHeader::meta`] and [`VnetHeader::to_send`]. Its field for the length of the headers is never used:
//! the headers are parsed instead.

pub use wharf_sys::packet::VNET_HEADER_BYTES;

use wharf_mem::Meta;
use wharf_packet::checksum::{TCP_OFFSET, UDP_OFFSET};
use wharf_packet::gso::{CWR, GSO_TCPV4, GSO_TCPV6, GSO_UDP, GsoError, GsoPlan, GsoRequest};
use wharf_packet::{TCP_FLAGS_AT, TCP_LENGTH_AT, UDP_BYTES};

/// Bytes at the start of a frame that a check reads, at most: all headers lie there.
pub const START_BYTES: usize = 512;

const NEEDS_CHECKSUM: u8 = 1;
/// Flag of the segmentation kind: the sender's network reported congestion (ECN). Segmentation then handles
/// TCP's CWR flag specially; Wharf's does so always.
const ECN: u8 = 0x80;

/// A header's fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct VnetHeader {
    /// True if the checksum is to be filled in.
    pub needs_checksum: bool,
    /// Kind of segmentation, 0 for none.
    pub gso_kind: u8,
    /// True if TCP's CWR flag is set, which only the first segment may keep.
    pub has_ecn: bool,
    /// Bytes of headers, a hint.
    pub header_bytes: u16,
    /// Payload bytes of a segment.
    pub gso_bytes: u16,
    /// Start of the sum.
    pub checksum_start: u16,
    /// Offset of the checksum from there.
    pub checksum_offset: u16,
}

/// Reason that a header does not fit its frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VnetError {
    /// Its segmentation is impossible.
    #[error(transparent)]
    Cut(#[from] GsoError),
    /// Its checksum lies beyond its end.
    #[error("a checksum at {start}+{offset} of {len_bytes} bytes")]
    Checksum {
        /// Start of the sum.
        start: u16,
        /// Offset of the checksum from there.
        offset: u16,
        /// Bytes of the frame.
        len_bytes: usize,
    },
    /// The checksum of a super-packet is not left to be filled in, or is in the wrong place.
    #[error("a super-packet whose checksum is not its transport's")]
    CutChecksum,
}

impl VnetError {
    /// Returns the reason as a word, for counters.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Cut(GsoError::Kind { .. }) => "gso-kind",
            Self::Cut(GsoError::Size { .. }) => "gso-size",
            Self::Cut(_) => "gso-header",
            Self::Checksum { .. } => "checksum-place",
            Self::CutChecksum => "gso-checksum",
        }
    }
}

impl VnetHeader {
    /// Makes the header for the requests of `meta`, unchecked.
    #[inline]
    pub fn of(meta: &Meta) -> Self {
        Self {
            needs_checksum: meta.needs_checksum,
            gso_kind: if meta.gso_bytes > 0 { meta.gso_kind } else { 0 },
            gso_bytes: meta.gso_bytes,
            checksum_start: meta.checksum_start,
            checksum_offset: meta.checksum_offset,
            ..Self::default()
        }
    }

    /// Makes the header for a frame of `len_bytes` with the requests of `meta`; its first [`START_BYTES`] (or
    /// all) are in `start`.
    ///
    /// # Errors
    /// [`VnetError`]: the request is impossible.
    pub fn to_send(start: &[u8], len_bytes: usize, meta: &Meta) -> Result<Self, VnetError> {
        if meta.gso_kind == 0 && meta.gso_bytes > 0 {
            return Err(GsoError::Kind { kind: 0 }.into());
        }
        let header = Self { gso_kind: meta.gso_kind, ..Self::of(meta) };
        let header_bytes = header.check(start, len_bytes)?;
        let flags_at = usize::from(header.checksum_start) + TCP_FLAGS_AT;
        let has_ecn = matches!(header.gso_kind, GSO_TCPV4 | GSO_TCPV6)
            && start.get(flags_at).is_some_and(|flags| flags & CWR != 0);
        Ok(Self { header_bytes, has_ecn, ..header })
    }

    /// Returns the requests to the frame behind it, of `len_bytes`; its first [`START_BYTES`] (or all) are in
    /// `start`.
    ///
    /// # Errors
    /// [`VnetError`]: the header is wrong.
    #[inline]
    pub fn meta(&self, start: &[u8], len_bytes: usize) -> Result<Meta, VnetError> {
        if self.is_plain() {
            return Ok(Meta::default());
        }
        self.check(start, len_bytes)?;
        Ok(Meta {
            gso_bytes: if self.gso_kind == 0 { 0 } else { self.gso_bytes },
            gso_kind: self.gso_kind,
            needs_checksum: self.needs_checksum,
            checksum_start: if self.needs_checksum { self.checksum_start } else { 0 },
            checksum_offset: if self.needs_checksum { self.checksum_offset } else { 0 },
            time_ns: 0,
        })
    }

    /// Returns true if the frame is as on a wire.
    #[inline]
    pub fn is_plain(&self) -> bool {
        !self.needs_checksum && self.gso_kind == 0
    }

    /// Returns true if a header that begins with these bytes has no requests.
    #[inline(always)]
    pub fn is_plain_in([flags, gso_kind]: [u8; 2]) -> bool {
        flags & NEEDS_CHECKSUM == 0 && gso_kind & !ECN == 0
    }

    /// Checks that it fits its frame. Returns the bytes of the headers of a super-packet, else 0.
    fn check(&self, start: &[u8], len_bytes: usize) -> Result<u16, VnetError> {
        let (from, offset) = (usize::from(self.checksum_start), usize::from(self.checksum_offset));
        if self.needs_checksum && from + offset + 2 > len_bytes {
            let (start, offset) = (self.checksum_start, self.checksum_offset);
            return Err(VnetError::Checksum { start, offset, len_bytes });
        }
        if self.gso_kind == 0 {
            return Ok(0);
        }
        let (kind, segment_bytes, is_checksum_partial) = (self.gso_kind, self.gso_bytes, self.needs_checksum);
        let request = GsoRequest { kind, segment_bytes, is_checksum_partial };
        let header_bytes = GsoPlan::of_start(start, start.len(), &request)?.header_bytes();
        let (place, transport_bytes) = match self.gso_kind {
            GSO_UDP => (UDP_OFFSET, UDP_BYTES),
            _ => {
                (TCP_OFFSET, start.get(from + TCP_LENGTH_AT).map_or(0, |length| usize::from(length >> 4) * 4))
            }
        };
        let is_transport =
            usize::from(self.checksum_offset) == place && from + transport_bytes == header_bytes;
        if !(self.needs_checksum && is_transport) {
            return Err(VnetError::CutChecksum);
        }
        Ok(header_bytes as u16)
    }

    /// Returns its bytes, in the machine's byte order.
    #[inline]
    pub fn bytes(&self) -> [u8; VNET_HEADER_BYTES] {
        let mut bytes = [0; VNET_HEADER_BYTES];
        bytes[0] = if self.needs_checksum { NEEDS_CHECKSUM } else { 0 };
        bytes[1] = self.gso_kind | if self.has_ecn { ECN } else { 0 };
        bytes[2..4].copy_from_slice(&self.header_bytes.to_ne_bytes());
        bytes[4..6].copy_from_slice(&self.gso_bytes.to_ne_bytes());
        bytes[6..8].copy_from_slice(&self.checksum_start.to_ne_bytes());
        bytes[8..10].copy_from_slice(&self.checksum_offset.to_ne_bytes());
        bytes
    }

    /// Reads a header, unchecked.
    #[inline]
    pub fn read(bytes: &[u8; VNET_HEADER_BYTES]) -> Self {
        let word = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
        Self {
            needs_checksum: bytes[0] & NEEDS_CHECKSUM != 0,
            gso_kind: bytes[1] & !ECN,
            has_ecn: bytes[1] & ECN != 0,
            header_bytes: word(2),
            gso_bytes: word(4),
            checksum_start: word(6),
            checksum_offset: word(8),
        }
    }
}
