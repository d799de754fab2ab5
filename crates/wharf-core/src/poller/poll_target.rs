//! What a poller looks after, and how it is called.

use super::Bell;
use super::schedule::{IrqChange, PollOutcome};
use crate::device::Device;
use crate::host::{self, Wake};
use crate::pool::lock;
use crate::tx::owner::Action;
use crate::tx::queue::{ControlMessage, QdiscRun, QueueState, Shared};
use std::fmt::Debug;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use wharf_mem::Published;
use wharf_mem::word::DEDICATED;

/// A device, or a side of one, in a poller's hands.
pub(crate) trait PollTarget: Send + Sync + Debug {
    /// Sees to `notice`, then polls once, unless somebody else is at it. `away` says that the poller may stay away for
    /// long afterwards.
    fn poll(&self, irq: IrqChange, away: bool, budget_packets: u32) -> PollOutcome;

    /// What becomes readable or writable with a notification.
    fn wait_fd(&self) -> Option<RawFd>;

    /// A poller looks after it from now on, and comes when called.
    fn enroll(&self, call: &Arc<Call>);

    /// Ends [`PollTarget::enroll`]; another poller is called in its place, where there is one.
    fn leave(&self, call: &Arc<Call>);
}

/// How to call a poller for one of its devices.
#[derive(Debug)]
pub(crate) struct Call {
    bell: Arc<Bell>,
    wake: Arc<dyn Wake>,
    called: AtomicBool,
}

impl Call {
    pub(super) fn new(bell: &Arc<Bell>, wake: &Arc<dyn Wake>) -> Self {
        Self { bell: bell.clone(), wake: wake.clone(), called: AtomicBool::new(false) }
    }

    /// Wakeups. The poller takes these in the other order: none is lost.
    pub(crate) fn call(&self) {
        self.called.store(true, SeqCst);
        self.bell.called.store(true, SeqCst);
        host::wake(self.wake.clone());
    }

    pub(super) fn take(&self) -> bool {
        self.called.swap(false, SeqCst)
    }
}

/// The pollers that look after one device.
#[derive(Debug, Default)]
pub(crate) struct Callers(Mutex<Vec<Arc<Call>>>);

impl Callers {
    /// Wakeups one, one that sleeps if there is such a one; whether there is any.
    pub(crate) fn call_one(&self) -> bool {
        let calls = lock(&self.0);
        let asleep = calls.iter().find(|call| call.bell.asleep.load(SeqCst));
        let one = asleep.or(calls.first());
        one.inspect(|call| call.call()).is_some()
    }

    pub(crate) fn call_all(&self) {
        lock(&self.0).iter().for_each(|call| call.call());
    }

    pub(crate) fn add(&self, call: &Arc<Call>) {
        lock(&self.0).push(call.clone());
    }

    pub(crate) fn remove(&self, call: &Arc<Call>) {
        lock(&self.0).retain(|other| !Arc::ptr_eq(other, call));
    }

    pub(crate) fn is_empty(&self) -> bool {
        lock(&self.0).is_empty()
    }
}

/// A transmit queue.
#[derive(Debug)]
pub(super) struct TxTarget(pub(super) Arc<Shared>);

impl PollTarget for TxTarget {
    fn poll(&self, irq: IrqChange, away: bool, budget_packets: u32) -> PollOutcome {
        self.0.poll_once(irq, away, budget_packets, None)
    }

    fn wait_fd(&self) -> Option<RawFd> {
        self.0.wait_fd
    }

    fn enroll(&self, call: &Arc<Call>) {
        self.0.enroll(call);
    }

    fn leave(&self, call: &Arc<Call>) {
        self.0.leave(call);
    }
}

/// Receives from a queue's device, as the queue's owner.
pub(crate) type Receive<'a> = &'a mut dyn FnMut(&mut dyn Device);

impl Shared {
    /// A poller's turn: completions, then `receive`, then what there is to send, up to `quota_packets` or the quota of the
    /// queue.
    pub(crate) fn poll_once(
        &self, irq: IrqChange, away: bool, quota_packets: u32, receive: Option<Receive<'_>>,
    ) -> PollOutcome {
        if self.cell.word() & DEDICATED != 0 {
            // Whoever stays for good calls when it goes.
            return PollOutcome::default();
        }
        let owned = match self.cell.claim(0) {
            Published::Owner(owned) => owned,
            Published::Dead => return PollOutcome { over: true, ..PollOutcome::default() },
            Published::Seen | Published::WakeOwner => {
                return PollOutcome { busy: true, ..PollOutcome::default() };
            }
        };
        let mut run = QdiscRun::for_poller(self, owned, quota_packets, away);
        let mut found = PollOutcome::default();
        let before = run.look(|state| begin(state, irq, receive, &mut found));
        let mut after = 0;
        loop {
            let last = matches!(run.next(), Action::Leave | Action::HandOver);
            if last {
                after = run.look(|state| end(state, &mut found));
                found.more = run.next() == Action::HandOver;
            }
            if !run.step(0) {
                break;
            }
        }
        found.sent = u32::try_from(run.packets()).unwrap_or(u32::MAX);
        found.completed = (before + run.packets() as usize).saturating_sub(after) as u32;
        found
    }

    pub(crate) fn enroll(&self, call: &Arc<Call>) {
        self.set_wakers(|wakers| wakers.pollers.add(call));
        self.control(ControlMessage::Pollers);
    }

    pub(crate) fn leave(&self, call: &Arc<Call>) {
        self.set_wakers(|wakers| wakers.pollers.remove(call));
        self.control(ControlMessage::Pollers);
        if self.wake_pollers() {
            return;
        }
        self.waiters.nudge_all();
        if let Published::Owner(owned) = self.cell.claim(0) {
            QdiscRun::new(self, owned, 0).finish();
        }
    }
}

/// What comes first in a turn; how many frames the device held then.
fn begin(
    state: &mut QueueState, irq: IrqChange, receive: Option<Receive<'_>>, found: &mut PollOutcome,
) -> usize {
    found.blocked = state.waiting || state.engine.backlog() > 0;
    match irq {
        IrqChange::Keep => {}
        IrqChange::Mask => state.engine.device_mut().disarm(),
        IrqChange::Unmask => found.unarmed = !state.engine.device_mut().arm(),
    }
    if found.blocked {
        state.engine.force_completion();
    }
    let held = state.engine.in_device();
    if let Some(receive) = receive {
        let (reaped, _) = state.reap();
        state.engine.counters().cleaned_from_receive.add(reaped.into());
        receive(state.engine.device_mut());
    }
    held
}

/// What is left at the end of a turn; how many frames the device holds then.
fn end(state: &mut QueueState, found: &mut PollOutcome) -> usize {
    found.in_device = u32::try_from(state.engine.in_device()).unwrap_or(u32::MAX);
    found.waiting = state.waiting || state.engine.backlog() > 0;
    let dues = [state.engine.device_mut().next_completion_ns(), state.engine.next_event_ns()];
    found.due_ns = dues.into_iter().flatten().min();
    state.engine.in_device()
}
