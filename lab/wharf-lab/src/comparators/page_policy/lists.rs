//! A list of free pages per processor in front of a locked global list: the kernel's page allocator. The
//! other policies fall back on it.
//!
//! An empty list takes a batch from the global one. A list above its high mark gives back a batch of its
//! oldest pages (`mm/page_alloc.c`: batch 63 for zones of 1 GiB and more, high mark six batches). As in
//! `rmqueue_bulk` and `free_pcppages_bulk`, pages move one by one under the lock, and each page on its way
//! onto a list or off it is noted in a cache line of its own (`struct page`). The lock is held while the line
//! of a page that another processor freed comes over.

use super::Wanted;
use super::exchange_slots::ExchangeSlots;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use wharf_core::pool::{PageCounters, PagePool, PoolError};
use wharf_mem::{Batch, FreeFrame};

/// Pages of a batch.
const BATCH: usize = 63;
/// The high mark, in batches.
const HIGH_BATCHES: usize = 6;

/// Implements the slow paths and counts of a [`PageCache`](super::PageCache) by its [`Lists`].
macro_rules! as_its_lists {
    ($lists:tt) => {
        fn source(&self) -> Place {
            Place::Depot
        }

        fn fetch(&mut self, count: usize) -> usize {
            self.$lists.fetch(count)
        }

        #[inline]
        fn surplus(&self) -> Option<Place> {
            self.$lists.is_high().then_some(Place::Depot)
        }

        fn bring(&mut self) -> usize {
            self.$lists.bring()
        }

        fn counters(&self) -> PageCounters {
            self.$lists.counters
        }

        fn exhausted(&self) -> PoolError {
            self.$lists.exhausted()
        }
    };
}
pub(super) use as_its_lists;

/// The line of one page, with the number of its moves. Only the owner of the page writes it.
#[derive(Debug, Default)]
#[repr(align(64))]
struct PageLine(AtomicU32);

/// The global list: the free frames of a pool, which it gives back when it is dropped.
#[derive(Debug)]
pub(super) struct GlobalList {
    pub(super) pool: PagePool,
    lines: Box<[PageLine]>,
    list: Mutex<VecDeque<FreeFrame>>,
}

impl GlobalList {
    /// Takes all free frames out of the depot of `pool`.
    pub(super) fn new(pool: &PagePool) -> Arc<Self> {
        let lines = (0..pool.frames()).map(|_| PageLine::default()).collect();
        let list = pool.take_free().into_iter().rev().collect();
        Arc::new(Self { pool: pool.clone(), lines, list: Mutex::new(list) })
    }

    /// Brings the line of a page to this processor, and returns its count of moves. The line's address depends
    /// on `before`, the count of the page before: a list linked through the pages names one after the other,
    /// so that no two lines come over at the same time.
    #[inline]
    fn touch(&self, free: &FreeFrame, before: u32) -> u32 {
        let index = free.index() | before & std::hint::black_box(0);
        let moves = &self.lines[index as usize].0;
        let count = moves.load(Relaxed).wrapping_add(1);
        moves.store(count, Relaxed);
        count
    }

    /// Puts free frames at the front.
    pub(super) fn deposit(&self, frames: impl Iterator<Item = FreeFrame>, counters: &mut PageCounters) {
        let mut list = counters.locks.lock(&self.list, self.pool.clock());
        for free in frames {
            self.touch(&free, 0);
            list.push_front(free);
        }
    }
}

impl Drop for GlobalList {
    fn drop(&mut self) {
        let list = self.list.get_mut().unwrap_or_else(PoisonError::into_inner);
        // The oldest last: the depot is a stack.
        self.pool.give_free(list.drain(..).rev());
    }
}

/// Exchange slots beside a global list, which gets their frames when both are dropped.
#[derive(Debug)]
pub(super) struct ListAndSlots {
    pub(super) global: Arc<GlobalList>,
    pub(super) slots: ExchangeSlots,
}

impl ListAndSlots {
    /// Creates `places` slots, all open, beside the list of the free frames of `pool`.
    pub(super) fn new(pool: &PagePool, places: usize) -> Arc<Self> {
        Arc::new(Self { global: GlobalList::new(pool), slots: ExchangeSlots::new(places, true) })
    }
}

impl Drop for ListAndSlots {
    fn drop(&mut self) {
        self.global.deposit(self.slots.drain(), &mut PageCounters::default());
    }
}

/// A processor's list, and the counts.
#[derive(Debug)]
pub(super) struct Lists {
    global: Arc<GlobalList>,
    /// Free pages; the first is the next to be taken.
    list: VecDeque<FreeFrame>,
    /// Pages between the list and a batch.
    hand: Vec<FreeFrame>,
    /// Frames of a page.
    frames_per_page: usize,
    /// The ledger's row for frames taken now.
    stamp: u64,
    pub(super) counters: PageCounters,
}

