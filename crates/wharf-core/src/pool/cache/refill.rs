//! How a cache's stack is filled when it runs short, and what it may keep of that.

use super::Cache;
use crate::pool::{BULK, Shared};
use std::sync::atomic::Ordering;

/// What is asked for at a time, so often, may lie on the stack.
const KEEP_BULKS: usize = 8;

impl Cache {
    /// Gets at least `need` buffers onto the stack, if there are that many: from home, mail, depot.
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
            // What may not be kept on the stack stays where it is, unless it may be kept nowhere.
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

    /// What it may keep on its stack now, when it has asked for `need`: no more than it has use for.
    pub(super) fn renew_keep(&mut self, need: usize) {
        let share = self.pool.share_on_stack(self.yields);
        let wanted = share.min(KEEP_BULKS * need.max(self.bulk));
        match self.yields {
            true => self.keep.ask(wanted),
            false if self.gathers => self.keep.ask_for_at_least(self.wanted, wanted),
            false => self.keep.ask_for_at_least(1, wanted),
        }
    }

    /// All that others have sent back; how many.
    pub(super) fn refill_from_mail(&mut self) -> usize {
        let moved = self.mailbox.empty(&mut self.stack, &self.pool, &mut self.counters);
        self.counters.recycled += moved as u64;
        moved
    }

    /// `bulk` from the depot, or more where `need` is; how many.
    pub(super) fn refill_from_depot(&mut self, need: usize, bulk: usize) -> usize {
        let Shared { depot, clock, .. } = &*self.pool.shared;
        let mut depot = self.counters.locks.lock(depot, &**clock);
        let bulk = need.saturating_sub(self.stack.len()).max(bulk).min(depot.len());
        depot.move_to(&mut self.stack, bulk);
        bulk
    }

    /// Keeps at least `need`, and no more than its share of the pool beyond that.
    #[inline]
    pub(super) fn trim(&mut self, need: usize) {
        if self.stack.len() > need + self.keep.frames() {
            self.give_surplus(need);
        }
    }

    /// The oldest buffers, least likely to be in this core's caches, go to the depot; how many.
    #[cold]
    pub(in crate::pool) fn give_surplus(&mut self, need: usize) -> usize {
        let surplus = self.stack.len() - need - self.keep.frames() / 2;
        self.pool.deposit(self.stack.drain(..surplus), &mut self.counters);
        surplus
    }
}
