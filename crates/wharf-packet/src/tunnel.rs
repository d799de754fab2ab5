//! Tunnels: VXLAN (RFC 7348), Geneve (RFC 8926), GRE (RFC 2784 and 2890), IP in IP (RFC 2003 and 2473).
//!
//! A UDP tunnel is recognised by its destination port: the registered one, and Linux's default for VXLAN.

use crate::{ETHERTYPE_IPV4, ETHERTYPE_IPV6, HeaderError, Headers, UDP, UDP_BYTES, ip_packet, word};

/// IP protocol number of IPv4 in IP.
pub const IPV4_IN_IP: u8 = 4;
/// IP protocol number of IPv6 in IP.
pub const IPV6_IN_IP: u8 = 41;
/// IP protocol number of GRE.
pub const GRE: u8 = 47;
const VXLAN_PORT: u16 = 4789;
const VXLAN_PORT_LINUX: u16 = 8472;
const GENEVE_PORT: u16 = 6081;
/// Bytes of a VXLAN header.
pub const VXLAN_BYTES: usize = 8;
/// The flag that says that the VXLAN network identifier is valid, as it must be (RFC 7348, section 5).
pub const VXLAN_VALID: u8 = 0x08;
/// Bytes of a Geneve header without options.
const GENEVE_BYTES: usize = 8;
/// EtherType of an Ethernet frame in GRE or Geneve (transparent Ethernet bridging).
pub const ETHERTYPE_BRIDGING: u16 = 0x6558;
/// Flags of GRE, each of which adds four bytes: checksum, key, sequence number.
const GRE_FIELDS: [u16; 3] = [0x8000, 0x2000, 0x1000];
/// Routing, the bits beside key and sequence number, and the version: a packet that has them is discarded
/// (RFC 2784, section 2.3).
const GRE_REFUSED: u16 = 0x4c07;

/// The packet inside a tunnel, by its offset in the frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inner {
    /// An Ethernet frame.
    Ethernet(usize),
    /// An IP packet, of the version in its first byte.
    Ip(usize),
}

impl Inner {
    fn of(ethertype: u16, at: usize) -> Option<Self> {
        match ethertype {
            ETHERTYPE_IPV4 | ETHERTYPE_IPV6 => Some(Self::Ip(at)),
            ETHERTYPE_BRIDGING => Some(Self::Ethernet(at)),
            _ => None,
        }
    }

    /// Reads the headers of the inner packet; their offsets count from the start of the outer frame.
    ///
    /// # Errors
    /// [`HeaderError`].
    pub fn headers(self, frame: &[u8]) -> Result<Headers, HeaderError> {
        match self {
            Self::Ip(at) => Headers::parse_ip(frame, at),
            Self::Ethernet(at) => {
                let packet = frame.get(at..).and_then(ip_packet).ok_or(HeaderError::NotIp)?;
                Headers::parse_packet(packet, frame.len() - packet.bytes().len())
            }
        }
    }
}

/// Finds the packet inside the tunnel that `outer`, the headers of `frame`, lead to.
///
/// Returns `None` for a fragment, for what is no tunnel, and for a tunnel header of another version or
/// without the flags that its RFC demands. The inner packet may lie behind the frame's end.
#[inline]
pub fn inner(frame: &[u8], outer: &Headers) -> Option<Inner> {
    let at = outer.transport_at;
    match outer.protocol {
        _ if !outer.is_whole() => None,
        UDP => match word(frame, at + 2)? {
            VXLAN_PORT | VXLAN_PORT_LINUX => {
                let is_valid = frame.get(at + UDP_BYTES)? & VXLAN_VALID != 0;
                is_valid.then_some(Inner::Ethernet(at + UDP_BYTES + VXLAN_BYTES))
            }
            GENEVE_PORT => {
                // Two bits of version, six of option length in words.
                let first = *frame.get(at + UDP_BYTES)?;
                let inner_at = at + UDP_BYTES + GENEVE_BYTES + usize::from(first & 0x3f) * 4;
                if first >> 6 == 0 { Inner::of(word(frame, at + UDP_BYTES + 2)?, inner_at) } else { None }
            }
            _ => None,
        },
        GRE => {
            let flags = word(frame, at)?;
            let fields = GRE_FIELDS.into_iter().filter(|field| flags & field != 0).count();
            let inner = Inner::of(word(frame, at + 2)?, at + 4 + 4 * fields);
            inner.filter(|_| flags & GRE_REFUSED == 0)
        }
        IPV4_IN_IP | IPV6_IN_IP => Some(Inner::Ip(at)),
        _ => None,
    }
}
