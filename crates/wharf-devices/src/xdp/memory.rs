//! The UMEM: the kernel's view of a pool's region.
//!
//! Frames are named by the address of their first byte, so none is ever copied. For sending, any address will
//! do: aligned chunks of the region's own stride if the kernel knows it (2 or 4 KiB), else *unaligned* ones,
//! of which only the length matters: no descriptor is longer than a chunk.

use wharf_mem::Region;
use wharf_sys::mapping::PAGE_BYTES;
use wharf_sys::xdp::{PACKET_HEADROOM_BYTES, TxMetadataRoom, UmemShape};

/// Bytes of the longest descriptor: a page, the largest chunk of the kernel.
pub(super) const PIECE_BYTES: usize = PAGE_BYTES;

/// A UMEM to send from.
pub(super) fn to_send(region: &Region, metadata: Option<TxMetadataRoom>) -> UmemShape {
    let stride = region.spec().frame_bytes;
    match stride {
        2048 | 4096 => UmemShape { chunk_bytes: stride, headroom_bytes: 0, is_unaligned: false, metadata },
        _ => UmemShape { chunk_bytes: PIECE_BYTES as u32, headroom_bytes: 0, is_unaligned: true, metadata },
    }
}

/// Buffers for arrivals of a socket that only sends without copying: the driver takes over the queue's receive side, too. It hands
/// arrivals to the host, and then has the buffer back, so these never come to an end.
pub(super) const SPARE_BUFFERS: u32 = 512;
/// Bytes of them, behind the region.
pub(super) const SPARE_BYTES: usize = SPARE_BUFFERS as usize * PAGE_BYTES;

/// A UMEM to send from without copying, of `region` and of spare buffers behind it.
///
/// # Errors
/// The reason, if frames may cross the end of a page: an adapter knows where one page is, and not where the next one is.
pub(super) fn to_send_in_place(
    region: &Region, aligned: bool, metadata: Option<TxMetadataRoom>,
) -> Result<UmemShape, String> {
    let stride = region.spec().frame_bytes;
    let is_usual = matches!(stride, 2048 | 4096);
    let chunk_bytes = if aligned { stride } else { PIECE_BYTES as u32 };
    if aligned && !is_usual {
        return Err(format!("aligned memory has frames of 2048 or 4096 bytes, and the pool's have {stride}"));
    }
    if !is_usual && region.mapping().page_bytes() == PAGE_BYTES {
        return Err(format!(
            "frames of {stride} bytes cross pages, since the pool is not on 2 MiB pages (`sysctl vm.nr_hugepages`)"
        ));
    }
    Ok(UmemShape { chunk_bytes, headroom_bytes: 0, is_unaligned: !aligned, metadata })
}

const KIB: u32 = 1024;
/// Bytes of a pool's frame by default, and those of them beside a packet.
const USUAL_BYTES: u32 = 2048;
const BESIDE_BYTES: u32 = 512;

/// True if adapters of `driver` know buffers by whole KiB. They put a longer packet into two, of which the driver makes two packets.
fn takes_whole_kib(driver: &str) -> bool {
    matches!(driver, "igb" | "igc")
}

/// Returns the bytes of a packet that `driver` puts into a buffer of `shape`.
pub(super) fn packet_bytes(driver: &str, shape: &UmemShape) -> u32 {
    let room = shape.chunk_bytes - shape.headroom_bytes - PACKET_HEADROOM_BYTES;
    if takes_whole_kib(driver) { room - room % KIB } else { room }
}

/// Returns the bytes of a pool's frame with which `driver` receives packets of up to `longest_bytes` without
/// copying, if the usual frame is too short.
pub(super) fn frame_bytes(driver: &str, longest_bytes: u32) -> Option<u32> {
    let room = longest_bytes.next_multiple_of(KIB);
    let is_piece = room <= PIECE_BYTES as u32 - PACKET_HEADROOM_BYTES;
    (takes_whole_kib(driver) && is_piece && room > USUAL_BYTES - BESIDE_BYTES).then_some(room + BESIDE_BYTES)
}

/// Returns the smallest UMEM.
pub(super) fn smallest() -> UmemShape {
    UmemShape { chunk_bytes: PIECE_BYTES as u32, headroom_bytes: 0, is_unaligned: false, metadata: None }
}

/// A UMEM to receive into. The kernel's own headroom lies before a frame's data: in the frame's headroom, or
/// in the unused end of the buffer before. So a packet arrives where the frame's data should be, and a buffer
/// ends where the frame ends, at the latest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    pub shape: UmemShape,
    /// Bytes from the start of a buffer to its data.
    before: usize,
}

