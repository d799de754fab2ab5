//! What a cache does for those who wait for memory, and when its own thread does.

use super::{Cache, Mailbox};
use crate::host::Wake;
use crate::pool::PagePool;
use crate::pool::ledger::Ledger;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Cache {
    /// Gives up what it has free where somebody waits for memory.
    #[inline]
    pub(crate) fn release_cached_if_wanted(&mut self) {
        if self.yields && self.pool.is_waited_for() {
            self.release_cached();
        }
    }

    /// What there is now it has waited for in its turn: it is not to give that up in place of taking it.
    pub(crate) fn keep_granted(&mut self) {
        self.stamp = Ledger::stamp(self.number, self.pool.now_ns());
        self.clock_due = 1;
    }

    /// Gives all that it has free to whoever waits: somebody does, or its thread is about to.
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

    /// Stands in the line of those who wait, for as much as was asked for last, until [`WaitPlace::leave`].
    pub(crate) fn join_wait_list(&mut self, wake: Arc<dyn Wake>) -> WaitPlace {
        if !self.stash.is_empty() {
            self.pool.settle_with(&mut self.stash, &mut self.directory, &mut self.counters);
        }
        let (wanted, mailbox) = (self.wanted, self.mailbox.clone());
        let ticket = self.pool.join_wait_list(wanted, &mailbox, wake.clone());
        WaitPlace { pool: self.pool.clone(), mailbox, ticket, wanted, wake }
    }

    /// Whether what it gets in the line is to be kept until it is enough. One cache of a pool at a time does so: two that keep
    /// a part each would wait for each other. Another gives up what is more than its share.
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

/// A place in the line of those who wait for free buffers. It is to be left.
#[derive(Debug)]
pub(crate) struct WaitPlace {
    pool: PagePool,
    mailbox: Arc<Mailbox>,
    ticket: u64,
    wanted: usize,
    wake: Arc<dyn Wake>,
}

impl WaitPlace {
    /// How many are before it; `None` when it has been served.
    pub(crate) fn before(&self) -> Option<usize> {
        self.pool.position_in_wait_list(self.ticket)
    }

    /// Stands at the end of the line, if it is in it no longer and has nothing: others have it, since it did not come for it. Whether
    /// it does.
    pub(crate) fn rejoin(&mut self) -> bool {
        let again = self.pool.rejoin(self.ticket, self.wanted, &self.mailbox, self.wake.clone());
        self.ticket = again.unwrap_or(self.ticket);
        again.is_some()
    }

    /// What it is woken by.
    pub(crate) fn wake(&self) -> Arc<dyn Wake> {
        self.wake.clone()
    }

    /// Ends the wait; what it was handed goes to the next, unless it `keeps` that.
    pub(crate) fn leave(self, keeps: bool) {
        self.pool.leave_wait_list(self.ticket, &self.mailbox, keeps);
    }
}
