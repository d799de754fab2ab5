//! `Lanes`: the owner's side of all lanes of a queue. It pulls frames fairly and recycles completed ones.
//!
//! A lane is one sender's ring of published frames (single producer, single consumer). Lanes that were announced are
//! served by deficit round robin (Shreedhar and Varghese 1995): each has a share of the bulk, at least one quantum.
//! The next pull continues where the last one ended, within a share if need be, so that many full lanes have their
//! shares over several bulks. Serving the lowest lane first would starve the others; a round without shares would let
//! one full lane take a whole quota.

mod return_ring;
mod waiter_sink;

pub(crate) use return_ring::LaneReturnRing;
pub(crate) use waiter_sink::WaiterSink;

use crate::pool::{PagePool, Returns};
use crate::tx::engine::{Sink, Source};
use crate::tx::feeding::{Drops, note_drops};
use std::slice::from_ref;
use std::sync::Arc;
use wharf_mem::lane::LaneConsumer;
use wharf_mem::return_ring::ReturnConsumer;
use wharf_mem::word::{READY, READY_BITS};
use wharf_mem::{Batch, Frame, FreeFrame, Region};

const WORD: usize = u64::BITS as usize;

/// The least share of a lane: one cache line of its ring. With a smaller one, each frame could cost a line fetched
/// from another processor, and one sent back.
const QUANTUM_FRAMES: usize = 8;

/// The owner's ends of one sender's rings.
pub(crate) struct Lane {
    pub(crate) frames: LaneConsumer,
    /// Returns the sender's frames; `None` once the sender is gone.
    pub(crate) return_ring: Option<LaneReturnRing>,
}

/// All lanes of a queue, by place. The place of a sender that is gone is empty until the next sender takes it.
pub(crate) struct Lanes {
    lanes: Vec<Option<Lane>>,
    /// A bit per lane that may hold frames.
    ready: Vec<u64>,
    /// A bit per word of `ready` that is not 0: thousands of idle lanes cost one look.
    any: u64,
    round_robin: usize,
    /// Frames left of the share of the lane at the cursor, if the last pull ended within it.
    deficit: usize,
    /// Places that are not empty.
    used: usize,
    pool: PagePool,
    returns: Returns,
    pieces: Vec<FreeFrame>,
    /// Places to which bytes or buffers were returned while a sender waited.
    returned: Vec<u16>,
    /// The floods whose packets came by a lane, with its place, and other threads transmit.
    floods: Vec<(u16, Arc<Drops>)>,
}

impl Lanes {
    pub(crate) fn new(pool: PagePool) -> Self {
        let returns = Returns::new(&pool);
        Self {
            lanes: Vec::new(),
            ready: vec![0],
            any: 0,
            round_robin: 0,
            deficit: 0,
            used: 0,
            pool,
            returns,
            pieces: Vec::new(),
            returned: Vec::new(),
            floods: Vec::new(),
        }
    }

    /// Puts `lane` at place `at`. Returns true if that place is new.
    pub(crate) fn add(&mut self, at: usize, lane: Lane) -> bool {
        let is_new = self.lanes.len() <= at;
        if is_new {
            self.lanes.resize_with(at + 1, || None);
            self.ready.resize(at / WORD + 1, 0);
        }
        self.lanes[at] = Some(lane);
        self.used += 1;
        self.limit_return_rings();
        is_new
    }

    /// Returns the number of frames ever taken out of lane `at`, modulo 2^32.
    pub(crate) fn taken_of(&self, at: usize) -> u32 {
        self.lanes.get(at).and_then(Option::as_ref).map_or(0, |lane| lane.frames.taken())
    }

    /// True if there is exactly one lane.
    #[inline]
    pub(crate) fn is_sole(&self) -> bool {
        self.used == 1
    }

    /// Returns the number of buffers in return rings, which their senders have yet to fetch.
    pub(crate) fn going_home(&mut self) -> usize {
        self.lanes
            .iter_mut()
            .flatten()
            .filter_map(|lane| lane.return_ring.as_mut())
            .map(|ring| ring.waiting())
            .sum()
    }

    /// Limits each return ring to a sender's share of the pool.
    fn limit_return_rings(&mut self) {
        let share = self.pool.share();
        let rings = self.lanes.iter_mut().flatten().filter_map(|lane| lane.return_ring.as_mut());
        rings.for_each(|ring| ring.limit(share));
    }

