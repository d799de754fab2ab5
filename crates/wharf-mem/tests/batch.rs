//! A batch against a `VecDeque`; order, capacity, sums and moves of one or two batches.

mod common;

use common::Pool;
use proptest::prelude::*;
use std::collections::VecDeque;
use wharf_mem::batch::BATCH_FRAMES_MAX;
use wharf_mem::{Batch, Charge, Frame, Meta};

const BUFFERS: u32 = 600;

#[derive(Clone, Debug)]
enum Step {
    /// Push a frame of this sender and length, with or without a row in the side table.
    Push(u16, u32, bool),
    Pop(usize),
    PopBack(usize),
    /// Append from a batch of `frames` frames of one sender, of which `left` were taken already.
    Append {
        frames: usize,
        left: usize,
        sender: u16,
        max: usize,
    },
    /// Append to a batch of this capacity that holds frames already.
    AppendTo {
        capacity: usize,
        holds: usize,
        max: usize,
    },
    /// Charge every second frame to this sender.
    Charge(u16),
    Refresh,
}

/// Bounds of the numbers of frames and steps and of a capacity: less for an interpreter.
const MANY: usize = if cfg!(miri) { 20 } else { 300 };
const STEPS: usize = if cfg!(miri) { 30 } else { 120 };
const CAPACITY: usize = if cfg!(miri) { 30 } else { 400 };

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let few = || prop_oneof![3 => 0..4usize, 1 => 0..MANY];
    let max = || prop_oneof![few(), Just(usize::MAX)];
    let step = prop_oneof![
        4 => (0..3u16, 0..=128u32, prop::bool::weighted(0.1)).prop_map(|(s, l, m)| Step::Push(s, l, m)),
        2 => few().prop_map(Step::Pop),
        1 => few().prop_map(Step::PopBack),
        3 => (few(), 0..3usize, 0..3u16, max())
            .prop_map(|(frames, left, sender, max)| Step::Append { frames, left, sender, max }),
        2 => (few(), 0..3usize, max())
            .prop_map(|(capacity, holds, max)| Step::AppendTo { capacity, holds, max }),
        1 => (0..3u16).prop_map(Step::Charge),
        1 => Just(Step::Refresh),
    ];
    prop::collection::vec(step, 1..STEPS)
}

/// Index, sender, length, and whether the frame has a row.
type Name = (u32, u16, u32, bool);

fn name(frame: &Frame) -> Name {
    (frame.index(), frame.sender(), frame.len_bytes(), frame.has_meta())
}

struct Twin {
    batch: Batch,
    queue: VecDeque<Name>,
    pool: Pool,
}

impl Twin {
    fn step(&mut self, step: Step) {
        match step {
            Step::Push(sender, len_bytes, has_meta) => self.push(sender, len_bytes, has_meta),
            Step::Pop(count) => (0..count).for_each(|_| {
                let (popped, expected) = (self.batch.pop(), self.queue.pop_front());
                self.check_and_give(popped, expected);
            }),
            Step::PopBack(count) => (0..count).for_each(|_| {
                let (popped, expected) = (self.batch.pop_back(), self.queue.pop_back());
                self.check_and_give(popped, expected);
            }),
            Step::Append { frames, left, sender, max } => self.append(frames, left, sender, max),
            Step::AppendTo { capacity, holds, max } => self.append_to(capacity, holds, max),
            Step::Charge(sender) => self.charge(sender),
            Step::Refresh => self.refresh(),
        }
    }

    fn check_and_give(&mut self, popped: Option<Frame>, expected: Option<Name>) {
        assert_eq!(popped.as_ref().map(name), expected);
        popped.into_iter().for_each(|frame| self.pool.give(frame));
    }

    fn push(&mut self, sender: u16, len_bytes: u32, has_meta: bool) {
        let mut frame = self.pool.take(sender, len_bytes).unwrap();
        if has_meta {
            self.pool.region.set_meta(&mut frame, &Meta::default()).unwrap();
        }
        let (full, pushed) = (self.queue.len() == self.batch.capacity(), name(&frame));
        match self.batch.push(frame) {
            Ok(()) => self.queue.push_back(pushed),
            Err(frame) => self.check_and_give(Some(frame), Some(pushed)),
        }
        assert_eq!(self.queue.back() == Some(&pushed), !full);
    }

    /// Makes a batch of `frames`, some of which were taken, so that it does not begin at its first slot.
    fn other(&mut self, frames: usize, left: usize, sender: u16) -> Batch {
        let mut other = Batch::new(frames);
        self.pool.region.take(&mut self.pool.free, &mut other, frames, sender, 77, |_| {}).unwrap();
        self.pool.region.give(&mut other, &mut self.pool.free, left).unwrap();
        other
    }

