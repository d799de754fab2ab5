//! Who waits for free buffers, in order of arrival.
//!
//! Assumptions: whoever frees a buffer may be any thread; whoever waits may sleep, be a task, or never come back. Goal: no
//! buffer lies where nobody comes for it while somebody waits, newcomers overtake nobody, and nobody wakes for nothing.
//!
//! The line is under the depot's lock, and this holds whenever that is released: *while anybody is in the line, the depot is
//! empty*. So who comes finds nothing there to overtake with. Buffers that come to the depot are handed by name to the first
//! in the line, into the mailbox of its cache, before it is woken: as many as there are for each that waits, at least one, at
//! most what it wants. Who gives up leaves what it was handed to the next; so does who has not come for it, or has and does not take
//! it, within [`PATIENCE_NS`](super::line::PATIENCE_NS) of the pool's clock while others wait; who comes after all stands in the line
//! anew.
//!
//! While [`PagePool::is_waited_for`], the share of the pool of a sender's cache is 0. What lies in mailboxes is called in by whoever begins
//! to wait; what comes home goes to the line by the owner of the queue that brings it (`tx/queue/lanes/waiter_sink.rs`), once it knows
//! of one who waits there; queues of the same pool that nobody runs are run by whoever waits or serves those who do
//! ([`PagePool::reap_peer_queues`]); what a sender has on its stack and in its return ring it gives up itself, with its next packet
//! (`full_bands`, [`MEMORY_WANTED`](crate::tx::queue::waiters::MEMORY_WANTED)) or before it waits.
//!
//! Out of reach is what lies with a thread that does nothing at all: on its stack, in its return ring, and what it has freed of
//! others', less than a bulk. That is bounded for all of them together (`pool/grant.rs`), whoever came when: a quarter of the pool
//! is always under way, and all who wait have their turns with it. Caches that no sender has keep their share: memory
//! that waits for packets is in use, and what senders wait for may be its coming.
//!
//! (A) pairs with (B): who waits counts itself and then looks what lies in mailboxes; who puts some there notes that and
//! then looks whether anybody waits. One of the two sees the other (loom: `line.rs`).

use super::depot::Depot;
use super::mailbox::Mailbox;
use super::{PageCounters, PagePool, lock};
use crate::host::{self, Wake};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, MutexGuard};
use wharf_mem::{Batch, FreeFrame};

/// What is to be seen of the line without the depot's lock; written under it.
#[derive(Debug)]
pub(super) struct WaitListStatus {
    /// How many wait.
    waited_for: AtomicUsize,
    /// Whether somebody is to be woken.
    has_served: AtomicBool,
    /// See [`super::line::WaitList::due_ns`].
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
    fn show(&self, depot: &Depot) {
        self.waited_for.store(depot.wait_list.waiting.len(), SeqCst);
        self.has_served.store(!depot.wait_list.served.is_empty(), SeqCst);
        self.due_ns.store(depot.wait_list.due_ns(), SeqCst);
    }
}

impl PagePool {
    /// Puts free buffers into the depot, and wakes those whose turn has come.
    pub(super) fn deposit(&self, frames: impl Iterator<Item = FreeFrame>, counters: &mut PageCounters) {
        if self.deposit_quietly(frames, counters) {
            self.wake_served();
        }
    }

