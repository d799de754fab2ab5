//! pcapng: a small writer, put together field by field, and the packets of its files.

mod malformed;
mod random;

use super::*;

pub(super) const INTERFACE: u32 = 1;
pub(super) const OBSOLETE: u32 = 2;
pub(super) const SIMPLE: u32 = 3;
pub(super) const NAMES: u32 = 4;
pub(super) const ENHANCED: u32 = 6;
const SECTION: u32 = 0x0a0d_0d0a;

/// A pcapng file, block by block, in a byte order that each section chooses.
#[derive(Clone)]
pub(super) struct Ng {
    pub(super) bytes: Vec<u8>,
    order: ByteOrder,
}

impl Ng {
    /// With a first section.
    pub(super) fn new(order: ByteOrder) -> Self {
        Self { bytes: Vec::new(), order }.section(order)
    }

    pub(super) fn section(mut self, order: ByteOrder) -> Self {
        self.order = order;
        let body = [&self.u32(0x1a2b_3c4d)[..], &self.u16(1), &self.u16(0), &[0xff; 8]].concat();
        self.block(SECTION, &body)
    }

    pub(super) fn u16(&self, value: u16) -> [u8; 2] {
        match self.order {
            ByteOrder::Little => value.to_le_bytes(),
            ByteOrder::Big => value.to_be_bytes(),
        }
    }

    pub(super) fn u32(&self, value: u32) -> [u8; 4] {
        match self.order {
            ByteOrder::Little => value.to_le_bytes(),
            ByteOrder::Big => value.to_be_bytes(),
        }
    }

    fn u64(&self, value: u64) -> [u8; 8] {
        match self.order {
            ByteOrder::Little => value.to_le_bytes(),
            ByteOrder::Big => value.to_be_bytes(),
        }
    }

    /// A block with this body, filled up to a multiple of 4.
    pub(super) fn block(mut self, kind: u32, body: &[u8]) -> Self {
        let len = (body.len() as u32).next_multiple_of(4) + 12;
        self.bytes.extend(self.u32(kind));
        self.bytes.extend(self.u32(len));
        self.bytes.extend(body);
        self.bytes.extend(vec![0xee; body.len().next_multiple_of(4) - body.len()]);
        self.bytes.extend(self.u32(len));
        self
    }

    fn option(&self, code: u16, value: &[u8]) -> Vec<u8> {
        let mut bytes = [&self.u16(code)[..], &self.u16(value.len() as u16), value].concat();
        bytes.resize(bytes.len().next_multiple_of(4), 0xee);
        bytes
    }

    /// An interface with these options, and others around them.
    pub(super) fn interface(self, link_type: u16, snap_len: u32, options: &[(u16, Vec<u8>)]) -> Self {
        let mut body = [&self.u16(link_type)[..], &[0; 2], &self.u32(snap_len)].concat();
        if !options.is_empty() {
            body.extend(self.option(2, b"eth0"));
            options.iter().for_each(|(code, value)| body.extend(self.option(*code, value)));
            body.extend(self.option(1, b"a comment"));
            body.extend(self.option(0, b""));
        }
        self.block(INTERFACE, &body)
    }

    /// An Ethernet interface that counts `10^-digits` seconds after `offset_s`.
    pub(super) fn clock(self, resolution: u8, offset_s: i64) -> Self {
        let offset = self.u64(offset_s as u64).to_vec();
        self.interface(1, 0, &[(9, vec![resolution]), (14, offset)])
    }

    pub(super) fn enhanced(self, interface: u32, units: u64, wire: u32, data: &[u8]) -> Self {
        let fields = [interface, (units >> 32) as u32, units as u32, data.len() as u32, wire];
        let fields = fields.map(|field| self.u32(field)).concat();
        let mut body = [&fields[..], data].concat();
        body.resize(body.len().next_multiple_of(4), 0xee);
        if units.is_multiple_of(2) {
            body.extend(self.option(2, &[0; 4])); // its direction
            body.extend(self.option(0, b""));
        }
        self.block(ENHANCED, &body)
    }

    /// A packet behind which its flags stand, between other options.
    pub(super) fn flagged(self, interface: u32, len: u32, flags: &[u8]) -> Self {
        let fields = [interface, 0, 1, len, len].map(|field| self.u32(field)).concat();
        let mut body = [&fields[..], &vec![7; len as usize]].concat();
        body.resize(body.len().next_multiple_of(4), 0xee);
        [(1, &b"a comment"[..]), (2, flags), (4, &[0; 8]), (0, b"")]
            .iter()
            .for_each(|(code, value)| body.extend(self.option(*code, value)));
        self.block(ENHANCED, &body)
    }

    pub(super) fn simple(self, wire: u32, data: &[u8]) -> Self {
        let body = [&self.u32(wire)[..], data].concat();
        self.block(SIMPLE, &body)
    }

