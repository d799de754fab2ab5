//! Threads that wait for free buffers, wherever those come from.
//!
//! Whoever waits registers, looks once more at depot and mailbox (under their locks), and sleeps; whoever puts
//! buffers there does so under the lock and looks at the count afterwards. One of the two sees the other.

use super::lock;
use crate::host::{self, Wake};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

#[derive(Debug, Default)]
pub(super) struct WaitingForFrames {
    count: AtomicUsize,
    next_ticket: AtomicU64,
    list: Mutex<Vec<(u64, Arc<dyn Wake>)>>,
}

impl WaitingForFrames {
    pub(super) fn register(&self, wake: Arc<dyn Wake>) -> u64 {
        let ticket = self.next_ticket.fetch_add(1, SeqCst);
        let mut list = lock(&self.list);
        list.push((ticket, wake));
        self.count.store(list.len(), SeqCst);
        ticket
    }

    pub(super) fn is_any(&self) -> bool {
        self.count.load(SeqCst) > 0
    }

    pub(super) fn cancel(&self, ticket: u64) {
        let mut list = lock(&self.list);
        let gone = list.iter().position(|entry| entry.0 == ticket).map(|at| list.remove(at));
        self.count.store(list.len(), SeqCst);
        // Its last end may run a task's: not under the lock.
        drop(list);
        drop(gone);
    }

    /// Not under the lock: who is woken may look and leave at once, in this thread.
    #[cold]
    fn wake_listed(&self) {
        let wakes: Vec<_> = lock(&self.list).iter().map(|entry| entry.1.clone()).collect();
        wakes.into_iter().for_each(|one| {
            host::wake(one);
        });
    }

    /// Wakes all: they look for themselves, and those who find nothing wait on.
    pub(super) fn wake_all(&self) {
        if self.count.load(SeqCst) > 0 {
            self.wake_listed();
        }
    }
}
