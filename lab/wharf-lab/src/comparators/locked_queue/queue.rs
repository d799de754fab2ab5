//! `LockedQueue`: a qdisc behind a root lock, and a device behind its own.

use super::discipline::Discipline;
use super::runner::Runner;
use super::sender::LockedSender;
use super::shared::{DeviceSide, LockedCounters, ReturnRings, Root, Shared, spin};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use wharf_core::counters::QueueCounters;
use wharf_core::device::{Device, TxDevice};
use wharf_core::engine::{BULK_PACKETS_MAX, TxEngine};
use wharf_core::host::{Clock, Park};
use wharf_core::model::RunObserver;
use wharf_core::owner::Policy;
use wharf_core::pool::{Audit, PagePool};
use wharf_core::qdisc::{Fifo, FifoLimit, Qdisc, RootQdisc};
use wharf_core::queue::QueueError;
use wharf_mem::Batch;
use wharf_mem::frame::SENDERS_MAX;
use wharf_mem::return_ring::return_ring;

/// Refused frames that return to the pool together.
const REFUSED_FRAMES: usize = 64;
/// Sleep of an idle server, and of a thread that waits for the end.
const NAP_NS: u64 = 20_000;

/// Frames in a sender's return ring.
const RETURN_RING_FRAMES: u32 = 512;
/// The byte limit's hold time.
const HOLD: Duration = Duration::from_secs(1);

/// The parts of a queue.
pub struct Setup {
    /// The pool of all packets.
    pub pool: PagePool,
    /// The device.
    pub device: Box<dyn TxDevice>,
    /// The qdisc, of one band.
    pub qdisc: Box<dyn Qdisc>,
    /// The queue's clock.
    pub clock: Arc<dyn Clock>,
    /// The way that a thread sleeps.
    pub park: Arc<dyn Park>,
    /// Bounds of one run.
    pub policy: Policy,
    /// An observer of the runs.
    pub observer: Option<Arc<dyn RunObserver>>,
}

/// A transmit queue like the kernel's: senders share it by the discipline `D`.
pub struct LockedQueue<D> {
    shared: Arc<Shared<D>>,
}

impl<D: Discipline> std::fmt::Debug for LockedQueue<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LockedQueue({}, {:?})", D::NAME, self.shared.policy)
    }
}

impl<D: Discipline> LockedQueue<D> {
    /// Creates a queue.
    ///
    /// # Errors
    /// [`QueueError::Device`] if the device cannot use the pool's memory.
    pub fn new(setup: Setup) -> Result<Self, QueueError> {
        let Setup { pool, mut device, qdisc, clock, park, policy, observer } = setup;
        device.attach(pool.region().clone())?;
        let counters = Arc::new(QueueCounters::default());
        let slot = Box::new(Fifo::new(FifoLimit::Packets(2 * BULK_PACKETS_MAX)));
        let engine = TxEngine::new(pool.region(), device.into(), slot, HOLD, clock.clone(), counters.clone());
        let root = Root {
            senders: Vec::new(),
            one: Batch::new(1),
            refused: Batch::new(REFUSED_FRAMES),
            pool: pool.clone(),
            qdisc: RootQdisc::new(qdisc, pool.region(), clock.clone()),
        };
        let shared = Shared {
            discipline: D::new(),
            root: Mutex::new(root),
            running: AtomicBool::new(false),
            room_bytes: AtomicU64::new(engine.room_bytes()),
            back: Mutex::new(DeviceSide { engine, rings: ReturnRings::new(pool.clone()) }),
            is_served: AtomicBool::new(false),
            policy,
            clock,
            park,
            observer,
            pool,
            counters,
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Creates a sender; the ledger calls its memory `name`. Places of former senders are not used again.
    ///
    /// # Errors
    /// [`QueueError::Senders`], [`QueueError::Pool`].
    pub fn sender(&self, name: &str) -> Result<LockedSender<D>, QueueError> {
        let shared = &self.shared;
        let mut root = spin(&shared.root);
        let place = root.senders.len();
        if place == usize::from(SENDERS_MAX) {
            return Err(QueueError::Senders);
        }
        let counters = Arc::new(LockedCounters::default());
        let mut cache = shared.pool.cache(name)?;
        let (ring_in, ring_out) = return_ring(RETURN_RING_FRAMES, 0);
        cache.set_return_ring(ring_out, place as u16);
        spin(&shared.back).rings.add(ring_in);
        root.senders.push(counters.clone());
        Ok(LockedSender::new(shared.clone(), cache, place, counters))
    }

    /// Returns the device's counts.
    pub fn counters(&self) -> &QueueCounters {
        &self.shared.counters
    }

    /// Returns the counts of each sender, in order of their making.
    pub fn senders(&self) -> Vec<Arc<LockedCounters>> {
        spin(&self.shared.root).senders.clone()
    }

    /// Runs the qdisc for all senders until `stop`; meanwhile they only enqueue.
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

    /// Sends all frames inside until `deadline_ns` of the queue's clock. True if all have left.
    pub fn drain(&self, deadline_ns: u64) -> bool {
        let (shared, mut runner) = (&*self.shared, Runner::new(None));
        loop {
            runner.come(shared);
            let inside = spin(&shared.root).qdisc.held();
            let back = spin(&shared.back);
            let pending = inside + back.engine.backlog() + back.engine.in_device();
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

    /// Gives back unsent frames and closes the device. Returns the audit of the pool.
    pub fn close(self) -> Audit {
        let shared = &*self.shared;
        let mut root = spin(&shared.root);
        shared.discipline.gather(&mut root);
        let mut back = spin(&shared.back);
        let DeviceSide { engine, rings } = &mut *back;
        let mut bulk = Batch::new(BULK_PACKETS_MAX);
        while root.qdisc.purge(&mut bulk) > 0 {
            let given = shared.pool.give_back(&mut bulk);
            debug_assert!(given.is_ok(), "senders check the pool");
        }
        root.give_refused();
        // No more frames come.
        engine.drain_unsent(&mut bulk, rings);
        engine.close(rings);
        let mut audit = shared.pool.audit();
        engine.visit(&mut |frame, place| audit.found(frame.index(), place));
        audit
    }
}

/// Pauses of an idle server.
const LOOKS_IDLE: u32 = 16;
