//! The owner cell with real threads and the asymmetric fence.
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
fn a_claim_with_any_bits_makes_no_second_owner() {
    let cell = OwnerCell::new(1);
    let mut first = owner(&cell);
    assert_eq!(first.take_bits(u64::MAX), 0);
    assert!(matches!(cell.claim(u64::MAX), Published::Seen));
    assert_eq!(cell.word(), RUNNING | WORK, "only what announces work is the callers' to set and clear");
    assert_eq!(first.take_bits(u64::MAX), WORK);
    first.leave().unwrap();
}

#[test]
fn an_owned_cell_notes_what_others_announce() {
    let mut cell = OwnerCell::new(1);
    let first = owner(&cell);
    assert!(matches!(cell.publish(ready_bit(33)), Published::Seen));
    assert!(matches!(cell.claim(WAIT), Published::Seen));
    assert_eq!(cell.word(), RUNNING | WAIT | 1 << 1);
    let mut first = first.leave().err().or_else(|| panic!("left with work announced")).unwrap();
    assert_eq!(first.take_bits(READY), 1 << 1);
    assert_eq!((first.take_bits(READY), first.take_bits(WORK)), (0, WAIT));
    first.with(|value| *value += 1);
    assert!(matches!(cell.claim(CONTROL), Published::Seen));
    first.hand_over();
    assert_eq!(cell.word(), CONTROL);
    let mut next = owner(&cell);
    assert_eq!((next.take_bits(WORK), next.with(|value| *value)), (CONTROL, 2));
    next.leave().unwrap();
    assert_eq!((cell.word(), *cell.get_mut()), (0, 2));
}

#[test]
fn an_owner_that_panics_leaves_the_cell_dead() {
    let cell = OwnerCell::new(0);
    let died = catch_unwind(AssertUnwindSafe(|| owner(&cell).with(|_| panic!("inside"))));
    assert!(died.is_err());
    assert_ne!(cell.word() & DEAD, 0);
    for _ in 0..2 {
        assert!(matches!(cell.publish(1), Published::Dead));
        assert!(matches!(cell.claim(WAIT), Published::Dead));
    }
}

/// A dedicated owner is woken once each time that it has armed, by the first announcement of any kind.
#[test]
fn an_armed_owner_is_woken_once() {
    let cell = OwnerCell::new(());
    let mut owner = owner(&cell);
    owner.dedicate();
    assert!(matches!(cell.publish(1), Published::Seen));
    for notice in [None, Some(WAIT), Some(CONTROL)] {
        owner.arm();
        assert!(matches!(cell.claim(0), Published::Seen), "no work");
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
/// Fewer for an interpreter.
const FRAMES: u32 = if cfg!(miri) { 400 } else { 20_000 };
/// Pause of a sender, in which an owner has nothing to do.
const PAUSE: Duration = Duration::from_micros(if cfg!(miri) { 100_000 } else { 50 });

struct State {
    lanes: Vec<LaneConsumer>,
    batch: Batch,
    free: Vec<FreeFrame>,
    counts: [u32; SENDERS],
}

impl State {
    /// Drains the lanes, and returns true if there was a frame. One sender's frames have lengths that count
    /// up.
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

type Cell = OwnerCell<State>;

fn serve(mut owner: Ownership<'_, State>, region: &Region) {
    loop {
        owner.take_bits(WORK);
        owner.with(|inside| inside.drain(region));
        match owner.leave() {
            Ok(()) => return,
            Err(back) => owner = back,
        }
    }
}

/// Sends frames one by one, with pauses. Calls `wake` when a dedicated owner sleeps.
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
            thread::sleep(PAUSE);
        }
    }
}