    /// Orphans the lane at `at`, whose sender is gone: its frames go to the pool from now on, those in its return
    /// ring at once.
    pub(crate) fn orphan(&mut self, at: usize, mut ring: ReturnConsumer) {
        if let Some(Some(lane)) = self.lanes.get_mut(at) {
            lane.return_ring = None;
        }
        self.floods.retain(|(place, _)| usize::from(*place) != at);
        ring.pop(&mut self.pieces, usize::MAX);
        self.pool.settle(&mut self.pieces);
        self.ready[at / WORD] |= 1 << (at % WORD);
        self.any |= 1 << (at / WORD);
    }

    /// Has drops of what comes by the lane at `place` counted in `drops`.
    pub(crate) fn flood_by(&mut self, place: u16, drops: Arc<Drops>) {
        self.floods.retain(|(at, _)| *at != place);
        self.floods.push((place, drops));
    }

    /// True if a flood comes by a lane.
    pub(crate) fn is_flooded(&self) -> bool {
        self.floods.iter().any(|(_, drops)| drops.is_on())
    }

    fn note_drops_by_place(&self, frames: &[Frame], region: &Region) {
        for frame in frames {
            match self.floods.iter().find(|(place, _)| *place == frame.sender()) {
                Some((_, drops)) if drops.is_on() => drops.add(from_ref(frame), region),
                Some(_) => {}
                None => note_drops(from_ref(frame), region),
            }
        }
    }

    /// Notes, while a sender waits, that frames of the sender at `place` were completed, or that it is gone.
    pub(crate) fn note_returned(&mut self, place: u16) {
        if self.returned.last() != Some(&place) {
            self.returned.push(place);
        }
    }

    /// Removes empty lanes whose sender is gone. Calls `freed` with the place of each.
    pub(crate) fn sweep(&mut self, mut freed: impl FnMut(usize)) {
        for (at, place) in self.lanes.iter_mut().enumerate() {
            let gone = |lane: &mut Lane| {
                lane.frames.is_abandoned() && lane.return_ring.is_none() && lane.frames.ready_now() == 0
            };
            if place.as_mut().is_some_and(gone) {
                *place = None;
                self.used -= 1;
                freed(at);
            }
        }
    }

    /// Marks the lanes that `bits` of the owner word announce as ready.
    #[inline]
    pub(crate) fn announce(&mut self, bits: u64) {
        let class = bits & READY;
        if class == 0 {
            return;
        }
        let both = class | class << READY_BITS;
        let mut lanes = self.lanes.len();
        for (at, word) in self.ready.iter_mut().enumerate() {
            *word |= both & low_bits(lanes);
            self.any |= u64::from(*word != 0) << at;
            lanes = lanes.saturating_sub(WORD);
        }
    }

    /// Marks all lanes as ready: for a dedicated owner, which polls them.
    #[inline]
    pub(crate) fn announce_all(&mut self) {
        self.announce(READY);
    }

    /// Returns the number of frames in all lanes.
    pub(crate) fn len(&mut self) -> usize {
        self.lanes.iter_mut().flatten().map(|lane| lane.frames.ready_now()).sum()
    }

    /// Returns the first ready lane from the cursor on, and round again.
    #[inline]
    fn next_ready(&self) -> Option<usize> {
        let (first, shift) = (self.round_robin / WORD, self.round_robin % WORD);
        let lane = |word: usize, bits: u64| word * WORD + bits.trailing_zeros() as usize;
        match self.ready[first] & (u64::MAX << shift) {
            0 if self.ready.len() == 1 && self.ready[0] == 0 => None,
            0 => {
                let later = (first + 1..self.ready.len()).chain(0..=first);
                later
                    .map(|word| (word, self.ready[word]))
                    .find(|&(_, bits)| bits != 0)
                    .map(|(word, bits)| lane(word, bits))
            }
            bits => Some(lane(first, bits)),
        }
    }

