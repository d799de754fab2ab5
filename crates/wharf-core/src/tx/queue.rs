//! `TxQueue`: one transmit queue of a device, and the senders that share it.
//!
//! Its inside (the `TxEngine` and the owner's ends of all lanes) lies in an `OwnerCell`: whichever thread becomes
//! the owner works on it, for itself and for others, and leaves. What changes it from outside (a new sender,
//! another setting) is a control message that the owner carries out, so that the hot path looks at nothing
//! but the owner word.

mod build;
mod error;
pub(crate) mod lanes;
mod observed;
mod qdisc_run;
mod sender_slots;
mod shared;
mod state;
pub(crate) mod waiters;

pub use build::QueueBuilder;
pub use error::QueueError;
pub use qdisc_run::QdiscRun;
pub(crate) use qdisc_run::{LOOKS_MAX, OwnerKind, Wakeups, before_release, handle_pending};
pub(crate) use shared::{ControlMessage, Shared};
pub(crate) use state::{OwnCache, PassOutcome, PollerState, QueueState};

use crate::bql::Bounds;
use crate::counters::{QueueCounters, SenderCounters};
use crate::device::Signals;
use crate::pool::{Audit, Holder, PagePool, lock};
use crate::tx::engine::{Batching, TxEngine};
use crate::tx::sender::Sender;
use shared::{AUDIT_TRIES, OWNED_NAP_NS};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use wharf_mem::Published;

/// A transmit queue. Cloning gives another handle to the same queue.
#[derive(Debug, Clone)]
pub struct TxQueue {
    pub(crate) shared: Arc<Shared>,
}

impl TxQueue {
    /// A sender of this queue; `name` is what the ledger calls its memory.
    ///
    /// # Errors
    /// [`QueueError::Senders`], [`QueueError::Pool`], [`QueueError::Closed`].
    pub fn sender(&self, name: &str) -> Result<Sender, QueueError> {
        if self.shared.closed.load(Ordering::Acquire) {
            return Err(QueueError::Closed);
        }
        let at = lock(&self.shared.senders).take()?;
        let counters = Arc::new(SenderCounters::default());
        lock(&self.shared.senders).keep(&counters);
        let made = Sender::new(&self.shared, at, name, counters);
        let (sender, lane) = made.inspect_err(|_| lock(&self.shared.senders).give_back(at))?;
        self.shared.control(ControlMessage::Add(at, lane));
        Ok(sender)
    }

    /// Sets the batching switch, under traffic if need be.
    pub fn set_batching(&self, batching: Batching) {
        self.shared.control(ControlMessage::SetBatching(batching));
    }

    /// Bounds the byte limit, under traffic if need be: in force from the next completion.
    pub fn set_byte_limits(&self, bounds: Bounds) {
        self.apply(move |run| run.set_byte_limits(bounds));
    }

    /// Runs `change` on the queue's inside as its owner, between two bulks.
    pub fn apply(&self, change: impl FnOnce(&mut TxEngine) + Send + 'static) {
        self.shared.control(ControlMessage::Apply(Box::new(change)));
    }

    /// How its device works on this machine: see [`Device::mode`](crate::device::Device::mode).
    pub fn device_mode(&self) -> Option<&'static str> {
        self.shared.mode
    }

    /// What the queue has done.
    pub fn counters(&self) -> &QueueCounters {
        &self.shared.counters
    }

    /// What each sender has done, in order of their making: of all that live, and of the last thousand that are
    /// gone.
    pub fn senders(&self) -> Vec<Arc<SenderCounters>> {
        lock(&self.shared.senders).counters().to_vec()
    }

    /// What those senders have done together that [`TxQueue::senders`] no longer names.
    pub fn past_senders(&self) -> SenderCounters {
        lock(&self.shared.senders).past()
    }

    /// The pool that its frames come from.
    pub fn pool(&self) -> &PagePool {
        &self.shared.pool
    }

    /// What its device counts of notifications, if it does: see [`Device::signals`](crate::device::Device::signals).
    pub fn signals(&self) -> Option<Signals> {
        let mut signals = None;
        self.shared.look_at_device(|device| signals = device.signals());
        signals
    }

    /// Becomes the owner, if there is none, and does what there is to do.
    pub fn poll(&self) {
        if let Published::Owner(owned) = self.shared.cell.claim(0) {
            QdiscRun::new(&self.shared, owned, 0).finish();
        }
    }

    /// As [`TxQueue::poll`], for somebody who waits for what has left.
    pub(crate) fn poll_for_memory(&self) {
        if let Published::Owner(owned) = self.shared.cell.claim(0) {
            let mut run = QdiscRun::new(&self.shared, owned, 0);
            run.look(|state| state.engine.force_completion());
            run.finish();
        }
    }

    /// Becomes the owner for `bits` of the owner word, to be stepped by the caller: what a modelled
    /// processor does. `None` when somebody owns the queue.
    pub fn claim(&self, bits: u64) -> Option<QdiscRun<'_>> {
        match self.shared.cell.claim(bits) {
            Published::Owner(owned) => Some(QdiscRun::new(&self.shared, owned, bits).held_by_caller()),
            _ => None,
        }
    }

    /// Ends the queue: senders get [`QueueError::Closed`]; what is inside is sent until `deadline_ns` of the
    /// queue's clock; what is left then comes back unsent, is counted as returned, and goes to its pool. Beside a
    /// dedicated owner that is that one's work: it has to go on polling until then.
    /// Frames that the device still holds then stay with it. Says who holds frames of the pool at the end.
    pub fn shutdown(&self, deadline_ns: u64) -> Audit {
        self.shared.closed.store(true, Ordering::Release);
        self.shared.waiters.wake_all();
        while self.shared.pending() && self.shared.clock.now_ns() < deadline_ns {
            self.poll();
            self.shared.park.park(OWNED_NAP_NS);
        }
        self.shared.control(ControlMessage::Shut);
        // Whoever has the queue may be another: not before it has carried that out.
        self.shared.pending();
        self.audit()
    }

    /// Who holds frames of the queue's pool. Becomes the owner to look; while another one stays for good, where
    /// frames are is not known, only who took them.
    pub fn audit(&self) -> Audit {
        // Completions first, or what they bring home would still count as out.
        self.poll();
        let looked = self.shared.inspect(AUDIT_TRIES, |state| {
            let mut places: Vec<(u32, Holder)> = Vec::new();
            state.engine.visit(&mut |frame, place| places.push((frame.index(), place)));
            (places, state.lanes.going_home())
        });
        let mut audit = self.shared.pool.audit();
        if let Some((places, going_home)) = looked {
            places.into_iter().for_each(|(index, place)| audit.found(index, place));
            audit.going_home = going_home;
        }
        audit
    }

    /// Waits until everything sent so far has left, or `deadline_ns` of the queue's clock; whether it has.
    pub fn drain(&self, deadline_ns: u64) -> bool {
        while self.shared.pending() {
            if self.shared.clock.now_ns() >= deadline_ns {
                return false;
            }
            self.poll();
            self.shared.park.park(OWNED_NAP_NS);
        }
        true
    }
}