impl Lists {
    pub(super) fn new(global: &Arc<GlobalList>, frames_per_page: usize) -> Self {
        let (list, hand) = (VecDeque::new(), Vec::with_capacity(BATCH));
        let stamp = global.pool.ledger_stamp();
        let counters = PageCounters::default();
        Self { global: global.clone(), list, hand, frames_per_page, stamp, counters }
    }

    /// Returns the number of free frames on the list.
    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    /// Takes the frame at the front.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<FreeFrame> {
        self.list.pop_front().inspect(|free| _ = self.global.touch(free, 0))
    }

    /// Puts a free frame at the front.
    #[inline]
    pub(super) fn push(&mut self, free: FreeFrame) {
        self.global.touch(&free, 0);
        self.list.push_front(free);
    }

    /// Puts free frames at the front, one after the other.
    #[inline]
    pub(super) fn extend(&mut self, free: impl IntoIterator<Item = FreeFrame>) {
        free.into_iter().for_each(|free| self.push(free));
    }

    /// Takes up to `count` frames from the front of the list. Returns their number.
    #[inline]
    pub(super) fn take(&mut self, to: &mut Batch, count: usize, wanted: Wanted) -> Result<usize, PoolError> {
        let mut hand = std::mem::take(&mut self.hand);
        hand.extend(std::iter::from_fn(|| self.pop()).take(count.min(to.room())));
        let taken = self.take_from(&mut hand, to, count, wanted);
        // A length that does not fit leaves them in hand.
        self.extend(hand.drain(..).rev());
        self.hand = hand;
        taken
    }

    /// Works like [`Lists::take`], from `hand`: pages that came another way.
    #[inline]
    pub(super) fn take_from(
        &mut self, hand: &mut Vec<FreeFrame>, to: &mut Batch, count: usize, wanted: Wanted,
    ) -> Result<usize, PoolError> {
        let pool = &self.global.pool;
        let note = |index| pool.note_taken(index, self.stamp);
        let taken = pool.region().take(hand, to, count, wanted.sender, wanted.len_bytes, note)?;
        self.counters.allocations += taken as u64;
        Ok(taken)
    }

    /// Turns the first `count` frames of a batch into free buffers at the back of `to`, and notes them as
    /// free.
    #[inline]
    pub(super) fn retake(
        &mut self, from: &mut Batch, to: &mut Vec<FreeFrame>, count: usize,
    ) -> Result<(), PoolError> {
        let (old, before) = (to.len(), from.len());
        let pool = &self.global.pool;
        let given = pool.region().give(from, to, count);
        self.counters.frees += (before - from.len()) as u64;
        to[old..].iter().for_each(|free| pool.note_free(free.index()));
        Ok(given?)
    }

    /// Works like [`Lists::retake`], onto the list.
    #[inline]
    pub(super) fn give(&mut self, from: &mut Batch, count: usize) -> Result<(), PoolError> {
        let mut hand = std::mem::take(&mut self.hand);
        let given = self.retake(from, &mut hand, count);
        self.extend(hand.drain(..));
        self.hand = hand;
        given
    }

    /// True if the list is above its high mark.
    #[inline]
    pub(super) fn is_high(&self) -> bool {
        self.list.len() > HIGH_BATCHES * BATCH * self.frames_per_page
    }

    /// Fetches a batch from the global list, or enough for `count` frames. Returns the number of pages.
    pub(super) fn fetch(&mut self, count: usize) -> usize {
        let wanted = count.div_ceil(self.frames_per_page).max(BATCH) * self.frames_per_page;
        self.counters.slow_paths += 1;
        let mut global = self.counters.locks.lock(&self.global.list, self.global.pool.clock());
        let came = wanted.min(global.len());
        let mut before = 0;
        for free in global.drain(..came) {
            before = self.global.touch(&free, before);
            self.list.push_front(free);
        }
        drop(global);
        self.stamp = self.global.pool.ledger_stamp();
        came.div_ceil(self.frames_per_page)
    }

    /// Gives a batch of the oldest pages to the global list. Returns the number of pages.
    pub(super) fn bring(&mut self) -> usize {
        let count = (BATCH * self.frames_per_page).min(self.list.len());
        let oldest = self.list.drain(self.list.len() - count..).rev();
        self.global.deposit(oldest, &mut self.counters);
        count / self.frames_per_page
    }

    pub(super) fn exhausted(&self) -> PoolError {
        self.global.pool.exhausted()
    }
}

impl Drop for Lists {
    fn drop(&mut self) {
        let listed = self.list.drain(..).rev();
        self.global.deposit(self.hand.drain(..).chain(listed), &mut self.counters);
    }
}