/// Lets all senders send all their frames, to a dedicated owner or as owners in turn. Then no frame is left,
/// and every buffer is back. Returns how often the dedicated owner slept.
fn all_send(dedicated: bool) -> u32 {
    wharf_mem::prepare();
    let frames = SENDERS as u32 * FRAMES;
    let spec = RegionSpec { frames, frame_bytes: 128, headroom_bytes: 0, huge_pages: false };
    let (region, mut free) = Region::new(spec).unwrap();
    let (ins, lanes): (Vec<_>, Vec<_>) = (0..SENDERS).map(|_| lane(16, u32::MAX - 99)).unzip();
    let inside = State { lanes, batch: Batch::new(64), free: Vec::new(), counts: [0; SENDERS] };
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

/// Owns the cell until all frames have come. Returns how often it slept.
fn stay(mut owner: Ownership<'_, State>, region: &Region) -> u32 {
    let mut sleeps = 0;
    let look = |owner: &mut Ownership<'_, State>| {
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
            assert!(asleep.elapsed() < Duration::from_secs(20), "the owner was not woken");
            sleeps += 1;
        }
        owner.disarm();
    }
    owner.undedicate();
    serve(owner, region);
    sleeps
}

#[test]
fn senders_that_own_in_turn_leave_no_frame() {
    all_send(false);
}

#[test]
fn a_dedicated_owner_that_sleeps_misses_no_frame() {
    let sleeps = all_send(true);
    // An interpreter that runs other tests, too, may take longer for the frames before a pause than the pause lasts.
    assert!(sleeps > 0 || cfg!(miri), "it never slept, so that nothing was tested");
}

#[test]
fn a_bias_admits_its_holder_to_its_own_cell_only() {
    let (cell, other) = (OwnerCell::new(1), OwnerCell::new(2));
    let mut bias = cell.take_bias().unwrap();
    assert!(cell.take_bias().is_none(), "there is one");
    assert!(cell.enter(&mut bias).is_none(), "not before it is held");
    cell.acquire(&mut bias);
    assert_eq!((bias.is_held(), cell.word()), (true, BIASED));
    other.acquire(&mut bias);
    assert!(other.enter(&mut bias).is_none());
    other.release(&mut bias);
    let mut entered = cell.enter(&mut bias).unwrap();
    entered.with(|value| *value += 1);
    entered.leave();
    let mut owner = owner(&cell);
    assert_eq!((owner.with(|value| *value), cell.word()), (2, RUNNING));
    assert!(cell.enter(&mut bias).is_none(), "taken away");
    assert!(!bias.is_held());
    owner.leave().unwrap();
    cell.return_bias(bias);
    assert!(cell.take_bias().is_some() && cell.word() == 0);
}

#[test]
fn a_holder_of_the_bias_that_panics_leaves_the_cell_dead() {
    let cell = OwnerCell::new(0);
    let mut bias = cell.take_bias().unwrap();
    cell.acquire(&mut bias);
    let died = catch_unwind(AssertUnwindSafe(|| cell.enter(&mut bias).unwrap().with(|_| panic!("inside"))));
    assert!(died.is_err());
    assert!(cell.enter(&mut bias).is_none());
    assert!(matches!(cell.claim(WAIT), Published::Dead));
}

/// With the asymmetric fence. A lost addition would mean that a second thread was inside beside the bias's
/// holder.
#[test]
fn additions_by_the_bias_and_by_the_word_add_up() {
    const TURNS: u64 = if cfg!(miri) { 1_000 } else { 20_000 };
    wharf_mem::prepare();
    let cell = OwnerCell::new(0u64);
    let (by_bias, by_word) = thread::scope(|scope| {
        let others: Vec<_> = (0..2).map(|_| scope.spawn(|| add_by_word(&cell, TURNS / 50))).collect();
        let mut bias = cell.take_bias().unwrap();
        let (mut entries, mut claims) = (0, 0);
        while entries < TURNS || others.iter().any(|other| !other.is_finished()) {
            cell.acquire(&mut bias);
            match cell.enter(&mut bias) {
                Some(mut entered) => {
                    entered.with(|value| *value += 1);
                    entered.leave();
                    entries += 1;
                }
                None => claims += add_by_word(&cell, 1),
            }
        }
        cell.return_bias(bias);
        (entries, claims + others.into_iter().map(|other| other.join().unwrap()).sum::<u64>())
    });
    assert_eq!(owner(&cell).with(|value| *value), by_bias + by_word);
    assert!(by_bias >= TURNS && by_word > 0);
}

/// Adds one as the owner, `turns` times, where the cell is free. Returns how often it was.
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
