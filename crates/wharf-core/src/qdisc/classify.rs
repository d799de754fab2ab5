//! The band of a packet: by its priority, else by the DSCP in its IP header, as in the kernel.
//!
//! Sources: `rt_tos2priority` and `ip_tos2prio` (net/ipv4/route.c), `prio2band` (net/sched/sch_generic.c).

use wharf_mem::Frame;
use wharf_packet::traffic_class;

/// The kernel's `prio2band`: band by priority.
const BAND_OF_PRIORITY: [u8; 16] = [1, 2, 2, 2, 1, 2, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1];
/// The kernel's `ip_tos2prio`: priority by bits 1 to 4 of the TOS byte (0 best effort, 2 bulk, 6 interactive,
/// 4 interactive bulk).
const PRIORITY_OF_TOS: [u8; 16] = [0, 0, 0, 0, 2, 2, 2, 2, 6, 6, 6, 6, 4, 4, 4, 4];

/// Returns the band of priority `priority`, from 0 to 15; higher ones count as 15.
pub fn band_of_priority(priority: u8) -> u8 {
    BAND_OF_PRIORITY[usize::from(priority.min(15))]
}

/// Returns the priority that the kernel gives a socket for TOS byte `tos`.
pub fn priority_of_tos(tos: u8) -> u8 {
    PRIORITY_OF_TOS[usize::from(tos >> 1 & 0xf)]
}

/// Returns the band of an Ethernet frame by its DSCP, behind up to two VLAN tags; that of best effort if
/// there is no IP packet.
pub fn band_of_bytes(bytes: &[u8]) -> u8 {
    band_of_priority(traffic_class(bytes).map_or(0, priority_of_tos))
}

/// Sets a frame's band from a priority. In a frame, 0 means not classified, so bands count from 1 there.
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

/// Returns the band that a frame was put into; that of best effort if it was not classified.
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
    use wharf_packet::{ETHERTYPE_IPV4, ETHERTYPE_IPV6, ETHERTYPE_VLAN};

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
    fn bands_equal_the_kernels() {
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
    fn a_packet_that_is_not_ip_or_is_truncated_is_best_effort() {
        assert_eq!(band_of_bytes(&packet(&[0x0806], [0, 0x10])), 1);
        assert_eq!(band_of_bytes(&packet(&[ETHERTYPE_VLAN; 4], [0x45, 0x10])), 1);
        for len in 0..16 {
            assert_eq!(band_of_bytes(&packet(&[ETHERTYPE_IPV4], [0x45, 0x10])[..len.min(15)]), 1);
        }
    }
}
