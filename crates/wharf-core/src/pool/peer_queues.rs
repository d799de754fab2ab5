//! The queues that send a pool's frames: whoever waits for memory looks after those that nobody runs, since it may lie in their
//! devices.

use super::{PagePool, lock};
use crate::host;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::sync::{Arc, Mutex, Weak};

/// A queue, to those who wait for its pool's memory.
pub(crate) trait PeerQueue: Send + Sync {
    /// Takes completions for those who wait, unless somebody else is at it or looks after it.
    fn reap_for_waiters(&self);
}

/// All queues of a pool.
#[derive(Debug, Default)]
pub(super) struct PeerQueues {
    list: Mutex<Vec<Weak<dyn PeerQueue>>>,
    /// How many there were when one was last made.
    count: AtomicUsize,
    /// Somebody is at it: it leads from one queue to the next, and would go round.
    reaping: AtomicBool,
}

impl PagePool {
    /// There is one more queue.
    pub(crate) fn enlist(&self, queue: Weak<dyn PeerQueue>) {
        let PeerQueues { list, count, .. } = &self.shared.peer_queues;
        let list = &mut *lock(list);
        list.retain(|other| other.strong_count() > 0);
        list.push(queue);
        count.store(list.len(), Relaxed);
    }

    /// Whether there are queues beside the one that asks.
    pub(crate) fn has_peer_queues(&self) -> bool {
        self.shared.peer_queues.count.load(Relaxed) > 1
    }

    /// Takes completions of all queues but `this`, where nobody looks after them.
    #[cold]
    pub(crate) fn reap_peer_queues<Q>(&self, this: Option<&Q>) {
        let PeerQueues { list, reaping, .. } = &self.shared.peer_queues;
        if reaping.swap(true, Acquire) {
            return;
        }
        let this = this.map_or(ptr::null(), |this| ptr::from_ref(this).cast::<()>());
        for at in 0.. {
            // Not under the lock: its waking may make queues, or end them.
            let Some(queue) = lock(list).get(at).map(Weak::upgrade) else { break };
            if let Some(queue) = queue.filter(|queue| Arc::as_ptr(queue).cast() != this) {
                // It is no end of ours if its device panics, or its closing does.
                host::outlive(move || queue.reap_for_waiters());
            }
        }
        reaping.store(false, Release);
    }
}
