//! `Shared`: the part of a queue that all its threads share: the owner cell, and what they read beside it.
//!
//! No other file reaches into it. `shared/control.rs` has the messages for the owner, `shared/wakers.rs` the
//! threads that are called, `shared/sender_slots.rs` the senders, `shared/ending.rs` the end.

mod control;
mod ending;
mod sender_slots;
mod wakers;

pub(super) use control::AUDIT_TRIES;
pub(crate) use control::{ControlMessage, OWNED_NAP_NS};
pub use wakers::Claimants;

use super::changes::PendingChanges;
use super::sender_settings::SenderSettings;
use super::state::{PollerState, QueueState};
use super::{LOOKS_MAX, QueueError};
use crate::counters::QueueCounters;
use crate::device::{Description, LimitUnit};
use crate::dscp::DscpBands;
use crate::host::{Clock, Park};
use crate::metrics::{Measured, Walk};
use crate::monitor::Monitor;
use crate::pool::{PagePool, PeerQueue};
use crate::tx::engine::TxEngine;
use crate::tx::feeding::Slice;
use crate::tx::owner::Policy;
use crate::tx::queue::lanes::Lanes;
use crate::tx::queue::waiters::Waiters;
use crate::tx::run_observer::RunObserver;
use crate::tx::small_queue::TsqWindow;
use arc_swap::{ArcSwap, Guard};
use sender_slots::SenderSlots;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use wakers::Wakers;
use wharf_mem::OwnerCell;
use wharf_mem::inbox::Inbox;
use wharf_mem::lock;
use wharf_mem::word::DEAD;

/// See the module.
pub(crate) struct Shared {
    setup: Setup,
    cell: OwnerCell<QueueState>,
    counters: Arc<QueueCounters>,
    sender_settings: SenderSettings,
    tsq_window: TsqWindow,
    /// The band of each DSCP, for senders that classify.
    dscp_bands: ArcSwap<DscpBands>,
    /// Bit n: band n is full or waited for; and [`MEMORY_WANTED`](crate::tx::queue::waiters::MEMORY_WANTED).
    full_bands: AtomicU32,
    waiters: Waiters,
    wakers: Wakers,
    /// Checks whether the queue is well.
    monitor: OnceLock<Arc<dyn Monitor>>,
    messages: Inbox<ControlMessage>,
    changes: PendingChanges,
    senders: Mutex<SenderSlots>,
    closed: AtomicBool,
    /// Why it was closed, if its device is of no use any more.
    failure: OnceLock<String>,
}

/// What a queue is made with, and keeps as it is.
pub(crate) struct Setup {
    pub(crate) device: Description,
    /// The device receives, too.
    pub(crate) receives: bool,
    pub(crate) pool: PagePool,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) park: Arc<dyn Park>,
    pub(crate) policy: Policy,
    pub(crate) lane_frames: u32,
    pub(crate) small_queue_bytes: Option<u32>,
    pub(crate) index_start: u32,
    pub(crate) uses_bands: bool,
    pub(crate) limit_unit: LimitUnit,
    /// An observer of the senders' runs.
    pub(crate) run_observer: Option<Arc<dyn RunObserver>>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "TxQueue({}, {:?})", self.setup.device.name, self.cell)
    }
}

impl Shared {
    /// Makes the shared part of a queue with `engine`, and has the pool's other queues know it.
    pub(super) fn new(setup: Setup, engine: TxEngine, counters: Arc<QueueCounters>) -> Arc<Self> {
        let dscp_bands = ArcSwap::from_pointee(engine.qdisc().dscp_bands().into());
        let state = QueueState {
            engine,
            lanes: Lanes::new(setup.pool.clone()),
            waiting: false,
            waited_bands: 0,
            poller: PollerState::None,
            slice: Slice::default(),
            offer_looks: LOOKS_MAX,
            shut: false,
        };
        let shared = Arc::new(Self {
            cell: OwnerCell::new(state),
            sender_settings: SenderSettings::new(setup.small_queue_bytes, setup.uses_bands),
            tsq_window: TsqWindow::new(),
            dscp_bands,
            full_bands: AtomicU32::new(0),
            waiters: Waiters::new(setup.uses_bands, counters.clone()),
            wakers: Wakers::default(),
            monitor: OnceLock::new(),
            messages: Inbox::default(),
            changes: PendingChanges::default(),
            senders: Mutex::default(),
            closed: AtomicBool::new(false),
            failure: OnceLock::new(),
            counters,
            setup,
        });
        let weak = Arc::downgrade(&shared);
        shared.setup.pool.peers().add(weak);
        shared
    }

