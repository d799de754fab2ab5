//! The owner's cell with real threads and the real, asymmetric fence.
#![cfg(not(loom))]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};
use wharf_mem::lane::{LaneConsumer, LaneProducer, lane};
use wharf_mem::word::{BIASED, CONTROL, DEAD, READY, RUNNING, WAIT, WORK, ready_bit};
use wharf_mem::{Batch, FreeFrame, OwnerCell, Ownership, Published, Region, RegionSpec};

fn owner<T>(cell: &OwnerCell<T>) -> Ownership<'_, T> {
    let Published::Owner(owner) = cell.claim(0) else { panic!("owned by another: {cell:?}") };
    owner
}

#[test]
fn no_bit_that_a_caller_names_makes_a_second_owner() {
    let cell = OwnerCell::new(1);
    let mut first = owner(&cell);
    assert_eq!(first.take_bits(u64::MAX), 0);
    assert!(matches!(cell.claim(u64::MAX), Published::Seen));
    first.set_bits(u64::MAX);
    assert_eq!(cell.word(), RUNNING | WORK, "only what announces work is the callers' to set and clear");
    assert_eq!(first.take_bits(u64::MAX), WORK);
    first.leave().unwrap();
}

#[test]
fn one_owns_and_the_others_leave_word() {
    let mut cell = OwnerCell::new(1);
    let first = owner(&cell);
    assert!(matches!(cell.publish(ready_bit(33)), Published::Seen));
    assert!(matches!(cell.claim(WAIT), Published::Seen));
    assert_eq!(cell.word(), RUNNING | WAIT | 1 << 1);
    let mut first = first.leave().err().or_else(|| panic!("left with work announced")).unwrap();
    assert_eq!(first.take_bits(READY), 1 << 1);
    assert_eq!((first.take_bits(READY), first.take_bits(WORK)), (0, WAIT));
    first.with(|value| *value += 1);
    first.set_bits(CONTROL);
    first.hand_over();
    assert_eq!(cell.word(), CONTROL);
    let mut next = owner(&cell);
    assert_eq!((next.take_bits(WORK), next.with(|value| *value)), (CONTROL, 2));
    next.leave().unwrap();
    assert_eq!((cell.word(), *cell.get_mut()), (0, 2));
}

#[test]
fn a_panic_inside_leaves_the_cell_dead() {
    let cell = OwnerCell::new(0);
    let died = catch_unwind(AssertUnwindSafe(|| owner(&cell).with(|_| panic!("inside"))));
    assert!(died.is_err());
    assert_ne!(cell.word() & DEAD, 0);
    for _ in 0..2 {
        assert!(matches!(cell.publish(1), Published::Dead));
        assert!(matches!(cell.claim(WAIT), Published::Dead));
    }
}

/// A dedicated owner is woken once for each time that it has armed, by whoever comes first with whatever.
#[test]
fn an_armed_owner_is_woken_once() {
    let cell = OwnerCell::new(());
    let mut owner = owner(&cell);
    owner.dedicate();
    assert!(matches!(cell.publish(1), Published::Seen));
    for notice in [None, Some(WAIT), Some(CONTROL)] {
        owner.arm();
        let announce = || notice.map_or_else(|| cell.publish(1), |bit| cell.claim(bit));
        assert!(matches!(announce(), Published::WakeOwner));
        assert!(matches!(announce(), Published::Seen));
        owner.disarm();
    }
    owner.arm();
    owner.disarm();
    assert!(matches!(cell.publish(1), Published::Seen));
    assert_eq!(owner.take_bits(WORK), WAIT | CONTROL);
    owner.undedicate();
    owner.leave().unwrap();
}

const SENDERS: usize = 3;
const FRAMES: u32 = 20_000;

struct Inside {
    lanes: Vec<LaneConsumer>,
    batch: Batch,
    free: Vec<FreeFrame>,
    counts: [u32; SENDERS],
}

