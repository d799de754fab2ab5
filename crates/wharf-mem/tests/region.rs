//! Places and lengths of frames, access with another pool's frame, and the rows of the side table.

mod common;

use common::Pool;
use proptest::prelude::*;
use wharf_mem::frame::{FRAMES_MAX, LENGTH_BYTES_MAX};
use wharf_mem::{Batch, Charge, FRAME_BYTES_MAX, Frame, FreeFrame, MemError, Meta, Region, RegionSpec};

/// Each frame's data is in its own buffer behind the headroom, 64-byte aligned, inside the mapping.
fn check_places(frames: u32, frame_bytes: u32, headroom_bytes: u32) {
    let mut pool = Pool::new(frames, frame_bytes, headroom_bytes);
    let (max_bytes, mapping) = (pool.region.data_bytes_max() as usize, pool.region.mapping());
    let start = mapping.start().as_ptr() as usize;
    assert!(mapping.len_bytes() >= frames as usize * frame_bytes as usize);
    let taken: Vec<_> = (0..frames).map(|_| pool.take(0, max_bytes as u32).unwrap()).collect();
    assert!(pool.free.is_empty());
    for frame in taken {
        let stride = frame.index() as usize * frame_bytes as usize;
        let offset = pool.region.offset_bytes(&frame).unwrap();
        let bytes = pool.region.bytes(&frame).unwrap();
        assert_eq!((bytes.as_ptr() as usize, bytes.len()), (start + offset, max_bytes));
        assert_eq!(bytes.as_ptr() as usize % 64, 0);
        assert!(offset >= stride + headroom_bytes as usize);
        assert!(offset + max_bytes <= stride + frame_bytes as usize);
        for at in [stride, offset, stride + frame_bytes as usize - 1] {
            assert_eq!(pool.region.buffer_at(at), Some((frame.index(), offset)));
        }
        pool.give(frame);
    }
    assert_eq!(pool.region.buffer_at(frames as usize * frame_bytes as usize), None);
    pool.assert_whole();
}

#[test]
fn frames_are_apart_aligned_and_inside() {
    // An interpreter takes minutes for many frames.
    check_places(if cfg!(miri) { 300 } else { 65_535 }, 2048, 128);
    check_places(if cfg!(miri) { 200 } else { 4096 }, 2048, 1024);
    check_places(1, 128, 64);
    check_places(if cfg!(miri) { 200 } else { 1000 }, 128, 0);
    check_places(100, 1984, 192);
    check_places(9, 65_536, 32_768);
    check_places(9, FRAME_BYTES_MAX, 64);
}

