//! The slow half of a [`Cache`]: how its stack is filled, how much it may keep, and what it gives to waiters.

use super::Cache;
use crate::host::Wake;
use crate::pool::ledger::Ledger;
use crate::pool::{BULK, Shared, WaitPlace};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Requests of the present size that the stack may keep buffers for.
const KEEP_BULKS: usize = 8;

impl Cache {
    /// Gets at least `need` buffers onto the stack, if there are that many: from return ring, mailbox, depot.
    #[inline(never)]
    pub(super) fn refill(&mut self, need: usize) {
        if !self.has_taken {
            self.has_taken = true;
            self.pool.shared.users.fetch_add(1, Ordering::Relaxed);
        }
        self.wanted = if self.gathers { self.wanted.max(need) } else { need };
        self.renew_keep(need);
        self.counters.slow_paths += 1;
        if let Some(ring) = &mut self.return_ring.0 {
            // Buffers that the stack may not keep stay in the ring, unless they may be kept nowhere.
            let most = if self.keep.frames() == 0 {
                usize::MAX
            } else {
                (need + self.keep.frames()).saturating_sub(self.stack.len())
            };
            let ledger = &self.pool.shared.ledger;
            ring.pop_each(&mut self.stack, most, |index| ledger.freed(index));
        }
        if self.stack.len() < need && self.mailbox.len() > 0 {
            self.refill_from_mail();
        }
        if self.stack.len() < need {
            let bulk = self.bulk.min(self.keep.frames());
            self.bulk = (2 * self.bulk).min(BULK);
            self.refill_from_depot(need, bulk);
        }
        self.trim(need);
    }

    /// Renews the reservation for the stack after a request for `need`: no more than the cache has use for.
    pub(super) fn renew_keep(&mut self, need: usize) {
        let share = self.pool.share_on_stack(self.yields);
        let wanted = share.min(KEEP_BULKS * need.max(self.bulk));
        match self.yields {
            true => self.keep.ask(wanted),
            false if self.gathers => self.keep.ask_for_at_least(self.wanted, wanted),
            false => self.keep.ask_for_at_least(1, wanted),
        }
    }

    /// Takes all buffers that other threads have sent back. Returns their number.
    pub(super) fn refill_from_mail(&mut self) -> usize {
        let moved = self.mailbox.empty(&mut self.stack, &self.pool, &mut self.counters);
        self.counters.recycled += moved as u64;
        moved
    }

    /// Takes `bulk` buffers from the depot, or more up to `need`. Returns their number.
    pub(super) fn refill_from_depot(&mut self, need: usize, bulk: usize) -> usize {
        let Shared { depot, clock, .. } = &*self.pool.shared;
        let mut depot = self.counters.locks.lock(depot, &**clock);
        let bulk = need.saturating_sub(self.stack.len()).max(bulk).min(depot.len());
        depot.move_to(&mut self.stack, bulk);
        bulk
    }

    /// Keeps `need` buffers and what the reservation allows beyond that.
    #[inline]
    pub(super) fn trim(&mut self, need: usize) {
        if self.stack.len() > need + self.keep.frames() {
            self.give_surplus(need);
        }
    }

    /// Gives the oldest buffers, the least likely to be in this core's caches, to the depot. Returns their number.
    #[cold]
    #[doc(hidden)]
    pub fn give_surplus(&mut self, need: usize) -> usize {
        let surplus = self.stack.len() - need - self.keep.frames() / 2;
        self.pool.deposit(self.stack.drain(..surplus), &mut self.counters);
        surplus
    }

    /// Works like [`Cache::release_cached`], for a sender's cache and only while a thread waits for memory.
    #[inline]
    pub(crate) fn release_cached_if_wanted(&mut self) {
        if self.yields && self.pool.is_waited_for() {
            self.release_cached();
        }
    }

    /// Postpones the next look at the clock, at which the cache would give up the buffers that it has waited for.
    pub(crate) fn keep_granted(&mut self) {
        self.stamp = Ledger::stamp(self.number, self.pool.now_ns());
        self.clock_due = 1;
    }

    /// Gives all free buffers to those that wait: another thread does, or this one is about to.
    #[cold]
    pub(crate) fn release_cached(&mut self) {
        self.keep.set(0);
        self.bulk = 1;
        if let Some(ring) = &mut self.return_ring.0 {
            let ledger = &self.pool.shared.ledger;
            ring.pop_each(&mut self.stack, usize::MAX, |index| ledger.freed(index));
        }
        if !self.stash.is_empty() {
            self.pool.settle_with(&mut self.stash, &mut self.directory, &mut self.counters);
        }
        if !self.stack.is_empty() {
            self.pool.deposit(self.stack.drain(..), &mut self.counters);
        }
    }

    /// Joins the wait list for as many buffers as the last request was for, until [`WaitPlace::leave`].
    pub(crate) fn join_wait_list(&mut self, wake: Arc<dyn Wake>) -> WaitPlace {
        if !self.stash.is_empty() {
            self.pool.settle_with(&mut self.stash, &mut self.directory, &mut self.counters);
        }
        WaitPlace::join(&self.pool, self.mailbox.clone(), self.wanted, wake)
    }

    /// Starts or stops gathering: keeping the buffers that the wait list brings until they are enough. One cache of a
    /// pool gathers at a time: two that hold a part each would wait for each other. Any other gives up its surplus.
    pub(crate) fn gather(&mut self, wants: bool) {
        let gathering = &self.pool.shared.gathering;
        let did = self.gathers;
        self.gathers = wants && (did || !gathering.swap(true, Ordering::AcqRel));
        if did && !wants {
            gathering.store(false, Ordering::Release);
        }
        if !self.gathers && (did || wants) {
            self.renew_keep(0);
            self.trim(0);
        }
    }
}
