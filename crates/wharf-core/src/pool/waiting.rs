//! The wait of caches for free buffers, in order of arrival.
//!
//! Any thread may free a buffer; a waiter may be a thread, a task, or never come back. The goal: no buffer lies where
//! no thread comes for it while a cache waits, newcomers overtake no waiter, and each wake-up brings buffers.
//!
//! The wait list lies under the depot's lock. The invariant, whenever that lock is free: *while a cache waits, the
//! depot is empty*. So a newcomer finds nothing to overtake with. Buffers that come to the depot go to the mailboxes
//! of the first waiters, before these are woken: an equal part for each, at least one, at most what it wants. A
//! waiter that gives up leaves its buffers to the next one. So does a waiter that has not taken them within
//! [`PATIENCE_NS`](super::waitlist::PATIENCE_NS) of the pool's clock while others wait; if it comes later, it joins
//! again.
//!
//! While [`PagePool::is_waited_for`], a sender's cache has a share of 0, and buffers come from these places:
//!
//! - mailboxes: a waiter calls their buffers in when it joins;
//! - completions: the owner of a queue that knows of a waiter gives them to the list (`tx/queue/lanes/waiter_sink.rs`);
//! - queues of the same pool that no thread runs: waiters and those that serve them run these
//!   ([`PeerQueues::reap`](super::PeerQueues::reap));
//! - stacks and return rings of senders: each gives up its own, with its next packet (`full_bands`,
//!   [`MEMORY_WANTED`](crate::tx::queue::waiters::MEMORY_WANTED)) or before it waits.
//!
//! Out of reach are the buffers of a thread that does nothing: on its stack, in its return ring, and less than a bulk
//! that it freed for others. `pool/reservation.rs` bounds these for all threads together, so that a quarter of the
//! pool is always on its way and every waiter is served in turn. Caches that belong to no sender keep their share:
//! they receive, and what they receive may be what senders wait for.
//!
//! (A) pairs with (B): a waiter counts itself and then looks into mailboxes; a thread that fills a mailbox notes that
//! and then looks for waiters. One of the two sees the other (loom: `waitlist.rs`).

use super::depot::Depot;
use super::mailbox::Mailbox;
use super::{PageCounters, PagePool};
use crate::host::{self, Wake};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, MutexGuard};
use wharf_mem::{Batch, FreeFrame, lock};

/// A summary of the wait list, read without the depot's lock and written under it.
#[derive(Debug)]
pub(super) struct WaitListStatus {
    /// Caches that wait.
    waited_for: AtomicUsize,
    /// Wake-ups are due.
    has_served: AtomicBool,
    /// See [`super::waitlist::WaitList::due_ns`].
    due_ns: AtomicU64,
}

impl Default for WaitListStatus {
    fn default() -> Self {
        Self {
            waited_for: AtomicUsize::new(0),
            has_served: AtomicBool::new(false),
            due_ns: AtomicU64::new(u64::MAX),
        }
    }
}

impl WaitListStatus {
    fn update(&self, depot: &Depot) {
        self.waited_for.store(depot.wait_list.waiting.len(), SeqCst);
        self.has_served.store(!depot.wait_list.served.is_empty(), SeqCst);
        self.due_ns.store(depot.wait_list.due_ns(), SeqCst);
    }
}

impl PagePool {
    /// Puts free buffers into the depot, and wakes the waiters that it serves.
    pub(super) fn deposit(&self, frames: impl Iterator<Item = FreeFrame>, counters: &mut PageCounters) {
        if self.deposit_quietly(frames, counters) {
            self.wake_served();
        }
    }

    /// Works like [`PagePool::deposit`], without waking. Returns true if [`PagePool::wake_served`] is due: an owner calls
    /// that after it has released its queue.
    fn deposit_quietly(&self, frames: impl Iterator<Item = FreeFrame>, counters: &mut PageCounters) -> bool {
        let mut depot = counters.locks.lock(&self.shared.depot, &*self.shared.clock);
        depot.extend(frames);
        if depot.wait_list.is_empty() {
            return false;
        }
        self.serve(&mut depot);
        true
    }

    fn serve(&self, depot: &mut Depot) {
        if !depot.wait_list.is_empty() && (depot.len() > 0 || depot.wait_list.due_ns() != u64::MAX) {
            let now_ns = self.now_ns();
            depot.recall_due(now_ns);
            depot.serve_waiters(now_ns);
        }
        self.shared.wait_status.update(depot);
    }

    /// Takes overdue deliveries back while others wait. [`PagePool::wake_served`] may be due afterwards.
    pub(crate) fn recall(&self) {
        let due_ns = self.shared.wait_status.due_ns.load(SeqCst);
        if due_ns != u64::MAX && due_ns <= self.now_ns() {
            self.serve(&mut lock(&self.shared.depot));
        }
    }