fn specs() -> impl Strategy<Value = (u32, u32, u32)> {
    (1..200u32, prop_oneof![2..=40u32, 2..=1024u32]).prop_flat_map(|(frames, lines)| {
        (Just(frames), Just(lines * 64), (0..=lines / 2).prop_map(|headroom| headroom * 64))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, max_shrink_iters: 40, ..ProptestConfig::default() })]

    #[test]
    fn frames_of_any_spec_are_apart((frames, frame_bytes, headroom_bytes) in specs()) {
        check_places(frames, frame_bytes, headroom_bytes);
    }

    /// Each frame is filled to its end with a byte of its own; no other frame loses one.
    #[test]
    fn a_frame_that_is_written_leaves_the_others((frames, frame_bytes, headroom_bytes) in specs()) {
        // An interpreter takes minutes for megabytes.
        let frames = frames.min(if cfg!(miri) { 2 } else { 40 });
        let mut pool = Pool::new(frames, frame_bytes, headroom_bytes);
        let max_bytes = pool.region.data_bytes_max();
        let mut taken: Vec<Frame> = (0..frames).map(|_| pool.take(0, max_bytes).unwrap()).collect();
        for frame in &mut taken {
            let fill = frame.index() as u8;
            pool.region.bytes_mut(frame).unwrap().fill(fill);
        }
        for frame in &taken {
            let bytes = pool.region.bytes(frame).unwrap();
            prop_assert!(bytes.iter().all(|&byte| byte == frame.index() as u8));
        }
        taken.into_iter().for_each(|frame| pool.give(frame));
    }

    /// Buffers are taken and given in any order and number.
    #[test]
    fn buffers_taken_and_given_are_neither_lost_nor_doubled(steps in prop::collection::vec((any::<bool>(), 0..80usize), 1..60)) {
        let mut pool = Pool::new(100, 128, 0);
        let mut out = Batch::new(64);
        for (takes, count) in steps {
            let before = (pool.free.len(), out.len());
            if takes {
                let expected = count.min(before.0).min(out.room());
                prop_assert_eq!(pool.region.take(&mut pool.free, &mut out, count, 7, 60, |_| {}).unwrap(), expected);
                prop_assert_eq!((pool.free.len(), out.len()), (before.0 - expected, before.1 + expected));
            } else {
                let expected = count.min(before.1);
                pool.region.give(&mut out, &mut pool.free, count).unwrap();
                prop_assert_eq!((pool.free.len(), out.len()), (before.0 + expected, before.1 - expected));
            }
            prop_assert!(out.frames().iter().all(|frame| frame.sender() == 7 && frame.len_bytes() == 60));
        }
        pool.region.give(&mut out, &mut pool.free, usize::MAX).unwrap();
        pool.assert_whole();
    }

    #[test]
    fn a_row_travels_with_its_frame_and_is_cleared_when_given(meta in metas()) {
        let mut pool = Pool::new(1, 2048, 0);
        let mut frame = pool.take(3, 100).unwrap();
        prop_assert_eq!(pool.region.meta(&frame).unwrap(), Meta::default());
        pool.region.set_meta(&mut frame, &meta).unwrap();
        frame.set_sender(9);
        frame.set_band(5);
        pool.region.set_len(&mut frame, 1500).unwrap();
        let mut batch = Batch::new(1);
        batch.push(frame).unwrap();
        prop_assert!(batch.frames()[0].has_meta());
        prop_assert_eq!(pool.region.meta(&batch.frames()[0]).unwrap(), meta);
        pool.region.give(&mut batch, &mut pool.free, 1).unwrap();
        // The row of the same buffer is clear at its next use.
        let mut frame = pool.take(3, 100).unwrap();
        prop_assert_eq!(pool.region.meta(&frame).unwrap(), Meta::default());
        pool.region.set_meta(&mut frame, &Meta::default()).unwrap();
        prop_assert_eq!(pool.region.chunks(&frame).unwrap().count(), 1);
        pool.give(frame);
    }
}

fn metas() -> impl Strategy<Value = Meta> {
    (any::<(u16, u8, bool)>(), any::<(u16, u16, u64)>()).prop_map(|(gso, rest)| Meta {
        gso_bytes: gso.0,
        gso_kind: gso.1,
        needs_checksum: gso.2,
        checksum_start: rest.0,
        checksum_offset: rest.1,
        time_ns: rest.2,
    })
}

/// True if `ours` refuses a frame of `theirs` as foreign.
fn is_foreign<T>(result: Result<T, MemError>, index: u32, theirs: &Pool, ours: &Pool) -> bool {
    let numbers = (index, theirs.region.number(), ours.region.number());
    matches!(result, Err(MemError::Foreign { index, theirs, ours }) if (index, theirs, ours) == numbers)
}

