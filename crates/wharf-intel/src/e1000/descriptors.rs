//! Legacy descriptors: sections 3.2.3 (receive) and 3.3.3 (transmit); extended ones of frames whose checksum the
//! adapter fills in: sections 3.3.6 (context) and 3.3.7 (data). Bits are those of the second word of 8 bytes.

use super::E1000;
use crate::family::{Arrival, Checksum, Context, DEXT, Descriptors, EOP, IFCS, IXSM, Part, TXSM, Work};

/// Transmit: an extended descriptor of data.
const DTYP_DATA: u64 = 1 << 20;
/// Context: the transport is TCP.
const TCP: u64 = 1 << 24;
/// Context: IPv4, and the first bits of the headers' length and of the segments'.
const IPV4: u64 = 1 << 25;
const HDRLEN: u32 = 40;
const MSS: u32 = 48;
/// Context and data: segmentation.
const TSE: u64 = 1 << 26;
/// Receive: the descriptor is done, end of packet.
const RX_DD: u64 = 1 << 32;
const RX_EOP: u64 = 1 << 33;
/// Receive errors (section 3.2.3.2): check sequence or alignment, symbol, sequence, carrier extension, data.
const RX_ERRORS: u64 = 0x97 << 40;

impl Descriptors for E1000 {
    const TAIL_BYTES: u32 = 4;

    /// Makes a transmit descriptor.
    #[inline(always)]
    fn transmit(part: &Part) -> [u64; 2] {
        let end = if part.is_last { EOP | IFCS } else { IFCS };
        let extended = match part.work {
            Work::None => 0,
            Work::Checksum => DEXT | DTYP_DATA | TXSM,
            Work::Segments { is_ipv6, .. } => DEXT | DTYP_DATA | TSE | TXSM | if is_ipv6 { 0 } else { IXSM },
        };
        [part.address, u64::from(part.len_bytes & 0xffff) | end | extended]
    }

    /// Makes a context descriptor: the sum runs from `TUCSS` to the end of the packet, and goes to `TUCSO`.
    fn context(context: &Context) -> [u64; 2] {
        let of = match context {
            Context::Checksum(Checksum { start, place, is_tcp, .. }) => {
                let first = u64::from(*start) << 32 | u64::from(*place) << 40;
                return [first, DEXT | if *is_tcp { TCP } else { 0 }];
            }
            Context::Segments(of) => of,
        };
        // The IP header's checksum runs up to `IPCSE`, and goes to `IPCSO`.
        let (network_at, start) = (u64::from(of.network_at), u64::from(of.transport_at));
        let ip = network_at | (network_at + 10) << 8 | start.saturating_sub(1) << 16;
        let kind = DEXT | TSE | TCP | if of.is_ipv6 { 0 } else { IPV4 };
        let lengths = u64::from(of.payload_bytes & 0xf_ffff)
            | u64::from(of.header_bytes) << HDRLEN
            | u64::from(of.segment_bytes) << MSS;
        [ip | start << 32 | (start + 16) << 40, kind | lengths]
    }

    /// Reads a receive descriptor.
    #[inline(always)]
    fn arrival(second: u64) -> Option<Arrival> {
        let arrival = Arrival {
            len_bytes: second as u32 & 0xffff,
            is_last: second & RX_EOP != 0,
            is_bad: second & RX_ERRORS != 0,
        };
        (second & RX_DD != 0).then_some(arrival)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::{RS, SUPER_PACKET};

    #[test]
    fn fields_lie_where_the_manual_has_them() {
        let part = Part {
            address: 0x1_2345_6789,
            len_bytes: 1514,
            frame_bytes: 1514,
            is_last: true,
            work: Work::None,
        };
        // Length in bits 0 to 15, command in bits 24 to 31: EOP 0, IFCS 1, RS 3 (table 3-8).
        assert_eq!(E1000::transmit(&part), [0x1_2345_6789, 0x0300_05ea]);
        assert_eq!(E1000::transmit(&Part { is_last: false, ..part })[1], 0x0200_05ea);
        assert_eq!(RS >> 24, 1 << 3);
        // Type in bits 20 to 23, DEXT 5 of the command, TXSM 1 of the options in bits 40 to 47 (tables 3-15 and 3-16).
        assert_eq!(E1000::transmit(&Part { work: Work::Checksum, ..part })[1], 0x0200_2310_05ea);
        // TUCSS in bits 32 to 39, TUCSO in bits 40 to 47 (figure 3-10).
        let udp = Checksum { network_at: 14, start: 34, place: 40, is_tcp: false };
        assert_eq!(E1000::context(&Context::Checksum(udp)), [0x2822_0000_0000, 0x2000_0000]);
        // TSE is bit 2 of the command, in both; IXSM bit 0 of the options (tables 3-13 and 3-16).
        let work = Work::Segments { is_ipv6: false, payload_bytes: 60_000 };
        assert_eq!(E1000::transmit(&Part { work, ..part })[1], 0x0300_2710_05ea);
        // IPCSS 0 to 7, IPCSO 8 to 15, IPCSE 16 to 31; PAYLEN 0 to 19, TCP and IP as bits 0 and 1 of the command,
        // HDRLEN 40 to 47, MSS 48 to 63 (figure 3-10, tables 3-13 and 3-14).
        assert_eq!(
            E1000::context(&Context::Segments(SUPER_PACKET)),
            [0x3222_0021_180e, 1448 << 48 | 66 << 40 | 0x2700_0000 | 60_000]
        );
        // Length, checksum, status in bits 32 to 39, errors in bits 40 to 47 (table 3-1).
        let done = Arrival { len_bytes: 60, is_last: true, is_bad: false };
        assert_eq!(E1000::arrival(0x0003_abcd_003c), Some(done));
        assert_eq!(E1000::arrival(0x0001_0000_003c), Some(Arrival { is_last: false, ..done }));
        assert_eq!(E1000::arrival(0x0103_0000_003c), Some(Arrival { is_bad: true, ..done }));
        // A wrong checksum of TCP or IP is no broken frame.
        assert_eq!(E1000::arrival(0x6003_0000_003c), Some(done));
        assert_eq!(E1000::arrival(0x0002_0000_003c), None);
    }
}
