//! Who waits for free buffers, in order of arrival.
//!
//! Assumptions: whoever frees a buffer may be any thread; whoever waits may sleep, be a task, or never come back. Goal: no
//! buffer lies where nobody comes for it while somebody waits, newcomers overtake nobody, and nobody wakes for nothing.
//!
//! The line is under the depot's lock, and this holds whenever that is released: *while anybody is in the line, the depot is
//! empty*. So who comes finds nothing there to overtake with. Buffers that come to the depot are handed by name to the first
//! in the line, into the mailbox of its cache, before it is woken: as many as there are for each that waits, at least one, at
//! most what it wants. Who gives up leaves what it was handed to the next.
//!
//! While [`PagePool::is_waited_for`], the share of the pool of a sender's cache is 0. What lies in mailboxes is called in by whoever begins
//! to wait; what comes home goes to the line by the owner of the queue that brings it (`lanes/for_waiters.rs`), once it knows
//! of one who waits there; what a sender has on its stack and in its home ring it gives up itself, with its next packet
//! (`full_bands`, [`MEMORY_WANTED`](crate::wait::MEMORY_WANTED)) or before it waits. What a thread that does nothing at all
//! has on its stack is out of reach: at most its share when it was last refilled, and twice what it has ever had in use at once; so
//! is what came home to its home ring before anybody waited, at most its limit there, and what it has freed of others', less
//! than a bulk. Nor does anybody look for memory that lies in the device of another queue that nobody runs. Caches that no sender
//! has keep their share: memory that waits for packets is in use, and what senders wait for may be its coming.
//!
//! (A) pairs with (B): who waits counts itself and then looks what lies in mailboxes; who puts some there notes that and
//! then looks whether anybody waits. One of the two sees the other.

use super::depot::Depot;
use super::mailbox::Mailbox;
use super::{PageCounters, PagePool, lock};
use crate::host::{self, Wake};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use wharf_mem::{Batch, FreeFrame};

/// Who stands in the line.
#[derive(Debug)]
struct Waiting {
    ticket: u64,
    /// Buffers that it would take now.
    wanted: usize,
    mailbox: Arc<Mailbox>,
    wake: Arc<dyn Wake>,
}

/// The line, and who has had its turn.
#[derive(Debug, Default)]
pub(super) struct Line {
    waiting: VecDeque<Waiting>,
    /// To be woken by whoever served them, or anybody before.
    served: VecDeque<Arc<dyn Wake>>,
    next_ticket: u64,
}

impl Line {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    fn position(&self, ticket: u64) -> Option<usize> {
        self.waiting.binary_search_by_key(&ticket, |waiting| waiting.ticket).ok()
    }
}

impl Depot {
    /// Hands what there is to those who wait, first come first.
    #[cold]
    pub(super) fn serve_line(&mut self) {
        while let (free @ 1.., waiting @ 1..) = (self.len(), self.line.waiting.len()) {
            let Some(first) = self.line.waiting.pop_front() else { return };
            let count = (free / waiting).clamp(1, first.wanted.max(1));
            let handed = std::iter::from_fn(|| self.pop()).take(count).collect();
            if let Err(refused) = first.mailbox.hand(handed) {
                // Its cache is gone: it waits for nothing any more.
                self.extend(refused);
            }
            // In that case, too: the last end of a wake-up may run a task's, and not under the lock.
            self.line.served.push_back(first.wake);
        }
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
        if depot.line.is_empty() {
            return false;
        }
        self.serve(&mut depot);
        true
    }

    fn serve(&self, depot: &mut Depot) {
        depot.serve_line();
        self.shared.waited_for.store(depot.line.waiting.len(), SeqCst);
    }

    /// Whether anybody waits for free buffers.
    #[inline]
    pub(crate) fn is_waited_for(&self) -> bool {
        self.shared.waited_for.load(SeqCst) > 0
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
            let Some(wake) = lock(&self.shared.depot).line.served.pop_front() else { return };
            host::wake(wake);
        }
    }

    /// Whether [`PagePool::wake_served`] is due.
    pub(crate) fn has_served(&self) -> bool {
        !lock(&self.shared.depot).line.served.is_empty()
    }

    /// Stands in the line for up to `wanted` buffers, which come into `mailbox`; a ticket. Where there are some, they have come
    /// when this returns, and `wake` may not be called.
    pub(super) fn stand_in_line(&self, wanted: usize, mailbox: &Arc<Mailbox>, wake: Arc<dyn Wake>) -> u64 {
        let mut depot = lock(&self.shared.depot);
        let ticket = depot.line.next_ticket;
        depot.line.next_ticket += 1;
        depot.line.waiting.push_back(Waiting { ticket, wanted, mailbox: mailbox.clone(), wake });
        // Counted before anything is handed out, so that mailboxes take no more. (A)
        self.shared.waited_for.store(depot.line.waiting.len(), SeqCst);
        self.serve(&mut depot);
        let is_served = depot.line.is_empty();
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
    pub(crate) fn before_in_line(&self, ticket: u64) -> Option<usize> {
        lock(&self.shared.depot).line.position(ticket)
    }

    /// Ends the wait of `ticket`; what it was handed goes to the next, unless it `keeps` that.
    pub(super) fn leave_line(&self, ticket: u64, mailbox: &Mailbox, keeps: bool) {
        let mut depot = lock(&self.shared.depot);
        let gone = depot.line.position(ticket).and_then(|at| depot.line.waiting.remove(at));
        self.shared.waited_for.store(depot.line.waiting.len(), SeqCst);
        drop(depot);
        if gone.is_none() && !keeps {
            let mut handed = Vec::new();
            mailbox.take_handed(&mut handed);
            self.deposit(handed.into_iter(), &mut PageCounters::default());
        }
        // The last end of its wake-up may run a task's: not under the lock.
        drop(gone);
    }
}
