//! `LockedQueue`: a qdisc behind a root lock, and a device behind its own.

use super::entry::Discipline;
use super::runner::Runner;
use super::sender::{LockedCounters, LockedSender};
use super::spin::spin;
use crate::counters::QueueCounters;
use crate::host::{Clock, Park};
use crate::pool::{Audit, PagePool, RETURN_RING_FRAMES, lock};
use crate::qdisc::{RootQdisc, classify};
use crate::tx::engine::TxEngine;
use crate::tx::owner::Policy;
use crate::tx::queue::lanes::{Lane, LaneReturnRing, Lanes};
use crate::tx::queue::{QueueBuilder, QueueError};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use wharf_mem::frame::SENDERS_MAX;
use wharf_mem::lane::lane;
use wharf_mem::return_ring::return_ring;
use wharf_mem::{Batch, Frame};

/// Refused frames that are gathered before they go back to the pool together.
const REFUSED_FRAMES: usize = 64;
/// How long a thread that serves sleeps when there is nothing to do, and one that waits for the end.
const NAP_NS: u64 = 20_000;

/// A transmit queue of the kernel's: senders share it by the discipline `D`.
pub struct LockedQueue<D> {
    shared: Arc<Shared<D>>,
}

impl<D: Discipline> std::fmt::Debug for LockedQueue<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LockedQueue({:?})", self.shared)
    }
}

/// What its threads share.
pub struct Shared<D> {
    pub(super) discipline: D,
    pub(super) root: Mutex<Root>,
    /// Somebody runs the qdisc. Changed under the root lock only.
    pub(super) running: AtomicBool,
    pub(super) back: Mutex<Back>,
    /// Bytes that the device takes now, as who last had it says; 0 where it is stopped, or has left something.
    pub(super) room_bytes: AtomicU64,
    /// Senders leave the qdisc to a thread that serves.
    pub(super) is_served: AtomicBool,
    pub(super) policy: Policy,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) park: Arc<dyn Park>,
    pub(super) log_clock: Option<Arc<dyn Clock>>,
    pub(super) uses_bands: bool,
    pub(super) pool: PagePool,
    counters: Arc<QueueCounters>,
    senders: Mutex<Vec<Arc<LockedCounters>>>,
}

impl<D: Discipline> std::fmt::Debug for Shared<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}({:?})", D::NAME, self.policy)
    }
}

/// Under the root lock.
pub struct Root {
    pub(super) qdisc: RootQdisc,
    /// By place.
    senders: Vec<Arc<LockedCounters>>,
    one: Batch,
    refused: Batch,
    pool: PagePool,
}

impl std::fmt::Debug for Root {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Root({} frames)", self.qdisc.held())
    }
}

/// Under the device's lock. The run's own qdisc is the requeue slot: what the device leaves goes first next time.
pub(super) struct Back {
    pub(super) run: TxEngine,
    /// Where frames go home by: the lanes of these are never used.
    pub(super) homes: Lanes,
}

