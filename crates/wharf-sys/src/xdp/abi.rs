//! Types of include/uapi/linux/if_xdp.h, besides those of `libc`.

use crate::option::Plain;

/// Socket option of Linux 6.17, which `libc` lacks. It is the last one of Linux 7.3: `XDP_GENERIC_XMIT_BATCH`
/// was proposed and not merged, so its number may come to mean something else.
pub(super) const XDP_MAX_TX_SKB_BUDGET: libc::c_int = 9;

/// Flag of [`Descriptor::options`]: the packet goes on in the next descriptor.
pub const PACKET_CONTINUES: u32 = libc::XDP_PKT_CONTD;
/// Bytes that the kernel leaves in front of each received frame, besides the UMEM's headroom.
pub const PACKET_HEADROOM_BYTES: u32 = 256;

const _: () = assert!(size_of::<libc::sockaddr_xdp>() == 16 && size_of::<libc::xdp_umem_reg>() == 32);
const _: () = assert!(size_of::<libc::xdp_ring_offset>() == 32 && size_of::<libc::xdp_mmap_offsets>() == 128);

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

/// Error counters since the socket was bound, of those in `struct xdp_statistics`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Statistics {
    /// Frames dropped since the fill ring had no buffer, or one that is too short.
    pub received_dropped: u64,
    /// Frames dropped since the receive ring was full.
    pub receive_ring_full: u64,
}

const _: () = assert!(size_of::<libc::xdp_statistics>() == 48);

// SAFETY: numbers, in both.
unsafe impl Plain for libc::xdp_mmap_offsets {}
// SAFETY: as above.
unsafe impl Plain for libc::xdp_statistics {}
