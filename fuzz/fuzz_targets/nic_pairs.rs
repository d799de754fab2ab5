//! Every driver and its NIC, with an intruder between them that writes to memory and to registers: errors, an end, and no
//! frame lost.
#![no_main]
use libfuzzer_sys::fuzz_target;

#[path = "../../lab/wharf-sim/tests/suite/hostile/mod.rs"]
mod hostile;

fuzz_target!(|bytes: &[u8]| {
    hostile::play(&bytes[..bytes.len().min(2000)]);
});
