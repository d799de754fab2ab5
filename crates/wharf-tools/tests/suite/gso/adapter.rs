//! A device that segments plain TCP has such super-packets whole, and all others in segments.

use super::plain::Plain;
use wharf_core::device::{Completions, Device, TxDevice};
use wharf_core::gso::Segmenter;
use wharf_mem::{Batch, Meta};
use wharf_packet::gso::{AdapterHeaders, GsoRequest};
use wharf_testkit::packets::{Shape, cut, frame_of};
use wharf_testkit::pool_of;

/// Buffers of a frame that the device gathers.
const BUFFERS: u16 = 20;

fn shape() -> Shape {
    Shape { payload: 9000, ..Shape::default() }
}

/// The frames that the device was given of the packet.
fn given(bytes: &[u8], meta: &Meta) -> Vec<Vec<u8>> {
    let pool = pool_of(64, 2048);
    let mut plain = Plain::new(64, BUFFERS);
    plain.segments_tcp = true;
    let (seen, mut cache) = (plain.seen.clone(), pool.cache("test").unwrap());
    let mut device = Segmenter::new(plain, &pool);
    device.attach(pool.region().clone()).unwrap();
    let (mut batch, mut done) = (Batch::new(1), Completions::new(64));
    batch.push(frame_of(&mut cache, bytes, 512, Some(meta)).unwrap()).unwrap();
    device.transmit(&mut batch, false);
    while device.outstanding() > 0 {
        device.flush();
        device.reap(64, true, &mut done).unwrap();
    }
    assert!(batch.is_empty() && done.failed.is_empty() && done.sent.len() == 1);
    cache.give(&mut done.sent).unwrap();
    drop((device, cache));
    assert_eq!(pool.audit().out(), 0);
    let seen = seen.lock().unwrap();
    seen.frames.iter().map(|(bytes, _)| bytes.clone()).collect()
}

#[test]
fn super_packets_of_plain_tcp_are_left_to_it() {
    for shape in [
        shape(),
        Shape { is_ipv6: true, ..shape() },
        Shape { ip_options: 40, tcp_options: 40, ..shape() },
        Shape { tags: 2, ..shape() },
    ] {
        let (bytes, meta) = shape.packet();
        assert!(given(&bytes, &meta) == [bytes], "{shape:?}");
    }
}

#[test]
fn all_others_are_segmented_before_it() {
    for shape in [
        Shape { is_udp: true, ..shape() },
        Shape { is_ipv6: true, extensions: vec![60], ..shape() },
        // More buffers than it gathers.
        Shape { payload: 12_000, ..shape() },
    ] {
        let (bytes, meta) = shape.packet();
        assert!(given(&bytes, &meta) == cut(&bytes, &meta), "{shape:?}");
    }
    // A packet without the sum of the pseudo header.
    let (bytes, meta) = shape().packet();
    let whole = Meta { needs_checksum: false, ..meta };
    assert!(given(&bytes, &whole) == cut(&bytes, &whole));
}

#[test]
fn headers_cut_anywhere_are_none() {
    for shape in [shape(), Shape { is_ipv6: true, tags: 1, ..shape() }] {
        let (bytes, meta) = shape.packet();
        let request =
            GsoRequest { kind: meta.gso_kind, segment_bytes: meta.gso_bytes, is_checksum_partial: true };
        let headers = AdapterHeaders::read(&bytes, bytes.len(), &request).unwrap();
        for len in 0..usize::from(headers.header_bytes) {
            assert_eq!(AdapterHeaders::read(&bytes[..len], bytes.len(), &request), None, "{len} bytes");
        }
        assert_eq!(AdapterHeaders::read(&bytes, headers.header_bytes.into(), &request), None, "no payload");
    }
}
