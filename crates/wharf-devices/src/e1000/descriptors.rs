//! Legacy descriptors: sections 3.2.3 (receive) and 3.3.3 (transmit); extended ones of frames whose checksum the
//! adapter fills in: sections 3.3.6 (context) and 3.3.7 (data). Bits are those of the second word of 8 bytes.

use crate::intel::family::{Arrival, Checksum, DEXT, EOP, IFCS, Part, TXSM};

/// Transmit: an extended descriptor of data.
const DTYP_DATA: u64 = 1 << 20;
/// Context: the transport is TCP.
const TCP: u64 = 1 << 24;
/// Receive: the descriptor is done, end of packet.
const RX_DD: u64 = 1 << 32;
const RX_EOP: u64 = 1 << 33;
/// Receive errors (section 3.2.3.2): check sequence or alignment, symbol, sequence, carrier extension, data.
const RX_ERRORS: u64 = 0x97 << 40;

/// Makes a transmit descriptor.
#[inline(always)]
pub fn transmit(part: &Part) -> [u64; 2] {
    let end = if part.is_last { EOP | IFCS } else { IFCS };
    let extended = if part.has_checksum { DEXT | DTYP_DATA | TXSM } else { 0 };
    [part.address, u64::from(part.len_bytes & 0xffff) | end | extended]
}

/// Makes a context descriptor: the sum runs from `TUCSS` to the end of the packet, and goes to `TUCSO`.
pub fn checksum(checksum: &Checksum) -> [u64; 2] {
    let first = u64::from(checksum.start) << 32 | u64::from(checksum.place) << 40;
    [first, DEXT | if checksum.is_tcp { TCP } else { 0 }]
}

/// Reads a receive descriptor.
#[inline(always)]
pub fn arrival(second: u64) -> Option<Arrival> {
    let arrival = Arrival {
        len_bytes: second as u32 & 0xffff,
        is_last: second & RX_EOP != 0,
        is_bad: second & RX_ERRORS != 0,
    };
    (second & RX_DD != 0).then_some(arrival)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::intel::family::RS;

    #[test]
    fn fields_lie_where_the_manual_has_them() {
        let part = Part {
            address: 0x1_2345_6789,
            len_bytes: 1514,
            frame_bytes: 1514,
            is_last: true,
            has_checksum: false,
        };
        // Length in bits 0 to 15, command in bits 24 to 31: EOP 0, IFCS 1, RS 3 (table 3-8).
        assert_eq!(transmit(&part), [0x1_2345_6789, 0x0300_05ea]);
        assert_eq!(transmit(&Part { is_last: false, ..part })[1], 0x0200_05ea);
        assert_eq!(RS >> 24, 1 << 3);
        // Type in bits 20 to 23, DEXT 5 of the command, TXSM 1 of the options in bits 40 to 47 (tables 3-15 and 3-16).
        assert_eq!(transmit(&Part { has_checksum: true, ..part })[1], 0x0200_2310_05ea);
        // TUCSS in bits 32 to 39, TUCSO in bits 40 to 47 (figure 3-10).
        let udp = Checksum { network_at: 14, start: 34, place: 40, is_tcp: false };
        assert_eq!(checksum(&udp), [0x2822_0000_0000, 0x2000_0000]);
        // Length, checksum, status in bits 32 to 39, errors in bits 40 to 47 (table 3-1).
        let done = Arrival { len_bytes: 60, is_last: true, is_bad: false };
        assert_eq!(arrival(0x0003_abcd_003c), Some(done));
        assert_eq!(arrival(0x0001_0000_003c), Some(Arrival { is_last: false, ..done }));
        assert_eq!(arrival(0x0103_0000_003c), Some(Arrival { is_bad: true, ..done }));
        // A wrong checksum of TCP or IP is no broken frame.
        assert_eq!(arrival(0x6003_0000_003c), Some(done));
        assert_eq!(arrival(0x0002_0000_003c), None);
    }
}
