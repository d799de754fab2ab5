//! `Depot`: the pool's free buffers, a stack from which caches refill and to which they return their surplus.

use super::mailbox::Mailbox;
use super::waitlist::{Delivery, PATIENCE_NS, WaitList, Waiter};
use wharf_mem::FreeFrame;

/// Free buffers and the caches that wait for them. A lock guards both.
#[derive(Debug)]
pub(super) struct Depot {
    stack: Vec<FreeFrame>,
    /// Caches that wait for buffers.
    pub(super) wait_list: WaitList,
}

impl Depot {
    pub(super) fn new(free: Vec<FreeFrame>) -> Self {
        Self { stack: free, wait_list: WaitList::default() }
    }

    pub(super) fn len(&self) -> usize {
        self.stack.len()
    }

    /// Takes the buffer that was put here last.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<FreeFrame> {
        self.stack.pop()
    }

    /// Moves `count` buffers, or all if there are fewer, onto `to`.
    pub(super) fn move_to(&mut self, to: &mut Vec<FreeFrame>, count: usize) {
        let left = self.stack.len() - count.min(self.stack.len());
        to.extend(self.stack.drain(left..));
    }

    pub(super) fn extend(&mut self, frames: impl IntoIterator<Item = FreeFrame>) {
        self.stack.extend(frames);
    }

    /// Takes all buffers.
    pub(super) fn empty(&mut self) -> Vec<FreeFrame> {
        std::mem::take(&mut self.stack)
    }

    /// Hands buffers to waiters, first come first: an equal part of the depot to each, at least one, at most what it
    /// wants.
    #[cold]
    pub(super) fn serve_waiters(&mut self, now_ns: u64) {
        while let (free @ 1.., waiting @ 1..) = (self.len(), self.wait_list.waiting.len()) {
            let Some(Waiter { ticket, wanted, mailbox, wake }) = self.wait_list.waiting.pop_front() else {
                return;
            };
            let count = (free / waiting).clamp(1, wanted.max(1));
            // A cache that is gone no longer waits.
            if mailbox.hand(ticket, std::iter::from_fn(|| self.pop()).take(count)) {
                let due_ns = now_ns.saturating_add(PATIENCE_NS);
                self.wait_list.handed.push_back(Delivery { ticket, due_ns, mailbox });
            }
            // In that case too: dropping the last wake-up of a task may run its code, not to be done under the lock.
            self.wait_list.served.push_back(wake);
        }
    }

    /// Takes back the buffers of deliveries that are overdue at `now_ns`.
    #[cold]
    pub(super) fn recall_due(&mut self, now_ns: u64) {
        while let Some(late) = self.wait_list.pop_due(now_ns) {
            self.recall(late.ticket, &late.mailbox);
        }
    }

    /// Takes back the buffers that `mailbox` was handed for `ticket`, unless it has been handed more since.
    pub(super) fn recall(&mut self, ticket: u64, mailbox: &Mailbox) {
        mailbox.recall(ticket, |frames| self.extend(frames));
    }
}
