//! Tunnels: VXLAN (RFC 7348), Geneve (RFC 8926), GRE (RFC 2784 and 2890), IP in IP (RFC 2003 and 2473).
//!
//! A UDP tunnel is recognised by its destination port: the registered one, and Linux's default for VXLAN.

use crate::{ETHERTYPE_IPV4, ETHERTYPE_IPV6, HeaderError, Headers, UDP, UDP_BYTES, ip_packet, word};

const IPV4_IN_IP: u8 = 4;
const IPV6_IN_IP: u8 = 41;
const GRE: u8 = 47;
const VXLAN_PORT: u16 = 4789;
const VXLAN_PORT_LINUX: u16 = 8472;
const GENEVE_PORT: u16 = 6081;
const VXLAN_BYTES: usize = 8;
/// The flag that says that the VXLAN network identifier is valid, as it must be (RFC 7348, section 5).
const VXLAN_VALID: u8 = 0x08;
/// Bytes of a Geneve header without options.
const GENEVE_BYTES: usize = 8;
/// Transparent Ethernet bridging.
const ETHERTYPE_BRIDGING: u16 = 0x6558;
/// Flags of GRE, each of which adds four bytes: checksum, key, sequence number.
const GRE_FIELDS: [u16; 3] = [0x8000, 0x2000, 0x1000];
/// Routing, the bits beside key and sequence number, and the version: a packet that has them is discarded (RFC 2784,
/// section 2.3).
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
/// Returns `None` for a fragment, for what is no tunnel, and for a tunnel header of another version or without the flags
/// that its RFC demands. The inner packet may lie behind the frame's end.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// IPv4 with `protocol` and `payload` behind it.
    fn outer(protocol: u8, payload: &[u8]) -> Vec<u8> {
        let mut frame =
            [&[2; 12][..], &[8, 0, 0x45, 0, 0, 0, 0, 0, 0, 0, 64, protocol, 0, 0], &[10; 8]].concat();
        let len = (20 + payload.len()) as u16;
        frame[16..18].copy_from_slice(&len.to_be_bytes());
        [&frame[..], payload].concat()
    }

    fn udp(port: u16, header: &[u8]) -> Vec<u8> {
        let [high, low] = port.to_be_bytes();
        outer(UDP, &[&[0x90, 1, high, low, 0, 0, 0, 0][..], header, &outer(6, &[9; 20])].concat())
    }

    fn found(frame: &[u8]) -> Option<Inner> {
        inner(frame, &Headers::parse(frame).unwrap())
    }

    #[test]
    fn vxlan_and_geneve_then_the_inner_frame_is_found() {
        let vxlan = udp(4789, &[8, 0, 0, 0, 0, 0, 5, 0]);
        assert_eq!(found(&vxlan), Some(Inner::Ethernet(50)));
        let headers = Inner::Ethernet(50).headers(&vxlan).unwrap();
        assert_eq!((headers.ip_at, headers.transport_at, headers.protocol), (64, 84, 6));
        let geneve = udp(6081, &[1, 0, 0x65, 0x58, 0, 0, 5, 0, 1, 2, 3, 4]);
        assert_eq!(found(&geneve), Some(Inner::Ethernet(54)));
        assert_eq!(found(&udp(6081, &[0, 0, 8, 0, 0, 0, 5, 0])), Some(Inner::Ip(50)));
        assert_eq!(found(&udp(53, &[8, 0, 0, 0, 0, 0, 5, 0])), None);
    }

    #[test]
    fn flags_that_the_rfc_refuses_then_no_tunnel() {
        assert_eq!(found(&udp(8472, &[0, 0, 0, 0, 0, 0, 5, 0])), None, "VXLAN without a valid identifier");
        assert_eq!(found(&udp(6081, &[0x40, 0, 8, 0, 0, 0, 5, 0])), None, "Geneve, version 1");
        let gre = |flags: u16| {
            let [high, low] = flags.to_be_bytes();
            found(&outer(GRE, &[&[high, low, 8, 0][..], &[0; 12], &outer(6, &[9; 20])[14..]].concat()))
        };
        assert_eq!([gre(0), gre(0x2000), gre(0xb000)], [38, 42, 50].map(|at| Some(Inner::Ip(at))));
        for refused in [0x4000, 0x0800, 0x0400, 1] {
            assert_eq!(gre(refused), None, "{refused:#x}");
        }
    }

    #[test]
    fn fragment_of_a_tunnel_then_nothing_is_inside() {
        let mut frame = outer(IPV4_IN_IP, &outer(6, &[9; 20])[14..]);
        assert_eq!(found(&frame), Some(Inner::Ip(34)));
        assert_eq!(Inner::Ip(34).headers(&frame).unwrap().transport_at, 54);
        frame[20] = 0x20;
        assert_eq!(found(&frame), None);
        for len in 34..frame.len() {
            let _ = Inner::Ip(34).headers(&frame[..len]);
        }
    }
}
