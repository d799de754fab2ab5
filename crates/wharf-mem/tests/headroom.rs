//! Frames whose start was moved: any sequence of moves beside a model, and the neighbours' bytes.

mod common;

use common::Pool;
use proptest::prelude::*;
use wharf_mem::{Frame, MemError, Meta};

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

const HEADROOM: usize = 64;
const BYTES_MAX: usize = 1536;

/// A frame, and what it should hold.
struct Modelled {
    pool: Pool,
    frame: Frame,
    bytes: Vec<u8>,
    headroom: usize,
    /// Bytes of the first buffer.
    first: usize,
    is_chain: bool,
}

impl Modelled {
    fn step(&mut self, number: u8, step: Step) -> Result<(), TestCaseError> {
        let Self { pool, frame, .. } = self;
        match step {
            Step::Prepend(bytes) => {
                let moved = pool.region.prepend(frame, bytes);
                prop_assert_eq!(moved.is_ok(), bytes <= self.headroom);
                if moved.is_ok() {
                    pool.region.bytes_mut(frame).unwrap()[..bytes].fill(number);
                    self.bytes.splice(..0, vec![number; bytes]);
                    (self.headroom, self.first) = (self.headroom - bytes, self.first + bytes);
                }
            }
            Step::Trim(bytes) => {
                let moved = pool.region.trim_front(frame, bytes);
                prop_assert_eq!(moved.is_ok(), bytes <= self.first - usize::from(self.is_chain));
                if moved.is_ok() {
                    self.bytes.drain(..bytes);
                    (self.headroom, self.first) = (self.headroom + bytes, self.first - bytes);
                }
            }
            Step::SetLen(bytes) => {
                let fits = bytes as usize + self.headroom <= BYTES_MAX + HEADROOM;
                let set = pool.region.set_len(frame, bytes);
                prop_assert_eq!(set.is_ok(), fits && !self.is_chain);
                if set.is_ok() {
                    pool.region.bytes_mut(frame).unwrap()[self.first.min(bytes as usize)..].fill(number);
                    self.bytes.resize(bytes as usize, number);
                    self.first = bytes as usize;
                }
            }
            Step::Link(bytes) => self.link(number, bytes)?,
            Step::Meta => pool.region.set_meta(frame, &Meta { time_ns: 5, ..Meta::default() }).unwrap(),
        }
        Ok(())
    }

    fn link(&mut self, number: u8, bytes: u32) -> Result<(), TestCaseError> {
        if self.pool.free.is_empty() {
            return Ok(());
        }
        let mut piece = self.pool.take(0, bytes).unwrap();
        self.pool.region.bytes_mut(&mut piece).unwrap().fill(number);
        match self.pool.region.link(&mut self.frame, piece) {
            Ok(()) => {
                self.bytes.extend(vec![number; bytes as usize]);
                self.is_chain = true;
            }
            Err((_, piece)) => {
                prop_assert_eq!(self.first, 0);
                self.pool.give(piece);
            }
        }
        Ok(())
    }

    fn check(&mut self) -> Result<(), TestCaseError> {
        let Self { pool, frame, headroom, .. } = self;
        prop_assert_eq!(pool.region.headroom_bytes(frame).unwrap(), *headroom);
        let bytes = pool.region.bytes(frame).unwrap();
        prop_assert_eq!(bytes.len(), self.first);
        let mapped = pool.region.mapping().start().as_ptr() as usize;
        prop_assert_eq!(bytes.as_ptr() as usize - mapped, pool.region.offset_bytes(frame).unwrap());
        let all: Vec<u8> = pool.region.chunks(frame).unwrap().flatten().copied().collect();
        prop_assert_eq!(&all, &self.bytes);
        prop_assert!(pool.region.bytes_and_before_mut(frame, *headroom + 1).is_err());
        prop_assert!(pool.region.bytes_and_before_mut(frame, *headroom).is_ok());
        Ok(())
    }
}

proptest! {
    #[test]
    fn start_moves_anyhow_then_bytes_stay_and_neighbours_keep_theirs(
        steps in prop::collection::vec(step(), 0..24), len in 0u32..=1536, which in 0usize..8,
    ) {
        let mut pool = Pool::new(16, 2048, HEADROOM as u32);
        let mut frames: Vec<_> = (0..8).map(|_| pool.take(0, BYTES_MAX as u32).unwrap()).collect();
        for frame in &mut frames {
            pool.region.bytes_and_before_mut(frame, HEADROOM).unwrap().fill(0xaa);
        }
        let mut frame = frames.remove(which);
        pool.region.set_len(&mut frame, len).unwrap();
        let (bytes, first) = (vec![0xaa_u8; len as usize], len as usize);
        let mut modelled = Modelled { pool, frame, bytes, headroom: HEADROOM, first, is_chain: false };
        for (number, step) in steps.into_iter().enumerate() {
            modelled.step(number as u8, step)?;
            modelled.check()?;
        }
        let Modelled { mut pool, frame, .. } = modelled;
        for other in &mut frames {
            let bytes = pool.region.bytes_and_before_mut(other, HEADROOM).unwrap();
            prop_assert!(bytes.iter().all(|&byte| byte == 0xaa));
        }
        frames.into_iter().chain([frame]).for_each(|frame| pool.give(frame));
        pool.assert_whole();
        // The next user's data starts at the usual place.
        for _ in 0..16 {
            let frame = pool.take(0, BYTES_MAX as u32).unwrap();
            prop_assert_eq!(pool.region.headroom_bytes(&frame).unwrap(), HEADROOM);
            let at = pool.region.offset_bytes(&frame).unwrap();
            prop_assert_eq!(pool.region.buffer_at(at), Some((frame.index(), at)));
            let mut free = Vec::new();
            pool.region.give_one(frame, &mut free).unwrap();
            pool.free.insert(0, free.remove(0));
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
