//! Lanes and return rings against a `VecDeque`, and between two threads.
#![cfg(not(loom))]

mod common;

use common::Pool;
use proptest::prelude::*;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use std::time::{Duration, Instant};
use wharf_mem::frame::{BANDS_MAX, SENDERS_MAX};
use wharf_mem::lane::{LaneConsumer, LaneProducer, lane};
use wharf_mem::return_ring::{ReturnConsumer, ReturnProducer, return_ring};
use wharf_mem::{Batch, Frame, FreeFrame, Region};

/// Index, sender, length and band of a frame.
type Name = (u32, u16, u32, u8);

fn name(frame: &Frame) -> Name {
    (frame.index(), frame.sender(), frame.len_bytes(), frame.band())
}

/// Capacity, and the first index: any value, but often one that soon wraps.
fn rings() -> impl Strategy<Value = (u32, u32)> {
    (1..=10u32).prop_flat_map(|bits| {
        let soon = (0..3u32 << bits).prop_map(|before| 0u32.wrapping_sub(before));
        (Just(1u32 << bits), prop_oneof![2 => soon, 1 => any::<u32>()])
    })
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Push { count: usize, max: usize },
    Pop { max: usize, room: usize },
    PopNow { max: usize, room: usize },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let some = || prop_oneof![0..4usize, 0..300usize, Just(usize::MAX)];
    let step = prop_oneof![
        3 => (0..=256usize, some()).prop_map(|(count, max)| Step::Push { count, max }),
        2 => (some(), 0..=256usize).prop_map(|(max, room)| Step::Pop { max, room }),
        1 => (some(), 0..=256usize).prop_map(|(max, room)| Step::PopNow { max, room }),
    ];
    prop::collection::vec(step, 1..80)
}

/// Takes frames that all differ.
fn take_various(pool: &mut Pool, to: &mut Batch, count: usize) {
    for _ in 0..count.min(to.room()).min(pool.free.len()) {
        let index = pool.free.last().map_or(0, FreeFrame::index);
        let mut frame = pool.take(index as u16 * 7 % SENDERS_MAX, index * 13 % 128).unwrap();
        frame.set_band(index as u8 % BANDS_MAX);
        to.push(frame).unwrap();
    }
}

struct Lane {
    ends: (LaneProducer, LaneConsumer),
    inside: VecDeque<Name>,
    waiting: Batch,
    pool: Pool,
}

impl Lane {
    fn new(capacity: u32, start: u32) -> Self {
        let pool = Pool::new(capacity + 256, 128, 0);
        Self { ends: lane(capacity, start), inside: VecDeque::new(), waiting: Batch::new(256), pool }
    }

    fn push(&mut self, count: usize, max: usize) {
        take_various(&mut self.pool, &mut self.waiting, count);
        let names: Vec<_> = self.waiting.frames().iter().map(name).collect();
        let room = self.ends.0.capacity() - self.inside.len();
        let pushed = match max {
            usize::MAX => self.ends.0.push(&mut self.waiting),
            max => self.ends.0.push_first(&mut self.waiting, max),
        };
        assert_eq!(pushed, room.min(max).min(names.len()));
        assert_eq!(self.waiting.len(), names.len() - pushed);
        self.inside.extend(&names[..pushed]);
    }

    fn pop(&mut self, max: usize, room: usize, now: bool) {
        let mut got = Batch::new(room);
        let expected = self.inside.len().min(max).min(room);
        if now {
            let left = self.inside.len() - expected;
            assert_eq!(self.ends.1.pop_now(&mut got, max), (expected, left));
        } else {
            assert_eq!(self.ends.1.pop(&mut got, max), expected);
        }
        assert!(got.frames().iter().map(name).eq(self.inside.drain(..expected)));
        self.pool.region.give(&mut got, &mut self.pool.free, usize::MAX).unwrap();
    }

