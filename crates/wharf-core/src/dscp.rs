//! The band of a packet: by its priority as in the kernel, else by the DSCP in its IP header.
//!
//! The kernel derives a priority from the TOS byte by RFC 1349, so it puts EF (voice) among best effort. Here the classes that networks
//! send first today go into the first band as well: EF, VA and CS5 to CS7, as CAKE's `diffserv4` does (`diffserv4` in
//! net/sched/sch_cake.c; RFC 4594, RFC 5865). Every other DSCP has the kernel's band.
//!
//! Sources: `rt_tos2priority` and `ip_tos2prio` (net/ipv4/route.c), `prio2band` (net/sched/sch_generic.c).

mod text;

use wharf_mem::Frame;
use wharf_packet::traffic_class;

/// The kernel's `prio2band`: band by priority.
const BAND_OF_PRIORITY: [u8; 16] = [1, 2, 2, 2, 1, 2, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1];
/// The kernel's `ip_tos2prio`: priority by bits 1 to 4 of the TOS byte (0 best effort, 2 bulk, 6 interactive,
/// 4 interactive bulk).
const PRIORITY_OF_TOS: [u8; 16] = [0, 0, 0, 0, 2, 2, 2, 2, 6, 6, 6, 6, 4, 4, 4, 4];
/// CS5, VA, EF, CS6, CS7.
const FIRST_BAND: [usize; 5] = [40, 44, 46, 48, 56];
const DSCPS: usize = 64;

/// The band of each DSCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DscpBands([u8; DSCPS]);

impl From<[u8; DSCPS]> for DscpBands {
    fn from(bands: [u8; DSCPS]) -> Self {
        Self(bands)
    }
}

impl From<DscpBands> for [u8; DSCPS] {
    fn from(bands: DscpBands) -> Self {
        bands.0
    }
}

impl Default for DscpBands {
    /// EF, VA and CS5 to CS7 are in the first band, the others in the kernel's.
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl DscpBands {
    const DEFAULT: Self = Self::defaults();

    const fn defaults() -> Self {
        let mut bands = [0; DSCPS];
        let mut dscp = 0;
        while dscp < DSCPS {
            // Bits 2 to 4 of the TOS byte are the lower three of the DSCP; bit 1, of ECN, changes no priority.
            let priority = PRIORITY_OF_TOS[dscp << 1 & 0xf];
            bands[dscp] = BAND_OF_PRIORITY[priority as usize];
            dscp += 1;
        }
        let mut at = 0;
        while at < FIRST_BAND.len() {
            bands[FIRST_BAND[at]] = 0;
            at += 1;
        }
        Self(bands)
    }

    /// Returns the band of `dscp`, from 0 to 63; of a higher number, that of its lower six bits.
    #[inline]
    pub fn band(&self, dscp: u8) -> u8 {
        self.0[usize::from(dscp) % DSCPS]
    }

    /// Sets the band of `dscp`.
    pub fn set(&mut self, dscp: u8, band: u8) {
        self.0[usize::from(dscp) % DSCPS] = band;
    }

    /// Returns the band of an Ethernet frame, behind up to two VLAN tags; that of DSCP 0 if there is no IP packet.
    #[inline]
    pub fn band_of_bytes(&self, bytes: &[u8]) -> u8 {
        self.band(traffic_class(bytes).unwrap_or(0) >> 2)
    }
}

/// Returns the band of an Ethernet frame by its DSCP, as [`DscpBands`] has it by default.
pub fn band_of_bytes(bytes: &[u8]) -> u8 {
    DscpBands::DEFAULT.band_of_bytes(bytes)
}

/// Sets a frame's band from a priority, 0 to 15; higher ones count as 15. In a frame, 0 means not
/// classified, so bands count from 1 there.
pub fn set_priority(frame: &mut Frame, priority: u8) {
    frame.set_band(BAND_OF_PRIORITY[usize::from(priority.min(15))] + 1);
}

/// Sets a frame's band from its bytes, unless a priority has set it.
#[inline]
pub(crate) fn classify(frame: &mut Frame, region: &wharf_mem::Region, bands: &DscpBands) {
    if frame.band() == 0 {
        let band = region.bytes(frame).map_or(BAND_OF_PRIORITY[0], |bytes| bands.band_of_bytes(bytes));
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

    /// A row for each upper three bits of the DSCP: CS0, CS1 and so on, and those behind each. EF (46) and VA (44) are in the row of CS5.
    const GOLDEN: [[u8; 8]; 8] = [
        [1, 1, 2, 2, 0, 0, 1, 1],
        [1, 1, 2, 2, 0, 0, 1, 1],
        [1, 1, 2, 2, 0, 0, 1, 1],
        [1, 1, 2, 2, 0, 0, 1, 1],
        [1, 1, 2, 2, 0, 0, 1, 1],
        [0, 1, 2, 2, 0, 0, 0, 1],
        [0, 1, 2, 2, 0, 0, 1, 1],
        [0, 1, 2, 2, 0, 0, 1, 1],
    ];

    #[test]
    fn each_dscp_has_its_band_whatever_its_ecn_bits_and_its_protocol() {
        for tos in 0..=255u8 {
            let band = GOLDEN.as_flattened()[usize::from(tos >> 2)];
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
    fn all_but_five_have_the_kernels_band() {
        let differs = |dscp: &u8| {
            let priority = PRIORITY_OF_TOS[usize::from(dscp << 1 & 0xf)];
            GOLDEN.as_flattened()[usize::from(*dscp)] != BAND_OF_PRIORITY[usize::from(priority)]
        };
        assert_eq!((0..64).filter(differs).collect::<Vec<u8>>(), [40, 46, 48, 56], "VA was first before");
    }

    #[test]
    fn a_band_that_is_set_is_used() {
        let mut bands = DscpBands::default();
        bands.set(0, 2);
        let plain = packet(&[ETHERTYPE_IPV4], [0x45, 0]);
        assert_eq!((bands.band_of_bytes(&plain), bands.band(46), band_of_bytes(&plain)), (2, 0, 1));
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
