//! Descriptors of any bytes, in both of Intel's layouts, read by the NIC and by the driver.
#![no_main]
use libfuzzer_sys::fuzz_target;
use wharf_lab::nic::intel::advanced::Advanced;
use wharf_lab::nic::intel::legacy::Legacy;
use wharf_lab::nic::intel::{Layout, ToSend};

fn read<L: Layout>(descriptor: &[u8; 16]) {
    if let Ok(what) = L::read_to_send(descriptor) {
        assert!((1..1 << 16).contains(&what.len_bytes));
        assert_eq!(L::read_to_send(&L::to_send(&what)), Ok::<ToSend, _>(what));
    }
    if let Some(packet) = L::read_received(descriptor) {
        assert_eq!(L::read_received(&L::received(descriptor, &packet)), Some(packet));
    }
    assert!(L::is_sent(&L::sent(descriptor)));
}

fuzz_target!(|bytes: &[u8]| {
    for descriptor in bytes.chunks_exact(16).filter_map(|chunk| chunk.first_chunk()) {
        read::<Advanced>(descriptor);
        read::<Legacy>(descriptor);
    }
});
