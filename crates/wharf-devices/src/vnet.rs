//! The header before each frame: virtio 1.2, section 5.1.6, in the byte order of the machine.

use wharf_mem::Meta;
use wharf_sys::packet::VNET_HEADER_BYTES;

const NEEDS_CHECKSUM: u8 = 1;
/// Of the kind of segmentation: the sender's network says that it was congested.
const ECN: u8 = 0x80;

/// Bytes of a frame that the kernel copies into the packet's own buffer when it is sent. Whatever lies beyond is
/// passed on as pages of the ring, which costs more than a copy up to here (1514 bytes: 1.35 times, on veth).
const COPIED_BYTES_MAX: u32 = 3072;

/// What a header says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct VnetHeader {
    pub(super) needs_checksum: bool,
    /// Kind of segmentation, 0 for none.
    pub(super) gso_kind: u8,
    pub(super) header_bytes: u16,
    /// Payload bytes of a segment.
    pub(super) gso_bytes: u16,
    pub(super) checksum_start: u16,
    pub(super) checksum_offset: u16,
}

impl VnetHeader {
    /// For a frame of `len_bytes` to be sent as `meta` asks.
    #[inline]
    pub(super) fn to_send(len_bytes: u32, meta: &Meta) -> Self {
        let copied = len_bytes.min(COPIED_BYTES_MAX) as u16;
        Self {
            needs_checksum: meta.needs_checksum,
            gso_kind: if meta.gso_bytes > 0 { meta.gso_kind } else { 0 },
            header_bytes: copied,
            gso_bytes: meta.gso_bytes,
            checksum_start: meta.checksum_start,
            checksum_offset: meta.checksum_offset,
        }
    }

    #[inline]
    pub(super) fn bytes(&self) -> [u8; VNET_HEADER_BYTES] {
        let mut bytes = [0; VNET_HEADER_BYTES];
        bytes[0] = if self.needs_checksum { NEEDS_CHECKSUM } else { 0 };
        bytes[1] = self.gso_kind;
        bytes[2..4].copy_from_slice(&self.header_bytes.to_ne_bytes());
        bytes[4..6].copy_from_slice(&self.gso_bytes.to_ne_bytes());
        bytes[6..8].copy_from_slice(&self.checksum_start.to_ne_bytes());
        bytes[8..10].copy_from_slice(&self.checksum_offset.to_ne_bytes());
        bytes
    }

    /// As received. Nothing is checked: whoever uses the places in it does.
    pub(super) fn read(bytes: &[u8; VNET_HEADER_BYTES]) -> Self {
        let word = |at: usize| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
        Self {
            needs_checksum: bytes[0] & NEEDS_CHECKSUM != 0,
            gso_kind: bytes[1] & !ECN,
            header_bytes: word(2),
            gso_bytes: word(4),
            checksum_start: word(6),
            checksum_offset: word(8),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let header = VnetHeader {
            needs_checksum: true,
            gso_kind: 5,
            header_bytes: 42,
            gso_bytes: 1448,
            checksum_start: 34,
            checksum_offset: 6,
        };
        assert_eq!(VnetHeader::read(&header.bytes()), header);
        let plain = VnetHeader::to_send(60, &Meta::default());
        assert_eq!(plain, VnetHeader { header_bytes: 60, ..VnetHeader::default() });
        assert_eq!(VnetHeader::to_send(9000, &Meta::default()).header_bytes, 3072);
    }

    #[test]
    fn congestion_is_no_kind() {
        let mut bytes = VnetHeader { gso_kind: 1, ..VnetHeader::default() }.bytes();
        bytes[1] |= ECN;
        assert_eq!(VnetHeader::read(&bytes).gso_kind, 1);
    }
}
