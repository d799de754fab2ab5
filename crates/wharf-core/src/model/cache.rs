//! A cache's slow path in steps: the parts that `take` and `give` are made of.

use super::Cache;
use crate::pool::ledger::NO_CACHE;
use crate::pool::{BULK, PageCounters, PoolError};
use wharf_mem::Batch;

#[doc(hidden)]
impl Cache {
    /// Keeps its share, whatever other caches keep.
    pub fn keep_a_share(&mut self) {
        self.keep.set(self.pool.share());
    }

    /// Returns the number of its mailbox.
    pub fn number(&self) -> usize {
        self.number
    }

    /// Returns the counts of the slow paths.
    pub fn counters(&self) -> PageCounters {
        self.counters
    }

    /// Takes up to `count` frames from the stack only. Returns their number.
    pub fn take_here(
        &mut self, to: &mut Batch, count: usize, sender: u16, len_bytes: u32,
    ) -> Result<usize, PoolError> {
        self.charge_to(sender);
        self.date();
        self.take_stacked(to, count.min(to.room()), len_bytes)
    }

    /// True if frames lie in the mailbox.
    pub fn has_mail(&self) -> bool {
        self.mailbox.len() > 0
    }

    /// Fetches frames from the mailbox if there are any, else from the depot. Returns their number.
    pub fn fetch(&mut self, need: usize) -> usize {
        self.keep_a_share();
        self.counters.slow_paths += 1;
        let bulk = BULK.min(self.keep.frames());
        if self.has_mail() { self.refill_from_mail() } else { self.refill_from_depot(need, bulk) }
    }

    /// Puts own frames onto the stack, and those of other caches into the stash.
    pub fn give_here(&mut self, from: &mut Batch) -> Result<(), PoolError> {
        let old = self.stash.len();
        let given = self.pool.shared.region.give(from, &mut self.stash, from.len());
        self.sort_stash(old);
        Ok(given?)
    }

    /// Sorts the stash by cache. True if it has frames.
    pub fn group_stash(&mut self) -> bool {
        self.pool.group(&mut self.stash);
        !self.stash.is_empty()
    }

    /// Returns the mailbox that the last frame of the stash belongs to, as `Some(None)` if that is the depot.
    pub fn next_home(&self) -> Option<Option<usize>> {
        let cache = self.pool.shared.ledger.cache_of(self.stash.last()?.index());
        Some((cache != NO_CACHE).then_some(cache))
    }

    /// Returns one run of the stash to its cache. Returns its length.
    pub fn return_run(&mut self) -> usize {
        self.pool.settle_run(&mut self.stash, &mut self.directory, &mut self.counters)
    }

    /// True if the stack holds more than it keeps.
    pub fn has_surplus(&self) -> bool {
        self.stack.len() > self.keep.frames()
    }
}
