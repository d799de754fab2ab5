//! What a cache does for those who wait for memory, and when its own thread does.

use super::{Cache, Mailbox};
use crate::host::Wake;
use crate::pool::PagePool;
use std::sync::Arc;
use std::sync::atomic::Ordering;

impl Cache {
    /// Whether it keeps nothing while somebody waits: as senders do.
    #[inline]
    pub(super) fn gives_up(&self) -> bool {
        self.home.0.is_some()
    }

    /// Gives all that it has free to whoever waits: somebody does, or its thread is about to.
    #[cold]
    pub(crate) fn give_up(&mut self) {
        (self.keep, self.bulk) = (0, 1);
        if let Some(home) = &mut self.home.0 {
            let ledger = &self.pool.shared.ledger;
            home.pop_noting(&mut self.stack, usize::MAX, |index| ledger.freed(index));
        }
        if !self.stash.is_empty() {
            self.pool.settle_with(&mut self.stash, &mut self.directory, &mut self.counters);
        }
        if !self.stack.is_empty() {
            self.pool.deposit(self.stack.drain(..), &mut self.counters);
        }
    }

    /// Stands in the line of those who wait, for as much as was asked for last, until [`Place::leave`].
    pub(crate) fn stand_in_line(&mut self, wake: Arc<dyn Wake>) -> Place {
        if !self.stash.is_empty() {
            self.pool.settle_with(&mut self.stash, &mut self.directory, &mut self.counters);
        }
        let ticket = self.pool.stand_in_line(self.wanted, &self.mailbox, wake);
        Place { pool: self.pool.clone(), mailbox: self.mailbox.clone(), ticket }
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
            self.keep = self.share();
            self.trim(0);
        }
    }
}

/// A place in the line of those who wait for free buffers. It is to be left.
#[derive(Debug)]
pub(crate) struct Place {
    pool: PagePool,
    mailbox: Arc<Mailbox>,
    ticket: u64,
}

impl Place {
    /// How many are before it; `None` when it has been served.
    pub(crate) fn before(&self) -> Option<usize> {
        self.pool.before_in_line(self.ticket)
    }

    /// Ends the wait; what it was handed goes to the next, unless it `keeps` that.
    pub(crate) fn leave(self, keeps: bool) {
        self.pool.leave_line(self.ticket, &self.mailbox, keeps);
    }
}
