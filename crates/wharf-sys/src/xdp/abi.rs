//! Numbers and layouts of include/uapi/linux/if_xdp.h. Some are younger than the headers of the distributions
//! that Wharf is built on.

use crate::option::Plain;

pub(super) const AF_XDP: libc::c_int = 44;
pub(super) const SOL_XDP: libc::c_int = 283;

/// Socket options.
pub(super) const XDP_MMAP_OFFSETS: libc::c_int = 1;
pub(super) const XDP_RX_RING: libc::c_int = 2;
pub(super) const XDP_TX_RING: libc::c_int = 3;
pub(super) const XDP_UMEM_REG: libc::c_int = 4;
pub(super) const XDP_UMEM_FILL_RING: libc::c_int = 5;
pub(super) const XDP_UMEM_COMPLETION_RING: libc::c_int = 6;
pub(super) const XDP_STATISTICS: libc::c_int = 7;
/// Linux 6.17.
pub(super) const XDP_MAX_TX_SKB_BUDGET: libc::c_int = 9;

/// Offsets at which rings are mapped.
pub(super) const XDP_PGOFF_RX_RING: u64 = 0;
pub(super) const XDP_PGOFF_TX_RING: u64 = 0x8000_0000;
pub(super) const XDP_UMEM_PGOFF_FILL_RING: u64 = 0x1_0000_0000;
pub(super) const XDP_UMEM_PGOFF_COMPLETION_RING: u64 = 0x1_8000_0000;

/// Flags of `bind(2)`.
pub(super) const XDP_COPY: u16 = 1 << 1;
pub(super) const XDP_ZEROCOPY: u16 = 1 << 2;
pub(super) const XDP_USE_NEED_WAKEUP: u16 = 1 << 3;
/// Linux 6.6.
pub(super) const XDP_USE_SG: u16 = 1 << 4;

/// UMEM flag: addresses in the fill ring are taken as they are, not as the chunk that they are in.
pub(super) const XDP_UMEM_UNALIGNED_CHUNK_FLAG: u32 = 1;
/// Flag of a fill or transmit ring: the kernel looks at it only when it is called.
pub(super) const XDP_RING_NEED_WAKEUP: u32 = 1;

/// Flag of [`Descriptor::options`]: the packet goes on in the next descriptor.
pub const PACKET_CONTINUES: u32 = 1;
/// Bytes that the kernel leaves in front of each received frame, besides the UMEM's headroom.
pub const PACKET_HEADROOM_BYTES: u32 = 256;

/// `struct sockaddr_xdp`.
#[repr(C)]
pub(super) struct Address {
    pub(super) family: u16,
    pub(super) flags: u16,
    pub(super) interface: u32,
    pub(super) queue: u32,
    pub(super) shared_umem_fd: u32,
}

const _: () = assert!(size_of::<Address>() == 16);

/// `struct xdp_umem_reg`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct UmemRegistration {
    pub(super) addr: u64,
    pub(super) len: u64,
    pub(super) chunk_bytes: u32,
    pub(super) headroom_bytes: u32,
    pub(super) flags: u32,
    pub(super) transmit_metadata_bytes: u32,
}

const _: () = assert!(size_of::<UmemRegistration>() == 32);

/// `struct xdp_ring_offset`: offsets of a ring's parts in its mapping, bytes.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RingOffsets {
    pub(super) producer: u64,
    pub(super) consumer: u64,
    pub(super) entries: u64,
    pub(super) flags: u64,
}

/// `struct xdp_mmap_offsets`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Offsets {
    pub(super) receive: RingOffsets,
    pub(super) transmit: RingOffsets,
    pub(super) fill: RingOffsets,
    pub(super) completion: RingOffsets,
}

const _: () = assert!(size_of::<RingOffsets>() == 32 && size_of::<Offsets>() == 128);

/// `struct xdp_desc`: one buffer of a packet.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Descriptor {
    /// Offset of the data in the UMEM, bytes. Of a frame received into unaligned chunks: the fill ring's
    /// address, and in the upper 16 bits the offset from there.
    pub addr: u64,
    /// Length, bytes.
    pub len: u32,
    /// [`PACKET_CONTINUES`], or 0.
    pub options: u32,
}

const _: () = assert!(size_of::<Descriptor>() == 16 && align_of::<Descriptor>() == 8);

/// `struct xdp_statistics`: error counters since the socket was bound.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Statistics {
    /// Frames dropped since the fill ring had no buffer, or one that is too short.
    pub received_dropped: u64,
    /// Invalid addresses in the fill ring.
    pub received_invalid: u64,
    /// Descriptors in the transmit ring that the kernel cannot use.
    pub transmit_invalid: u64,
    /// Frames dropped since the receive ring was full.
    pub receive_ring_full: u64,
    /// Number of times that the fill ring was empty.
    pub fill_ring_empty: u64,
    /// Number of times that the transmit ring was empty.
    pub transmit_ring_empty: u64,
}

const _: () = assert!(size_of::<Statistics>() == 48);

// SAFETY: numbers, in both.
unsafe impl Plain for Offsets {}
// SAFETY: as above.
unsafe impl Plain for Statistics {}
