//! A completion queue of an InfiniBand adapter of any bytes: requests in order, each once, or errors, and an end. And
//! requests of any bytes, followed by their links.
#![no_main]
use libfuzzer_sys::fuzz_target;
use wharf_lab::nic::host::HostMemory;
use wharf_lab::nic::ipoib::driver::{Queues, Requests};
use wharf_lab::nic::ipoib::formats::Queue;
use wharf_lab::nic::pair::RingBytes;
use wharf_lab::nic::send::SendFormat;

const UNITS: u32 = 16;

fuzz_target!(|bytes: &[u8]| {
    let Some((&count, bytes)) = bytes.split_first() else { return };
    let mut memory = HostMemory::default();
    let queues = Queues::allocate(UNITS, &mut memory);
    let mut requests = Requests::new(&queues, 1, true);
    for n in 0..u64::from(count) % 17 {
        requests.send(0x10_0000 + n * 2048, 60, &mut memory).unwrap();
    }
    requests.ring(&mut memory).unwrap();
    memory.write(queues.sent.address, &bytes[..bytes.len().min(32 * UNITS as usize)]).unwrap();
    let mut sent = 0;
    for _ in 0..100 {
        match requests.next_sent(&mut memory) {
            Ok(Some(place)) => {
                assert_eq!(place, sent);
                sent += 1;
            }
            Ok(None) => break,
            Err(_) => {}
        }
    }
    memory.write(queues.send.address, &bytes[..bytes.len().min(128 * UNITS as usize)]).unwrap();
    let nic = Queue::new(queues.send, queues.sent);
    assert!(SendFormat::tail(&nic, 0, 0, &memory) <= 2 * UNITS);
});
