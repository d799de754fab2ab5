//! A capture of any bytes: records or an error, never a panic, a hang or memory beyond its bound.
#![no_main]
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = wharf_devices::pcap::format::parse_bytes(bytes);
});