impl Root {
    /// Puts a frame into the qdisc, or drops it where that is full.
    #[inline]
    pub(super) fn put(&mut self, frame: Frame) {
        if self.qdisc.backpressure().room(classify::band_of(&frame)) == 0 {
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

    fn give_refused(&mut self) {
        let given = self.pool.give_back(&mut self.refused);
        debug_assert!(given.is_ok(), "senders check the pool");
    }
}

impl<D: Discipline> Shared<D> {
    pub(super) fn is_running(&self) -> bool {
        self.running.load(Relaxed)
    }
}

impl<D: Discipline> LockedQueue<D> {
    /// Of what the builder says: pool, device, qdisc, policy, clock. Lanes, waiting and the batching switch are not of this
    /// world.
    ///
    /// # Errors
    /// As [`QueueBuilder::build`].
    pub fn new(builder: QueueBuilder) -> Result<Self, QueueError> {
        let (qdisc, (run, counters, parts)) = builder.into_split_engine()?;
        let pool = parts.pool;
        let root = Root {
            senders: Vec::new(),
            one: Batch::new(1),
            refused: Batch::new(REFUSED_FRAMES),
            pool: pool.clone(),
            qdisc: RootQdisc::new(qdisc, pool.region(), parts.clock.clone()),
        };
        let shared = Shared {
            discipline: D::new(&pool),
            uses_bands: root.qdisc.qdisc().uses_bands(),
            root: Mutex::new(root),
            running: AtomicBool::new(false),
            room_bytes: AtomicU64::new(run.room_bytes()),
            back: Mutex::new(Back { run, homes: Lanes::new(pool.clone()) }),
            is_served: AtomicBool::new(false),
            policy: parts.policy,
            clock: parts.clock,
            park: parts.park,
            log_clock: parts.log_clock,
            pool,
            counters,
            senders: Mutex::new(Vec::new()),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// A sender; `name` is what the ledger calls its memory. SenderSlots of senders that are gone are not used again.
    ///
    /// # Errors
    /// [`QueueError::Senders`], [`QueueError::Pool`].
    pub fn sender(&self, name: &str) -> Result<LockedSender<D>, QueueError> {
        let shared = &self.shared;
        let mut senders = lock(&shared.senders);
        let place = senders.len();
        if place == usize::from(SENDERS_MAX) {
            return Err(QueueError::Senders);
        }
        let counters = Arc::new(LockedCounters::new(shared.log_clock.is_some().then_some(place)));
        let mut cache = shared.pool.cache(name)?;
        let (home_in, home_out) = return_ring(RETURN_RING_FRAMES, 0);
        cache.set_return_ring(home_out, place as u16);
        let unused =
            Lane { frames: lane(2, 0).1, return_ring: Some(LaneReturnRing::new(home_in, &shared.pool)) };
        spin(&shared.back).homes.add(place, unused);
        spin(&shared.root).senders.push(counters.clone());
        senders.push(counters.clone());
        Ok(LockedSender::new(shared.clone(), cache, place, counters))
    }

    /// What the device was given.
    pub fn counters(&self) -> &QueueCounters {
        &self.shared.counters
    }

    /// What each sender has done, in order of their making.
    pub fn senders(&self) -> Vec<Arc<LockedCounters>> {
        lock(&self.shared.senders).clone()
    }

    /// Runs the qdisc for all until `stop`: meanwhile senders only put in.
    pub fn serve(&self, stop: &AtomicBool) {
        let (shared, mut runner) = (&*self.shared, Runner::new(None));
        shared.is_served.store(true, Relaxed);
        while !stop.load(Relaxed) {
            if runner.come(shared) == 0 {
                (0..LOOKS_IDLE).for_each(|_| std::hint::spin_loop());
            }
        }
        shared.is_served.store(false, Relaxed);
        runner.come(shared);
    }

    /// Sends what is inside until `deadline_ns` of the queue's clock; whether all has left.
    pub fn drain(&self, deadline_ns: u64) -> bool {
        let (shared, mut runner) = (&*self.shared, Runner::new(None));
        loop {
            runner.come(shared);
            let inside = spin(&shared.root).qdisc.held();
            let back = spin(&shared.back);
            let pending = inside + back.run.backlog() + back.run.in_device();
            drop(back);
            if pending == 0 && shared.discipline.is_gathered() {
                return true;
            }
            if shared.clock.now_ns() >= deadline_ns {
                return false;
            }
            shared.park.park(NAP_NS);
        }
    }

    /// Gives back what has not been sent, closes the device, and says who holds frames of the pool.
    pub fn close(self) -> Audit {
        let shared = &*self.shared;
        let mut root = spin(&shared.root);
        shared.discipline.gather(&mut root);
        let mut back = spin(&shared.back);
        let Back { run, homes } = &mut *back;
        let mut bulk = Batch::new(crate::tx::engine::BULK_PACKETS_MAX);
        while root.qdisc.purge(&mut bulk) > 0 {
            let given = shared.pool.give_back(&mut bulk);
            debug_assert!(given.is_ok(), "senders check the pool");
        }
        root.give_refused();
        run.drain_unsent(&mut Lanes::new(shared.pool.clone()), homes);
        run.close(homes);
        let mut audit = shared.pool.audit();
        run.visit(&mut |frame, place| audit.found(frame.index(), place));
        audit
    }
}

/// Pauses of a thread that serves and finds nothing.
const LOOKS_IDLE: u32 = 16;