    /// As [`PagePool::deposit`], with a [`PagePool::wake_served`] to follow where this says so: not by an owner, who would hold
    /// the queue meanwhile.
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
            depot.recall(now_ns);
            depot.serve_waiters(now_ns);
        }
        self.shared.wait_status.show(depot);
    }

    /// Takes back what was handed to those who do not come for it, where others wait; [`PagePool::wake_served`] is to follow
    /// where [`PagePool::has_served`] then.
    pub(crate) fn recall(&self) {
        let due_ns = self.shared.wait_status.due_ns.load(SeqCst);
        if due_ns != u64::MAX && due_ns <= self.now_ns() {
            self.serve(&mut lock(&self.shared.depot));
        }
    }

    /// Whether anybody waits for free buffers.
    #[inline]
    pub(crate) fn is_waited_for(&self) -> bool {
        self.shared.wait_status.waited_for.load(SeqCst) > 0
    }

    /// The first `count` frames of `batch`, which are this pool's and without rows, to those who wait; `free` is for their way.
    pub(crate) fn give_to_waiters(&self, batch: &mut Batch, free: &mut Vec<FreeFrame>, count: usize) {
        let given = self.shared.region.give(batch, free, count);
        debug_assert!(given.is_ok(), "senders check on entry that frames are this pool's");
        free.iter().for_each(|frame| self.shared.ledger.freed(frame.index()));
        self.deposit_quietly(free.drain(..), &mut PageCounters::default());
    }

    /// Wakes those whose turn has come, one after the other: who is woken may look and leave at once, in this thread.
    #[cold]
    pub(crate) fn wake_served(&self) {
        loop {
            let mut depot = lock(&self.shared.depot);
            let wake = depot.wait_list.served.pop_front();
            self.shared.wait_status.show(&depot);
            drop(depot);
            let Some(wake) = wake else { return };
            host::wake(wake);
        }
    }

    /// Whether [`PagePool::wake_served`] is due.
    pub(crate) fn has_served(&self) -> bool {
        self.shared.wait_status.has_served.load(SeqCst)
    }

    /// Stands in the line for up to `wanted` buffers, which come into `mailbox`; a ticket. Where there are some, they have come
    /// when this returns, and `wake` may not be called.
    pub(super) fn join_wait_list(&self, wanted: usize, mailbox: &Arc<Mailbox>, wake: Arc<dyn Wake>) -> u64 {
        self.join(lock(&self.shared.depot), wanted, mailbox, wake)
    }

    /// As [`PagePool::join_wait_list`], for one who was in it and has not got any: `None` where it still is, or has.
    pub(super) fn rejoin(
        &self, ticket: u64, wanted: usize, mailbox: &Arc<Mailbox>, wake: Arc<dyn Wake>,
    ) -> Option<u64> {
        let mut depot = lock(&self.shared.depot);
        if depot.wait_list.position(ticket).is_some() || mailbox.len() > 0 {
            return None;
        }
        depot.wait_list.leave(ticket);
        depot.wait_list.forget(ticket);
        Some(self.join(depot, wanted, mailbox, wake))
    }

    fn join(
        &self, mut depot: MutexGuard<'_, Depot>, wanted: usize, mailbox: &Arc<Mailbox>, wake: Arc<dyn Wake>,
    ) -> u64 {
        let ticket = depot.wait_list.join(wanted, mailbox.clone(), wake);
        // Counted before anything is handed out, so that mailboxes take no more. (A)
        self.shared.wait_status.show(&depot);
        self.serve(&mut depot);
        let is_served = depot.wait_list.is_empty();
        drop(depot);
        if !is_served && self.shared.mailed.load(SeqCst) > 0 {
            self.call_in();
        }
        ticket
    }

    /// What lies in mailboxes, to whoever waits.
    fn call_in(&self) {
        let mailboxes = lock(&self.shared.mailboxes).clone();
        let mut found = Vec::new();
        mailboxes.iter().for_each(|mailbox| mailbox.call_in(&mut found, self));
        self.deposit(found.into_iter(), &mut PageCounters::default());
    }

    /// How many are before `ticket` in the line; `None` when it has been served.
    pub(crate) fn position_in_wait_list(&self, ticket: u64) -> Option<usize> {
        lock(&self.shared.depot).wait_list.position(ticket)
    }

    /// Ends the wait of `ticket`; what it was handed goes to the next, unless it `keeps` that: then it has its time to take it.
    pub(super) fn leave_wait_list(&self, ticket: u64, mailbox: &Mailbox, keeps: bool) {
        let mut depot = lock(&self.shared.depot);
        let gone = depot.wait_list.leave(ticket);
        if !keeps {
            depot.wait_list.forget(ticket);
            mailbox.recall(ticket, &mut depot);
        }
        self.serve(&mut depot);
        drop(depot);
        // The last end of its wake-up may run a task's: not under the lock.
        drop(gone);
        if self.has_served() {
            self.wake_served();
        }
    }
}
