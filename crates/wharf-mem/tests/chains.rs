//! Super-packets: buffers linked into one frame, each of which comes back exactly once.

mod common;

use common::Pool;
use proptest::prelude::*;
use wharf_mem::frame::LENGTH_BYTES_MAX;
use wharf_mem::{Batch, Frame, MemError, Meta};

/// Returns byte `at` of piece `piece`.
fn pattern(piece: usize, at: usize) -> u8 {
    (piece * 31 + at * 7) as u8
}

fn is_patterned(piece: usize, bytes: &[u8]) -> bool {
    bytes.iter().enumerate().all(|(at, &byte)| byte == pattern(piece, at))
}

fn patterned(pool: &mut Pool, piece: usize, len_bytes: u32) -> Frame {
    let mut frame = pool.take(1, len_bytes).unwrap();
    let bytes = pool.region.bytes_mut(&mut frame).unwrap();
    bytes.iter_mut().enumerate().for_each(|(at, byte)| *byte = pattern(piece, at));
    frame
}

/// Makes a chain of pieces with these lengths, some linked one by one, the others in a row.
fn chain(pool: &mut Pool, lens: &[u32]) -> Frame {
    let mut head = patterned(pool, 0, lens[0]);
    let singly = lens.len() / 3;
    for (piece, &len_bytes) in lens.iter().enumerate().take(singly + 1).skip(1) {
        let piece = patterned(pool, piece, len_bytes);
        pool.region.link(&mut head, piece).unwrap();
    }
    let rest: Vec<Frame> =
        (singly + 1..lens.len()).map(|piece| patterned(pool, piece, lens[piece])).collect();
    let mut chain = pool.region.chain(head);
    rest.into_iter().for_each(|piece| chain.push(piece).unwrap());
    chain.done()
}

/// The ways in which a chain ends.
#[derive(Clone, Copy, Debug)]
enum Ending {
    Give,
    GiveOne,
    StripThenGive,
    UnlinkThenGive,
}

fn end(pool: &mut Pool, mut head: Frame, ending: Ending, first_bytes: u32) {
    if let Ending::GiveOne = ending {
        return pool.give(head);
    }
    if let Ending::StripThenGive = ending {
        pool.region.strip(&mut head, &mut pool.free).unwrap();
        assert_eq!((head.len_bytes(), head.has_meta()), (first_bytes, false));
        assert!(is_patterned(0, pool.region.bytes(&head).unwrap()));
    }
    if let Ending::UnlinkThenGive = ending {
        let mut piece = 0;
        while let Some(rest) = pool.region.unlink(&mut head) {
            assert!(is_patterned(piece, pool.region.bytes(&head).unwrap()));
            assert_eq!(pool.region.bytes(&head).unwrap().len() as u32, head.len_bytes());
            let room = pool.region.room_bytes(&head);
            pool.region.set_len(&mut head, room).unwrap();
            pool.give(head);
            (head, piece) = (rest, piece + 1);
        }
        assert!(is_patterned(piece, pool.region.bytes(&head).unwrap()));
    }
    let mut batch = Batch::new(1);
    batch.push(head).unwrap();
    pool.region.give(&mut batch, &mut pool.free, 1).unwrap();
}

fn endings() -> impl Strategy<Value = Ending> {
    prop_oneof![
        Just(Ending::Give),
        Just(Ending::GiveOne),
        Just(Ending::StripThenGive),
        Just(Ending::UnlinkThenGive)
    ]
}

/// The longest piece: less for an interpreter.
const PIECE_BYTES: u32 = if cfg!(miri) { 64 } else { 1600 };

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, max_shrink_iters: 40, ..ProptestConfig::default() })]

    /// Two chains one after the other in the same buffers: the second finds rows that the first has used.
    #[test]
    fn a_chain_that_ends_gives_every_buffer_back(
        rounds in prop::collection::vec((prop::collection::vec(1..=PIECE_BYTES, 1..40), endings()), 2..4)
    ) {
        let mut pool = Pool::new(40, 2048, 0);
        for (lens, ending) in rounds {
            let mut head = chain(&mut pool, &lens);
            pool.region.set_meta(&mut head, &Meta { gso_bytes: 1448, ..Meta::default() }).unwrap();
            prop_assert_eq!(head.len_bytes(), lens.iter().sum::<u32>());
            prop_assert_eq!(pool.region.bytes(&head).unwrap().len() as u32, lens[0]);
            let chunks: Vec<&[u8]> = pool.region.chunks(&head).unwrap().collect();
            prop_assert!(chunks.iter().map(|chunk| chunk.len() as u32).eq(lens.iter().copied()));
            prop_assert!(chunks.iter().enumerate().all(|(piece, bytes)| is_patterned(piece, bytes)));
            end(&mut pool, head, ending, lens[0]);
            pool.assert_whole();
        }
    }
}