    fn look(&mut self) {
        let (lane_in, lane_out) = &mut self.ends;
        assert_eq!(lane_in.room(), lane_in.capacity() - self.inside.len());
        assert_eq!(lane_in.is_drained(), self.inside.is_empty());
        assert_eq!(lane_out.ready_now(), self.inside.len());
        assert!(!lane_out.is_abandoned());
    }

    fn finish(mut self) {
        while !self.inside.is_empty() {
            self.pop(usize::MAX, 256, false);
        }
        self.pool.region.give(&mut self.waiting, &mut self.pool.free, usize::MAX).unwrap();
        self.pool.assert_whole();
    }
}

struct Returns {
    ends: (ReturnProducer, ReturnConsumer),
    inside: VecDeque<u32>,
    waiting: Batch,
    pool: Pool,
}

impl Returns {
    fn new(capacity: u32, start: u32) -> Self {
        let pool = Pool::new(capacity + 256, 128, 0);
        Self { ends: return_ring(capacity, start), inside: VecDeque::new(), waiting: Batch::new(256), pool }
    }

    fn push(&mut self, count: usize, max: usize, capacity: u32) {
        take_various(&mut self.pool, &mut self.waiting, count);
        let indices: Vec<_> = self.waiting.frames().iter().map(Frame::index).collect();
        let pushed = self.ends.0.push(&mut self.waiting, max);
        assert_eq!(pushed, (capacity as usize - self.inside.len()).min(max).min(indices.len()));
        self.inside.extend(&indices[..pushed]);
    }

    fn pop(&mut self, max: usize) {
        assert_eq!((self.ends.1.len(), self.ends.1.is_empty()), (self.inside.len(), self.inside.is_empty()));
        let mut got = Vec::new();
        assert_eq!(self.ends.1.pop(&mut got, max), self.inside.len().min(max));
        assert!(got.iter().map(FreeFrame::index).eq(self.inside.drain(..got.len())));
        self.pool.free.append(&mut got);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, max_shrink_iters: 40, ..ProptestConfig::default() })]

    #[test]
    fn a_lane_is_a_bounded_queue((capacity, start) in rings(), steps in steps()) {
        let mut lane = Lane::new(capacity, start);
        for step in steps {
            match step {
                Step::Push { count, max } => lane.push(count, max),
                Step::Pop { max, room } => lane.pop(max, room, false),
                Step::PopNow { max, room } => lane.pop(max, room, true),
            }
            lane.look();
        }
        lane.finish();
    }

    #[test]
    fn a_return_ring_is_a_bounded_queue((capacity, start) in rings(), steps in steps()) {
        let mut returns = Returns::new(capacity, start);
        for step in steps {
            match step {
                Step::Push { count, max } => returns.push(count, max, capacity),
                Step::Pop { max, .. } | Step::PopNow { max, .. } => returns.pop(max),
            }
        }
        returns.pop(usize::MAX);
        returns.pool.region.give(&mut returns.waiting, &mut returns.pool.free, usize::MAX).unwrap();
        returns.pool.assert_whole();
    }
}

#[test]
fn an_abandoned_lane_keeps_its_frames() {
    let mut pool = Pool::new(4, 128, 0);
    let (mut lane_in, mut lane_out) = lane(4, u32::MAX);
    let mut frames = Batch::new(3);
    take_various(&mut pool, &mut frames, 3);
    assert_eq!(lane_in.push(&mut frames), 3);
    drop(lane_in);
    assert!(lane_out.is_abandoned());
    assert_eq!(lane_out.pop(&mut frames, 9), 3);
    std::iter::from_fn(|| frames.pop()).for_each(|frame| pool.give(frame));
    pool.assert_whole();
}

#[test]
fn a_capacity_that_is_no_power_of_two_panics() {
    for capacity in [0, 3, 1000] {
        assert!(catch_unwind(|| lane(capacity, 0)).is_err());
        assert!(catch_unwind(|| return_ring(capacity, 0)).is_err());
    }
}

