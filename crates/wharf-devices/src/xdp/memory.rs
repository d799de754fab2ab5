//! How the kernel sees a pool's region.
//!
//! Frames are named by the place of their first byte, so that none is ever copied. To send, any place will do: chunks of
//! the region's own stride where they are what the kernel knows (2 or 4 KiB), else *unaligned* ones, of which only the
//! length matters: no descriptor is longer than a chunk.

use wharf_mem::Region;
use wharf_sys::mapping::PAGE_BYTES;
use wharf_sys::xdp::{PACKET_HEADROOM_BYTES, UmemShape};

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

/// The least UMEM.
pub(super) fn smallest() -> UmemShape {
    UmemShape { chunk_bytes: PIECE_BYTES as u32, headroom_bytes: 0, is_unaligned: false }
}

/// A UMEM to receive into: buffers of which the kernel's own headroom lies before a frame's data, be it in the frame's
/// headroom or, unused, in the buffer before, so that what arrives lies where the frame's data should be; and that end where
/// these end, at the latest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) shape: UmemShape,
    /// Bytes from a buffer's beginning to its data.
    before: usize,
}

/// Bytes of the least chunk that the kernel takes, and of the least room for a packet in one: Linux keeps 320 of them free
/// where packets lie in several buffers, and wants 128 besides.
const CHUNK_BYTES_MIN: u32 = 2048;
pub(super) const ROOM_BYTES_MIN: u32 = 448;

/// As [`Window`] says; the region's frames have room for [`ROOM_BYTES_MIN`].
pub(super) fn to_receive(region: &Region) -> Window {
    let room = region.data_bytes_max().min(PIECE_BYTES as u32 - PACKET_HEADROOM_BYTES);
    let chunk_bytes = (room + PACKET_HEADROOM_BYTES).max(CHUNK_BYTES_MIN);
    let before = chunk_bytes - room;
    let headroom_bytes = before - PACKET_HEADROOM_BYTES;
    Window { shape: UmemShape { chunk_bytes, headroom_bytes, is_unaligned: true }, before: before as usize }
}

impl Window {
    /// Where the buffer begins for a frame whose data begin at `data`; `None` where that is before the region's first
    /// byte, or, where there are pages to be kept to, the buffer would cross the end of one.
    #[inline]
    pub(super) fn begins_at(&self, data: usize, page_bytes: Option<usize>) -> Option<usize> {
        let at = data.checked_sub(self.before)?;
        let end = at + self.shape.chunk_bytes as usize - 1;
        page_bytes.is_none_or(|page| at / page == end / page).then_some(at)
    }
}