    /// True if a cache waits for free buffers.
    #[inline]
    pub(crate) fn is_waited_for(&self) -> bool {
        self.waiting_caches() > 0
    }

    /// Returns the number of caches that wait for free buffers.
    #[inline]
    pub(super) fn waiting_caches(&self) -> usize {
        self.shared.wait_status.waited_for.load(SeqCst)
    }

    /// Gives the first `count` frames of `batch`, which are this pool's and without metadata, to waiters, by way of
    /// `free`.
    pub(crate) fn give_to_waiters(&self, batch: &mut Batch, free: &mut Vec<FreeFrame>, count: usize) {
        let given = self.shared.region.give(batch, free, count);
        debug_assert!(given.is_ok(), "senders check on entry that frames are this pool's");
        free.iter().for_each(|frame| self.shared.ledger.freed(frame.index()));
        self.deposit_quietly(free.drain(..), &mut PageCounters::default());
    }

    /// Wakes the waiters that were served, one after the other: a woken task may look and leave at once, in this
    /// thread.
    #[cold]
    pub(crate) fn wake_served(&self) {
        loop {
            let mut depot = lock(&self.shared.depot);
            let wake = depot.wait_list.served.pop_front();
            self.shared.wait_status.update(&depot);
            drop(depot);
            let Some(wake) = wake else { return };
            host::wake(wake);
        }
    }

    /// True if [`PagePool::wake_served`] is due.
    pub(crate) fn has_served(&self) -> bool {
        self.shared.wait_status.has_served.load(SeqCst)
    }

    fn join(
        &self, mut depot: MutexGuard<'_, Depot>, wanted: usize, mailbox: &Arc<Mailbox>, wake: Arc<dyn Wake>,
    ) -> u64 {
        let ticket = depot.wait_list.join(wanted, mailbox.clone(), wake);
        // Counted before buffers are handed out, so that mailboxes take no more. (A)
        self.shared.wait_status.update(&depot);
        self.serve(&mut depot);
        let is_served = depot.wait_list.is_empty();
        drop(depot);
        if !is_served && self.shared.mailed.load(SeqCst) > 0 {
            self.call_in();
        }
        ticket
    }

    /// Gives the buffers in mailboxes to waiters.
    fn call_in(&self) {
        let mailboxes = lock(&self.shared.mailboxes).clone();
        let mut found = Vec::new();
        mailboxes.iter().for_each(|mailbox| mailbox.call_in(&mut found, self));
        self.deposit(found.into_iter(), &mut PageCounters::default());
    }
}

/// A cache's place in the wait list. Its holder calls [`WaitPlace::leave`].
#[derive(Debug)]
pub(crate) struct WaitPlace {
    pool: PagePool,
    mailbox: Arc<Mailbox>,
    ticket: u64,
    wanted: usize,
    wake: Arc<dyn Wake>,
}

impl WaitPlace {
    /// Joins the wait list for up to `wanted` buffers, which come into `mailbox`. Buffers that are there already have
    /// come when this returns, and `wake` may not be called then.
    pub(super) fn join(pool: &PagePool, mailbox: Arc<Mailbox>, wanted: usize, wake: Arc<dyn Wake>) -> Self {
        let ticket = pool.join(lock(&pool.shared.depot), wanted, &mailbox, wake.clone());
        Self { pool: pool.clone(), mailbox, ticket, wanted, wake }
    }

    /// Returns the number of waiters before this one; `None` if it has been served.
    pub(crate) fn before(&self) -> Option<usize> {
        lock(&self.pool.shared.depot).wait_list.position(self.ticket)
    }

    /// Joins the list again if it was served and has lost its buffers to others, having come too late. Returns true
    /// if it did.
    pub(crate) fn rejoin(&mut self) -> bool {
        let mut depot = lock(&self.pool.shared.depot);
        if depot.wait_list.position(self.ticket).is_some() || self.mailbox.len() > 0 {
            return false;
        }
        depot.wait_list.forget(self.ticket);
        self.ticket = self.pool.join(depot, self.wanted, &self.mailbox, self.wake.clone());
        true
    }

    /// The wake-up of this waiter.
    pub(crate) fn wake(&self) -> Arc<dyn Wake> {
        self.wake.clone()
    }

    /// Ends the wait. The buffers that it was handed go to the next waiter, unless it `keeps` them: it then has its
    /// time to take them.
    pub(crate) fn leave(self, keeps: bool) {
        let Self { pool, mailbox, ticket, .. } = self;
        let mut depot = lock(&pool.shared.depot);
        let gone = depot.wait_list.leave(ticket);
        if !keeps {
            depot.wait_list.forget(ticket);
            depot.recall(ticket, &mailbox);
        }
        pool.serve(&mut depot);
        drop(depot);
        // Dropping the last wake-up of a task may run its code: not under the lock.
        drop(gone);
        if pool.has_served() {
            pool.wake_served();
        }
    }
}
