//! The owner's side of all lanes of a queue: pull frames fairly, send them home.
//!
//! Lanes that announced something are served from a round-robin cursor with a share each: lowest-first starves the others,
//! and a round-robin cursor without shares lets one full lane have a whole quota. A share is a quantum at least, as in deficit round
//! robin (Shreedhar and Varghese 1995), and the round-robin cursor goes on where the last pull has ended, in the middle of a share
//! if need be: with many full lanes each has its share over several bulks.

mod return_ring;
mod waiter_sink;

pub(crate) use return_ring::LaneReturnRing;
pub(crate) use waiter_sink::WaiterSink;

use crate::pool::{PagePool, Returns};
use crate::tx::engine::{Sink, Source};
use wharf_mem::lane::LaneConsumer;
use wharf_mem::return_ring::ReturnConsumer;
use wharf_mem::word::{READY, READY_BITS};
use wharf_mem::{Batch, FreeFrame};

const WORD: usize = u64::BITS as usize;

/// The least share of a lane, a line of its ring: with one frame from each of 64, every frame would be a line fetched from
/// another processor, and one going home.
const QUANTUM_FRAMES: usize = 8;

/// The owner's end of one sender.
pub(crate) struct Lane {
    pub(crate) frames: LaneConsumer,
    /// Where its frames go home; `None` when the sender is gone.
    pub(crate) return_ring: Option<LaneReturnRing>,
}

/// All lanes of a queue; a place whose sender is gone is empty, and given to the next one.
pub(crate) struct Lanes {
    lanes: Vec<Option<Lane>>,
    /// A bit per lane that may hold something.
    ready: Vec<u64>,
    /// A bit per word of `ready` that is not 0: thousands of idle lanes are one look.
    any: u64,
    round_robin: usize,
    /// What the lane at the round-robin cursor still has of its share, when the last pull ended in the middle of it.
    deficit: usize,
    /// SenderSlots that are not empty.
    used: usize,
    pool: PagePool,
    returns: Returns,
    pieces: Vec<FreeFrame>,
    /// SenderSlots that something has come home to while somebody waited.
    returned: Vec<u16>,
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
        }
    }

    /// Puts `lane` at place `at`; whether that place is new.
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

    /// Frames ever taken out of lane `at`, counted modulo 2^32.
    pub(crate) fn taken_of(&self, at: usize) -> u32 {
        self.lanes.get(at).and_then(Option::as_ref).map_or(0, |lane| lane.frames.taken())
    }

    /// Whether there is one lane only.
    #[inline]
    pub(crate) fn is_sole(&self) -> bool {
        self.used == 1
    }

    /// Buffers in return rings that their senders have not fetched yet.
    pub(crate) fn going_home(&mut self) -> usize {
        self.lanes
            .iter_mut()
            .flatten()
            .filter_map(|lane| lane.return_ring.as_mut())
            .map(|ring| ring.waiting())
            .sum()
    }

    /// No sender may hoard: what waits in return rings is a share of the pool, however many senders there are.
    fn limit_return_rings(&mut self) {
        let share = self.pool.share();
        let rings = self.lanes.iter_mut().flatten().filter_map(|lane| lane.return_ring.as_mut());
        rings.for_each(|ring| ring.limit(share));
    }

    /// The sender at `at` is gone: its frames go to the pool from now on, and so does what was under way.
    pub(crate) fn orphan(&mut self, at: usize, mut ring: ReturnConsumer) {
        if let Some(Some(lane)) = self.lanes.get_mut(at) {
            lane.return_ring = None;
        }
        ring.pop(&mut self.pieces, usize::MAX);
        self.pool.settle(&mut self.pieces);
        self.ready[at / WORD] |= 1 << (at % WORD);
        self.any |= 1 << (at / WORD);
    }

    /// Notes that something has come home to the sender at `place`, or that it is gone, while somebody waits.
    pub(crate) fn note_returned(&mut self, place: u16) {
        if self.returned.last() != Some(&place) {
            self.returned.push(place);
        }
    }

    /// Forgets lanes whose sender is gone and which are empty; calls `freed` with each place.
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

    /// Notes which lanes have announced something: bits of the owner word.
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

    /// Looks at every lane from now on until each is found empty: for a dedicated owner.
    #[inline]
    pub(crate) fn announce_all(&mut self) {
        self.announce(READY);
    }

    /// Shows how many frames lie in lanes, as far as announced.
    pub(crate) fn len(&mut self) -> usize {
        self.lanes.iter_mut().flatten().map(|lane| lane.frames.ready_now()).sum()
    }

    /// The first ready lane from the round-robin cursor on, and round again.
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

    /// Lanes that are ready.
    #[inline]
    fn ready_lanes(&self) -> usize {
        self.ready.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Sends the first `count` frames of `done` home to `sender`, and counts `bytes` of them.
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

    /// Home by the pool: for senders that are gone, and rings that are full, as they are where what is sent was received.
    #[inline(never)]
    fn give_to_pool(&mut self, done: &mut Batch, sender: u16, count: usize) {
        if let Some(Some(Lane { return_ring: Some(ring), .. })) = self.lanes.get_mut(usize::from(sender)) {
            // It may have more, or less, than when the last sender came.
            ring.limit(self.pool.share());
        }
        // Senders check on entry that frames are this pool's.
        let given = self.returns.give_first(done, count);
        debug_assert!(given.is_ok(), "{given:?}");
    }

    /// Chains give up all buffers but the first, which then travels like any other. `lost` is told whose frames have so many
    /// bytes fewer now.
    #[cold]
    fn strip(&mut self, done: &mut Batch, mut lost: impl FnMut(&Self, u16, u32)) {
        for frame in done.frames_mut() {
            let (sender, bytes) = (frame.sender(), frame.len_bytes());
            let stripped = self.pool.region().strip(frame, &mut self.pieces);
            lost(self, sender, bytes - frame.len_bytes());
            debug_assert!(stripped.is_ok());
        }
        self.pool.settle(&mut self.pieces);
    }

    fn add_home_bytes(&self, sender: u16, bytes: u32) {
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
                // Another round: what some lanes have left of their share is for those that have more.
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
        self.add_home_bytes(sender, bytes);
    }

    fn recycle_released(&mut self, done: &mut Batch) {
        if done.any_meta() {
            self.strip(done, |_, _, _| {});
        }
        while let Some(first) = done.frames().first() {
            let (sender, (count, _)) = (first.sender(), done.run_of_sender());
            self.recycle_first(done, sender, count, 0);
        }
    }
}