    pub(super) fn obsolete(self, interface: u16, units: u64, wire: u32, data: &[u8]) -> Self {
        let numbers = [&self.u16(interface)[..], &self.u16(7)].concat();
        let fields = [(units >> 32) as u32, units as u32, data.len() as u32, wire];
        let fields = fields.map(|field| self.u32(field)).concat();
        self.block(OBSOLETE, &[&numbers[..], &fields, data].concat())
    }

    pub(super) fn fault(&self) -> String {
        parse_bytes(&self.bytes).unwrap_err().to_string()
    }
}

const BOTH: [ByteOrder; 2] = [ByteOrder::Little, ByteOrder::Big];

/// Times and bytes, of a file that must be good.
fn good(file: &Ng) -> Vec<(u64, u32, Vec<u8>)> {
    let (packets, error) = read_all(&file.bytes);
    assert!(error.is_none(), "{error:?}");
    packets.into_iter().map(|(record, data)| (record.ts_ns, record.wire_len, data)).collect()
}

#[test]
fn packets_of_all_kinds_in_both_byte_orders() {
    for order in BOTH {
        let file = Ng::new(order)
            .interface(1, 100, &[])
            .block(NAMES, &[1; 33])
            .enhanced(0, 1_000_001, 60, &[7; 60])
            .block(0xbad, &[2; 4])
            .simple(200, &[8; 100])
            .obsolete(0, 3_000_000, 5, b"abcde")
            .simple(3, b"xyz")
            .block(0x8000_0001, b"");
        let expected = [
            (1_000_001_000, 60, vec![7; 60]),
            (1_000_001_000, 200, vec![8; 100]), // cut at the snap length, and as late as the one before
            (3_000_000_000, 5, b"abcde".to_vec()),
            (3_000_000_000, 3, b"xyz".to_vec()),
        ];
        assert_eq!(good(&file), expected, "{order:?}");
    }
}

#[test]
fn interfaces_count_time_each_in_its_way() {
    let powers_of_two = 0x80 | 20;
    let file = Ng::new(ByteOrder::Big)
        .clock(9, 0)
        .clock(6, 1_600_000_000)
        .clock(powers_of_two, -5)
        .clock(0, 0)
        .clock(12, 1);
    let file = file
        .enhanced(0, 1_700_000_000_123_456_789, 1, b"a")
        .enhanced(1, 100_000_000_500_001, 1, b"b")
        .enhanced(2, (10 << 20) + (1 << 19), 1, b"c")
        .enhanced(3, 1_700_000_000, 1, b"d")
        .enhanced(4, 1_999, 1, b"e");
    let times: Vec<u64> = good(&file).into_iter().map(|packet| packet.0).collect();
    let expected = [
        1_700_000_000_123_456_789,
        1_700_000_000_500_001_000,
        5_500_000_000,
        1_700_000_000 * 1_000_000_000,
        1_000_000_001,
    ];
    assert_eq!(times, expected);
}

#[test]
fn sections_begin_anew_in_their_own_byte_order() {
    let one = Ng::new(ByteOrder::Little).clock(9, 0).clock(9, 0).enhanced(1, 5, 1, b"a");
    let two = one.section(ByteOrder::Big).interface(1, 0, &[]).enhanced(0, 6, 1, b"b");
    assert_eq!(good(&two), [(5, 1, b"a".to_vec()), (6_000, 1, b"b".to_vec())]);
    let lacking = two.section(ByteOrder::Little).enhanced(0, 7, 1, b"c");
    assert!(lacking.fault().ends_with("packet of interface 0, but 0 were described"), "{}", lacking.fault());
}

#[test]
fn an_interface_that_is_not_ethernet_matters_only_with_its_packets() {
    let file = Ng::new(ByteOrder::Little).interface(113, 0, &[]).interface(1, 0, &[]).enhanced(1, 5, 1, b"a");
    assert_eq!(good(&file).len(), 1);
    let (packets, error) = read_all(&file.enhanced(0, 5, 1, b"a").bytes);
    let marks: Vec<_> = packets.iter().map(|(record, _)| record.left_out.is_some()).collect();
    assert!(error.is_none() && marks == [false, true], "{error:?}, {marks:?}");
}

#[test]
fn byte_order_is_that_of_the_present_section() {
    let file = Ng::new(ByteOrder::Big).clock(9, 0).enhanced(0, 1, 1, b"a");
    let file = file.section(ByteOrder::Little).clock(9, 0).enhanced(0, 2, 1, b"b");
    let mut reader = PcapReader::new(Cursor::new(&file.bytes), "x.pcapng").unwrap();
    let mut buf = Vec::new();
    for (byte_order, ts_ns) in [(ByteOrder::Big, 1), (ByteOrder::Little, 2)] {
        assert_eq!(reader.next(&mut buf).unwrap(), Some(Record { ts_ns, wire_len: 1, left_out: None }));
        assert_eq!(reader.byte_order(), byte_order);
    }
    assert_eq!(reader.next(&mut buf).unwrap(), None);
}
