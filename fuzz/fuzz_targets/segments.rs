//! Super-packets of any bytes and metadata: segmentation is complete, and gives the same segments wherever the bytes lie.
#![no_main]
use libfuzzer_sys::fuzz_target;
use wharf_core::sg_writer::Reader;
use wharf_core::gso::Cut;
use wharf_mem::Meta;

fuzz_target!(|bytes: &[u8]| {
    let Some((&[kind, high, low, chunk], packet)) = bytes.split_first_chunk::<4>() else { return };
    let gso_bytes = u16::from_be_bytes([high, low]);
    let meta = Meta { gso_kind: kind % 6, needs_checksum: kind & 64 != 0, gso_bytes, ..Meta::default() };
    let chunk_bytes = usize::from(chunk).max(1);
    let start = &packet[..chunk_bytes.min(packet.len())];
    let by_start = Cut::of_start(start, packet.len(), &meta);
    let Ok(cut) = Cut::of_start(packet, packet.len(), &meta) else {
        assert!(by_start.is_err(), "headers that are none, and are where there is less of them");
        return;
    };
    let mut payload = Reader::new(packet.chunks(chunk_bytes));
    payload.skip(cut.header_bytes());
    let mut left = packet.len() - cut.header_bytes();
    for at in 0..cut.segments() {
        let mut segment = vec![0; cut.segment_bytes(at)];
        cut.write(packet, at, &mut segment);
        if let Ok(by_start) = by_start {
            let mut other = vec![0xff; by_start.segment_bytes(at)];
            by_start.write_next(start, &mut payload, at, &mut other);
            assert_eq!(segment, other);
        }
        left -= segment.len() - cut.header_bytes();
    }
    assert_eq!(left, 0);
});
