//! A used ring of any bytes, read by the driver: descriptors that were available, each once, or errors, and an end.
#![no_main]
use libfuzzer_sys::fuzz_target;
use wharf_lab::nic::host::HostMemory;
use wharf_lab::nic::pair::RingBytes;
use wharf_lab::nic::virtio::Split;
use wharf_lab::nic::virtio::driver::Rings;

const SIZE: u32 = 32;

fuzz_target!(|bytes: &[u8]| {
    let Some((&count, bytes)) = bytes.split_first() else { return };
    let mut memory = HostMemory::default();
    let (send, receive) = (Split::allocate(SIZE, &mut memory), Split::allocate(SIZE, &mut memory));
    let mut rings = Rings::new(send, receive, 0);
    let mut held = [false; SIZE as usize];
    for n in 0..u64::from(count) % 32 {
        held[rings.send(0x10_0000 + n * 2048, 60, &mut memory).unwrap()] = true;
    }
    rings.ring(&mut memory).unwrap();
    let bytes = &bytes[..bytes.len().min(4 + 8 * SIZE as usize)];
    memory.write(send.used_address(), bytes).unwrap();
    for _ in 0..100 {
        match rings.next_sent(&mut memory) {
            Ok(Some(place)) => assert!(std::mem::take(&mut held[place])),
            Ok(None) => break,
            Err(_) => {}
        }
    }
});
