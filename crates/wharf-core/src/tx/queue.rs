//! `TxQueue`: one transmit queue of a device, and the senders that share it.
//!
//! Its state (the `TxEngine` and the owner's ends of all lanes) lies in an `OwnerCell`: any thread may become the
//! owner, work on it for itself and for others, and leave. Changes from outside (a new sender, another setting) are
//! control messages that the owner carries out, so that the hot path reads only the owner word.
//!
//! Reading order: `shared.rs` (what all threads share), `state.rs` (what the owner has), `qdisc_run.rs` (one
//! ownership), `lanes.rs` (frames in, completions out), `waiters.rs` (senders that wait), `build.rs`.

mod build;
mod changes;
mod error;
pub(crate) mod lanes;
mod observed;
pub(crate) mod qdisc_run;
mod sender_settings;
mod shared;
mod state;
pub(crate) mod waiters;

pub use build::QueueBuilder;
pub use error::QueueError;
pub(crate) use qdisc_run::{
    LOOKS_MAX, OwnerKind, QdiscRun, Wakeups, before_release, handle_pending, poll_queue,
};
pub use shared::Claimants;
pub(crate) use shared::{ControlMessage, Setup, Shared};
pub(crate) use state::{PassOutcome, PollerState, QueueState};

use crate::bql::Bounds;
use crate::counters::{DROP_TAIL, QueueCounters, SenderCounters};
use crate::device::{Fact, LimitUnit, ModeReason, Signals};
use crate::host::Wake;
use crate::metrics::Measured;
use crate::monitor::{Link, Monitor, Watched};
use crate::pool::{Audit, Holder, PagePool};
use crate::qdisc::{Qdisc, Rate};
use crate::tx::engine::{Batching, TxEngine};
use crate::tx::small_queue::SMALL_QUEUE_BOUNDS;
use crate::wait::Wait;
use shared::{AUDIT_TRIES, OWNED_NAP_NS};
use std::sync::Arc;
use std::time::Duration;
use wharf_mem::Published;

/// Naps for which a look at a device's figures waits for the queue's owner.
const LOOKS: u32 = 50;

/// A transmit queue. A clone is another handle to the same queue.
#[derive(Debug, Clone)]
pub struct TxQueue {
    pub(crate) shared: Arc<Shared>,
}

impl TxQueue {
    /// Sets the threads that may own the queue while it has pollers, also under traffic.
    #[doc(hidden)]
    pub fn set_claimants(&self, claimants: Claimants) {
        self.shared.set_claimants(claimants);
    }

    /// Sets the batching switch, also under traffic.
    #[doc(hidden)]
    pub fn set_batching(&self, batching: Batching) {
        self.shared.change(|changes| changes.batching = Some(batching));
    }

    /// Puts `qdisc`, which is empty, in the place of the discipline, also under traffic. Packets inside go into it; those for which it
    /// has no room fail, and are counted as [`QDISC_CHANGED`](crate::qdisc::QDISC_CHANGED). Statistics begin anew.
    pub fn set_qdisc(&self, qdisc: Box<dyn Qdisc>) {
        if qdisc.uses_bands() {
            self.shared.set_dscp_bands(qdisc.dscp_bands().into());
            self.shared.waiters().use_bands();
            self.shared.sender_settings().use_bands();
        }
        drop(self.shared.change(|changes| changes.set_qdisc(qdisc)));
    }

    /// Sets the rate of the discipline's token bucket ([`Tbf`](crate::qdisc::Tbf)), also under traffic. Does nothing without one.
    pub fn set_rate(&self, rate: Rate) {
        self.shared.change(|changes| changes.rate = Some(rate));
    }

    /// Bounds the byte limit, also under traffic: in force from the next completion.
    pub fn set_byte_limits(&self, bounds: Bounds) {
        self.shared.change(|changes| changes.byte_limits = Some(bounds));
    }

    /// Sets the most bytes that one sender may have inside, also under traffic: see [`QueueBuilder::small_queues`]. In force for each
    /// sender with its next call. Bounds outside of 4096 bytes to 1 GiB become the nearest.
    pub fn set_small_queues(&self, max_bytes: Option<u32>) {
        let (least_bytes, most_bytes) = (*SMALL_QUEUE_BOUNDS.start(), *SMALL_QUEUE_BOUNDS.end());
        let max_bytes = max_bytes.map(|bytes| bytes.clamp(least_bytes, most_bytes));
        self.shared.sender_settings().set_small_queue_bytes(max_bytes);
    }

    /// Sets the policy of all senders that send by it, of a forwarder above all, now and later, also under
    /// traffic: true to drop packets that do not fit, in place of waiting. In force for each sender from
    /// its next call but one.
    pub fn set_drop_tail(&self, is_drop_tail: bool) {
        self.shared.sender_settings().set_drop_tail(is_drop_tail);
    }

