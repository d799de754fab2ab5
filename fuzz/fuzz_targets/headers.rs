//! Frames of any bytes: the band of a packet.
#![no_main]
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    assert!(wharf_core::qdisc::band_of_bytes(bytes) < 3);
});