impl Lanes {
    /// Chains, or frames of several senders.
    #[inline(never)]
    pub(crate) fn recycle_run_by_run(&mut self, done: &mut Batch) {
        if done.any_meta() {
            // Charged with all their bytes; as single buffers they have fewer.
            self.strip(done, |lanes, sender, bytes| lanes.add_home_bytes(sender, bytes));
        }
        while let Some(first) = done.frames().first() {
            let (sender, (count, bytes)) = (first.sender(), done.run_of_sender());
            self.recycle_first(done, sender, count, bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tx::engine::BULK_PACKETS_MAX;
    use wharf_mem::lane::{LaneProducer, lane};
    use wharf_mem::return_ring::return_ring;

    const FRAMES: u32 = 1024;

    /// Lanes of which each holds so many frames.
    fn filled(counts: &[usize]) -> (Lanes, Vec<LaneProducer>) {
        let pool = PagePool::builder().frames(FRAMES).build().unwrap();
        let mut lanes = Lanes::new(pool.clone());
        let fill = |(at, &count): (usize, &usize)| {
            let (mut lane_in, frames) = lane(128, 0);
            lanes.add(
                at,
                Lane { frames, return_ring: Some(LaneReturnRing::new(return_ring(128, 0).0, &pool)) },
            );
            let (mut cache, mut burst) = (pool.cache("test").unwrap(), pool.burst(64));
            let filled = cache.fill(&mut burst, count, 64);
            assert!(count == 0 || filled.is_ok());
            burst.batch_mut().frames_mut().iter_mut().for_each(|frame| frame.set_sender(at as u16));
            burst.batch_mut().refresh();
            assert_eq!(lane_in.push(burst.batch_mut()), count);
            lane_in
        };
        let ins = counts.iter().enumerate().map(fill).collect();
        (lanes, ins)
    }

    fn pulled(lanes: &mut Lanes, max: usize, places: usize) -> Vec<usize> {
        let mut to = Batch::new(BULK_PACKETS_MAX);
        lanes.pull(&mut to, max);
        let of = |at| to.frames().iter().filter(|frame| usize::from(frame.sender()) == at).count();
        let counts = (0..places).map(of).collect();
        lanes.recycle(&mut to);
        counts
    }

    #[test]
    fn each_lane_has_its_share_and_what_one_leaves_goes_to_the_others() {
        let (mut lanes, _ins) = filled(&[64, 0, 4, 64]);
        lanes.announce_all();
        let first = pulled(&mut lanes, 64, 4);
        assert_eq!((first[1], first[2]), (0, 4));
        assert!(first[0] >= 16 && first[3] >= 16 && first[0] + first[3] == 60, "{first:?}");
        let then = pulled(&mut lanes, 64, 4);
        assert_eq!(then[0].max(then[3]), 32, "two full lanes: half each");
    }

    #[test]
    fn many_full_lanes_have_a_quantum_each_in_turn() {
        let (mut lanes, _ins) = filled(&[16; 16]);
        lanes.announce_all();
        assert_eq!(pulled(&mut lanes, 64, 16), [[8; 8], [0; 8]].concat());
        assert_eq!(
            pulled(&mut lanes, 64, 16),
            [[0; 8], [8; 8]].concat(),
            "the round_robin goes on where it was"
        );
    }

    #[test]
    fn shares_are_even_whatever_the_quota() {
        for (max, count) in [(17, 2), (20, 2), (33, 3), (50, 7), (63, 9), (64, 5)] {
            let (mut lanes, _ins) = filled(&vec![64; count]);
            lanes.announce_all();
            let mut sums = vec![0; count];
            // Until one of the lanes might be empty.
            for _ in 0..48 * count / max {
                let of_each = pulled(&mut lanes, max, count);
                sums.iter_mut().zip(of_each).for_each(|(sum, pulled)| *sum += pulled);
            }
            let spread = sums.iter().max().unwrap() - sums.iter().min().unwrap();
            assert!(spread <= QUANTUM_FRAMES.max(max / count), "{max} packets of {count} lanes: {sums:?}");
        }
    }

    #[test]
    fn one_full_lane_among_many_empty_ones_fills_a_bulk() {
        let mut counts = [0; 64];
        counts[40] = 64;
        let (mut lanes, _ins) = filled(&counts);
        lanes.announce_all();
        assert_eq!(pulled(&mut lanes, 64, 64)[40], 64);

        assert!(lanes.is_empty());
    }
}
