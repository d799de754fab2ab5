//! What tunnels of the kernel's have inside: VXLAN (RFC 7348), Geneve (RFC 8926), GRE (RFC 2784, 2890), IP in IP.
//!
//! UDP tunnels are known by their ports, those that are registered and the one that Linux has for VXLAN by default.

use super::{Segment, UDP, word};
use wharf_core::qdisc::{IpPacket, ip_packet};

const IP_IN_IP: u8 = 4;
const IPV6_IN_IP: u8 = 41;
const GRE: u8 = 47;
const VXLAN_PORT: u16 = 4789;
const VXLAN_PORT_OF_LINUX: u16 = 8472;
const GENEVE_PORT: u16 = 6081;
const UDP_BYTES: usize = 8;
const VXLAN_BYTES: usize = 8;
const ETHERTYPE_ETHERNET: u16 = 0x6558;
/// Flags of GRE, each of which says that four bytes more follow: checksum, key, sequence number.
const GRE_FIELDS: [u16; 3] = [0x8000, 0x2000, 0x1000];

/// The IP packet in the tunnel that `segment` of a frame is; `None` when it is none.
#[inline]
pub(super) fn inner<'a>(bytes: &'a [u8], segment: &Segment) -> Option<IpPacket<'a>> {
    let tunnel = bytes.get(segment.start..)?;
    match segment.protocol {
        UDP => match word(tunnel, 2)? {
            VXLAN_PORT | VXLAN_PORT_OF_LINUX => ip_packet(tunnel.get(UDP_BYTES + VXLAN_BYTES..)?),
            GENEVE_PORT => {
                let options_bytes = usize::from(tunnel.get(UDP_BYTES)? & 0x3f) * 4;
                of_type(word(tunnel, UDP_BYTES + 2)?, tunnel.get(UDP_BYTES + 8 + options_bytes..)?)
            }
            _ => None,
        },
        GRE => {
            let flags = word(tunnel, 0)?;
            let fields = GRE_FIELDS.into_iter().filter(|field| flags & field != 0).count();
            of_type(word(tunnel, 2)?, tunnel.get(4 + 4 * fields..)?)
        }
        IP_IN_IP => Some(IpPacket::V4(tunnel)),
        IPV6_IN_IP => Some(IpPacket::V6(tunnel)),
        _ => None,
    }
}

fn of_type(ethertype: u16, inner: &[u8]) -> Option<IpPacket<'_>> {
    match ethertype {
        0x0800 => Some(IpPacket::V4(inner)),
        0x86dd => Some(IpPacket::V6(inner)),
        ETHERTYPE_ETHERNET => ip_packet(inner),
        _ => None,
    }
}
