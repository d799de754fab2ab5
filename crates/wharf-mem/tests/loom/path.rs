//! A path for the models: two lanes behind an owner cell, and the frames that were taken from them.

use crate::{CAPACITY, Names, START, Stock, assert_in_order, names};
use loom::sync::Notify;
use wharf_mem::lane::{LaneConsumer, LaneProducer, lane};
use wharf_mem::word::ready_bit;
use wharf_mem::{Batch, OwnerCell, Ownership, Published};

pub const LANES: usize = 2;

pub struct State {
    lanes: Vec<LaneConsumer>,
    taken: Batch,
    claims: u32,
    pub hand_overs: u32,
}

impl State {
    /// Takes up to `quota` frames from each lane, and returns their number.
    pub fn drain(&mut self, quota: usize) -> usize {
        let Self { lanes, taken, .. } = self;
        lanes.iter_mut().map(|lane| lane.pop(taken, quota)).sum()
    }

    /// Returns the number of frames in the lanes.
    pub fn left(&mut self) -> usize {
        self.lanes.iter_mut().map(LaneConsumer::ready_now).sum()
    }

    pub fn taken(&self) -> usize {
        self.taken.len()
    }
}

pub struct Path {
    pub cell: OwnerCell<State>,
    /// The bell for a sleeping owner, a poller or a waiter.
    pub bell: Notify,
}

pub type Owner<'a> = Ownership<'a, State>;

/// The work of a new owner.
pub type Serve = fn(&Path, Owner<'_>);

impl Path {
    pub fn new() -> (Self, [LaneProducer; LANES]) {
        let (ins, lanes): (Vec<_>, Vec<_>) = (0..LANES).map(|_| lane(CAPACITY, START)).unzip();
        let taken = Batch::new(crate::BUFFERS as usize);
        let inside = State { lanes, taken, claims: 0, hand_overs: 0 };
        let ins = ins.try_into().unwrap_or_else(|_| unreachable!());
        (Self { cell: OwnerCell::new(inside), bell: Notify::new() }, ins)
    }

    /// Publishes frame by frame on lane `lane`, as a sender does, and calls `serve` if that makes it the
    /// owner.
    pub fn send(&self, lane: usize, lane_in: &mut LaneProducer, mut frames: Batch, serve: Serve) {
        let mut one = Batch::new(1);
        while one.append(&mut frames, 1) == 1 {
            assert_eq!(lane_in.push(&mut one), 1, "models that fill a lane wait for room by themselves");
            match self.cell.publish(ready_bit(lane)) {
                Published::Owner(mut owner) => {
                    // Before any bit is taken: the claim alone must have acquired the value.
                    owner.with(|inside| inside.claims += 1);
                    serve(self, owner);
                }
                Published::Seen => {}
                Published::WakeOwner => self.bell.notify(),
                Published::Dead => unreachable!(),
            }
        }
    }

    /// Ends an interleaving: every frame is back in stock.
    pub fn finish(&self, stock: &Stock) -> Outcome {
        let word = self.cell.word();
        let Published::Owner(mut owner) = self.cell.claim(0) else { panic!("still owned: {word:#x}") };
        let (stranded, taken) = owner.with(|inside| {
            let found = (inside.left(), names(&inside.taken));
            inside.drain(usize::MAX);
            stock.give(std::mem::replace(&mut inside.taken, Batch::new(0)));
            found
        });
        owner.hand_over();
        stock.assert_whole();
        Outcome { word, stranded, taken }
    }
}

/// The end of an interleaving.
pub struct Outcome {
    pub word: u64,
    /// Frames left in lanes.
    pub stranded: usize,
    pub taken: Names,
}

impl Outcome {
    /// Asserts that the path has no owner, no announcement and no frame: each sender's frames, so many, went
    /// out in order.
    pub fn assert_idle_and_empty(&self, sent: [u32; LANES]) {
        assert_eq!((self.word, self.stranded), (0, 0));
        assert_eq!(self.taken.len() as u32, sent.iter().sum::<u32>());
        for (sender, count) in (0..).zip(sent) {
            assert_in_order(&self.taken, sender, count);
        }
    }
}
