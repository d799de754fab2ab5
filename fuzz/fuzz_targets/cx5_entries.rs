//! A send queue of any bytes, read by the NIC: entries or errors, and an end.
#![no_main]
use libfuzzer_sys::fuzz_target;
use wharf_sim::nic::cx5::parse::Entry;
use wharf_sim::nic::cx5::segment::{BLOCK_BYTES, POINTERS_MAX};

fuzz_target!(|bytes: &[u8]| {
    let (mut at, mut index) = (0, 0u16);
    while let Some(rest) = bytes.get(at..).filter(|rest| rest.len() >= 4) {
        // Half of the inputs have the index that the NIC expects.
        let wanted = if bytes[0] & 1 == 0 { u16::from_be_bytes([rest[1], rest[2]]) } else { index };
        let Ok(entry) = Entry::parse(rest, wanted) else { break };
        assert!(entry.contents(rest).count() <= POINTERS_MAX as usize);
        at += entry.blocks as usize * BLOCK_BYTES;
        index = index.wrapping_add(entry.blocks as u16);
    }
});