impl Inside {
    /// Takes what is there; whether there was anything. Frames of one sender come with lengths that count up.
    fn drain(&mut self, region: &Region) -> bool {
        let mut any = false;
        for (sender, lane) in self.lanes.iter_mut().enumerate() {
            while lane.pop(&mut self.batch, usize::MAX) != 0 {
                any = true;
                for frame in self.batch.frames() {
                    assert_eq!(frame.len_bytes(), self.counts[sender] % 128, "sender {sender}");
                    self.counts[sender] += 1;
                }
                region.give(&mut self.batch, &mut self.free, usize::MAX).unwrap();
            }
        }
        any
    }
}

type Cell = OwnerCell<Inside>;

fn serve(mut owner: Ownership<'_, Inside>, region: &Region) {
    loop {
        owner.take_bits(WORK);
        owner.with(|inside| inside.drain(region));
        match owner.leave() {
            Ok(()) => return,
            Err(back) => owner = back,
        }
    }
}

/// Sends one by one, with a rest now and then, and `wake`s a dedicated owner that sleeps.
fn send(
    cell: &Cell, region: &Region, sender: usize, mut lane: LaneProducer, mut free: Vec<FreeFrame>,
    wake: &Thread,
) {
    let mut one = Batch::new(1);
    for number in 0..FRAMES {
        region.take(&mut free, &mut one, 1, sender as u16, number % 128, |_| {}).unwrap();
        while !one.is_empty() {
            lane.push(&mut one);
            match cell.publish(ready_bit(sender)) {
                Published::Owner(owner) => serve(owner, region),
                Published::Seen if one.is_empty() => {}
                Published::Seen => thread::yield_now(),
                Published::WakeOwner => wake.unpark(),
                Published::Dead => panic!("the owner died"),
            }
        }
        if number % 128 == 0 {
            thread::sleep(Duration::from_micros(50));
        }
    }
}

/// All senders send all their frames, to a dedicated owner or to themselves; then nothing is left, and every
/// buffer is there. How often the dedicated owner slept.
fn all_send(dedicated: bool) -> u32 {
    wharf_mem::prepare();
    let frames = SENDERS as u32 * FRAMES;
    let spec = RegionSpec { frames, frame_bytes: 128, headroom_bytes: 0, huge_pages: false };
    let (region, mut free) = Region::new(spec).unwrap();
    let (ins, lanes): (Vec<_>, Vec<_>) = (0..SENDERS).map(|_| lane(16, u32::MAX - 99)).unzip();
    let inside = Inside { lanes, batch: Batch::new(64), free: Vec::new(), counts: [0; SENDERS] };
    let (mut cell, region, waker) = (OwnerCell::new(inside), &region, thread::current());
    let first = dedicated.then(|| owner(&cell));
    let sleeps = thread::scope(|scope| {
        for (sender, lane) in ins.into_iter().enumerate() {
            let (free, cell, waker) = (free.split_off(free.len() - FRAMES as usize), &cell, &waker);
            scope.spawn(move || send(cell, region, sender, lane, free, waker));
        }
        first.map_or(0, |owner| stay(owner, region))
    });
    assert_eq!(cell.word(), 0);
    let inside = cell.get_mut();
    assert!(!inside.drain(region), "an idle path with packets inside");
    assert_eq!(inside.counts, [FRAMES; SENDERS]);
    assert!(region.retire(std::mem::take(&mut inside.free)));
    sleeps
}

/// A dedicated owner, until all frames have come; how often it slept.
fn stay(mut owner: Ownership<'_, Inside>, region: &Region) -> u32 {
    let mut sleeps = 0;
    let look = |owner: &mut Ownership<'_, Inside>| {
        owner.with(|inside| inside.drain(region)) || owner.take_bits(WORK) != 0
    };
    owner.dedicate();
    while owner.with(|inside| inside.counts != [FRAMES; SENDERS]) {
        if look(&mut owner) {
            continue;
        }
        owner.arm();
        if !look(&mut owner) {
            let asleep = Instant::now();
            thread::park_timeout(Duration::from_secs(20));
            assert!(asleep.elapsed() < Duration::from_secs(20), "nobody woke the owner");
            sleeps += 1;
        }
        owner.disarm();
    }
    owner.undedicate();
    serve(owner, region);
    sleeps
}

