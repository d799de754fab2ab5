//! How the kernel sees a pool's region.
//!
//! Frames are named by the place of their first byte, so that none is ever copied. To send, any place will do: chunks of
//! the region's own stride where they are what the kernel knows (2 or 4 KiB), else *unaligned* ones, of which only the
//! length matters: no descriptor is longer than a chunk.

use wharf_mem::Region;
use wharf_sys::mapping::PAGE_BYTES;
use wharf_sys::xdp::UmemShape;

/// Bytes of the longest descriptor: a page, which is what the kernel's chunks may be.
pub(super) const PIECE_BYTES: usize = PAGE_BYTES;

/// A UMEM to send from.
pub(super) fn to_send(region: &Region) -> UmemShape {
    let stride = region.spec().frame_bytes;
    match stride {
        2048 | 4096 => UmemShape { chunk_bytes: stride, headroom_bytes: 0, is_unaligned: false },
        _ => UmemShape { chunk_bytes: PIECE_BYTES as u32, headroom_bytes: 0, is_unaligned: true },
    }
}
