//! The state that the threads of a locked queue share, with its spin lock, and the rings by which completed
//! frames return to their senders.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use wharf_core::counters::{QueueCounters, Tally};
use wharf_core::engine::{Sink, TxEngine};
use wharf_core::host::{Clock, Park};
use wharf_core::model::RunObserver;
use wharf_core::owner::Policy;
use wharf_core::pool::PagePool;
use wharf_core::qdisc::RootQdisc;
use wharf_mem::return_ring::{ReturnConsumer, ReturnProducer};
use wharf_mem::{Batch, Frame};

/// The counts of one sender.
#[derive(Debug, Default)]
pub struct LockedCounters {
    /// Frames offered.
    pub offered: Tally,
    /// Offered frames that the qdisc dropped.
    pub drops: Tally,
    /// Offered frames refused before they came to the qdisc.
    pub refused: Tally,
    /// Frames that it handed to the device as runner, from all senders.
    pub drained_packets: Tally,
}

impl LockedCounters {
    /// Returns the frames offered and not taken.
    pub fn dropped(&self) -> u64 {
        self.drops.get() + self.refused.get()
    }

    /// Returns the frames offered and taken.
    pub fn taken(&self) -> u64 {
        self.offered.get().saturating_sub(self.dropped())
    }
}

/// The state that its threads share.
pub struct Shared<D> {
    pub(super) discipline: D,
    pub(super) root: Mutex<Root>,
    /// True while a thread runs the qdisc. Changed under the root lock only.
    pub(super) running: AtomicBool,
    pub(super) back: Mutex<DeviceSide>,
    /// Bytes that the device takes now, noted by its last user; 0 if it is stopped or has left frames.
    pub(super) room_bytes: AtomicU64,
    /// True while senders leave the qdisc to a thread that serves.
    pub(super) is_served: AtomicBool,
    pub(super) policy: Policy,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) park: Arc<dyn Park>,
    pub(super) observer: Option<Arc<dyn RunObserver>>,
    pub(super) pool: PagePool,
    pub(super) counters: Arc<QueueCounters>,
}

/// The state under the root lock.
pub struct Root {
    pub(super) qdisc: RootQdisc,
    /// By the sender's place.
    pub(super) senders: Vec<Arc<LockedCounters>>,
    pub(super) one: Batch,
    pub(super) refused: Batch,
    pub(super) pool: PagePool,
}

impl std::fmt::Debug for Root {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Root({} frames)", self.qdisc.held())
    }
}

/// The state under the device's lock. The engine's own qdisc is the requeue slot: frames that the device
/// leaves go first next time.
pub(super) struct DeviceSide {
    pub(super) engine: TxEngine,
    pub(super) rings: ReturnRings,
}

impl Root {
    /// Puts a frame into the qdisc, or drops it if that is full.
    #[inline]
    pub(super) fn put(&mut self, frame: Frame) {
        if self.qdisc.backpressure().room(0) == 0 {
            return self.refuse(frame);
        }
        let pushed = self.one.push(frame);
        debug_assert!(pushed.is_ok(), "it was empty");
        self.qdisc.enqueue(&mut self.one);
        debug_assert!(self.one.is_empty(), "there is room");
    }

    fn refuse(&mut self, frame: Frame) {
        if let Some(counters) = self.senders.get(usize::from(frame.sender())) {
            counters.drops.add(1);
        }
        let pushed = self.refused.push(frame);
        debug_assert!(pushed.is_ok(), "emptied when it was full");
        if self.refused.room() == 0 {
            self.give_refused();
        }
    }

    pub(super) fn give_refused(&mut self) {
        let given = self.pool.give_back(&mut self.refused);
        debug_assert!(given.is_ok(), "senders check the pool");
    }
}

impl<D> Shared<D> {
    pub(super) fn is_running(&self) -> bool {
        self.running.load(Relaxed)
    }
}

/// A ring for each sender, by its place.
pub(super) struct ReturnRings {
    rings: Vec<Option<ReturnProducer>>,
    pool: PagePool,
}

impl ReturnRings {
    pub(super) fn new(pool: PagePool) -> Self {
        Self { rings: Vec::new(), pool }
    }

    /// Adds the ring of the next sender. All rings together hold at most half of the pool's frames.
    pub(super) fn add(&mut self, ring: ReturnProducer) {
        self.rings.push(Some(ring));
        let share = self.pool.frames() / 2 / self.rings.len() as u32;
        self.rings.iter_mut().flatten().for_each(|ring| ring.set_limit(share));
    }

    /// Removes the ring of the sender at `place`, which has left `out`, and gives its frames back to the
    /// pool.
    pub(super) fn remove(&mut self, place: usize, mut out: ReturnConsumer) {
        self.rings[place] = None;
        let mut free = Vec::new();
        out.pop(&mut free, usize::MAX);
        self.pool.settle(&mut free);
    }
}

impl Sink for ReturnRings {
    fn recycle(&mut self, done: &mut Batch) {
        while let Some(first) = done.frames().first() {
            let (place, (count, _)) = (usize::from(first.sender()), done.run_of_sender());
            let ring = self.rings.get_mut(place).and_then(Option::as_mut);
            let pushed = ring.map_or(0, |ring| ring.push(done, count));
            if pushed < count {
                let mut rest = Batch::new(count - pushed);
                rest.append(done, count - pushed);
                let given = self.pool.give_back(&mut rest);
                debug_assert!(given.is_ok(), "senders check the pool");
            }
        }
    }
}

/// Tries before a thread sleeps for the lock: some tens of microseconds, far longer than a running thread
/// holds any.
const SPINS: u32 = 2000;

/// Takes the lock, also after a panic of its holder: the device is gone for all threads then.
#[inline]
pub(super) fn spin<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    match mutex.try_lock() {
        Ok(guard) => guard,
        Err(_) => wait(mutex),
    }
}

#[cold]
fn wait<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    for _ in 0..SPINS {
        match mutex.try_lock() {
            Ok(guard) => return guard,
            Err(TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => std::hint::spin_loop(),
        }
    }
    wharf_mem::lock(mutex)
}
