//! A list of free pages per processor, in front of the locked global one: the kernel's page allocator, and what the
//! other policies fall back on.
//!
//! An empty list takes a batch; one over its high mark gives a batch back, of those that have lain longest
//! (`mm/page_alloc.c`: batch 63 for zones of 1 GiB and more, high mark six batches).

use super::Wanted;
use crate::pool::ledger::{Ledger, NO_CACHE};
use crate::pool::{PageCounters, PagePool, PoolError, Shared, lock};
use wharf_mem::{Batch, FreeFrame};

/// Pages that a list trades with the global one at a time.
const BATCH: usize = 63;
/// Batches over which a list gives one back.
const HIGH_BATCHES: usize = 6;

#[derive(Debug)]
pub(super) struct Lists {
    pub(super) pool: PagePool,
    /// Free pages; the last is the next to be taken.
    pub(super) free: Vec<FreeFrame>,
    /// Frames in a page.
    frames_per_page: usize,
    /// What the ledger gets for frames taken now.
    stamp: u64,
    pub(super) counters: PageCounters,
}

impl Lists {
    pub(super) fn new(pool: &PagePool, frames_per_page: usize) -> Self {
        let free = Vec::with_capacity((HIGH_BATCHES + 2) * BATCH * frames_per_page);
        let stamp = Ledger::stamp(NO_CACHE, pool.now_ns());
        Self { pool: pool.clone(), free, frames_per_page, stamp, counters: PageCounters::default() }
    }

    /// Frames from the top of the list.
    #[inline]
    pub(super) fn take(&mut self, to: &mut Batch, count: usize, wanted: Wanted) -> Result<usize, PoolError> {
        let Shared { region, ledger, .. } = &*self.pool.shared;
        let note = |index| ledger.write(index, self.stamp);
        let taken = region.take(&mut self.free, to, count, wanted.sender, wanted.len_bytes, note)?;
        self.counters.allocations += taken as u64;
        Ok(taken)
    }

    /// As [`Lists::take`], from `hand`: pages that came by another way.
    #[inline]
    pub(super) fn take_from(
        &mut self, hand: &mut Vec<FreeFrame>, to: &mut Batch, count: usize, wanted: Wanted,
    ) -> Result<usize, PoolError> {
        std::mem::swap(hand, &mut self.free);
        let taken = self.take(to, count, wanted);
        std::mem::swap(hand, &mut self.free);
        taken
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
    pub(super) fn give(&mut self, from: &mut Batch) -> Result<(), PoolError> {
        let mut free = std::mem::take(&mut self.free);
        let given = self.retake(from, &mut free, from.len());
        self.free = free;
        given
    }

    /// Pages above the high mark, in whole batches.
    #[inline]
    pub(super) fn is_high(&self) -> bool {
        self.free.len() > HIGH_BATCHES * BATCH * self.frames_per_page
    }

    /// A batch from the depot, or enough for `count` frames; how many pages.
    pub(super) fn fetch(&mut self, count: usize) -> usize {
        let wanted = count.div_ceil(self.frames_per_page).max(BATCH) * self.frames_per_page;
        self.counters.slow_paths += 1;
        let Shared { depot, clock, .. } = &*self.pool.shared;
        let mut depot = self.counters.locks.lock(depot, &**clock);
        let left = depot.len() - wanted.min(depot.len());
        let came = depot.len() - left;
        self.free.extend(depot.drain(left..));
        drop(depot);
        self.stamp = Ledger::stamp(NO_CACHE, self.pool.now_ns());
        came.div_ceil(self.frames_per_page)
    }

    /// A batch of the oldest to the depot; how many pages.
    pub(super) fn bring(&mut self) -> usize {
        let count = (BATCH * self.frames_per_page).min(self.free.len());
        self.pool.deposit(self.free.drain(..count), &mut self.counters);
        count / self.frames_per_page
    }

    pub(super) fn exhausted(&self) -> PoolError {
        self.pool.exhausted()
    }
}

impl Drop for Lists {
    fn drop(&mut self) {
        lock(&self.pool.shared.depot).append(&mut self.free);
        self.pool.wake_waiting();
    }
}