/// Bytes of the smallest chunk that the kernel takes, and of the least room for a packet in one. Linux keeps
/// 320 of them free if packets lie in several buffers, and wants 128 besides.
const CHUNK_BYTES_MIN: u32 = 2048;
pub const ROOM_BYTES_MIN: u32 = 448;

/// Makes the UMEM that [`Window`] describes; the region's frames have room for [`ROOM_BYTES_MIN`].
pub fn to_receive(region: &Region) -> Window {
    let room = region.data_bytes_max().min(PIECE_BYTES as u32 - PACKET_HEADROOM_BYTES);
    let chunk_bytes = (room + PACKET_HEADROOM_BYTES).max(CHUNK_BYTES_MIN);
    let before = chunk_bytes - room;
    let headroom_bytes = before - PACKET_HEADROOM_BYTES;
    let shape = UmemShape { chunk_bytes, headroom_bytes, is_unaligned: true, metadata: None };
    Window { shape, before: before as usize }
}

/// Makes the UMEM to receive into frames of a page each, aligned: no buffer crosses the end of a page, and drivers that refuse unaligned
/// memory take it. A packet arrives where the last possible start of a frame's data is, and is then moved. `None` for other frames.
pub fn to_receive_aligned(region: &Region) -> Option<Window> {
    let chunk_bytes = region.spec().frame_bytes;
    let before = chunk_bytes - region.data_bytes_max();
    let headroom_bytes = before.saturating_sub(PACKET_HEADROOM_BYTES);
    let shape = UmemShape { chunk_bytes, headroom_bytes, is_unaligned: false, metadata: None };
    (chunk_bytes as usize == PAGE_BYTES).then_some(Window { shape, before: before as usize })
}

/// Returns why `driver` cannot receive into `window` of `region` without copying packets of up to `longest_bytes`.
pub(super) fn unfit_to_receive(
    region: &Region, window: &Window, driver: &str, longest_bytes: u32,
) -> Option<String> {
    let (stride, data) = (region.spec().frame_bytes, region.data_bytes_max());
    if window.shape.is_unaligned && region.mapping().page_bytes() == PAGE_BYTES {
        return Some(format!(
            "buffers of {stride} bytes cross pages, since the pool is not on 2 MiB pages (`sysctl vm.nr_hugepages`; frames of 4096 bytes do without)"
        ));
    }
    let room = packet_bytes(driver, &window.shape);
    if room >= longest_bytes || !takes_whole_kib(driver) {
        return None;
    }
    let enough = longest_bytes.next_multiple_of(KIB) + (stride - data);
    Some(format!(
        "{driver} takes memory by whole KiB, and splits packets longer than {room} bytes: take frames of {enough} bytes (`--frame-bytes`)"
    ))
}

impl Window {
    /// Adds room for metadata in front of frames that are sent.
    #[must_use]
    pub(super) fn with_metadata(self, metadata: Option<TxMetadataRoom>) -> Self {
        Self { shape: UmemShape { metadata, ..self.shape }, ..self }
    }

    /// Returns the start of the buffer for a frame whose data begin at `data`; `None` if that is before the
    /// region's first byte, or if the buffer would cross the end of a page that it must keep to.
    #[inline]
    pub fn begins_at(&self, data: usize, page_bytes: Option<usize>) -> Option<usize> {
        if !self.shape.is_unaligned {
            return Some(data - data % self.shape.chunk_bytes as usize);
        }
        let at = data.checked_sub(self.before)?;
        let end = at + self.shape.chunk_bytes as usize - 1;
        page_bytes.is_none_or(|page| at / page == end / page).then_some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wharf_core::pool::PagePool;

    #[test]
    fn frame_that_a_driver_of_whole_kib_asks_for_holds_the_longest_packet() {
        for (mtu_bytes, frame) in
            [(500, None), (1000, None), (1500, Some(2560)), (2500, Some(3584)), (9000, None)]
        {
            let longest_bytes = mtu_bytes + 22;
            assert_eq!(frame_bytes("igb", longest_bytes), frame);
            assert_eq!(frame_bytes("ixgbe", longest_bytes), None);
            if mtu_bytes < 3000 {
                let pool = PagePool::builder().frames(8).frame_bytes(frame.unwrap_or(2048)).build().unwrap();
                let shape = to_receive(pool.region()).shape;
                assert!(packet_bytes("igb", &shape) >= longest_bytes, "{shape:?}");
            }
        }
    }
}
