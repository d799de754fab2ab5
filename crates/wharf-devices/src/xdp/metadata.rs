//! Metadata in front of frames that are sent: by them, `csum=offload` leaves checksums to the driver, or to the kernel as it copies.

use super::{memory, ways};
use crate::link::{EINVAL, Link};
use std::io;
use wharf_core::device::ModeReason;
use wharf_mem::{Frame, Meta, Region};
use wharf_packet::{Headers, TCP, UDP};
use wharf_sys::mapping::{Mapping, PAGE_BYTES};
use wharf_sys::netlink::{Netlink, xdp_features};
use wharf_sys::xdp::{TX_METADATA_BYTES, TxMetadataRoom, UmemShape, XdpSocket, checksum_request};

/// Frames may be so long: the metadata of a longer one would not fit the buffer that the kernel sees.
const FRAME_BYTES_MAX: u32 = PAGE_BYTES as u32;

/// Returns the room for metadata of a queue that sends from `region`; `socket` opens one to try it with.
///
/// # Errors
/// The reason that checksums cannot be left to driver or kernel.
pub(super) fn room(
    link: &Link, region: &Region, zero_copy: bool, socket: impl FnOnce() -> io::Result<XdpSocket>,
) -> Result<TxMetadataRoom, String> {
    let spec = region.spec();
    if spec.frame_bytes > FRAME_BYTES_MAX || (spec.headroom_bytes as usize) < TX_METADATA_BYTES {
        return Err(format!(
            "it takes frames of {FRAME_BYTES_MAX} bytes at most, with {TX_METADATA_BYTES} bytes of headroom"
        ));
    }
    let driver = || ways::driver(link).unwrap_or_else(|| "the driver".into());
    let features = xdp_features(link.interface.index).unwrap_or_default();
    if zero_copy && !features.tx_checksum {
        return Err(format!("{} computes no checksums of frames sent without copying", driver()));
    }
    let room = TxMetadataRoom { software_checksums: !zero_copy && is_virtual(link) };
    match socket().and_then(|socket| is_known(&socket, room)) {
        Ok(()) => Ok(room),
        Err(error) if error.raw_os_error() == Some(EINVAL) => {
            Err("this kernel has no metadata of frames that are sent (Linux 6.11)".into())
        }
        Err(error) => Err(error.to_string()),
    }
}

/// Tries whether the kernel knows metadata.
fn is_known(socket: &XdpSocket, room: TxMetadataRoom) -> io::Result<()> {
    let memory = Mapping::shared_small_pages(PAGE_BYTES)?;
    socket.register(&memory, &UmemShape { metadata: Some(room), ..memory::smallest() })
}

/// True if no adapter is below: the other end would get an unfinished checksum as the sender left it.
fn is_virtual(link: &Link) -> bool {
    let described = Netlink::open().and_then(|netlink| netlink.describe(link.interface.index));
    described.is_ok_and(|info| info.kind.is_some()) || ways::driver(link).is_none()
}

/// Writes the request for a frame's checksum in front of it. Returns false if there is no room, or if neither driver nor kernel can do
/// it: SCTP, a header inside a tunnel, places outside the first buffer, and frames of several buffers of which the kernel would sum up the
/// first (Linux 7.3 and before).
pub(super) fn request_checksum(
    region: &Region, frame: &mut Frame, meta: &Meta, room: TxMetadataRoom,
) -> bool {
    let (start, offset) = (meta.checksum_start, meta.checksum_offset);
    let Ok(bytes) = region.bytes(frame) else { return false };
    let end = usize::from(start) + usize::from(offset) + 2;
    let is_in_part = room.software_checksums && bytes.len() < frame.len_bytes() as usize;
    if is_in_part || end > bytes.len() || !is_outer(bytes, start.into()) {
        return false;
    }
    let Ok(bytes) = region.bytes_and_before_mut(frame, TX_METADATA_BYTES) else { return false };
    bytes[..TX_METADATA_BYTES].copy_from_slice(&checksum_request(start, offset));
    true
}

/// True if the header at byte `start` is that of TCP or UDP behind the first IP header. An adapter may find the header itself,
/// and not look where the request says (`mlx5e_xsk_request_checksum`).
fn is_outer(bytes: &[u8], start: usize) -> bool {
    Headers::parse(bytes).is_ok_and(|headers| {
        headers.transport_at == start && headers.is_whole() && [TCP, UDP].contains(&headers.protocol)
    })
}

/// Returns the cause that a device works in no better mode: `mode` for copying, `refused` for its checksums.
pub(super) fn mode_reason(mode: Option<ModeReason>, refused: Option<&str>) -> Option<ModeReason> {
    let Some(refused) = refused else { return mode };
    let refused = format!("checksums are filled in by software: {refused}");
    let what = mode.map_or(refused.clone(), |mode| format!("{}; {refused}", mode.what));
    Some(ModeReason { what, is_curable: true })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksum_inside_a_tunnel_is_not_left_to_the_driver() {
        let mut frame = [0; 100];
        (frame[12], frame[14], frame[17], frame[23]) = (8, 0x45, 86, UDP);
        // VXLAN: the inner UDP header is behind 8 bytes of UDP, 8 of VXLAN, 14 of Ethernet and 20 of IP.
        assert!(is_outer(&frame, 34) && !is_outer(&frame, 34 + 50));
        const GRE: u8 = 47;
        frame[23] = GRE;
        assert!(!is_outer(&frame, 34));
    }
}
