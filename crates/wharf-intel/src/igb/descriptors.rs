//! Advanced descriptors: sections 7.1.5 (receive, one buffer), 7.2.2.2 (transmit, context) and 7.2.2.3 (transmit,
//! data). Bits are those of the second word of 8 bytes.

use super::Igb;
use crate::family::{Arrival, Checksum, Context, DEXT, Descriptors, EOP, IFCS, IXSM, Part, TXSM, Work};

/// Transmit: an advanced data descriptor.
const DTYP_DATA: u64 = 3 << 20;
/// Context: its type, and the transport, TCP in place of UDP.
const DTYP_CONTEXT: u64 = 2 << 20;
const L4T_TCP: u64 = 1 << 11;
/// Context: IPv4, and the first bits of the TCP header's length and of the segments'.
const IPV4: u64 = 1 << 10;
const L4LEN: u32 = 40;
const MSS: u32 = 48;
/// Transmit: segmentation.
const TSE: u64 = 1 << 31;
/// Transmit: the first bit of the packet's length.
const PAYLEN: u32 = 46;
/// Receive: the descriptor is done, end of packet, a broken frame.
const RX_DD: u64 = 1;
const RX_EOP: u64 = 1 << 1;
const RX_RXE: u64 = 1 << 31;

impl Descriptors for Igb {
    const TAIL_BYTES: u32 = 0;

    /// Makes a transmit descriptor.
    #[inline(always)]
    fn transmit(part: &Part) -> [u64; 2] {
        let end = if part.is_last { EOP } else { 0 };
        let (work, len_bytes) = match part.work {
            Work::None => (0, part.frame_bytes),
            Work::Checksum => (TXSM, part.frame_bytes),
            Work::Segments { is_ipv6, payload_bytes } => {
                (TSE | TXSM | if is_ipv6 { 0 } else { IXSM }, payload_bytes)
            }
        };
        let kind = DTYP_DATA | DEXT | IFCS | end | work;
        [part.address, u64::from(part.len_bytes & 0xffff) | kind | u64::from(len_bytes & 0x3_ffff) << PAYLEN]
    }

    /// Makes a context descriptor: the transport header lies behind `IPLEN` bytes, which are behind `MACLEN` bytes.
    fn context(context: &Context) -> [u64; 2] {
        let places = |network_at: u8, start: u8| {
            u64::from(start.saturating_sub(network_at)) | u64::from(network_at) << 9
        };
        match context {
            Context::Checksum(Checksum { network_at, start, is_tcp, .. }) => {
                [places(*network_at, *start), DTYP_CONTEXT | DEXT | if *is_tcp { L4T_TCP } else { 0 }]
            }
            Context::Segments(of) => {
                let tcp_bytes = u64::from(of.header_bytes.saturating_sub(of.transport_at));
                let kind = DTYP_CONTEXT | DEXT | L4T_TCP | if of.is_ipv6 { 0 } else { IPV4 };
                [
                    places(of.network_at, of.transport_at),
                    kind | tcp_bytes << L4LEN | u64::from(of.segment_bytes) << MSS,
                ]
            }
        }
    }

    /// Reads a receive descriptor that the adapter has written back.
    #[inline(always)]
    fn arrival(second: u64) -> Option<Arrival> {
        let len_bytes = (second >> 32) as u32 & 0xffff;
        let arrival = Arrival { len_bytes, is_last: second & RX_EOP != 0, is_bad: second & RX_RXE != 0 };
        (second & RX_DD != 0).then_some(arrival)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::SUPER_PACKET;

    #[test]
    fn fields_lie_where_the_datasheet_has_them() {
        let part = Part {
            address: 0x1_2345_6789,
            len_bytes: 1024,
            frame_bytes: 1514,
            is_last: true,
            work: Work::None,
        };
        // Length 0 to 15, type 20 to 23, command 24 to 31 (EOP 0, IFCS 1, RS 3, DEXT 5), status 32 to 35, packet's
        // length 46 to 63.
        assert_eq!(Igb::transmit(&part), [0x1_2345_6789, 1514 << 46 | 0x2330_0400]);
        assert_eq!(Igb::transmit(&Part { is_last: false, ..part })[1], 1514 << 46 | 0x2230_0400);
        // TXSM is bit 1 of the options, 40 to 45; a context has IPLEN in 0 to 8, MACLEN in 9 to 15, and TCP as bit 2 of
        // its command, from 9 on.
        assert_eq!(
            Igb::transmit(&Part { work: Work::Checksum, ..part })[1],
            1514 << 46 | 1 << 41 | 0x2330_0400
        );
        let tcp = Checksum { network_at: 14, start: 34, place: 50, is_tcp: true };
        assert_eq!(Igb::context(&Context::Checksum(tcp)), [14 << 9 | 20, 0x2020_0800]);
        // Segmentation: TSE is bit 7 of the command, IXSM bit 0 of the options; a context has IPV4 as bit 1 of its
        // command, from 9 on, L4LEN in 40 to 47 and MSS in 48 to 63. The length is that of the payload.
        let work = Work::Segments { is_ipv6: false, payload_bytes: 60_000 };
        assert_eq!(Igb::transmit(&Part { work, ..part })[1], 60_000 << 46 | 3 << 40 | 0xa330_0400);
        let work = Work::Segments { is_ipv6: true, payload_bytes: 60_000 };
        assert_eq!(Igb::transmit(&Part { work, ..part })[1], 60_000 << 46 | 2 << 40 | 0xa330_0400);
        assert_eq!(
            Igb::context(&Context::Segments(SUPER_PACKET)),
            [14 << 9 | 20, 1448 << 48 | 32 << 40 | 0x2020_0c00]
        );
        // Status 0 to 19 (DD 0, EOP 1), errors 20 to 31, length 32 to 47, VLAN tag 48 to 63.
        let done = Arrival { len_bytes: 60, is_last: true, is_bad: false };
        assert_eq!(Igb::arrival(0xffff_003c_0000_0003), Some(done));
        assert_eq!(Igb::arrival(0x003c_0000_0001), Some(Arrival { is_last: false, ..done }));
        assert_eq!(Igb::arrival(0x003c_8000_0003), Some(Arrival { is_bad: true, ..done }));
        assert_eq!(Igb::arrival(0x003c_6000_0003), Some(done));
        assert_eq!(Igb::arrival(0x003c_0000_0002), None);
    }
}
