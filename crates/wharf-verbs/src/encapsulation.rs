//! IPoIB's encapsulation (RFC 4391, section 6): a datagram is a header of 4 bytes, the EtherType and 16 reserved bits, and the payload.
//!
//! Ethernet addresses do not travel: the receiver makes them of the GIDs. Both ends convert in place. A frame's EtherType is at byte
//! 12 and its payload at byte 14, so the header of 4 bytes is written over bytes 10 to 13.

use super::address::Mac;
use crate::ibverbs::{GRH_BYTES, Gid};
use wharf_devices::iface::ETHERNET_BYTES;
use wharf_packet::checksum;

/// Bytes of the header.
pub(super) const HEADER_BYTES: usize = 4;
/// Offset of the header in an Ethernet frame.
pub(super) const HEADER_AT: usize = ETHERNET_BYTES as usize - HEADER_BYTES;
/// Bytes in front of a frame's data that a reception wants: the route header and the datagram's header end where the payload begins.
pub const HEADROOM_BYTES: usize = GRH_BYTES + HEADER_BYTES - ETHERNET_BYTES as usize;
/// Bytes of the shortest datagram with a route header in front.
const SHORTEST_BYTES: usize = GRH_BYTES + HEADER_BYTES;

/// Writes the header into an Ethernet frame, in place of the last bytes of its Ethernet header.
#[inline]
pub(super) fn encapsulate(frame: &mut [u8]) -> Option<()> {
    let header: &mut [u8; ETHERNET_BYTES as usize] = frame.first_chunk_mut()?;
    let [.., high, low] = *header;
    header[HEADER_AT..].copy_from_slice(&[high, low, 0, 0]);
    Some(())
}

/// Returns the length of the Ethernet frame that `len_bytes`, received with a route header, become; `None` if there is no whole header.
#[inline]
pub(super) fn frame_bytes(len_bytes: u32) -> Option<u32> {
    (len_bytes as usize >= SHORTEST_BYTES).then(|| len_bytes - HEADROOM_BYTES as u32)
}

/// Returns the GID of the sender of what has arrived: the route header's, or of the IPv4 header that RoCE puts into its last 20 bytes.
#[inline]
pub(super) fn source(arrived: &[u8]) -> Option<Gid> {
    let route: &[u8; GRH_BYTES] = arrived.first_chunk()?;
    // The version of IPv6 and of the route header is 6, of IPv4 4. A device need not write what precedes an IPv4 header.
    let v4 = &route[20..];
    let is_v4 = match (route[0] >> 4, v4[0] >> 4) {
        (6, 4) => checksum::fold(checksum::sum(v4)) == 0xffff,
        (_, 4) => true,
        (6, _) => false,
        _ => return None,
    };
    if is_v4 {
        v4[12..16].try_into().ok().map(super::address::gid_of_v4)
    } else {
        route[8..24].try_into().ok()
    }
}

/// Turns what has arrived, `HEADROOM_BYTES` in front of the frame's data, into an Ethernet frame from `from` to `to`.
#[inline]
pub(super) fn decapsulate(arrived: &mut [u8], to: &Mac, from: &Mac) -> Option<()> {
    let ethertype: [u8; 2] = arrived.get(GRH_BYTES..GRH_BYTES + 2)?.try_into().ok()?;
    let header: &mut [u8; ETHERNET_BYTES as usize] = arrived.get_mut(HEADROOM_BYTES..)?.first_chunk_mut()?;
    header[..6].copy_from_slice(to);
    header[6..12].copy_from_slice(from);
    header[12..].copy_from_slice(&ethertype);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frame_comes_back_with_the_addresses_of_the_ports() {
        let mut frame: Vec<u8> = (0..60).collect();
        encapsulate(&mut frame).unwrap();
        assert_eq!(frame[HEADER_AT..15], [12, 13, 0, 0, 14]);
        let mut arrived = vec![0; GRH_BYTES];
        arrived.extend_from_slice(&frame[HEADER_AT..]);
        assert_eq!(frame_bytes(arrived.len() as u32), Some(60));
        decapsulate(&mut arrived, &[7; 6], &[8; 6]).unwrap();
        let back = &arrived[HEADROOM_BYTES..];
        assert_eq!((&back[..6], &back[6..12]), (&[7; 6][..], &[8; 6][..]));
        assert_eq!(back[12..], (12..60).collect::<Vec<u8>>());
    }

    #[test]
    fn short_datagrams_are_none() {
        assert_eq!(encapsulate(&mut [0; 13]), None);
        assert_eq!([frame_bytes(43), frame_bytes(0), frame_bytes(44)], [None, None, Some(14)]);
        assert_eq!(decapsulate(&mut [0; 43], &[0; 6], &[0; 6]), None);
        assert_eq!(source(&[0; 39]), None);
    }

    #[test]
    fn source_is_read_from_either_header() {
        let mut route = [0; GRH_BYTES];
        assert_eq!(source(&route), None);
        (route[20], route[32], route[35]) = (0x45, 10, 2);
        assert_eq!(source(&route).unwrap()[10..], [0xff, 0xff, 10, 0, 0, 2]);
        (route[0], route[8], route[20]) = (0x60, 0xfe, 0);
        assert_eq!(source(&route).unwrap()[0], 0xfe);
    }
}
