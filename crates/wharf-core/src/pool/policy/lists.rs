//! A list of free pages per processor, in front of the locked global one: the kernel's page allocator, and what the
//! other policies fall back on.
//!
//! An empty list takes a batch; one over its high mark gives a batch back, of those that have lain longest
//! (`mm/page_alloc.c`: batch 63 for zones of 1 GiB and more, high mark six batches). Both lists go through the pages
//! ([`FreeList`]), and what they trade moves page by page under the lock, as with `rmqueue_bulk` and `free_pcppages_bulk`:
//! for a page that another processor freed, its line comes over while everybody else waits.

use super::Wanted;
use crate::pool::ledger::{Ledger, NO_CACHE};
use crate::pool::{PageCounters, PagePool, PoolError, Shared, lock};
use wharf_mem::{Batch, FreeFrame, FreeList};

/// Pages that a list trades with the global one at a time.
const BATCH: usize = 63;
/// Batches over which a list gives one back.
const HIGH_BATCHES: usize = 6;

/// What of a [`PageCache`](super::PageCache) is its [`Lists`]': slow paths, and the account.
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

#[derive(Debug)]
pub(super) struct Lists {
    pub(super) pool: PagePool,
    /// Free pages; the first is the next to be taken.
    list: FreeList,
    /// Pages between the list and a batch.
    hand: Vec<FreeFrame>,
    /// Frames in a page.
    frames_per_page: usize,
    /// What the ledger gets for frames taken now.
    stamp: u64,
    pub(super) counters: PageCounters,
}

impl Lists {
    /// The pool's depot is linked from now on, which takes a line per page once.
    pub(super) fn new(pool: &PagePool, frames_per_page: usize) -> Self {
        let links = lock(&pool.shared.depot).linked(pool.region().number(), pool.frames());
        let (list, hand) = (FreeList::new(links), Vec::with_capacity(BATCH));
        let stamp = Ledger::stamp(NO_CACHE, pool.now_ns());
        Self { pool: pool.clone(), list, hand, frames_per_page, stamp, counters: PageCounters::default() }
    }

    /// Free frames on the list.
    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    /// The frame at the front.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<FreeFrame> {
        self.list.pop_front()
    }

    /// Puts a free frame at the front.
    #[inline]
    pub(super) fn push(&mut self, free: FreeFrame) {
        if let Err(foreign) = self.list.push_front(free) {
            // The region lets none through.
            self.pool.deposit([foreign].into_iter(), &mut self.counters);
        }
    }

    /// Puts free frames at the front, one after the other.
    #[inline]
    pub(super) fn extend(&mut self, free: impl IntoIterator<Item = FreeFrame>) {
        free.into_iter().for_each(|free| self.push(free));
    }

    /// Frames from the front of the list.
    #[inline]
    pub(super) fn take(&mut self, to: &mut Batch, count: usize, wanted: Wanted) -> Result<usize, PoolError> {
        let Shared { region, ledger, .. } = &*self.pool.shared;
        let note = |index| ledger.write(index, self.stamp);
        let taken =
            region.take_from_list(&mut self.list, to, count, wanted.sender, wanted.len_bytes, note)?;
        self.counters.allocations += taken as u64;
        Ok(taken)
    }

    /// As [`Lists::take`], from `hand`: pages that came by another way.
    #[inline]
    pub(super) fn take_from(
        &mut self, hand: &mut Vec<FreeFrame>, to: &mut Batch, count: usize, wanted: Wanted,
    ) -> Result<usize, PoolError> {
        let Shared { region, ledger, .. } = &*self.pool.shared;
        let note = |index| ledger.write(index, self.stamp);
        let taken = region.take(hand, to, count, wanted.sender, wanted.len_bytes, note)?;
        self.counters.allocations += taken as u64;
        Ok(taken)
    }

    /// Turns the first `count` frames of a batch into free buffers at the back of `to`; in the ledger they are free.
    #[inline]
    pub(super) fn retake(
        &mut self, from: &mut Batch, to: &mut Vec<FreeFrame>, count: usize,
    ) -> Result<(), PoolError> {
        let (old, before) = (to.len(), from.len());
        let Shared { region, ledger, .. } = &*self.pool.shared;
        let given = region.give(from, to, count);
        self.counters.frees += (before - from.len()) as u64;
        to[old..].iter().for_each(|free| ledger.freed(free.index()));
        Ok(given?)
    }

    /// As [`Lists::retake`], onto the list.
    #[inline]
    pub(super) fn give(&mut self, from: &mut Batch, count: usize) -> Result<(), PoolError> {
        let Shared { region, ledger, .. } = &*self.pool.shared;
        let before = from.len();
        let all = region.give_to_list(from, &mut self.list, count, |index| ledger.freed(index));
        let given = before - from.len();
        self.counters.frees += given as u64;
        if all {
            return Ok(());
        }
        // Chains with rows, or another pool's among them.
        let mut hand = std::mem::take(&mut self.hand);
        let given = self.retake(from, &mut hand, count.saturating_sub(given));
        self.extend(hand.drain(..));
        self.hand = hand;
        given
    }

    /// Pages above the high mark, in whole batches.
    #[inline]
    pub(super) fn is_high(&self) -> bool {
        self.list.len() > HIGH_BATCHES * BATCH * self.frames_per_page
    }

    /// A batch from the depot, or enough for `count` frames; how many pages.
    pub(super) fn fetch(&mut self, count: usize) -> usize {
        let wanted = count.div_ceil(self.frames_per_page).max(BATCH) * self.frames_per_page;
        self.counters.slow_paths += 1;
        let Shared { depot, clock, .. } = &*self.pool.shared;
        let mut depot = self.counters.locks.lock(depot, &**clock);
        let mut came = 0;
        while let Some(free) = (came < wanted).then(|| depot.pop()).flatten() {
            came += 1;
            if let Err(foreign) = self.list.push_front(free) {
                self.hand.push(foreign);
            }
        }
        drop(depot);
        self.stamp = Ledger::stamp(NO_CACHE, self.pool.now_ns());
        came.div_ceil(self.frames_per_page)
    }

    /// A batch of the oldest to the depot; how many pages.
    pub(super) fn bring(&mut self) -> usize {
        let count = (BATCH * self.frames_per_page).min(self.list.len());
        let oldest = std::iter::from_fn(|| self.list.pop_back()).take(count);
        self.pool.deposit(oldest, &mut self.counters);
        count / self.frames_per_page
    }

    pub(super) fn exhausted(&self) -> PoolError {
        self.pool.exhausted()
    }
}

impl Drop for Lists {
    fn drop(&mut self) {
        let listed = std::iter::from_fn(|| self.list.pop_back());
        self.pool.deposit(self.hand.drain(..).chain(listed), &mut self.counters);
    }
}