    fn append(&mut self, frames: usize, left: usize, sender: u16, max: usize) {
        let mut other = self.other(frames, left, sender);
        let names: Vec<_> = other.frames().iter().map(name).collect();
        let count = names.len().min(max).min(self.batch.capacity() - self.queue.len());
        assert_eq!(self.batch.append(&mut other, max), count);
        self.queue.extend(&names[..count]);
        assert!(other.frames().iter().map(name).eq(names[count..].iter().copied()));
        self.pool.region.give(&mut other, &mut self.pool.free, usize::MAX).unwrap();
    }

    fn append_to(&mut self, capacity: usize, holds: usize, max: usize) {
        let mut other = Batch::new(capacity);
        let mut first = self.other(holds, 0, 9);
        let held = other.append(&mut first, usize::MAX);
        assert_eq!(held, holds.min(capacity));
        let count = self.queue.len().min(max).min(other.room());
        assert_eq!(other.append(&mut self.batch, max), count);
        assert!(other.frames()[held..].iter().map(name).eq(self.queue.drain(..count)));
        self.pool.region.give(&mut other, &mut self.pool.free, usize::MAX).unwrap();
        self.pool.region.give(&mut first, &mut self.pool.free, usize::MAX).unwrap();
    }

    fn charge(&mut self, sender: u16) {
        let frames = self.batch.frames_mut();
        assert_eq!(frames.len(), self.queue.len());
        for (frame, name) in frames.iter_mut().zip(&mut self.queue).step_by(2) {
            frame.set_sender(sender);
            name.1 = sender;
        }
    }

    /// Makes the summary exact.
    fn refresh(&mut self) {
        self.batch.refresh();
        let (batch, queue) = (&self.batch, &self.queue);
        let Some(first) = queue.front() else { return };
        let number = self.pool.region.number();
        let is_one_sender = queue.iter().all(|name| name.1 == first.1);
        assert!(batch.is_of_pool(number) && batch.is_of(Charge::new(number, first.1)) == is_one_sender);
        assert_eq!(batch.any_meta(), queue.iter().any(|name| name.3));
        assert_eq!(batch.sender(), is_one_sender.then_some(first.1));
    }

    fn check(&self) {
        let (batch, queue) = (&self.batch, &self.queue);
        assert!(batch.frames().iter().map(name).eq(queue.iter().copied()));
        assert_eq!((batch.len(), batch.is_empty()), (queue.len(), queue.is_empty()));
        assert_eq!(batch.room(), batch.capacity() - queue.len());
        let bytes = |count| queue.iter().take(count).map(|name| u64::from(name.2)).sum::<u64>();
        assert_eq!(batch.bytes(), bytes(queue.len()));
        for count in [0, queue.len() / 2, queue.len()] {
            assert_eq!(batch.bytes_of_first(count), bytes(count));
        }
        let run = queue.iter().take_while(|name| name.1 == queue[0].1).count();
        assert_eq!(batch.run_of_sender().0, run);
        // What the summary says is true, though it may not say all.
        let number = self.pool.region.number();
        if let Some(first) = queue.front() {
            assert!(batch.any_meta() || !queue.iter().any(|name| name.3));
            assert!(batch.sender().is_none_or(|sender| sender == first.1 && run == queue.len()));
            assert!(!batch.is_of_pool(number ^ 1) && !batch.is_of(Charge::new(number ^ 1, first.1)));
            assert!(!batch.is_of(Charge::new(number, first.1)) || run == queue.len());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, max_shrink_iters: 40, ..ProptestConfig::default() })]

    #[test]
    fn a_batch_is_a_bounded_queue(capacity in prop_oneof![0..9usize, 0..CAPACITY], steps in steps()) {
        let pool = Pool::new(BUFFERS, 128, 0);
        let mut twin = Twin { batch: Batch::new(capacity), queue: VecDeque::new(), pool };
        prop_assert_eq!(twin.batch.capacity(), capacity.min(BATCH_FRAMES_MAX));
        for step in steps {
            twin.step(step);
            twin.check();
        }
        twin.step(Step::Pop(twin.queue.len() + 1));
        twin.pool.assert_whole();
    }
}

#[test]
fn a_batch_of_two_pools_is_of_neither() {
    let (mut ours, mut theirs) = (Pool::new(1, 128, 0), Pool::new(1, 128, 0));
    let mut batch = Batch::new(2);
    batch.push(ours.take(0, 60).unwrap()).unwrap();
    batch.push(theirs.take(0, 60).unwrap()).unwrap();
    assert!((0..64).all(|number| !batch.is_of_pool(number)));
    assert!(!Batch::new(2).any_meta());
    ours.give(batch.pop().unwrap());
    theirs.give(batch.pop().unwrap());
}

/// Frames whose number shows in their length.
struct Numbered(Pool);