    /// Returns the number of ready lanes.
    #[inline]
    fn ready_lanes(&self) -> usize {
        self.ready.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Returns the first `count` frames of `done` to `sender`, and adds `bytes` to its sum of completed bytes.
    #[inline(always)]
    fn recycle_first(&mut self, done: &mut Batch, sender: u16, count: usize, bytes: u64) {
        let recycled = match self.lanes.get_mut(usize::from(sender)) {
            Some(Some(Lane { return_ring: Some(ring), frames })) => {
                frames.add_returned_bytes(bytes as u32);
                ring.push(done, count)
            }
            _ => 0,
        };
        if recycled < count {
            self.give_to_pool(done, sender, count - recycled);
        }
    }

    /// Gives frames to the pool: those of senders that are gone, and those beyond a full return ring, as where
    /// received frames are forwarded.
    #[inline(never)]
    fn give_to_pool(&mut self, done: &mut Batch, sender: u16, count: usize) {
        if let Some(Some(Lane { return_ring: Some(ring), .. })) = self.lanes.get_mut(usize::from(sender)) {
            // Its share may have grown or shrunk since the last sender came.
            ring.limit(self.pool.share());
        }
        // Senders check on entry that frames are this pool's.
        let given = self.returns.give_first(done, count);
        debug_assert!(given.is_ok(), "{given:?}");
    }

    /// Gives the buffers of chains, but for the first of each, to the pool. If senders `are_charged`, with
    /// all bytes of a chain, those that its frame has lost count as returned.
    #[cold]
    fn strip(&mut self, done: &mut Batch, are_charged: bool) {
        for frame in done.frames_mut() {
            let (sender, bytes) = (frame.sender(), frame.len_bytes());
            let stripped = self.pool.region().strip(frame, &mut self.pieces);
            debug_assert!(stripped.is_ok());
            if are_charged {
                self.add_returned_bytes(sender, bytes - frame.len_bytes());
            }
        }
        self.pool.settle(&mut self.pieces);
    }

    /// Recycles a batch with chains or with frames of several senders, one run of a sender at a time.
    #[inline(never)]
    pub(crate) fn recycle_run_by_run(&mut self, done: &mut Batch) {
        self.each_run(done, true, |lanes, done, sender, (count, bytes)| {
            lanes.recycle_first(done, sender, count, bytes);
        });
    }

    /// Calls `recycle` with each run of a sender's frames in `done`, with their number and bytes. Chains are
    /// stripped before: see [`Lanes::strip`].
    fn each_run(
        &mut self, done: &mut Batch, are_charged: bool,
        mut recycle: impl FnMut(&mut Self, &mut Batch, u16, (usize, u64)),
    ) {
        if done.any_meta() {
            self.strip(done, are_charged);
        }
        while let Some(first) = done.frames().first() {
            let (sender, run) = (first.sender(), done.run_of_sender());
            recycle(self, done, sender, run);
        }
    }

    fn add_returned_bytes(&self, sender: u16, bytes: u32) {
        if let Some(Some(lane)) = self.lanes.get(usize::from(sender)) {
            lane.frames.add_returned_bytes(bytes);
        }
    }
}

#[inline]
fn low_bits(count: usize) -> u64 {
    if count >= WORD { u64::MAX } else { (1 << count) - 1 }
}

impl Source for Lanes {
    #[inline]
    fn pull(&mut self, to: &mut Batch, max: usize) -> usize {
        let (mut pulled, mut share, mut lanes_due) = (0, 0, 0);
        while pulled < max {
            let Some(at) = self.next_ready() else { break };
            if lanes_due == 0 {
                // Another round: fuller lanes have the shares that others have not used up.
                lanes_due = self.ready_lanes();
                share = ((max - pulled) / lanes_due).max(QUANTUM_FRAMES);
            }
            lanes_due -= 1;
            let due = if self.deficit > 0 && at == self.round_robin { self.deficit } else { share };
            let (took, left) = match &mut self.lanes[at] {
                Some(lane) => lane.frames.pop_now(to, due.min(max - pulled)),
                None => (0, 0),
            };
            pulled += took;
            if left == 0 {
                self.ready[at / WORD] &= !(1 << (at % WORD));
                self.any &= !(u64::from(self.ready[at / WORD] == 0) << (at / WORD));
            }
            self.deficit = if left > 0 { due - took } else { 0 };
            self.round_robin = match at + 1 {
                _ if self.deficit > 0 => at,
                next if next < self.lanes.len() => next,
                _ => 0,
            };
        }
        pulled
    }

    #[inline]
    fn is_empty(&self) -> bool {
        self.any == 0
    }
}

impl Sink for Lanes {
    #[inline(always)]
    fn recycle(&mut self, done: &mut Batch) {
        match (done.any_meta(), done.sender()) {
            (false, Some(sender)) => self.recycle_first(done, sender, done.len(), done.bytes()),
            _ => self.recycle_run_by_run(done),
        }
    }

    fn release(&mut self, sender: u16, bytes: u32) {
        self.add_returned_bytes(sender, bytes);
    }

    fn note_drops(&self, frames: &[Frame], region: &Region) {
        self.note_drops_by_place(frames, region);
    }

    fn recycle_released(&mut self, done: &mut Batch) {
        self.each_run(done, false, |lanes, done, sender, (count, _)| {
            lanes.recycle_first(done, sender, count, 0);
        });
    }
}

#[cfg(test)]
mod tests;
