//! Metadata in front of frames that are sent: by them, `csum=offload` leaves checksums to the driver, or to the kernel as it copies,
//! and `timestamps=on` asks the kernel for the time at which a frame that it has copied is sent.

use super::{XdpOptions, memory};
use crate::link::Link;
use std::io;
use wharf_core::device::ModeReason;
use wharf_mem::{Frame, Meta, Region};
use wharf_packet::{Headers, TCP, UDP};
use wharf_sys::clock::{monotonic_ns, tai_ns};
use wharf_sys::errno::EINVAL;
use wharf_sys::mapping::{Mapping, PAGE_BYTES};
use wharf_sys::netlink::{Netlink, xdp_features};
use wharf_sys::xdp::{TX_METADATA_BYTES, TxMetadataRoom, UmemShape, XdpSocket, tx_request, tx_timestamp};

/// Frames may be so long: the metadata of a longer one would not fit the buffer that the kernel sees.
const FRAME_BYTES_MAX: u32 = PAGE_BYTES as u32;

/// The reason that frames have no stamps if they are not copied.
const NO_STAMPS: &str =
    "no time stamps: the adapter stamps frames sent without copying by a clock of its own";

/// Returns the room for metadata of a queue that sends from `region`, if `options` want any; `socket` opens one to try it with.
///
/// # Errors
/// The reason that checksums cannot be left to driver or kernel, or frames get no stamps, with that.
pub(super) fn room(
    link: &Link, region: &Region, (options, zero_copy): (&XdpOptions, bool),
    socket: impl FnOnce() -> io::Result<XdpSocket>,
) -> Result<Option<TxMetadataRoom>, String> {
    let (checksums, timestamps) = (options.offload_checksums, options.timestamps && !zero_copy);
    let room = TxMetadataRoom {
        checksums,
        software_checksums: checksums && !zero_copy && is_virtual(link),
        timestamps,
    };
    let without = if checksums { "checksums are filled in by software" } else { "no time stamps" };
    let fault = |why: String| format!("{without}: {why}");
    (checksums || timestamps)
        .then(|| {
            fits(link, region, zero_copy && checksums).and_then(|()| tried(&socket().map_err(told)?, room))
        })
        .transpose()
        .map_err(fault)
}

/// Returns why the queue has no better metadata: the reason of [`room`], or that of frames without stamps.
pub(super) fn refused(
    found: &Result<Option<TxMetadataRoom>, String>, options: &XdpOptions, zero_copy: bool,
) -> Option<String> {
    let no_stamps = || (options.timestamps && zero_copy).then(|| NO_STAMPS.to_string());
    found.as_ref().err().cloned().or_else(no_stamps)
}

/// Checks the memory, and that the driver computes checksums, if it is to.
fn fits(link: &Link, region: &Region, driver_sums: bool) -> Result<(), String> {
    let spec = region.spec();
    if spec.frame_bytes > FRAME_BYTES_MAX || (spec.headroom_bytes as usize) < TX_METADATA_BYTES {
        return Err(format!(
            "it takes frames of {FRAME_BYTES_MAX} bytes at most, with {TX_METADATA_BYTES} bytes of headroom"
        ));
    }
    let features = xdp_features(link.interface.index).unwrap_or_default();
    if driver_sums && !features.tx_checksum {
        let driver = link.driver().unwrap_or_else(|| "the driver".into());
        return Err(format!("{driver} computes no checksums of frames sent without copying"));
    }
    Ok(())
}

/// Returns `room` if the kernel knows it.
fn tried(socket: &XdpSocket, room: TxMetadataRoom) -> Result<TxMetadataRoom, String> {
    let register =
        |memory: &Mapping| socket.register(memory, &UmemShape { metadata: Some(room), ..memory::smallest() });
    Mapping::shared_small_pages(PAGE_BYTES).and_then(|memory| register(&memory)).map_err(told)?;
    Ok(room)
}

fn told(error: io::Error) -> String {
    match error.raw_os_error() {
        Some(EINVAL) => "this kernel has no metadata of frames that are sent (Linux 6.11)".into(),
        _ => error.to_string(),
    }
}

/// True if no adapter is below: the other end would get an unfinished checksum as the sender left it.
fn is_virtual(link: &Link) -> bool {
    let described = Netlink::open().and_then(|netlink| netlink.describe(link.interface.index));
    described.is_ok_and(|info| info.kind.is_some()) || link.driver().is_none()
}

/// True if driver or kernel can fill in the checksum that `meta` asks for. They cannot with SCTP, a header inside a tunnel, places outside
/// the first buffer, and frames of several buffers of which the kernel would sum up the first (Linux 7.3 and before).
pub(super) fn takes_checksum(region: &Region, frame: &Frame, meta: &Meta, room: TxMetadataRoom) -> bool {
    let (start, offset) = (meta.checksum_start, meta.checksum_offset);
    let Ok(bytes) = region.bytes(frame) else { return false };
    let end = usize::from(start) + usize::from(offset) + 2;
    let is_in_part = room.software_checksums && bytes.len() < frame.len_bytes() as usize;
    room.checksums && !is_in_part && end <= bytes.len() && is_outer(bytes, start.into())
}

/// Writes a request in front of a frame: for the checksum that `meta` asks for, and for the time. Returns false without room.
pub(super) fn request(region: &Region, frame: &mut Frame, checksum: Option<&Meta>, timestamp: bool) -> bool {
    let Ok(bytes) = region.bytes_and_before_mut(frame, TX_METADATA_BYTES) else { return false };
    let checksum = checksum.map(|meta| (meta.checksum_start, meta.checksum_offset));
    bytes[..TX_METADATA_BYTES].copy_from_slice(&tx_request(checksum, timestamp));
    true
}

/// Gives a frame that the kernel has sent its stamp, if it has asked for one.
#[cold]
pub(super) fn stamp(region: &Region, frame: &mut Frame) {
    let Ok(mut meta) = region.meta(frame) else { return };
    if meta.time_ns != Meta::ASKS_TIME {
        return;
    }
    let read = |bytes: &mut [u8]| bytes.first_chunk().map(tx_timestamp);
    let sent_tai_ns = region.bytes_and_before_mut(frame, TX_METADATA_BYTES).ok().and_then(read);
    let ago_ns = sent_tai_ns.and_then(|sent_ns| tai_ns().checked_sub(sent_ns));
    let sent_ns = ago_ns.and_then(|ago_ns| monotonic_ns().checked_sub(ago_ns));
    meta.time_ns = sent_ns.unwrap_or_default();
    // The frame is the region's own, as its metadata were.
    let _ = region.set_meta(frame, &meta);
}

/// True if the header at byte `start` is that of TCP or UDP behind the first IP header. An adapter may find the header itself,
/// and not look where the request says (`mlx5e_xsk_request_checksum`).
fn is_outer(bytes: &[u8], start: usize) -> bool {
    Headers::parse(bytes).is_ok_and(|headers| {
        headers.transport_at == start && headers.is_whole() && [TCP, UDP].contains(&headers.protocol)
    })
}

/// Returns the cause that a device works in no better mode: `mode` for copying, `refused` for its metadata.
pub(super) fn mode_reason(mode: Option<ModeReason>, refused: Option<&str>) -> Option<ModeReason> {
    let Some(refused) = refused else { return mode };
    let what = mode.map_or(refused.to_string(), |mode| format!("{}; {refused}", mode.what));
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