impl Numbered {
    fn new() -> Self {
        Self(Pool::new(256, 2048, 64))
    }

    fn frame(&mut self, number: u32, sender: u16) -> Frame {
        self.0.take(sender, 100 + number).unwrap()
    }
}

fn number(frame: &Frame) -> u32 {
    frame.len_bytes() - 100
}

#[test]
fn a_batch_that_shifts_keeps_order_and_capacity() {
    let mut frames = Numbered::new();
    let mut batch = Batch::new(4);
    let (mut next_in, mut next_out) = (0, 0);
    for round in 0..50u32 {
        while batch.room() > 0 {
            batch.push(frames.frame(next_in, 3)).unwrap();
            next_in += 1;
        }
        assert!(batch.push(frames.frame(0, 3)).is_err(), "it is full");
        assert_eq!(batch.len(), 4);
        for _ in 0..1 + round % 4 {
            assert_eq!(number(&batch.pop().unwrap()), next_out);
            next_out += 1;
        }
    }
}

#[test]
fn a_taker_that_panics_has_each_frame_once() {
    let mut frames = Numbered::new();
    let mut batch = Batch::new(8);
    (0..6).for_each(|index| batch.push(frames.frame(index, 1)).unwrap());
    let mut taken = Vec::new();
    batch.take_while(|frame| number(frame) < 2, |frame| taken.push(number(&frame)));
    assert_eq!((&taken[..], batch.len(), batch.bytes()), (&[0, 1][..], 4, batch.bytes_of_first(4)));
    let panics = std::panic::AssertUnwindSafe(|| {
        batch.take_while(|_| true, |frame| assert!(number(&frame) < 3, "this one is too much"));
    });
    assert!(std::panic::catch_unwind(panics).is_err());
    assert_eq!((batch.len(), number(&batch.frames()[0])), (2, 4));
    batch.take_while(|_| true, drop);
    assert!(batch.is_empty() && batch.bytes() == 0);
}

#[test]
fn a_batch_that_is_moved_keeps_sums_and_runs() {
    let mut frames = Numbered::new();
    let mut batch = Batch::new(8);
    for (index, sender) in [(0, 1), (1, 1), (2, 9), (3, 1)] {
        batch.push(frames.frame(index, sender)).unwrap();
    }
    assert_eq!((batch.bytes(), batch.bytes_of_first(2), batch.run_of_sender().0), (406, 201, 2));
    let pool = batch.frames()[0].pool();
    let mut other = Batch::new(3);
    assert_eq!(other.append(&mut batch, 8), 3);
    assert_eq!((other.len(), batch.len(), batch.run_of_sender()), (3, 1, (1, 103)));
    assert_eq!(number(&other.pop_back().unwrap()), 2);
    batch.refresh();
    assert!(batch.is_of_pool(pool) && !batch.is_of_pool(pool + 1) && !batch.any_meta());
    assert_eq!((batch.sender(), batch.bytes()), (Some(1), batch.bytes_of_first(1)));
    batch.frames_mut()[0].set_sender(8);
    assert_eq!(batch.sender(), None, "unknown until it is computed");
    batch.refresh();
    assert_eq!(batch.sender(), Some(8));
}

#[test]
fn only_frame_is_freed_if_it_is_plain_and_of_that_charge() {
    let (mut pool, mut other) = (Pool::new(4, 128, 0), Pool::new(1, 128, 0));
    let charge = Charge::new(pool.region.number(), 5);
    assert_eq!(charge.sender(), 5);
    let mut batch = Batch::new(4);
    assert!(batch.free_only(charge).is_none(), "no frame");
    let strangers = [pool.take(6, 60).unwrap(), other.take(5, 60).unwrap()];
    let mut with_row = pool.take(5, 60).unwrap();
    pool.region.set_meta(&mut with_row, &Meta::default()).unwrap();
    for frame in strangers.into_iter().chain([with_row]) {
        let before = name(&frame);
        batch.push(frame).unwrap();
        assert!(batch.free_only(charge).is_none());
        let frame = batch.pop().unwrap();
        assert_eq!(name(&frame), before);
        if frame.pool() == pool.region.number() { pool.give(frame) } else { other.give(frame) }
    }
    for len_bytes in [60, 61] {
        batch.push(pool.take(5, len_bytes).unwrap()).unwrap();
    }
    assert!(batch.free_only(charge).is_none(), "two frames");
    pool.give(batch.pop().unwrap());
    let index = batch.frames()[0].index();
    let (free, len_bytes) = batch.free_only(charge).unwrap();
    assert_eq!((free.index(), len_bytes, batch.len(), batch.bytes()), (index, 61, 0, 0));
    pool.free.push(free);
    pool.assert_whole();
    other.assert_whole();
}
