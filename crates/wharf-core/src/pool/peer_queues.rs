//! `PeerQueues`: the queues that send frames of one pool.
//!
//! A thread that waits for memory on one queue runs the others that have no owner and no poller: their devices may
//! hold the frames that it waits for.

use crate::host;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::sync::{Mutex, Weak};
use wharf_mem::lock;

/// A queue, to those that wait for its pool's memory.
pub(crate) trait PeerQueue: Send + Sync {
    /// Takes completions for waiters, unless the queue has an owner or a poller.
    fn reap_for_waiters(&self);

    /// Returns its frames by place.
    fn inside(&self) -> Inside;
}

/// The frames of a queue by place, as its counters tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Inside {
    /// Frames published by senders, and not taken by the owner.
    pub(crate) lanes: u64,
    /// Frames in the discipline and the requeue slot.
    pub(crate) backlog: u64,
    /// Frames in the device.
    pub(crate) device: u64,
    /// Bytes of frames in the device.
    pub(crate) device_bytes: u64,
}

/// All queues of a pool.
#[derive(Debug, Default)]
pub(crate) struct PeerQueues {
    list: Mutex<Vec<Weak<dyn PeerQueue>>>,
    /// Length of the list when the last queue was added.
    count: AtomicUsize,
    /// A thread is reaping. Reaping a queue may ask for its peers in turn, and would not end.
    reaping: AtomicBool,
}

impl PeerQueues {
    /// Adds a queue.
    pub(crate) fn add(&self, queue: Weak<dyn PeerQueue>) {
        let list = &mut *lock(&self.list);
        list.retain(|other| other.strong_count() > 0);
        list.push(queue);
        self.count.store(list.len(), Relaxed);
    }

    /// True if the pool has queues beside the one that asks.
    pub(crate) fn has_others(&self) -> bool {
        self.count.load(Relaxed) > 1
    }

    /// Takes completions of all queues but `this` that have no owner and no poller.
    #[cold]
    pub(crate) fn reap<Q>(&self, this: Option<&Q>) {
        if self.reaping.swap(true, Acquire) {
            return;
        }
        let this = this.map_or(ptr::null(), |this| ptr::from_ref(this).cast::<()>());
        self.each(|queue| {
            if ptr::from_ref(queue).cast() != this {
                queue.reap_for_waiters();
            }
        });
        self.reaping.store(false, Release);
    }

    /// Calls `work` with each queue.
    #[cold]
    pub(crate) fn each(&self, mut work: impl FnMut(&dyn PeerQueue)) {
        for at in 0.. {
            // Not under the lock: a thread woken by this may add queues, or drop them.
            let Some(queue) = lock(&self.list).get(at).map(Weak::upgrade) else { break };
            if let Some(queue) = queue {
                // A panic of that queue's device, or of its closing, must not end this thread.
                host::outlive(|| work(&*queue));
                host::outlive(move || drop(queue));
            }
        }
    }
}
