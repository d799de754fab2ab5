//! One poll of a queue by a poller: a run that receives, and reports what it has found.

use super::{QdiscRun, QueueState, Shared};
use crate::device::RxDevice;
use crate::poller::schedule::{IrqChange, PollOutcome};
use crate::tx::owner::Action;
use wharf_mem::Published;
use wharf_mem::word::DEDICATED;

/// A closure that receives from a queue's device, run by the queue's owner.
pub(crate) type Receive<'a> = &'a mut dyn FnMut(&mut dyn RxDevice);

/// Polls `queue` once, as its owner: completions, then `receive`, then up to `quota_packets` (or the queue's quota)
/// frames to send. Reports `busy` if another thread owns the queue.
pub(crate) fn poll_queue(
    queue: &Shared, irq: IrqChange, away: bool, quota_packets: u32, receive: Option<Receive<'_>>,
) -> PollOutcome {
    if queue.cell().word() & DEDICATED != 0 {
        // A dedicated owner calls the pollers when it leaves.
        return PollOutcome::default();
    }
    let owned = match queue.cell().claim(0) {
        Published::Owner(owned) => owned,
        Published::Dead => return PollOutcome { over: true, ..PollOutcome::default() },
        Published::Seen | Published::WakeOwner => {
            return PollOutcome { busy: true, ..PollOutcome::default() };
        }
    };
    let mut run = QdiscRun::for_poller(queue, owned, quota_packets, away);
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

/// Begins a poll: applies `irq`, forces completions if senders wait, receives. Returns the frames that the device
/// held before it received.
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
        if let Some(device) = state.engine.device_mut().rx() {
            receive(device);
        }
    }
    held
}

/// Notes the work left at the end of a poll. Returns the frames that the device holds.
fn end(state: &mut QueueState, found: &mut PollOutcome) -> usize {
    found.in_device = u32::try_from(state.engine.in_device()).unwrap_or(u32::MAX);
    found.waiting = state.waiting || state.engine.backlog() > 0;
    let dues = [state.engine.device_mut().next_completion_ns(), state.engine.next_event_ns()];
    found.due_ns = dues.into_iter().flatten().min();
    state.engine.in_device()
}
