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
    /// True if packets ask for checksums.
    pub checksums: bool,
    /// True if the kernel computes checksums as it copies (`XDP_UMEM_TX_SW_CSUM`); otherwise they are left to the driver.
    pub software_checksums: bool,
    /// True if packets ask for the time at which they have left.
    pub timestamps: bool,
}

impl TxMetadataRoom {
    /// Returns the flags of `struct xdp_umem_reg`.
    pub(super) fn umem_flags(self) -> u32 {
        let software = if self.software_checksums { libc::XDP_UMEM_TX_SW_CSUM } else { 0 };
        libc::XDP_UMEM_TX_METADATA_LEN | software
    }
}

/// Returns the metadata that ask for the checksum of the bytes from `start` to the packet's end, at `offset` from there, if
/// `checksum` has these, and for the time at which the packet has left.
pub fn tx_request(checksum: Option<(u16, u16)>, timestamp: bool) -> [u8; TX_METADATA_BYTES] {
    let mut bytes = [0; TX_METADATA_BYTES];
    let wants_checksum = if checksum.is_some() { libc::XDP_TXMD_FLAGS_CHECKSUM } else { 0 };
    let wants_time = if timestamp { libc::XDP_TXMD_FLAGS_TIMESTAMP } else { 0 };
    bytes[..8].copy_from_slice(&u64::from(wants_checksum | wants_time).to_ne_bytes());
    let (start, offset) = checksum.unwrap_or_default();
    bytes[8..10].copy_from_slice(&start.to_ne_bytes());
    bytes[10..12].copy_from_slice(&offset.to_ne_bytes());
    bytes
}

/// Returns the time at which a packet has left, from its metadata once it is complete: nanoseconds of `CLOCK_TAI` if the kernel
/// has copied it.
pub fn tx_timestamp(metadata: &[u8; TX_METADATA_BYTES]) -> u64 {
    u64::from_ne_bytes(std::array::from_fn(|at| metadata[8 + at]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_is_read_where_the_kernel_writes_it() {
        let both = tx_request(Some((34, 6)), true);
        assert_eq!(both[..8], 3_u64.to_ne_bytes());
        assert_eq!([&both[8..10], &both[10..12]], [34_u16.to_ne_bytes(), 6_u16.to_ne_bytes()]);
        let mut metadata = tx_request(None, true);
        assert_eq!((metadata[0], tx_timestamp(&metadata)), (1, 0));
        metadata[8..16].copy_from_slice(&77_u64.to_ne_bytes());
        assert_eq!(tx_timestamp(&metadata), 77);
    }
}
