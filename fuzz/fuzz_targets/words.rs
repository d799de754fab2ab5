//! Users' input: sizes, rates, durations, faults, and the specification of a device that touches no file.
#![no_main]
use libfuzzer_sys::fuzz_target;
use wharf_devices::open::{Direction, open};
use wharf_devices::units;
use wharf_tools::fault::FaultSpec;

fuzz_target!(|text: &str| {
    let _ = (units::size_bytes(text), units::bits_per_second(text));
    let _ = (units::packets_per_second(text), units::duration(text));
    let _ = (units::share_millionths(text), FaultSpec::parse(text));
    // A ring of 65536 takes long to map, and the fuzzer would report slow inputs.
    if !text.contains("ring") {
        let _ = open(&format!("wire:{text}"), Direction::Send);
    }
    let _ = open(&format!("null:{text}"), Direction::Receive);
});
