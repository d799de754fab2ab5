//! A virtio net header of any bytes before a frame of any bytes: it is refused, or its frame can be passed on and segmented.
#![no_main]
use libfuzzer_sys::fuzz_target;
use wharf_devices::vnet::{START_BYTES, VNET_HEADER_BYTES, VnetHeader};
use wharf_packet::gso::GsoPlan;

fuzz_target!(|bytes: &[u8]| {
    let Some((header, frame)) = bytes.split_first_chunk::<VNET_HEADER_BYTES>() else { return };
    let header = VnetHeader::read(header);
    let start = &frame[..frame.len().min(START_BYTES)];
    let Ok(meta) = header.meta(start, frame.len()) else { return };
    let again = VnetHeader::to_send(start, frame.len(), &meta).unwrap();
    assert_eq!(again.meta(start, frame.len()), Ok(meta));
    assert!(usize::from(again.header_bytes) <= frame.len());
    assert_eq!(VnetHeader::read(&again.bytes()), again);
    if meta.gso_bytes > 0 {
        let plan = GsoPlan::of_start(frame, frame.len(), &wharf_core::offload::gso_request(&meta)).unwrap();
        for at in [0, plan.segments() - 1] {
            let mut segment = vec![0; plan.segment_bytes(at)];
            plan.write(frame, at, &mut segment);
        }
    }
});
