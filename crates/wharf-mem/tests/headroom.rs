//! Frames whose start was moved: any sequence of moves beside a model, and the neighbours' bytes.

mod common;

use common::Pool;
use proptest::prelude::*;
use wharf_mem::{MemError, Meta};

#[derive(Debug, Clone)]
enum Step {
    Prepend(usize),
    Trim(usize),
    SetLen(u32),
    Link(u32),
    Meta,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0usize..80).prop_map(Step::Prepend),
        (0usize..600).prop_map(Step::Trim),
        (0u32..2100).prop_map(Step::SetLen),
        (1u32..400).prop_map(Step::Link),
        Just(Step::Meta),
    ]
}

proptest! {
    #[test]
    fn start_moves_anyhow_then_bytes_stay_and_neighbours_keep_theirs(
        steps in prop::collection::vec(step(), 0..24), len in 0u32..=1536, which in 0usize..8,
    ) {
        const HEADROOM: usize = 64;
        let mut pool = Pool::new(16, 2048, HEADROOM as u32);
        let mut frames: Vec<_> = (0..8).map(|_| pool.take(0, 1536).unwrap()).collect();
        for frame in &mut frames {
            pool.region.bytes_and_before_mut(frame, HEADROOM).unwrap().fill(0xaa);
        }
        let mut frame = frames.remove(which);
        pool.region.set_len(&mut frame, len).unwrap();
        let (mut model, mut headroom) = (vec![0xaa_u8; len as usize], HEADROOM);
        let (mut is_chain, mut first) = (false, len as usize);
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Prepend(bytes) => {
                    let moved = pool.region.prepend(&mut frame, bytes);
                    prop_assert_eq!(moved.is_ok(), bytes <= headroom);
                    if moved.is_ok() {
                        pool.region.bytes_mut(&mut frame).unwrap()[..bytes].fill(number as u8);
                        model.splice(..0, vec![number as u8; bytes]);
                        (headroom, first) = (headroom - bytes, first + bytes);
                    }
                }
                Step::Trim(bytes) => {
                    let moved = pool.region.trim_front(&mut frame, bytes);
                    prop_assert_eq!(moved.is_ok(), bytes <= first - usize::from(is_chain));
                    if moved.is_ok() {
                        model.drain(..bytes);
                        (headroom, first) = (headroom + bytes, first - bytes);
                    }
                }
                Step::SetLen(bytes) => {
                    let fits = bytes as usize + headroom <= 1536 + HEADROOM;
                    let set = pool.region.set_len(&mut frame, bytes);
                    prop_assert_eq!(set.is_ok(), fits && !is_chain);
                    if set.is_ok() {
                        pool.region.bytes_mut(&mut frame).unwrap()[first.min(bytes as usize)..].fill(number as u8);
                        model.resize(bytes as usize, number as u8);
                        first = bytes as usize;
                    }
                }
                Step::Link(bytes) => {
                    let Ok(mut piece) = pool.take(0, bytes) else { continue };
                    pool.region.bytes_mut(&mut piece).unwrap().fill(number as u8);
                    match pool.region.link(&mut frame, piece) {
                        Ok(()) => {
                            model.extend(vec![number as u8; bytes as usize]);
                            is_chain = true;
                        }
                        Err((_, piece)) => {
                            prop_assert_eq!(first, 0);
                            pool.give(piece);
                        }
                    }
                }
                Step::Meta => pool.region.set_meta(&mut frame, &Meta { time_ns: 5, ..Meta::default() }).unwrap(),
            }
            prop_assert_eq!(pool.region.headroom_bytes(&frame).unwrap(), headroom);
            let bytes = pool.region.bytes(&frame).unwrap();
            prop_assert_eq!(bytes.len(), first);
            let mapped = pool.region.mapping().start().as_ptr() as usize;
            prop_assert_eq!(bytes.as_ptr() as usize - mapped, pool.region.offset_bytes(&frame).unwrap());
            let all: Vec<u8> = pool.region.chunks(&frame).unwrap().flatten().copied().collect();
            prop_assert_eq!(&all, &model);
            prop_assert!(pool.region.bytes_and_before_mut(&mut frame, headroom + 1).is_err());
            prop_assert!(pool.region.bytes_and_before_mut(&mut frame, headroom).is_ok());
        }
        for other in &mut frames {
            prop_assert!(pool.region.bytes_and_before_mut(other, HEADROOM).unwrap().iter().all(|&byte| byte == 0xaa));
        }
        frames.into_iter().chain([frame]).for_each(|frame| pool.give(frame));
        pool.assert_whole();
        // The next user's data starts at the usual place.
        for _ in 0..16 {
            let frame = pool.take(0, 1536).unwrap();
            prop_assert_eq!(pool.region.headroom_bytes(&frame).unwrap(), HEADROOM);
            let at = pool.region.offset_bytes(&frame).unwrap();
            prop_assert_eq!(pool.region.buffer_at(at), Some((frame.index(), at)));
            pool.free.insert(0, { let mut free = Vec::new(); pool.region.give_one(frame, &mut free).unwrap(); free.remove(0) });
        }
    }
}

#[test]
fn checksum_left_to_the_device_then_its_place_moves_along() {
    let mut pool = Pool::new(2, 2048, 64);
    let mut frame = pool.take(0, 100).unwrap();
    let meta =
        Meta { needs_checksum: true, checksum_start: 34, checksum_offset: 6, time_ns: 9, ..Meta::default() };
    pool.region.set_meta(&mut frame, &meta).unwrap();
    pool.region.prepend(&mut frame, 28).unwrap();
    assert_eq!(pool.region.meta(&frame).unwrap(), Meta { checksum_start: 62, ..meta });
    pool.region.trim_front(&mut frame, 42).unwrap();
    assert_eq!(pool.region.meta(&frame).unwrap(), Meta { checksum_start: 20, ..meta });
    let refused = pool.region.trim_front(&mut frame, 21);
    assert!(matches!(refused, Err(MemError::TooLong { max_bytes: 20, .. })), "{refused:?}");
    assert_eq!((frame.len_bytes(), pool.region.meta(&frame).unwrap().checksum_start), (86, 20));
    pool.region.trim_front(&mut frame, usize::MAX).unwrap_err();
    pool.region.prepend(&mut frame, usize::MAX).unwrap_err();
    pool.give(frame);
}
