//! Checksums that a sender leaves to the adapter.

use super::family::Checksum;
use wharf_core::offload;
use wharf_mem::{Frame, Region};
use wharf_packet::{IpPacket, ip_packet};

/// Offsets of the checksum in the headers of TCP and UDP.
const TCP_OFFSET: u16 = 16;
const UDP_OFFSET: u16 = 6;

/// Returns the checksum that a frame leaves to the adapter. One that the adapter cannot fill in is filled in here:
/// another transport's, or one behind many headers.
pub(super) fn checksum_of(region: &Region, frame: &mut Frame) -> Result<Option<Checksum>, &'static str> {
    let meta = region.meta(frame).map_err(|_| "foreign-pool")?;
    if meta.gso_bytes > 0 {
        return Err("super-packet");
    }
    if !meta.needs_checksum {
        return Ok(None);
    }
    let place = u32::from(meta.checksum_start) + u32::from(meta.checksum_offset);
    if place + 2 > frame.len_bytes() {
        return Err("checksum-place");
    }
    let first = region.bytes(frame).map_err(|_| "foreign-pool")?;
    let network_at = ip_packet(first).and_then(|packet| {
        let (IpPacket::V4(packet) | IpPacket::V6(packet)) = packet;
        u8::try_from(packet.as_ptr() as usize - first.as_ptr() as usize).ok()
    });
    let known = match (network_at, u8::try_from(meta.checksum_start), u8::try_from(place)) {
        (Some(network_at), Ok(start), Ok(place)) if network_at < start => {
            let is_known = matches!(meta.checksum_offset, TCP_OFFSET | UDP_OFFSET);
            let is_tcp = meta.checksum_offset == TCP_OFFSET;
            is_known.then_some(Checksum { network_at, start, place, is_tcp })
        }
        _ => None,
    };
    if known.is_none() && !offload::complete_frame(region, frame).unwrap_or(false) {
        return Err("unfinished-checksum");
    }
    Ok(known)
}
