//! Work that a sender leaves to the adapter: checksums, and the segmentation of TCP.

use super::family::{Checksum, Context, Segments};
use wharf_core::offload;
use wharf_devices::iface::{VLAN_BYTES, is_tagged};
use wharf_mem::{Frame, Region};
use wharf_packet::{IpPacket, ip_packet};

/// Offsets of the checksum in the headers of TCP and UDP.
const TCP_OFFSET: u16 = 16;
const UDP_OFFSET: u16 = 6;
/// Offsets in the IP header: the total length and the checksum of IPv4, the payload's length of IPv6.
const IPV4_LENGTH_AT: usize = 2;
const IPV4_CHECKSUM_AT: usize = 10;
const IPV6_LENGTH_AT: usize = 4;

/// Returns the work that a frame leaves to the adapter, whose frames have `longest_bytes` at most. A checksum that the
/// adapter cannot fill in is filled in here: another transport's, or one behind many headers. The headers of a
/// super-packet are made ready.
pub(super) fn work_of(
    region: &Region, frame: &mut Frame, longest_bytes: u32,
) -> Result<Option<Context>, &'static str> {
    let meta = region.meta(frame).map_err(|_| "foreign-pool")?;
    if meta.gso_bytes > 0 {
        return segments_of(region, frame, meta.gso_bytes, longest_bytes)
            .map(|of| Some(Context::Segments(of)));
    }
    if !meta.needs_checksum {
        return Ok(None);
    }
    checksum_of(region, frame, meta.checksum_start, meta.checksum_offset)
}

/// Makes the headers of a super-packet ready, and describes them: 8254x manual, section 3.5; 82576 datasheet,
/// section 7.2.4.
fn segments_of(
    region: &Region, frame: &mut Frame, segment_bytes: u16, longest_bytes: u32,
) -> Result<Segments, &'static str> {
    // The path segments all that is not of this kind.
    let headers = offload::adapter_headers(region, frame).ok_or("super-packet")?;
    let payload_bytes = frame.len_bytes() - u32::from(headers.header_bytes);
    let start = region.bytes_mut(frame).map_err(|_| "foreign-pool")?;
    let tag_bytes = if is_tagged(start) { VLAN_BYTES } else { 0 };
    if u32::from(headers.header_bytes) + u32::from(segment_bytes) > longest_bytes + tag_bytes {
        return Err("too-long");
    }
    let mut put = |at: usize, value: u16| {
        if let Some(place) = start.get_mut(at..at + 2) {
            place.copy_from_slice(&value.to_be_bytes());
        }
    };
    let network_at = usize::from(headers.network_at);
    if headers.is_ipv6 {
        put(network_at + IPV6_LENGTH_AT, 0);
    } else {
        put(network_at + IPV4_LENGTH_AT, 0);
        put(network_at + IPV4_CHECKSUM_AT, 0);
    }
    put(usize::from(headers.transport_at) + usize::from(TCP_OFFSET), headers.pseudo_sum);
    Ok(Segments {
        network_at: headers.network_at,
        transport_at: headers.transport_at,
        header_bytes: headers.header_bytes,
        is_ipv6: headers.is_ipv6,
        segment_bytes,
        payload_bytes,
    })
}

/// Describes a checksum from byte `start` on, to be written `offset` bytes behind that.
fn checksum_of(
    region: &Region, frame: &mut Frame, checksum_start: u16, checksum_offset: u16,
) -> Result<Option<Context>, &'static str> {
    let place = u32::from(checksum_start) + u32::from(checksum_offset);
    if place + 2 > frame.len_bytes() {
        return Err("checksum-place");
    }
    let first = region.bytes(frame).map_err(|_| "foreign-pool")?;
    let network_at = ip_packet(first).and_then(|packet| {
        let (IpPacket::V4(packet) | IpPacket::V6(packet)) = packet;
        u8::try_from(packet.as_ptr() as usize - first.as_ptr() as usize).ok()
    });
    let known = match (network_at, u8::try_from(checksum_start), u8::try_from(place)) {
        (Some(network_at), Ok(start), Ok(place)) if network_at < start => {
            let is_known = matches!(checksum_offset, TCP_OFFSET | UDP_OFFSET);
            let is_tcp = checksum_offset == TCP_OFFSET;
            is_known.then_some(Checksum { network_at, start, place, is_tcp })
        }
        _ => None,
    };
    if known.is_none() && !offload::complete_frame(region, frame).unwrap_or(false) {
        return Err("unfinished-checksum");
    }
    Ok(known.map(Context::Checksum))
}