#[test]
fn senders_that_become_owners_leave_nothing_behind() {
    all_send(false);
}

#[test]
fn a_dedicated_owner_that_sleeps_misses_nothing() {
    assert!(all_send(true) > 0, "it never slept, so that nothing was tested");
}

#[test]
fn the_bias_lets_in_whoever_has_it_and_nobody_with_that_of_another_cell() {
    let (cell, other) = (OwnerCell::new(1), OwnerCell::new(2));
    let mut bias = cell.bias().unwrap();
    assert!(cell.bias().is_none(), "there is one");
    assert!(cell.enter(&mut bias).is_none(), "not before it is held");
    cell.hold(&mut bias);
    assert_eq!((bias.is_held(), cell.word()), (true, BIASED));
    other.hold(&mut bias);
    assert!(other.enter(&mut bias).is_none());
    other.let_go(&mut bias);
    let mut entered = cell.enter(&mut bias).unwrap();
    entered.with(|value| *value += 1);
    entered.leave();
    let mut owner = owner(&cell);
    assert_eq!((owner.with(|value| *value), cell.word()), (2, RUNNING));
    assert!(cell.enter(&mut bias).is_none(), "taken away");
    assert!(!bias.is_held());
    owner.leave().unwrap();
    cell.give_back(bias);
    assert!(cell.bias().is_some() && cell.word() == 0);
}

#[test]
fn a_panic_by_the_bias_leaves_the_cell_dead() {
    let cell = OwnerCell::new(0);
    let mut bias = cell.bias().unwrap();
    cell.hold(&mut bias);
    let died = catch_unwind(AssertUnwindSafe(|| cell.enter(&mut bias).unwrap().with(|_| panic!("inside"))));
    assert!(died.is_err());
    assert!(cell.enter(&mut bias).is_none());
    assert!(matches!(cell.claim(WAIT), Published::Dead));
}

/// With the real, asymmetric fence: a lost addition would be somebody inside beside the holder.
#[test]
fn one_by_the_bias_and_others_by_the_word_add_up() {
    const TURNS: u64 = 20_000;
    wharf_mem::prepare();
    let cell = OwnerCell::new(0u64);
    let (by_bias, by_word) = thread::scope(|scope| {
        let others: Vec<_> = (0..2).map(|_| scope.spawn(|| add_by_word(&cell, TURNS / 50))).collect();
        let mut bias = cell.bias().unwrap();
        let (mut entries, mut claims) = (0, 0);
        while entries < TURNS || others.iter().any(|other| !other.is_finished()) {
            cell.hold(&mut bias);
            match cell.enter(&mut bias) {
                Some(mut entered) => {
                    entered.with(|value| *value += 1);
                    entered.leave();
                    entries += 1;
                }
                None => claims += add_by_word(&cell, 1),
            }
        }
        cell.give_back(bias);
        (entries, claims + others.into_iter().map(|other| other.join().unwrap()).sum::<u64>())
    });
    assert_eq!(owner(&cell).with(|value| *value), by_bias + by_word);
    assert!(by_bias >= TURNS && by_word > 0);
}

/// Adds one, `turns` times as the owner where nobody else is; how often that was.
fn add_by_word(cell: &OwnerCell<u64>, turns: u64) -> u64 {
    let mut added = 0;
    for _ in 0..turns {
        if let Published::Owner(mut owner) = cell.claim(0) {
            owner.with(|value| *value += 1);
            owner.leave().unwrap();
            added += 1;
        }
        thread::yield_now();
    }
    added
}
