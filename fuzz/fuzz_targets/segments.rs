//! Super-packets of any bytes, with kind and segment length before them: what is cut is cut whole.
#![no_main]
use libfuzzer_sys::fuzz_target;
use wharf_core::gso::Cut;

fuzz_target!(|bytes: &[u8]| {
    let Some((&[kind, high, low], packet)) = bytes.split_first_chunk::<3>() else { return };
    let Ok(cut) = Cut::new(packet, kind % 6, u16::from_be_bytes([high, low])) else { return };
    // Beyond the last segment there are only headers.
    let headers = cut.segment_bytes(usize::MAX);
    let mut payload = 0;
    for at in 0..cut.segments() {
        let mut segment = vec![0; cut.segment_bytes(at)];
        cut.write(packet, at, &mut segment);
        payload += segment.len() - headers;
    }
    assert_eq!(headers + payload, packet.len());
});