#[test]
fn a_chain_of_18_bits_of_bytes_is_the_longest() {
    let mut pool = Pool::new(6, 65_536, 0);
    let full = pool.region.data_bytes_max();
    let rest = LENGTH_BYTES_MAX - 4 * full;
    let mut head = chain(&mut pool, &[full, full, full, full, rest - 1]);
    let two = pool.take(1, 2).unwrap();
    let (error, mut piece) = pool.region.link(&mut head, two).unwrap_err();
    assert!(matches!(error, MemError::TooLong { len_bytes, max_bytes: LENGTH_BYTES_MAX }
        if len_bytes == LENGTH_BYTES_MAX + 1));
    assert_eq!((head.len_bytes(), piece.len_bytes()), (LENGTH_BYTES_MAX - 1, 2));
    pool.region.set_len(&mut piece, 1).unwrap();
    pool.region.link(&mut head, piece).unwrap();
    assert_eq!((head.len_bytes(), pool.region.chunks(&head).unwrap().count()), (LENGTH_BYTES_MAX, 6));
    pool.give(head);
    pool.assert_whole();
}

#[test]
fn a_piece_that_no_chain_may_have_is_refused() {
    let mut pool = Pool::new(4, 2048, 0);
    let mut head = chain(&mut pool, &[100, 50]);
    let index = head.index();
    let refused = pool.region.set_len(&mut head, 60).unwrap_err();
    assert!(matches!(refused, MemError::Chain { index: at } if at == index));

    let empty = pool.take(1, 0).unwrap();
    let (error, mut empty) = pool.region.link(&mut head, empty).unwrap_err();
    assert!(matches!(error, MemError::Chain { index } if index == empty.index()));
    let piece = pool.take(1, 10).unwrap();
    let (error, mut piece) = pool.region.link(&mut empty, piece).unwrap_err();
    assert!(matches!(error, MemError::Chain { .. }));
    pool.region.set_meta(&mut piece, &Meta::default()).unwrap();
    let (error, piece) = pool.region.link(&mut head, piece).unwrap_err();
    assert!(matches!(error, MemError::Chain { .. }));
    // A chain behind a chain would need a length of its own.
    let (error, mut head) = pool.region.link(&mut empty, head).unwrap_err();
    assert!(matches!(error, MemError::Chain { .. }));

    assert_eq!((head.len_bytes(), pool.region.chunks(&head).unwrap().count()), (150, 2));
    pool.region.bytes_mut(&mut head).unwrap().fill(1);
    let second = pool.region.chunks(&head).unwrap().nth(1).unwrap();
    assert!(is_patterned(1, second));
    [head, empty, piece].into_iter().for_each(|frame| pool.give(frame));
    pool.assert_whole();
}

/// Chains between ordinary frames, and a foreign frame behind them: buffers before it come back, each once.
#[test]
fn a_mixed_batch_is_given_up_to_the_foreign_frame() {
    let (mut pool, mut theirs) = (Pool::new(8, 2048, 0), Pool::new(2, 2048, 0));
    let mut batch = Batch::new(8);
    batch.push(pool.take(1, 60).unwrap()).unwrap();
    batch.push(chain(&mut pool, &[10, 20, 30])).unwrap();
    batch.push(chain(&mut theirs, &[10, 20])).unwrap();
    batch.push(chain(&mut pool, &[5, 5])).unwrap();
    assert!(matches!(pool.region.give(&mut batch, &mut pool.free, 8), Err(MemError::Foreign { .. })));
    assert_eq!((batch.len(), pool.free.len()), (2, 6));
    theirs.region.give(&mut batch, &mut theirs.free, 1).unwrap();
    theirs.assert_whole();
    pool.region.give(&mut batch, &mut pool.free, 1).unwrap();
    pool.assert_whole();
}
