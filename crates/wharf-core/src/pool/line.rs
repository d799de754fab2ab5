//! The line of those who wait for free buffers, and who has had its turn: what lies under the depot's lock. The protocol is
//! in `pool/waiting.rs`.

use super::depot::Depot;
use super::mailbox::Mailbox;
use crate::host::Wake;
use std::collections::VecDeque;
use std::sync::Arc;

/// How long those who were handed buffers have time to come for them, and take them, while others wait, ns of the pool's clock. Far more
/// than a thread that was woken takes, on a busy machine too.
pub(super) const PATIENCE_NS: u64 = 100_000_000;

/// Who stands in the line.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) ticket: u64,
    /// Buffers that it would take now.
    pub(super) wanted: usize,
    pub(super) mailbox: Arc<Mailbox>,
    pub(super) wake: Arc<dyn Wake>,
}

/// Who was handed some, and may not have taken them yet.
#[derive(Debug)]
struct Delivery {
    ticket: u64,
    /// When others may have them.
    due_ns: u64,
    mailbox: Arc<Mailbox>,
}

#[derive(Debug, Default)]
pub(super) struct WaitList {
    /// In order of tickets.
    pub(super) waiting: VecDeque<Waiter>,
    /// In order of tickets, too, since the first is served first.
    handed: VecDeque<Delivery>,
    /// To be woken by whoever served them, or anybody before.
    pub(super) served: VecDeque<Arc<dyn Wake>>,
    next_ticket: u64,
}

impl WaitList {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Who comes, at the end; its ticket.
    pub(super) fn join(&mut self, wanted: usize, mailbox: Arc<Mailbox>, wake: Arc<dyn Wake>) -> u64 {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.waiting.push_back(Waiter { ticket, wanted, mailbox, wake });
        ticket
    }

    /// How many are before `ticket`; `None` when it is not in the line, being served.
    pub(super) fn position(&self, ticket: u64) -> Option<usize> {
        self.waiting.binary_search_by_key(&ticket, |waiting| waiting.ticket).ok()
    }

    /// Ends the wait of `ticket`, which is returned where it was not over.
    pub(super) fn leave(&mut self, ticket: u64) -> Option<Waiter> {
        self.position(ticket).and_then(|at| self.waiting.remove(at))
    }

    /// What `ticket` was handed is nothing to wait for any more.
    pub(super) fn forget(&mut self, ticket: u64) {
        if let Ok(at) = self.handed.binary_search_by_key(&ticket, |handed| handed.ticket) {
            self.handed.remove(at);
        }
    }

    /// When somebody is due to have taken what it was handed; `u64::MAX` for nobody.
    pub(super) fn due_ns(&self) -> u64 {
        self.handed.front().map_or(u64::MAX, |first| first.due_ns)
    }
}

impl Depot {
    /// Hands what there is to those who wait, first come first.
    #[cold]
    pub(super) fn serve_waiters(&mut self, now_ns: u64) {
        while let (free @ 1.., waiting @ 1..) = (self.len(), self.wait_list.waiting.len()) {
            let Some(Waiter { ticket, wanted, mailbox, wake }) = self.wait_list.waiting.pop_front() else {
                return;
            };
            let count = (free / waiting).clamp(1, wanted.max(1));
            // Where its cache is gone it waits for nothing any more.
            if mailbox.hand(ticket, std::iter::from_fn(|| self.pop()).take(count)) {
                let due_ns = now_ns.saturating_add(PATIENCE_NS);
                self.wait_list.handed.push_back(Delivery { ticket, due_ns, mailbox });
            }
            // In that case, too: the last end of a wake-up may run a task's, and not under the lock.
            self.wait_list.served.push_back(wake);
        }
    }

    /// Takes back what was handed, a good while ago, to those who have not taken it, whether they have come for it or not.
    #[cold]
    pub(super) fn recall(&mut self, now_ns: u64) {
        while self.wait_list.due_ns() <= now_ns {
            let Some(late) = self.wait_list.handed.pop_front() else { return };
            late.mailbox.recall(late.ticket, self);
        }
    }
}
