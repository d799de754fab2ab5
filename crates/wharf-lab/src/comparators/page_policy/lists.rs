//! A list of free pages per processor in front of a locked global list: the kernel's page allocator. The
//! other policies fall back on it.
//!
//! An empty list takes a batch from the global one. A list above its high mark gives back a batch of its
//! oldest pages (`mm/page_alloc.c`: batch 63 for zones of 1 GiB and more, high mark six batches). Both lists
//! are linked through the pages ([`FreeList`]). Pages move one by one under the lock, as in `rmqueue_bulk`
//! and `free_pcppages_bulk`. The lock is held while the cache line of a page that another processor freed
//! comes over.

use super::Wanted;
use std::sync::{Arc, Mutex, PoisonError};
use wharf_core::pool::{PageCounters, PagePool, PoolError};
use wharf_mem::{Batch, FreeFrame, FreeList, Links};

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

/// The global list: the free frames of a pool, which it gives back when it is dropped.
#[derive(Debug)]
pub(super) struct GlobalList {
    pub(super) pool: PagePool,
    list: Mutex<FreeList>,
}

impl GlobalList {
    /// Takes all free frames out of the depot of `pool`.
    pub(super) fn new(pool: &PagePool) -> Arc<Self> {
        let links = Arc::new(Links::new(pool.region().number(), pool.frames()));
        let mut list = FreeList::new(links);
        for free in pool.take_free() {
            if let Err(foreign) = list.push_front(free) {
                pool.give_free([foreign].into_iter());
            }
        }
        Arc::new(Self { pool: pool.clone(), list: Mutex::new(list) })
    }

    /// Puts free frames at the front.
    pub(super) fn deposit(&self, frames: impl Iterator<Item = FreeFrame>, counters: &mut PageCounters) {
        let mut list = counters.locks.lock(&self.list, self.pool.clock());
        for free in frames {
            if let Err(foreign) = list.push_front(free) {
                self.pool.give_free([foreign].into_iter());
            }
        }
    }
}

impl Drop for GlobalList {
    fn drop(&mut self) {
        let list = self.list.get_mut().unwrap_or_else(PoisonError::into_inner);
        // The oldest last: the depot is a stack.
        self.pool.give_free(std::iter::from_fn(|| list.pop_back()));
    }
}

/// A processor's list, and the counts.
#[derive(Debug)]
pub(super) struct Lists {
    global: Arc<GlobalList>,
    /// Free pages; the first is the next to be taken.
    list: FreeList,
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
        let links = global.list.lock().unwrap_or_else(PoisonError::into_inner).links().clone();
        let (list, hand) = (FreeList::new(links), Vec::with_capacity(BATCH));
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
        self.list.pop_front()
    }

    /// Puts a free frame at the front.
    #[inline]
    pub(super) fn push(&mut self, free: FreeFrame) {
        if let Err(foreign) = self.list.push_front(free) {
            // The region lets none through.
            self.global.pool.give_free([foreign].into_iter());
        }
    }

    /// Puts free frames at the front, one after the other.
    #[inline]
    pub(super) fn extend(&mut self, free: impl IntoIterator<Item = FreeFrame>) {
        free.into_iter().for_each(|free| self.push(free));
    }

    /// Takes up to `count` frames from the front of the list. Returns their number.
    #[inline]
    pub(super) fn take(&mut self, to: &mut Batch, count: usize, wanted: Wanted) -> Result<usize, PoolError> {
        let pool = &self.global.pool;
        let note = |index| pool.note_taken(index, self.stamp);
        let taken =
            pool.region().take_from_list(&mut self.list, to, count, wanted.sender, wanted.len_bytes, note)?;
        self.counters.allocations += taken as u64;
        Ok(taken)
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
        let pool = &self.global.pool;
        let before = from.len();
        let all = pool.region().give_to_list(from, &mut self.list, count, |index| pool.note_free(index));
        let given = before - from.len();
        self.counters.frees += given as u64;
        if all {
            return Ok(());
        }
        // There are chains with rows, or frames of another pool.
        let mut hand = std::mem::take(&mut self.hand);
        let given = self.retake(from, &mut hand, count.saturating_sub(given));
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
        let mut came = 0;
        while let Some(free) = (came < wanted).then(|| global.pop_front()).flatten() {
            came += 1;
            if let Err(foreign) = self.list.push_front(free) {
                self.hand.push(foreign);
            }
        }
        drop(global);
        self.stamp = self.global.pool.ledger_stamp();
        came.div_ceil(self.frames_per_page)
    }

    /// Gives a batch of the oldest pages to the global list. Returns the number of pages.
    pub(super) fn bring(&mut self) -> usize {
        let count = (BATCH * self.frames_per_page).min(self.list.len());
        let oldest = std::iter::from_fn(|| self.list.pop_back()).take(count);
        self.global.deposit(oldest, &mut self.counters);
        count / self.frames_per_page
    }

    pub(super) fn exhausted(&self) -> PoolError {
        self.global.pool.exhausted()
    }
}

impl Drop for Lists {
    fn drop(&mut self) {
        let listed = std::iter::from_fn(|| self.list.pop_back());
        self.global.deposit(self.hand.drain(..).chain(listed), &mut self.counters);
    }
}
