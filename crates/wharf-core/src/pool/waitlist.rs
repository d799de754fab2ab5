//! `WaitList`: caches that wait for free buffers, and those that were handed some. It lies under the depot's lock;
//! the protocol is in `pool/waiting.rs`.

use super::mailbox::Mailbox;
use crate::host::Wake;
use std::collections::VecDeque;
use std::sync::Arc;

/// The time that a waiter has to take the buffers handed to it while others wait, ns of the pool's clock. A woken
/// thread needs far less, even on a busy machine.
pub(super) const PATIENCE_NS: u64 = 100_000_000;

/// A cache that waits.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) ticket: u64,
    /// Buffers that it would take now.
    pub(super) wanted: usize,
    pub(super) mailbox: Arc<Mailbox>,
    pub(super) wake: Arc<dyn Wake>,
}

/// A cache that was handed buffers and may not have taken them yet.
#[derive(Debug)]
pub(super) struct Delivery {
    pub(super) ticket: u64,
    /// The time from which other waiters may have the buffers.
    pub(super) due_ns: u64,
    pub(super) mailbox: Arc<Mailbox>,
}

/// Waiters in order of arrival, and deliveries to those served.
#[derive(Debug, Default)]
pub(super) struct WaitList {
    /// In order of tickets.
    pub(super) waiting: VecDeque<Waiter>,
    /// In order of tickets too, since the first waiter is served first.
    pub(super) handed: VecDeque<Delivery>,
    /// Wake-ups of served caches, due outside the lock.
    pub(super) served: VecDeque<Arc<dyn Wake>>,
    next_ticket: u64,
}

impl WaitList {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Adds a waiter at the end. Returns its ticket.
    pub(super) fn join(&mut self, wanted: usize, mailbox: Arc<Mailbox>, wake: Arc<dyn Wake>) -> u64 {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.waiting.push_back(Waiter { ticket, wanted, mailbox, wake });
        ticket
    }

    /// Returns the number of waiters before `ticket`; `None` if it has been served.
    pub(super) fn position(&self, ticket: u64) -> Option<usize> {
        self.waiting.binary_search_by_key(&ticket, |waiting| waiting.ticket).ok()
    }

    /// Removes and returns the waiter of `ticket`, if it has not been served.
    pub(super) fn leave(&mut self, ticket: u64) -> Option<Waiter> {
        self.position(ticket).and_then(|at| self.waiting.remove(at))
    }

    /// Forgets the delivery to `ticket`: the buffers are no longer recalled.
    pub(super) fn forget(&mut self, ticket: u64) {
        if let Ok(at) = self.handed.binary_search_by_key(&ticket, |handed| handed.ticket) {
            self.handed.remove(at);
        }
    }

    /// Returns the time at which the oldest delivery may be recalled; `u64::MAX` without one.
    pub(super) fn due_ns(&self) -> u64 {
        self.handed.front().map_or(u64::MAX, |first| first.due_ns)
    }

    /// Removes and returns the oldest delivery if it may be recalled at `now_ns`.
    pub(super) fn pop_due(&mut self, now_ns: u64) -> Option<Delivery> {
        if self.due_ns() <= now_ns { self.handed.pop_front() } else { None }
    }
}
