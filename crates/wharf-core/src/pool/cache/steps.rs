//! A cache's slow path a step at a time, for modelled processors: the same parts as `take` and `give` are made of.

use super::Cache;
use crate::pool::ledger::NO_CACHE;
use crate::pool::policy::{Place, Wanted};
use crate::pool::{BULK, PageCounters, PoolError};
use wharf_mem::Batch;

impl Cache {
    /// Frames taken from now on are charged to `sender`.
    #[inline]
    pub(in crate::pool) fn charge_to(&mut self, sender: u16) {
        self.sender = sender;
    }

    /// Keeps what is its share, whatever others keep: all of them go on.
    pub(in crate::pool) fn keep_a_share(&mut self) {
        self.keep.set(self.pool.share());
    }

    pub(in crate::pool) fn number(&self) -> usize {
        self.number
    }

    /// What was counted on the slow paths.
    pub fn counters(&self) -> PageCounters {
        self.counters
    }

    /// Takes from the stack only.
    pub(in crate::pool) fn take_here(
        &mut self, to: &mut Batch, count: usize, wanted: Wanted,
    ) -> Result<usize, PoolError> {
        self.charge_to(wanted.sender);
        self.date();
        self.take_stacked(to, count.min(to.room()), wanted.len_bytes)
    }

    pub(in crate::pool) fn has_mail(&self) -> bool {
        self.mailbox.len() > 0
    }

    /// From the mailbox if anything is there, else from the depot; how many.
    pub(in crate::pool) fn fetch(&mut self, need: usize) -> usize {
        self.keep_a_share();
        self.counters.slow_paths += 1;
        let bulk = BULK.min(self.keep.frames());
        if self.has_mail() { self.refill_from_mail() } else { self.refill_from_depot(need, bulk) }
    }

    /// Own frames onto the stack, the others to the stash.
    pub(in crate::pool) fn give_here(&mut self, from: &mut Batch) -> Result<(), PoolError> {
        let old = self.stash.len();
        let given = self.pool.shared.region.give(from, &mut self.stash, from.len());
        self.sort_stash(old);
        Ok(given?)
    }

    /// Puts the others' frames in order of their homes; whether there are any.
    pub(in crate::pool) fn group_stash(&mut self) -> bool {
        self.pool.group(&mut self.stash);
        !self.stash.is_empty()
    }

    /// Where the last of the others' frames belongs; `None` when there is none.
    pub(in crate::pool) fn next_home(&self) -> Option<Place> {
        let last = self.stash.last()?;
        Some(match self.pool.shared.ledger.cache_of(last.index()) {
            NO_CACHE => Place::Depot,
            cache => Place::Mailbox(cache),
        })
    }

    /// One run of the others' frames home; how many.
    pub(in crate::pool) fn return_run(&mut self) -> usize {
        self.pool.settle_run(&mut self.stash, &mut self.directory, &mut self.counters)
    }

    pub(in crate::pool) fn has_surplus(&self) -> bool {
        self.stack.len() > self.keep.frames()
    }
}
