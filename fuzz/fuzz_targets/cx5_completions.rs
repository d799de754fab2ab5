//! A completion queue of any bytes, read by the driver: completions or errors, and an end.
#![no_main]
use libfuzzer_sys::fuzz_target;
use wharf_sim::nic::cx5::completion::{COMPLETION_BYTES, Selected};
use wharf_sim::nic::cx5::compress::CompletionRing;
use wharf_sim::nic::cx5::expand::CompletionReader;
use wharf_sim::nic::host_memory::HostMemory;

const LOG_SLOTS: u32 = 6;

fuzz_target!(|bytes: &[u8]| {
    let Some((&choice, bytes)) = bytes.split_first() else { return };
    let mut memory = HostMemory::default();
    let address = memory.allocate(COMPLETION_BYTES << LOG_SLOTS);
    let ring = CompletionRing { address, log_slots: LOG_SLOTS };
    let selected = [Selected::Hash, Selected::Checksum, Selected::Stride][usize::from(choice % 3)];
    let mut reader = CompletionReader::new(ring, selected, &mut memory).unwrap();
    let bytes = &bytes[..bytes.len().min(ring.len_bytes())];
    memory.write(address, bytes).unwrap();
    let results = std::iter::from_fn(|| reader.next(&mut memory).transpose()).take(1000).count();
    assert!(results <= 2 << LOG_SLOTS, "{results}");
});
