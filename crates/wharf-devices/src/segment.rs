//! Where the transport's segment of a frame lies.

use crate::headers::{DESTINATION_OPTIONS, HOP_BY_HOP, IPV4_BYTES, IPV6_BYTES, word};
use wharf_packet::checksum::sum;
use wharf_packet::{IpPacket, ip_packet};

/// Where a segment lies in its frame, and what the pseudo header before it sums up to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) protocol: u8,
    pub(crate) start: usize,
    pub(crate) len: usize,
    pub(crate) pseudo: u64,
}

/// The segment of an Ethernet frame that begins with `bytes`; `None` for fragments and whatever has none.
pub(crate) fn segment(bytes: &[u8]) -> Option<Segment> {
    segment_of(bytes, ip_packet(bytes)?)
}

/// The segment of an IP packet, the end of `bytes`.
pub(crate) fn segment_of(bytes: &[u8], packet: IpPacket<'_>) -> Option<Segment> {
    let at = |inner: &[u8]| bytes.len() - inner.len();
    match packet {
        IpPacket::V4(ip) => {
            let header = usize::from(ip.first()? & 0xf) * 4;
            let is_fragment = word(ip, 6)? & 0x3fff != 0;
            let len = usize::from(word(ip, 2)?).checked_sub(header)?;
            let protocol = *ip.get(9)?;
            let pseudo = sum(ip.get(12..20)?) + u64::from(protocol) + len as u64;
            (header >= IPV4_BYTES && !is_fragment).then_some(Segment {
                protocol,
                start: at(ip) + header,
                len,
                pseudo,
            })
        }
        IpPacket::V6(ip) => {
            let (mut protocol, mut start) = (*ip.get(6)?, IPV6_BYTES);
            while matches!(protocol, HOP_BY_HOP | DESTINATION_OPTIONS) {
                protocol = *ip.get(start)?;
                start += (usize::from(*ip.get(start + 1)?) + 1) * 8;
            }
            let len = (usize::from(word(ip, 4)?) + IPV6_BYTES).checked_sub(start)?;
            let pseudo = sum(ip.get(8..40)?) + u64::from(protocol) + len as u64;
            Some(Segment { protocol, start: at(ip) + start, len, pseudo })
        }
    }
}
