//! The state that the threads of a locked queue share.

use super::return_rings::ReturnRings;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use wharf_core::counters::{Counter, QueueCounters};
use wharf_core::engine::TxEngine;
use wharf_core::host::{Clock, Park};
use wharf_core::owner::Policy;
use wharf_core::pool::PagePool;
use wharf_core::qdisc::RootQdisc;
use wharf_core::run_observer::RunObserver;
use wharf_mem::{Batch, Frame};
/// The counts of one sender.
#[derive(Debug, Default)]
pub struct LockedCounters {
    /// Frames offered.
    pub offered: Counter,
    /// Offered frames that the qdisc dropped.
    pub drops: Counter,
    /// Offered frames refused before they came to the qdisc.
    pub refused: Counter,
    /// Frames that it handed to the device as runner, from all senders.
    pub drained_packets: Counter,
}

impl LockedCounters {
    /// Returns the frames offered and not taken.
    pub fn dropped(&self) -> u64 {
        self.drops.get() + self.refused.get()
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
    pub(super) senders: Mutex<Vec<Arc<LockedCounters>>>,
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
