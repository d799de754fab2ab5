//! Super-packets of any bytes, behind a request: all payload is in the segments, and they are the same wherever the packet's
//! bytes lie.
#![no_main]
use libfuzzer_sys::fuzz_target;
use wharf_core::gso::write_segment;
use wharf_core::sg_writer::Reader;
use wharf_packet::gso::{GsoPlan, GsoRequest, wire_bytes};

fuzz_target!(|bytes: &[u8]| {
    let Some((&[kind, high, low, chunk], packet)) = bytes.split_first_chunk::<4>() else { return };
    let segment_bytes = u16::from_be_bytes([high, low]);
    let request = GsoRequest { kind: kind % 6, segment_bytes, is_checksum_partial: kind & 64 != 0 };
    let chunk_bytes = usize::from(chunk).max(1);
    let start = &packet[..chunk_bytes.min(packet.len())];
    let by_start = GsoPlan::of_start(start, packet.len(), &request);
    let Ok(plan) = GsoPlan::of_start(packet, packet.len(), &request) else {
        assert!(by_start.is_err(), "headers that are none, and are where there is less of them");
        return;
    };
    let mut payload = Reader::new(packet.chunks(chunk_bytes));
    payload.skip(plan.header_bytes());
    let (mut left, mut all) = (packet.len() - plan.header_bytes(), 0);
    for at in 0..plan.segments() {
        let mut segment = vec![0; plan.segment_bytes(at)];
        plan.write(packet, at, &mut segment);
        if let Ok(by_start) = by_start {
            let mut other = vec![0xff; by_start.segment_bytes(at)];
            write_segment(&by_start, start, &mut payload, at, &mut other);
            assert_eq!(segment, other);
        }
        left -= segment.len() - plan.header_bytes();
        all += segment.len() as u64;
    }
    assert_eq!(left, 0);
    if !request.is_checksum_partial {
        assert_eq!(wire_bytes(packet, packet.len(), &request, 0), Some(all));
    }
});