#[test]
fn another_pools_frame_is_refused_by_every_access() {
    let (mut ours, mut theirs) = (Pool::new(4, 2048, 0), Pool::new(4, 2048, 0));
    let mut frame = theirs.take(0, 60).unwrap();
    let index = frame.index();
    let region = &ours.region;
    assert!(is_foreign(region.offset_bytes(&frame), index, &theirs, &ours));
    assert!(is_foreign(region.bytes(&frame), index, &theirs, &ours));
    assert!(is_foreign(region.bytes_mut(&mut frame), index, &theirs, &ours));
    assert!(is_foreign(region.chunks(&frame), index, &theirs, &ours));
    assert!(is_foreign(region.set_len(&mut frame, 61), index, &theirs, &ours));
    assert!(is_foreign(region.meta(&frame), index, &theirs, &ours));
    assert!(is_foreign(region.set_meta(&mut frame, &Meta::default()), index, &theirs, &ours));
    assert!(is_foreign(region.strip(&mut frame, &mut Vec::new()), index, &theirs, &ours));
    let (error, frame) = region.give_one(frame, &mut Vec::new()).unwrap_err();
    assert!(is_foreign::<()>(Err(error), index, &theirs, &ours));
    assert_eq!((frame.len_bytes(), frame.has_meta()), (60, false));
    theirs.give(frame);

    let (mut head, piece) = (ours.take(0, 60).unwrap(), theirs.take(0, 60).unwrap());
    let (error, mut piece) = ours.region.link(&mut head, piece).unwrap_err();
    assert!(is_foreign::<()>(Err(error), index, &theirs, &ours));
    let (error, head) = ours.region.link(&mut piece, head).unwrap_err();
    assert!(is_foreign::<()>(Err(error), index, &theirs, &ours));
    assert_eq!((head.len_bytes(), head.has_meta()), (60, false));
    ours.give(head);
    theirs.give(piece);
}

#[test]
fn another_pools_free_frame_is_not_taken_and_its_frame_not_given() {
    let (mut ours, mut theirs) = (Pool::new(4, 2048, 0), Pool::new(4, 2048, 0));
    let stranger = theirs.free.remove(0);
    let index = stranger.index();
    ours.free.insert(2, stranger);
    let mut batch = Batch::new(8);
    let taken = ours.region.take(&mut ours.free, &mut batch, 8, 0, 60, |_| {});
    assert!(is_foreign(taken, index, &theirs, &ours));
    assert_eq!((ours.free.len(), batch.len()), (5, 0));
    let mut stranger = vec![ours.free.remove(2)];
    for pool in [&ours, &theirs] {
        let charge = Charge::new(pool.region.number(), 7);
        let taken = ours.region.take_one(&mut stranger, &mut batch, charge, 60, |_| {});
        assert!(is_foreign(taken, index, &theirs, &ours));
        assert_eq!((stranger.len(), batch.len()), (1, 0));
    }
    ours.free.insert(2, stranger.remove(0));
    // A charge of another pool names the sender alone.
    let charge = Charge::new(theirs.region.number(), 7);
    assert_eq!(ours.region.take_one(&mut ours.free, &mut batch, charge, 60, |_| {}).unwrap(), 1);
    let frame = batch.pop().unwrap();
    assert_eq!((frame.pool(), frame.sender()), (ours.region.number(), 7));
    ours.give(frame);
    // The buffers above it can be taken.
    assert_eq!(ours.region.take(&mut ours.free, &mut batch, 2, 0, 60, |_| {}).unwrap(), 2);
    theirs.free.push(ours.free.remove(2));
    theirs.assert_whole();

    batch.push(theirs.take(0, 60).unwrap()).unwrap();
    batch.push(ours.take(0, 60).unwrap()).unwrap();
    let index = batch.frames()[2].index();
    let given = ours.region.give(&mut batch, &mut ours.free, 4);
    assert!(is_foreign(given, index, &theirs, &ours));
    assert_eq!((batch.len(), batch.frames()[0].pool()), (2, theirs.region.number()));
    theirs.region.give(&mut batch, &mut theirs.free, 1).unwrap();
    ours.region.give(&mut batch, &mut ours.free, 1).unwrap();
    ours.assert_whole();
    theirs.assert_whole();
}

