//! Bytes that arrive in pieces, written into chains of frames.

use proptest::prelude::*;
use wharf_core::pool::{Cache, PagePool};
use wharf_core::sg_writer::{Placement, Reader, SgWriter};
use wharf_mem::frame::LENGTH_BYTES_MAX;
use wharf_mem::{Batch, Frame, Meta};

/// Makes a pool whose frames hold 192 B each.
fn pool(frames: u32) -> PagePool {
    let pool = PagePool::builder().frames(frames).frame_bytes(256).headroom_bytes(64).huge_pages(false);
    pool.build().unwrap()
}

fn all_bytes(pool: &PagePool, frame: &Frame) -> Vec<u8> {
    pool.region().chunks(frame).unwrap().flatten().copied().collect()
}

#[test]
fn packets_of_every_shape_arrive_whole() {
    let pool = pool(16);
    let mut cache = pool.cache("test").unwrap();
    let (mut placer, mut to) = (SgWriter::default(), Batch::new(1));
    let bytes: Vec<u8> = (0..16 * 192).map(|n| (n % 251) as u8).collect();
    for len in [0, 1, 191, 192, 193, 384, 385, 1000, 16 * 192] {
        for chunk in [1, 7, 192, 4000] {
            let chunks = bytes[..len].chunks(chunk);
            let meta = Meta { gso_bytes: 100, ..Meta::default() };
            let placed = placer.place(&mut cache, &mut to, chunks, len as u32, &meta).unwrap();
            assert_eq!(placed, Placement::Done);
            let frame = &to.frames()[0];
            assert_eq!(frame.len_bytes() as usize, len);
            assert_eq!(all_bytes(&pool, frame), bytes[..len]);
            assert_eq!(pool.region().meta(frame).unwrap(), meta);
            cache.give(&mut to).unwrap();
        }
    }
    assert_eq!(pool.audit().out(), 0);
}

#[test]
fn bytes_beyond_the_chunks_are_zero() {
    let pool = pool(4);
    let mut cache = pool.cache("test").unwrap();
    let (mut placer, mut to) = (SgWriter::default(), Batch::new(1));
    for (chunk, len) in [(vec![9; 700], 700), (vec![1, 2, 3], 500)] {
        placer.place(&mut cache, &mut to, [&chunk[..]].into_iter(), len, &Meta::default()).unwrap();
        let mut expected = chunk.clone();
        expected.resize(len as usize, 0);
        assert_eq!(all_bytes(&pool, &to.frames()[0]), expected);
        cache.give(&mut to).unwrap();
    }
}

#[test]
fn pool_too_small_or_empty_keeps_its_frames() {
    let pool = pool(4);
    let mut cache = pool.cache("test").unwrap();
    let (mut placer, mut to, mut held) = (SgWriter::default(), Batch::new(1), Batch::new(2));
    let bytes = [0u8; 5 * 192];
    let mut place = |cache: &mut Cache, len: u32| {
        placer.place(cache, &mut to, [&bytes[..]].into_iter(), len, &Meta::default()).unwrap()
    };
    assert_eq!(place(&mut cache, 4 * 192 + 1), Placement::TooLong);
    assert_eq!(place(&mut cache, LENGTH_BYTES_MAX + 1), Placement::TooLong);
    cache.take(&mut held, 2, 1).unwrap();
    assert_eq!(place(&mut cache, 3 * 192), Placement::NoMemory);
    assert_eq!(pool.audit().out(), 2);
    cache.give(&mut held).unwrap();
    assert_eq!(place(&mut cache, 4 * 192), Placement::Done);
    assert_eq!(place(&mut cache, 1), Placement::NoMemory);
    cache.give(&mut to).unwrap();
    assert_eq!(pool.audit().out(), 0);
}

proptest! {
    #[test]
    fn any_sequence_of_reads_gives_the_bytes_in_order(
        bytes in prop::collection::vec(any::<u8>(), 0..300), chunk in 1usize..50,
        steps in prop::collection::vec((any::<bool>(), 0usize..70), 0..20),
    ) {
        // With empty chunks in between.
        let chunks = bytes.chunks(chunk).flat_map(|chunk| [&chunk[..0], chunk]);
        let (mut reader, mut at) = (Reader::new(chunks), 0);
        for (is_read, count) in steps {
            let end = (at + count).min(bytes.len());
            if is_read {
                let mut to = vec![0xee; count];
                prop_assert_eq!(reader.read(&mut to), end - at);
                prop_assert_eq!(&to[..end - at], &bytes[at..end]);
            } else {
                reader.skip(count);
            }
            at = end;
        }
    }
}
