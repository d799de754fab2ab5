//! Blocks of any bytes behind a valid section header of pcapng. The first byte chooses the byte order.
#![no_main]
use libfuzzer_sys::fuzz_target;

const LITTLE: &[u8] =
    b"\x0a\x0d\x0d\x0a\x1c\0\0\0\x4d\x3c\x2b\x1a\x01\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff\x1c\0\0\0\
\x01\0\0\0\x14\0\0\0\x01\0\0\0\0\0\0\0\x14\0\0\0";
const BIG: &[u8] =
    b"\x0a\x0d\x0d\x0a\0\0\0\x1c\x1a\x2b\x3c\x4d\0\x01\0\0\xff\xff\xff\xff\xff\xff\xff\xff\0\0\0\x1c\
\0\0\0\x01\0\0\0\x14\0\x01\0\0\0\0\0\0\0\0\0\x14";

fuzz_target!(|bytes: &[u8]| {
    let Some((order, blocks)) = bytes.split_first() else { return };
    let start = if order % 2 == 0 { LITTLE } else { BIG };
    assert_eq!(wharf_devices::pcap::format::parse_bytes(start).ok(), Some(0));
    let _ = wharf_devices::pcap::format::parse_bytes(&[start, blocks].concat());
});