#[test]
fn a_length_beyond_the_buffer_is_refused() {
    for (frame_bytes, headroom_bytes, max_bytes) in [
        (128, 0, 128),
        (128, 64, 64),
        (1984, 64, 1920),
        (2048, 0, 1600),
        (2048, 1024, 576),
        (65_536, 0, 65_088),
        (FRAME_BYTES_MAX, 64, LENGTH_BYTES_MAX),
        (FRAME_BYTES_MAX, 0, LENGTH_BYTES_MAX),
    ] {
        let mut pool = Pool::new(2, frame_bytes, headroom_bytes);
        assert_eq!(pool.region.data_bytes_max(), max_bytes);
        let mut frame = pool.take(0, max_bytes).unwrap();
        assert_eq!(pool.region.bytes(&frame).unwrap().len() as u32, max_bytes);
        let longer = [max_bytes + 1, LENGTH_BYTES_MAX, LENGTH_BYTES_MAX + 1, u32::MAX].into_iter();
        for too_long in longer.filter(|&len| len > max_bytes) {
            let of_take = pool.take(0, too_long).unwrap_err();
            let of_set_len = pool.region.set_len(&mut frame, too_long).unwrap_err();
            let said = format!("{too_long} B do not fit: at most {max_bytes} B");
            assert_eq!([of_take.to_string(), of_set_len.to_string()], [said.clone(), said]);
        }
        assert_eq!((frame.len_bytes(), pool.free.len()), (max_bytes, 1));
        pool.region.set_len(&mut frame, 0).unwrap();
        assert!(pool.region.bytes(&frame).unwrap().is_empty());
        pool.give(frame);
    }
}

/// A length has 18 bits: headroom that was taken in makes no room for a longer one.
#[test]
fn the_longest_frame_gets_no_longer_by_its_headroom() {
    let mut pool = Pool::new(2, FRAME_BYTES_MAX, 64);
    let mut frame = pool.take(0, 10).unwrap();
    pool.region.prepend(&mut frame, 64).unwrap();
    let error = pool.region.set_len(&mut frame, LENGTH_BYTES_MAX + 1).unwrap_err().to_string();
    assert_eq!(error, "262144 B do not fit: at most 262143 B");
    pool.region.set_len(&mut frame, LENGTH_BYTES_MAX).unwrap();
    assert_eq!(pool.region.bytes(&frame).unwrap().len() as u32, LENGTH_BYTES_MAX);
    pool.give(frame);
}

#[test]
fn a_spec_out_of_bounds_is_an_error_with_the_bound() {
    for (frames, frame_bytes, headroom_bytes, what) in [
        (0, 2048, 0, "1 to 16777216 frames"),
        (FRAMES_MAX + 1, 2048, 0, "1 to 16777216 frames"),
        (u32::MAX, 2048, 0, "1 to 16777216 frames"),
        (1, 0, 0, "frames are 128 to 262656 B"),
        (1, 64, 0, "frames are 128 to 262656 B"),
        (1, 2000, 0, "a multiple of 64"),
        (1, FRAME_BYTES_MAX + 64, 0, "frames are 128 to 262656 B"),
        (1, 2048, 32, "headroom is a multiple of 64"),
        (1, 2048, 1088, "at most half of a frame"),
    ] {
        let spec = RegionSpec { frames, frame_bytes, headroom_bytes, huge_pages: false };
        let error = Region::new(spec).unwrap_err();
        assert!(matches!(error, MemError::Spec { .. }));
        assert!(error.to_string().contains(what), "{error}");
    }
}

#[test]
fn a_new_region_hands_out_each_buffer_once_lowest_on_top() {
    for huge_pages in [false, true] {
        let spec = RegionSpec { frames: 70, frame_bytes: 2048, headroom_bytes: 0, huge_pages };
        let (region, free) = Region::new(spec).unwrap();
        assert_eq!(*region.spec(), spec);
        assert!(free.iter().rev().map(FreeFrame::index).eq(0..70));
        assert!(free.iter().all(|frame| frame.pool() == region.number()));
        assert!(region.retire(free));
    }
}
