//! What tunnels of the kernel's have inside: VXLAN (RFC 7348), Geneve (RFC 8926), GRE (RFC 2784, 2890), IP in IP.
//!
//! UDP tunnels are known by their ports, those that are registered and the one that Linux has for VXLAN by default.

use crate::headers::{UDP, UDP_BYTES, word};
use crate::segment::{Segment, segment_of};
use wharf_packet::{IpPacket, ip_packet};

const IP_IN_IP: u8 = 4;
const IPV6_IN_IP: u8 = 41;
const GRE: u8 = 47;
const VXLAN_PORT: u16 = 4789;
const VXLAN_PORT_OF_LINUX: u16 = 8472;
const GENEVE_PORT: u16 = 6081;
const VXLAN_BYTES: usize = 8;
/// Of its header, without options.
const GENEVE_BYTES: usize = 8;
const ETHERTYPE_ETHERNET: u16 = 0x6558;
/// Flags of GRE, each of which says that four bytes more follow: checksum, key, sequence number.
const GRE_FIELDS: [u16; 3] = [0x8000, 0x2000, 0x1000];

/// What a tunnel has inside, and where that begins in the frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Inner {
    Ethernet(usize),
    Ipv4(usize),
    Ipv6(usize),
}

impl Inner {
    fn of(ethertype: u16, at: usize) -> Option<Self> {
        match ethertype {
            0x0800 => Some(Self::Ipv4(at)),
            0x86dd => Some(Self::Ipv6(at)),
            ETHERTYPE_ETHERNET => Some(Self::Ethernet(at)),
            _ => None,
        }
    }

    /// The segment in there, of the frame that begins with `bytes`.
    pub(crate) fn segment(self, bytes: &[u8]) -> Option<Segment> {
        let packet = match self {
            Self::Ethernet(at) => ip_packet(bytes.get(at..)?)?,
            Self::Ipv4(at) => IpPacket::V4(bytes.get(at..)?),
            Self::Ipv6(at) => IpPacket::V6(bytes.get(at..)?),
        };
        segment_of(bytes, packet)
    }
}

/// What is in the tunnel that `segment` of a frame is; `None` when it is none.
#[inline]
pub(crate) fn inner(bytes: &[u8], segment: &Segment) -> Option<Inner> {
    let at = segment.start;
    match segment.protocol {
        UDP => match word(bytes, at + 2)? {
            VXLAN_PORT | VXLAN_PORT_OF_LINUX => Some(Inner::Ethernet(at + UDP_BYTES + VXLAN_BYTES)),
            GENEVE_PORT => {
                let options_bytes = usize::from(bytes.get(at + UDP_BYTES)? & 0x3f) * 4;
                let ethertype = word(bytes, at + UDP_BYTES + 2)?;
                Inner::of(ethertype, at + UDP_BYTES + GENEVE_BYTES + options_bytes)
            }
            _ => None,
        },
        GRE => {
            let flags = word(bytes, at)?;
            let fields = GRE_FIELDS.into_iter().filter(|field| flags & field != 0).count();
            Inner::of(word(bytes, at + 2)?, at + 4 + 4 * fields)
        }
        IP_IN_IP => Some(Inner::Ipv4(at)),
        IPV6_IN_IP => Some(Inner::Ipv6(at)),
        _ => None,
    }
}
