//! Which band a packet belongs to: by its priority, else by the DSCP in its IP header, as in the kernel.
//!
//! Sources: `rt_tos2priority` and `ip_tos2prio` (net/ipv4/route.c), `prio2band` (net/sched/sch_generic.c).

use wharf_mem::Frame;

/// The kernel's `prio2band`: band by priority.
const BAND_OF_PRIORITY: [u8; 16] = [1, 2, 2, 2, 1, 2, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1];
/// The kernel's `ip_tos2prio`: priority by bits 1 to 4 of the TOS byte (0 best effort, 2 bulk, 6 interactive,
/// 4 interactive bulk).
const PRIORITY_OF_TOS: [u8; 16] = [0, 0, 0, 0, 2, 2, 2, 2, 6, 6, 6, 6, 4, 4, 4, 4];

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
const ETHERTYPE_VLAN: u16 = 0x8100;
const ETHERTYPE_QINQ: u16 = 0x88a8;

/// The band of priority `priority` (0 to 15; higher ones count as 15).
pub fn band_of_priority(priority: u8) -> u8 {
    BAND_OF_PRIORITY[usize::from(priority.min(15))]
}

/// The priority that the kernel gives a socket for TOS byte `tos`.
pub fn priority_of_tos(tos: u8) -> u8 {
    PRIORITY_OF_TOS[usize::from(tos >> 1 & 0xf)]
}

/// The band of an Ethernet frame by its DSCP, through up to two VLAN tags; best effort's for anything else.
pub fn band_of_bytes(bytes: &[u8]) -> u8 {
    band_of_priority(tos_of(bytes).map_or(0, priority_of_tos))
}

/// The TOS byte, or traffic class, of an IP packet in an Ethernet frame, behind up to two VLAN tags; its upper six bits are
/// the DSCP.
#[inline]
pub fn tos_of(bytes: &[u8]) -> Option<u8> {
    match ip_packet(bytes)? {
        IpPacket::V4(ip) => ip.get(1).copied(),
        // The traffic class lies across the first two bytes, after the version.
        IpPacket::V6(ip) => Some(ip.first()? << 4 | ip.get(1)? >> 4),
    }
}

/// An IP packet within an Ethernet frame, from its first byte on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IpPacket<'a> {
    /// IPv4.
    V4(&'a [u8]),
    /// IPv6.
    V6(&'a [u8]),
}

/// The IP packet in an Ethernet frame, behind up to two VLAN tags; `None` for anything else. It may be cut short.
pub fn ip_packet(frame: &[u8]) -> Option<IpPacket<'_>> {
    let mut at = 12;
    for _ in 0..3 {
        let ethertype = u16::from_be_bytes([*frame.get(at)?, *frame.get(at + 1)?]);
        at += 2;
        match ethertype {
            ETHERTYPE_IPV4 => return frame.get(at..).map(IpPacket::V4),
            ETHERTYPE_IPV6 => return frame.get(at..).map(IpPacket::V6),
            ETHERTYPE_VLAN | ETHERTYPE_QINQ => at += 2,
            _ => return None,
        }
    }
    None
}

/// Sets a frame's band from a priority. In a frame 0 means "not classified yet", so bands count from 1 there.
pub fn set_priority(frame: &mut Frame, priority: u8) {
    frame.set_band(band_of_priority(priority) + 1);
}

/// Sets a frame's band from its bytes, unless a priority has set it.
#[inline]
pub(crate) fn classify(frame: &mut Frame, region: &wharf_mem::Region) {
    if frame.band() == 0 {
        let band = region.bytes(frame).map_or(1, band_of_bytes);
        frame.set_band(band + 1);
    }
}

/// The band that a frame was put into; best effort's when it was not classified.
#[inline]
pub(crate) fn band_of(frame: &Frame) -> u8 {
    match frame.band() {
        0 => BAND_OF_PRIORITY[0],
        band => band - 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(ethertypes: &[u16], ip: [u8; 2]) -> Vec<u8> {
        let mut bytes = vec![0; 12];
        for (n, ethertype) in ethertypes.iter().enumerate() {
            bytes.extend(ethertype.to_be_bytes());
            if n + 1 < ethertypes.len() {
                bytes.extend([0, 5]);
            }
        }
        bytes.extend(ip);
        bytes
    }

    #[test]
    fn bands_are_the_kernels() {
        // TOS byte, band: low delay, throughput, plain, EF (0xb8: bits 1-4 say interactive bulk), CS6.
        for (tos, band) in [(0x10, 0), (0x08, 2), (0, 1), (0xb8, 1), (0xc0, 1), (0x1c, 1)] {
            assert_eq!(band_of_bytes(&packet(&[ETHERTYPE_IPV4], [0x45, tos])), band, "TOS {tos:#x}");
            let ipv6 = [0x60 | tos >> 4, tos << 4];
            assert_eq!(
                band_of_bytes(&packet(&[ETHERTYPE_VLAN, ETHERTYPE_IPV6], ipv6)),
                band,
                "class {tos:#x}"
            );
        }
    }

    #[test]
    fn what_is_not_ip_or_cut_short_is_best_effort() {
        assert_eq!(band_of_bytes(&packet(&[0x0806], [0, 0x10])), 1);
        assert_eq!(band_of_bytes(&packet(&[ETHERTYPE_VLAN; 4], [0x45, 0x10])), 1);
        for len in 0..16 {
            assert_eq!(band_of_bytes(&packet(&[ETHERTYPE_IPV4], [0x45, 0x10])[..len.min(15)]), 1);
        }
    }
}