/// The callback panics between two buffers: none is then in two places.
#[test]
fn a_callback_that_panics_doubles_no_buffer() {
    let mut pool = Pool::new(8, 128, 0);
    let mut frames = Batch::new(8);
    let unlucky = |index| assert_ne!(index, 4);
    let Pool { region, free } = &mut pool;
    let taken = catch_unwind(AssertUnwindSafe(|| region.take(free, &mut frames, 8, 0, 60, unlucky)));
    assert!(taken.is_err());
    assert_eq!(pool.free.len() + frames.len(), 8);
    pool.assert_whole();

    take_various(&mut pool, &mut frames, 8);
    let (mut returns_in, mut returns_out) = return_ring(8, 0);
    assert_eq!(returns_in.push(&mut frames, 8), 8);
    let noted = catch_unwind(AssertUnwindSafe(|| returns_out.pop_each(&mut pool.free, 8, unlucky)));
    assert!(noted.is_err());
    returns_out.pop(&mut pool.free, 8);
    pool.assert_whole();
}

const FRAMES: u64 = if cfg!(miri) { 1_500 } else { 150_000 };

/// Yields while the other thread runs, up to a bound.
fn wait_since(begun: Instant) {
    assert!(begun.elapsed() < Duration::from_secs(30), "the other thread does nothing");
    thread::yield_now();
}

/// Frames go round between two threads: they are numbered in their bytes, and stay in order both ways; none
/// is lost.
#[test]
fn frames_between_two_threads_keep_order_and_none_is_lost() {
    let Pool { region, free } = &mut Pool::new(300, 128, 0);
    let (region, (lane_in, lane_out), (returns_in, returns_out)) =
        (&*region, lane(128, u32::MAX - 500), return_ring(64, 77));
    thread::scope(|scope| {
        scope.spawn(move || receive(region, lane_out, returns_in));
        send(region, free, lane_in, returns_out);
    });
    let mut indices: Vec<_> = free.iter().map(FreeFrame::index).collect();
    indices.sort_unstable();
    assert!(indices.into_iter().eq(0..300));
    assert!(region.retire(std::mem::take(free)));
}

fn send(
    region: &Region, free: &mut Vec<FreeFrame>, mut lane_in: LaneProducer, mut returns_out: ReturnConsumer,
) {
    let (mut batch, mut out, mut number) = (Batch::new(32), VecDeque::new(), 0u64);
    let begun = Instant::now();
    while number < FRAMES || !out.is_empty() {
        let before = free.len();
        returns_out.pop(free, usize::MAX);
        assert!(free[before..].iter().map(FreeFrame::index).eq(out.drain(..free.len() - before)));
        let (first_new, count) = (batch.len(), (FRAMES - number).min(32) as usize);
        region.take(free, &mut batch, count, 5, 8, |_| {}).unwrap();
        for frame in &mut batch.frames_mut()[first_new..] {
            region.bytes_mut(frame).unwrap().copy_from_slice(&number.to_le_bytes());
            out.push_back(frame.index());
            number += 1;
        }
        if lane_in.push(&mut batch) == 0 {
            wait_since(begun);
        }
    }
    assert!(batch.is_empty() && lane_in.is_drained());
}

fn receive(region: &Region, mut lane_out: LaneConsumer, mut returns_in: ReturnProducer) {
    let (mut batch, mut expected, begun) = (Batch::new(50), 0u64, Instant::now());
    loop {
        let gone = lane_out.is_abandoned();
        let first_new = batch.len();
        let new = lane_out.pop(&mut batch, usize::MAX);
        for frame in &batch.frames()[first_new..] {
            assert_eq!(region.bytes(frame).unwrap(), expected.to_le_bytes());
            expected += 1;
        }
        let count = batch.len();
        if returns_in.push(&mut batch, count) == 0 && new == 0 {
            if gone {
                break;
            }
            wait_since(begun);
        }
    }
    assert_eq!((expected, batch.len()), (FRAMES, 0));
}