    /// Sets how long packets may wait in the device for another side that is not there, also under traffic;
    /// `None` for as long as it takes. By default that is so unless the discipline drops: see
    /// [`TxDevice::set_patience`](crate::device::TxDevice::set_patience).
    pub fn set_patience(&self, patience: Option<Duration>) {
        self.apply(move |engine| engine.device_mut().set_patience(patience));
    }

    /// Runs `change` on the queue's engine as its owner, between two bulks.
    #[doc(hidden)]
    pub fn apply(&self, change: impl FnOnce(&mut TxEngine) + Send + 'static) {
        self.shared.control(ControlMessage::Apply(Box::new(change)));
    }

    /// The device's mode on this machine: see [`Device::mode`](crate::device::Device::mode).
    pub fn device_mode(&self) -> Option<&'static str> {
        let device = &self.shared.setup().device;
        match device.has_facts {
            false => device.mode,
            true => self.shared.inspect(LOOKS, |state| state.engine.device_mut().mode()).flatten(),
        }
    }

    /// Takes the device's line down for its other side, or has it up again: see
    /// [`Device::set_line`](crate::device::Device::set_line).
    #[doc(hidden)]
    pub fn set_line(&self, is_up: bool) {
        self.apply(move |engine| _ = engine.device_mut().set_line(is_up));
    }

    /// Returns the device's own figures, if it has any: see [`Device::facts`](crate::device::Device::facts).
    #[doc(hidden)]
    pub fn device_facts(&self) -> Vec<Fact> {
        let mut facts = Vec::new();
        if self.shared.setup().device.has_facts {
            self.shared.inspect(LOOKS, |state| {
                state
                    .engine
                    .device_mut()
                    .facts(&mut |name, pair, value| facts.push(Fact { name, pair, value }));
            });
        }
        facts
    }

    /// The cause that the device's mode is no better one: see [`Device::mode_reason`](crate::device::Device::mode_reason).
    #[doc(hidden)]
    pub fn device_mode_reason(&self) -> Option<&ModeReason> {
        self.shared.setup().device.mode_reason.as_ref()
    }

    /// The unit in which the byte queue limit counts: see [`TxInfo::limit_unit`](crate::device::TxInfo::limit_unit).
    #[doc(hidden)]
    pub fn limit_unit(&self) -> LimitUnit {
        self.shared.setup().limit_unit
    }

    /// The queue's counters.
    pub fn counters(&self) -> &QueueCounters {
        self.shared.counters()
    }

    /// The counters of all living senders and of the last thousand that are gone, in order of creation.
    pub fn senders(&self) -> Vec<Arc<SenderCounters>> {
        self.shared.senders().counters().to_vec()
    }

    /// Shows the packets lost, by reason: those that senders dropped, and those lost in the discipline, in the device and
    /// behind it. A reason may come more than once.
    pub fn drops(&self, see: &mut dyn FnMut(&'static str, u64)) {
        let (counters, at_senders) = (self.counters(), self.sender_totals().drops.get());
        let at_senders = (at_senders > 0).then_some((DROP_TAIL, at_senders));
        let behind = counters.undelivered_by_reason();
        let all = counters.failures().into_iter().chain(behind).chain(at_senders);
        all.for_each(|(reason, count)| see(reason, count));
    }

    /// Returns the summed counters of all senders that there are and were.
    pub fn sender_totals(&self) -> SenderCounters {
        self.shared.senders().totals()
    }

    /// Adds the counters of another queue, which may be forgotten then. Both are shut down: nothing writes
    /// them any more.
    #[doc(hidden)]
    pub fn absorb(&self, other: &Self) {
        self.counters().absorb(other.counters());
        self.shared.senders().absorb(&other.sender_totals());
    }

    /// Has `monitor` hear of the queue. The first one stays.
    #[doc(hidden)]
    pub fn set_monitor(&self, monitor: Arc<dyn Monitor>) {
        self.shared.set_monitor(monitor);
    }

    /// Returns a wake-up of the queue's poller, for threads that have work for it.
    #[doc(hidden)]
    pub fn call_poller(&self) -> Arc<dyn Wake> {
        Arc::new(Arc::downgrade(&self.shared))
    }

    /// Returns the metrics of the queue and its senders.
    #[doc(hidden)]
    pub fn measured(&self) -> &dyn Measured {
        &*self.shared
    }

    /// The pool of the queue's frames.
    pub fn pool(&self) -> &PagePool {
        &self.shared.setup().pool
    }

    /// The device's counters of notifications, if it has any: see
    /// [`Notify::signals`](crate::device::Notify::signals).
    #[doc(hidden)]
    pub fn signals(&self) -> Option<Signals> {
        let mut signals = None;
        self.shared.look_at_device(|device| signals = device.signals());
        signals
    }

    /// Returns the statistics of its discipline by name ([`crate::qdisc::Qdisc::stats`]). Empty if the queue's owner
    /// died or stays.
    pub fn qdisc_stats(&self) -> Vec<(&'static str, u64)> {
        let mut stats = Vec::new();
        self.shared.inspect(AUDIT_TRIES, |state| {
            state.engine.qdisc().stats(&mut |name, value| stats.push((name, value)));
        });
        stats
    }

    /// Runs the queue once, unless another thread owns it.
    pub fn poll(&self) {
        if let Published::Owner(owned) = self.shared.cell().claim(0) {
            QdiscRun::new(&self.shared, owned, 0).finish();
        }
    }

    /// Works like [`TxQueue::poll`], and forces completions: a thread waits for memory.
    pub(crate) fn poll_for_memory(&self) {
        if let Published::Owner(owned) = self.shared.cell().claim(0) {
            let mut run = QdiscRun::new(&self.shared, owned, 0);
            run.look(|state| state.engine.force_completion());
            run.finish();
        }
    }

    /// Ends the queue for its senders, whose calls and waits return [`SendError::Ended`](crate::sender::SendError::Ended) with `why` from now on. Frames inside
    /// stay there until [`TxQueue::shutdown`].
    pub fn fail(&self, why: &str) {
        self.shared.fail(why);
    }

    /// Shuts the queue down: senders get [`QueueError::Closed`], and frames inside are sent for at most
    /// `wait`. Frames left then return to their pool unsent and are counted as returned; frames that the
    /// device holds stay with it. Beside a dedicated owner, that thread does this work and must go on
    /// polling until then. Returns the holders of frames of the pool.
    pub fn shutdown(&self, wait: impl Into<Wait>) -> Audit {
        self.shutdown_until(self.deadline_ns(wait.into()))
    }

    /// Works like [`TxQueue::shutdown`], until `deadline_ns` of the queue's clock.
    #[doc(hidden)]
    pub fn shutdown_until(&self, deadline_ns: u64) -> Audit {
        self.shared.close();
        self.shared.waiters().wake_all();
        let mut asked = None;
        while self.shared.pending(&mut asked) && self.shared.setup().clock.now_ns() < deadline_ns {
            self.poll();
            self.shared.setup().park.park(OWNED_NAP_NS);
        }
        self.shared.control(ControlMessage::Shut);
        self.shared.await_owner();
        self.audit()
    }

    /// Returns the end of `wait` by the queue's clock, ns.
    fn deadline_ns(&self, wait: Wait) -> u64 {
        self.shared.setup().clock.exact_ns().saturating_add(wait.left_ns())
    }

    /// Returns the holders of frames of the queue's pool, as the queue's owner. Beside a dedicated owner only the
    /// caches that took the frames are known, not their places.
    pub fn audit(&self) -> Audit {
        // Completions first: their frames would still count as out.
        self.poll();
        let looked = self.shared.inspect(AUDIT_TRIES, |state| {
            let mut places: Vec<(u32, Holder)> = Vec::new();
            state.engine.visit(&mut |frame, place| places.push((frame.index(), place)));
            let shown = places.iter().filter(|(_, place)| *place == Holder::Device).count();
            let hidden = state.engine.device_frames().saturating_sub(shown);
            (places, state.lanes.going_home(), hidden)
        });
        let mut audit = self.pool().audit();
        if let Some((places, going_home, hidden)) = looked {
            places.into_iter().for_each(|(index, place)| audit.found(index, place));
            audit.going_home = going_home;
            audit.found_hidden(hidden);
        }
        audit
    }

    /// Waits until all frames sent so far have left, for at most `wait`. Returns true if they have.
    pub fn drain(&self, wait: impl Into<Wait>) -> bool {
        self.drain_until(self.deadline_ns(wait.into()))
    }

    /// Works like [`TxQueue::drain`], until `deadline_ns` of the queue's clock.
    #[doc(hidden)]
    pub fn drain_until(&self, deadline_ns: u64) -> bool {
        let mut asked = None;
        while self.shared.pending(&mut asked) {
            if self.shared.setup().clock.now_ns() >= deadline_ns {
                return false;
            }
            self.poll();
            self.shared.setup().park.park(OWNED_NAP_NS);
        }
        true
    }
}

impl Watched for TxQueue {
    /// Clears a link error once the link is up again, or once the device is gone and reports no link.
    fn link(&self) -> Link {
        let link = self.shared.inspect(1, |state| state.engine.device_mut().link())?;
        if link.as_ref().is_none_or(Result::is_ok) {
            self.shared.counters().came_back();
        }
        link
    }

    fn counters(&self) -> Option<&QueueCounters> {
        Some(self.shared.counters())
    }

    fn has_completions_due(&self) -> Option<bool> {
        self.shared.inspect(1, |state| {
            state.engine.force_completion();
            state.reap();
            let due_ns = state.engine.device_mut().next_completion_ns();
            state.engine.in_device() == 0 || due_ns.is_some_and(|due_ns| due_ns != u64::MAX)
        })
    }

    fn fail(&self, why: &str) {
        TxQueue::fail(self, why);
    }
}

impl Wake for Shared {
    fn wake(&self) {
        self.wake_poller();
    }
}
