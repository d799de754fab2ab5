//! `Depot`: the pool's free buffers, from which caches refill and to which they return their surplus. A stack of
//! numbers, until a policy asks for a list through the pages.

use super::mailbox::Mailbox;
use super::waitlist::{Delivery, PATIENCE_NS, WaitList, Waiter};
use std::sync::Arc;
use wharf_mem::{FreeFrame, FreeList, Links};

/// Free buffers and the caches that wait for them. A lock guards both.
#[derive(Debug)]
pub(super) struct Depot {
    stack: Vec<FreeFrame>,
    /// Once there is a list, all buffers go there.
    list: Option<FreeList>,
    /// Caches that wait for buffers.
    pub(super) wait_list: WaitList,
}

impl Depot {
    pub(super) fn new(free: Vec<FreeFrame>) -> Self {
        Self { stack: free, list: None, wait_list: WaitList::default() }
    }

    /// Keeps a list from now on. Returns its links, which other lists of pool number `pool` with `frames` may share.
    pub(super) fn linked(&mut self, pool: u8, frames: u32) -> Arc<Links> {
        if let Some(list) = &self.list {
            return list.links().clone();
        }
        let links = Arc::new(Links::new(pool, frames));
        self.list = Some(FreeList::new(links.clone()));
        let stack = std::mem::take(&mut self.stack);
        self.extend(stack);
        links
    }

    pub(super) fn len(&self) -> usize {
        self.stack.len() + self.list.as_ref().map_or(0, FreeList::len)
    }

    /// Takes the buffer that was put here last.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<FreeFrame> {
        self.list.as_mut().and_then(FreeList::pop_front).or_else(|| self.stack.pop())
    }

    /// Moves `count` buffers, or all if there are fewer, onto `to`.
    pub(super) fn move_to(&mut self, to: &mut Vec<FreeFrame>, count: usize) {
        if self.list.is_none() {
            let left = self.stack.len() - count.min(self.stack.len());
            return to.extend(self.stack.drain(left..));
        }
        to.extend(std::iter::from_fn(|| self.pop()).take(count));
    }

    pub(super) fn extend(&mut self, frames: impl IntoIterator<Item = FreeFrame>) {
        let Some(list) = &mut self.list else { return self.stack.extend(frames) };
        // The list refuses buffers of another pool: they stay on the stack.
        self.stack.extend(frames.into_iter().filter_map(|free| list.push_front(free).err()));
    }

    /// Takes all buffers.
    pub(super) fn empty(&mut self) -> Vec<FreeFrame> {
        let mut all = std::mem::take(&mut self.stack);
        all.extend(self.list.iter_mut().flat_map(|list| std::iter::from_fn(|| list.pop_front())));
        all
    }

    /// Hands buffers to waiters, first come first: an equal part of the depot to each, at least one, at most what it wants.
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
