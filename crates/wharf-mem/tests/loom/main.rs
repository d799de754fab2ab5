//! Models under loom: the interleavings of lanes, return rings and the owner word.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --release -p wharf-mem --test loom`
//!
//! A model of a protocol ends with "no frame is left in any lane, and every frame was taken once, in order".
//! The same model with one step left out, or in the wrong place, must fail: some interleaving then strands a
//! frame or sleeps for ever.
//!
//! Lanes, rings, the owner cell and the inbox are the real ones. A step that restates a crate above names the line that it
//! stands for (`// core/FILE.rs FUNCTION: LINE`), and `tests/restated.rs` looks for that line.
#![cfg(loom)]

mod bias;
mod close;
mod dedicated;
mod events;
mod hand_off;
mod inbox;
mod memory;
mod path;
mod poller;
mod ready;
mod reopen;
mod reserved;
mod reset_waiters;
mod rings;
mod shut_queue;
mod snapshot;
mod vhost_user;
mod waitlist;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use wharf_mem::{Batch, FreeFrame, Region, RegionSpec};

/// Ring indices wrap within every model.
const START: u32 = u32::MAX - 1;
const CAPACITY: u32 = 2;
const BUFFERS: u32 = 8;

/// Preemptions per interleaving, unless `LOOM_MAX_PREEMPTIONS` is set: as many as take seconds. With 3, three models of
/// three threads take minutes each: `./test loom-deep`.
const OF_TWO_THREADS: usize = 5;
const OF_THREE_THREADS: usize = 2;

fn check(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound.get_or_insert(preemptions);
    builder.check(model);
}

/// Records whether something happened in any interleaving.
#[derive(Clone, Default)]
struct Witness(Arc<AtomicBool>);

impl Witness {
    fn note(&self, happened: bool) {
        self.0.fetch_or(happened, Ordering::Relaxed);
    }

    fn happened(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Runs [`check`], and returns true if some interleaving notes that it happened.
fn may(preemptions: usize, model: impl Fn(&Witness) + Sync + Send + 'static) -> bool {
    let happened = Witness::default();
    let witness = happened.clone();
    check(preemptions, move || model(&witness));
    happened.happened()
}

/// The buffers of a model: made once, and all back at the end of each interleaving.
struct Stock {
    region: Region,
    free: Mutex<Vec<FreeFrame>>,
}

impl Stock {
    fn new() -> Arc<Self> {
        let spec = RegionSpec { frames: BUFFERS, frame_bytes: 128, headroom_bytes: 0, huge_pages: false };
        let (region, free) = Region::new(spec).unwrap();
        Arc::new(Self { region, free: Mutex::new(free) })
    }

    /// Returns frames of `sender` with numbers 1 to `count`: their lengths are the numbers.
    fn frames(&self, sender: u16, count: u32) -> Batch {
        let mut frames = Batch::new(count as usize);
        let mut free = self.free.lock().unwrap();
        for number in 1..=count {
            assert_eq!(self.region.take(&mut free, &mut frames, 1, sender, number, |_| {}).unwrap(), 1);
        }
        frames
    }

    fn give(&self, mut frames: Batch) {
        self.region.give(&mut frames, &mut self.free.lock().unwrap(), usize::MAX).unwrap();
    }

    /// Asserts that every buffer is here, once.
    fn assert_whole(&self) {
        let mut indices: Vec<_> = self.free.lock().unwrap().iter().map(FreeFrame::index).collect();
        indices.sort_unstable();
        assert!(indices.into_iter().eq(0..BUFFERS));
    }
}

/// Sender and number of each frame, in order.
type Names = Vec<(u16, u32)>;

fn names(frames: &Batch) -> Names {
    frames.frames().iter().map(|frame| (frame.sender(), frame.len_bytes())).collect()
}

/// Asserts that `names` has the numbers 1 to `count` of `sender` in order, among others.
fn assert_in_order(names: &[(u16, u32)], sender: u16, count: u32) {
    let ours = names.iter().filter(|name| name.0 == sender);
    assert!(ours.map(|name| name.1).eq(1..=count), "sender {sender}: {names:?}");
}