    /// Returns what the queue was made with.
    #[inline(always)]
    pub(crate) fn setup(&self) -> &Setup {
        &self.setup
    }

    /// Returns the owner cell.
    #[inline(always)]
    pub(crate) fn cell(&self) -> &OwnerCell<QueueState> {
        &self.cell
    }

    #[inline(always)]
    pub(crate) fn counters(&self) -> &QueueCounters {
        &self.counters
    }

    /// Returns the settings that senders put into force themselves.
    #[inline(always)]
    pub(crate) fn sender_settings(&self) -> &SenderSettings {
        &self.sender_settings
    }

    /// Returns the time over which a byte queue limit is shared by small queues.
    pub(crate) fn tsq_window(&self) -> &TsqWindow {
        &self.tsq_window
    }

    #[inline(always)]
    pub(crate) fn waiters(&self) -> &Waiters {
        &self.waiters
    }

    /// Returns the bands that are full or waited for, bit n for band n; and
    /// [`MEMORY_WANTED`](crate::tx::queue::waiters::MEMORY_WANTED).
    #[inline(always)]
    pub(crate) fn full_bands(&self) -> u32 {
        self.full_bands.load(Ordering::Relaxed)
    }

    /// Publishes the bands that are full or waited for.
    #[inline(always)]
    pub(super) fn set_full_bands(&self, full: u32) {
        if self.full_bands() != full {
            self.full_bands.store(full, Ordering::Relaxed);
        }
    }

    /// Returns the band of each DSCP, for senders that classify.
    #[inline(always)]
    pub(crate) fn dscp_bands(&self) -> Guard<Arc<DscpBands>> {
        self.dscp_bands.load()
    }

    pub(super) fn set_dscp_bands(&self, bands: DscpBands) {
        self.dscp_bands.store(Arc::new(bands));
    }

    /// Returns the slots of the senders, and their counters.
    pub(crate) fn senders(&self) -> MutexGuard<'_, SenderSlots> {
        lock(&self.senders)
    }

    /// Returns the monitor that checks whether the queue is well.
    pub(crate) fn monitor(&self) -> Option<&Arc<dyn Monitor>> {
        self.monitor.get()
    }

    /// Has `monitor` hear of the queue. The first one stays.
    pub(super) fn set_monitor(&self, monitor: Arc<dyn Monitor>) {
        if self.monitor.set(monitor.clone()).is_ok() {
            _ = self.counters.listener.set(monitor);
        }
    }

    /// Wakes served senders, and reaps peer queues for memory that others still wait for.
    #[cold]
    pub(crate) fn wake_served(&self) {
        let pool = &self.setup.pool;
        self.waiters.wake_served();
        if pool.has_served() {
            pool.wake_served();
        }
        if pool.is_waited_for() && pool.peers().has_others() {
            pool.peers().reap(Some(self));
        }
    }
}

impl Measured for Shared {
    fn measure(&self, walk: &mut Walk<'_>) {
        let walk = &mut walk.with("queue", &self.setup.device.name);
        self.counters.measure(self.inside(), walk);
        let by_name = self.senders().by_name();
        by_name.iter().for_each(|(name, sum)| sum.each(&mut walk.with("sender", name)));
    }
}

impl Drop for Shared {
    /// Gives the frames of a queue that was not shut down back to their pool. The state of a dead queue may be
    /// half-changed and stays as it is.
    fn drop(&mut self) {
        if self.cell.word() & DEAD != 0 {
            return;
        }
        let QueueState { engine, lanes, shut, .. } = self.cell.get_mut();
        let mut nowhere = Lanes::new(self.setup.pool.clone());
        if !*shut {
            lanes.announce_all();
            engine.drain_unsent(lanes, &mut nowhere);
            engine.close(&mut nowhere);
        }
        // A device that was closed earlier may have given more back since.
        engine.reap(&mut nowhere);
    }
}
