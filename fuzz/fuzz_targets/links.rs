//! A packet of any bytes, of any link type, with a check sequence of any length: a frame with the addresses given, or
//! none; the same from a pcap and from a pcapng file. The first two bytes choose type and check sequence.
#![no_main]
use libfuzzer_sys::fuzz_target;
use wharf_devices::pcap::format::{Framing, PcapReader, Record};

const LINK_TYPES: [u16; 9] = [0, 12, 14, 101, 108, 113, 228, 229, 276];
const MACS: [[u8; 6]; 2] = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]];

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn pcap(link_type: u16, units: u8, wire_len: u32, packet: &[u8]) -> Vec<u8> {
    let field = u32::from(link_type) | 1 << 26 | u32::from(units) << 28;
    let header = words(&[0xa1b2_c3d4, 0x0004_0002, 0, 0, 0, field]);
    [header, words(&[0, 0, packet.len() as u32, wire_len]), packet.to_vec()].concat()
}

fn pcapng(link_type: u16, units: u8, wire_len: u32, packet: &[u8]) -> Vec<u8> {
    let block = |kind: u32, body: &[u8]| {
        let (len, pad) = (body.len().next_multiple_of(4), body.len().next_multiple_of(4) - body.len());
        [&words(&[kind, len as u32 + 12])[..], body, &vec![0; pad], &words(&[len as u32 + 12])].concat()
    };
    let section = block(0x0a0d_0d0a, &words(&[0x1a2b_3c4d, 1, u32::MAX, u32::MAX]));
    // Option 13: bytes of check sequence.
    let interface = block(1, &words(&[link_type.into(), 0, 1 << 16 | 13, 2 * u32::from(units)]));
    let fields = words(&[0, 0, 0, packet.len() as u32, wire_len]);
    [section, interface, block(6, &[&fields[..], packet].concat())].concat()
}

fn read(file: &[u8], macs: Option<[[u8; 6]; 2]>) -> Option<(Record, Vec<u8>)> {
    let mut reader = PcapReader::new(file, "memory").unwrap().framing(Framing { macs, only: None }).ok()?;
    let mut frame = Vec::new();
    let record = reader.next(&mut frame).unwrap().unwrap();
    assert!(reader.next(&mut Vec::new()).unwrap().is_none());
    Some((record, frame))
}

fuzz_target!(|bytes: &[u8]| {
    let [chosen, rest, packet @ ..] = bytes else { return };
    let (link_type, units) = (LINK_TYPES[usize::from(*chosen) % LINK_TYPES.len()], rest & 0xf);
    let wire_len = packet.len() as u32 + u32::from(rest >> 4);
    let file = pcap(link_type, units, wire_len, packet);
    let (record, frame) = read(&file, Some(MACS)).unwrap();
    assert_eq!(read(&pcapng(link_type, units, wire_len, packet), Some(MACS)), Some((record, frame.clone())));
    assert!(read(&file, None).is_none(), "no addresses");
    assert!(frame.len() as u32 <= record.wire_len);
    if record.left_out.is_none() && !frame.is_empty() {
        assert!(frame.len() >= 14 && [MACS[1], [0xff; 6]].iter().any(|mac| frame[..6] == mac[..]));
        let kept = &packet[packet.len().min((wire_len - 2 * u32::from(units).min(wire_len)) as usize)..];
        assert!(packet[..packet.len() - kept.len()].ends_with(&frame[14..]), "the rest is the packet's");
    }
});
