//! The TOS byte of IPv4 and the traffic class of IPv6: DSCP (RFC 2474) in the upper six bits, ECN (RFC 3168)
//! in the lower two.

use crate::ether::by_ethertype;
use crate::{IPV4_BYTES, IPV6_BYTES, IpPacket, ip_packet, replace_ip_word};

const CE: u8 = 3;

/// The ECN codepoint of an IP packet (RFC 3168, section 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Ecn {
    /// The transport does not use ECN: congestion is signalled by a drop.
    NotEct = 0,
    /// ECN-capable transport, ECT(1); L4S by RFC 9331.
    Ect1 = 1,
    /// ECN-capable transport, ECT(0).
    Ect0 = 2,
    /// Congestion experienced.
    Ce = CE,
}

impl Ecn {
    /// Returns the codepoint in a TOS byte or traffic class.
    #[inline]
    pub fn of(traffic_class: u8) -> Self {
        match traffic_class & CE {
            0 => Ecn::NotEct,
            1 => Ecn::Ect1,
            2 => Ecn::Ect0,
            _ => Ecn::Ce,
        }
    }
}

/// Reads the TOS byte or traffic class of an Ethernet frame behind up to two VLAN tags.
///
/// Returns `None` where there is no IP packet, or less of it than two bytes.
#[inline]
pub fn traffic_class(frame: &[u8]) -> Option<u8> {
    match by_ethertype(frame)? {
        IpPacket::V4(ip) => {
            let &[first, tos] = ip.first_chunk()?;
            (first >> 4 == 4).then_some(tos)
        }
        // The traffic class lies across the first two bytes, behind the version.
        IpPacket::V6(ip) => {
            let &[first, second] = ip.first_chunk()?;
            (first >> 4 == 6).then_some(first << 4 | second >> 4)
        }
    }
}

/// Reads the DSCP of an Ethernet frame, 0 to 63; `None` as for [`traffic_class`].
#[inline]
pub fn dscp(frame: &[u8]) -> Option<u8> {
    Some(traffic_class(frame)? >> 2)
}

/// Reads the ECN codepoint of an Ethernet frame; `None` as for [`traffic_class`].
#[inline]
pub fn ecn(frame: &[u8]) -> Option<Ecn> {
    Some(Ecn::of(traffic_class(frame)?))
}

/// Marks an ECN-capable IP packet as Congestion Experienced, as the kernel's `INET_ECN_set_ce` does.
///
/// Works on an Ethernet frame behind up to two VLAN tags. The checksum of an IPv4 header is updated
/// incrementally (RFC 1624), so that a wrong one stays wrong. Only the outermost IP header is marked (RFC
/// 6040, section 4.1).
///
/// Returns true if the packet now has the mark, also where it had it before. Returns false, and changes
/// nothing, if the packet is not ECN-capable, is not IP, or has no whole IP header.
///
/// ```
/// # mod wharf { pub use wharf_packet as net; }
/// use wharf::net::{Ecn, ecn, mark_ce};
///
/// let mut frame = [0; 34];
/// frame[12..16].copy_from_slice(&[0x08, 0x00, 0x45, 0x02]); // IPv4, ECT(0)
/// assert!(mark_ce(&mut frame));
/// assert_eq!(ecn(&frame), Some(Ecn::Ce));
/// frame[15] = 0; // not ECN-capable
/// assert!(!mark_ce(&mut frame));
/// ```
pub fn mark_ce(frame: &mut [u8]) -> bool {
    let (ip_at, is_ipv4) = match ip_packet(frame) {
        Some(IpPacket::V4(ip)) if ip.len() >= IPV4_BYTES => (frame.len() - ip.len(), true),
        Some(IpPacket::V6(ip)) if ip.len() >= IPV6_BYTES => (frame.len() - ip.len(), false),
        _ => return false,
    };
    let ip = &mut frame[ip_at..];
    if is_ipv4 { mark_ipv4(ip) } else { mark_ipv6(ip) }
}

fn mark_ipv4(ip: &mut [u8]) -> bool {
    if ip[1] & CE == 0 {
        return false;
    }
    replace_ip_word(ip, true, 0, u16::from_be_bytes([ip[0], ip[1] | CE]));
    true
}

fn mark_ipv6(ip: &mut [u8]) -> bool {
    if ip[1] >> 4 & CE == 0 {
        return false;
    }
    ip[1] |= CE << 4;
    true
}
