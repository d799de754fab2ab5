//! Metadata in front of a frame that is sent (`struct xsk_tx_metadata`, Linux 6.8): requests to the driver.

/// Bytes of the metadata, right in front of the frame's first byte: those of Linux 6.14, which has a launch time behind the rest.
pub const TX_METADATA_BYTES: usize = 24;
/// Flag of [`Descriptor::options`](super::Descriptor::options) of a packet's first descriptor: metadata are in front of the packet.
pub const PACKET_HAS_METADATA: u32 = libc::XDP_TX_METADATA;

const _: () = assert!(size_of::<libc::xsk_tx_metadata>() <= TX_METADATA_BYTES);
const _: () = assert!(std::mem::offset_of!(libc::xsk_tx_metadata, xsk_tx_metadata_union) == 8);

/// The room for metadata that a UMEM has in front of each frame that is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TxMetadataRoom {
    /// True if the kernel computes checksums as it copies (`XDP_UMEM_TX_SW_CSUM`); otherwise they are left to the driver.
    pub software_checksums: bool,
}

impl TxMetadataRoom {
    /// Returns the flags of `struct xdp_umem_reg`.
    pub(super) fn umem_flags(self) -> u32 {
        let software = if self.software_checksums { libc::XDP_UMEM_TX_SW_CSUM } else { 0 };
        libc::XDP_UMEM_TX_METADATA_LEN | software
    }
}

/// Returns the metadata that ask for the checksum of the bytes from `start` to the packet's end, at `offset` from there.
pub fn checksum_request(start: u16, offset: u16) -> [u8; TX_METADATA_BYTES] {
    let mut bytes = [0; TX_METADATA_BYTES];
    bytes[..8].copy_from_slice(&u64::from(libc::XDP_TXMD_FLAGS_CHECKSUM).to_ne_bytes());
    bytes[8..10].copy_from_slice(&start.to_ne_bytes());
    bytes[10..12].copy_from_slice(&offset.to_ne_bytes());
    bytes
}
