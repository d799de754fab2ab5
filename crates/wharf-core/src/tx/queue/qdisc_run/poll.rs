//! One poll of a queue by a poller: a run that receives, and reports what it has found. While handlers of
//! arrivals feed the queue, their runs leave transmitting to the poller, which does it in slices.

use super::{PollerState, QdiscRun, QueueState, Shared};
use crate::device::RxDevice;
use crate::poller::schedule::{IrqChange, PollOutcome};
use crate::tx::feeding::Feeding;
use crate::tx::owner::Action;
use wharf_mem::Published;
use wharf_mem::word::DEDICATED;

/// A closure that receives from a queue's device, run by the queue's owner.
pub(crate) type Receive<'a> = &'a mut dyn FnMut(&mut dyn RxDevice);

/// Polls `queue` once, as its owner: completions, then `receive`, then up to `quota_packets` (or the queue's
/// quota) frames to send: none if that is 0. Reports `busy` if another thread owns the queue.
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
    let (mut after, mut counted, is_slice) = (0, 0, run.begin_slice());
    loop {
        let last = matches!(run.next(), Action::Leave | Action::HandOver);
        if last {
            if is_slice && quota_packets > 0 {
                run.end_slice(std::mem::replace(&mut counted, run.packets()));
            }
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

impl QdiscRun<'_> {
    /// Has a run on the thread of a handler of arrivals leave transmitting to the poller, if there is one.
    #[inline(never)]
    pub(super) fn feed(&mut self) {
        let is_flood = Feeding::now() == Feeding::Flood;
        let leaves_it = self.look(|state| {
            let has_poller = state.poller != PollerState::None && !state.shut;
            let leaves_it = has_poller && (is_flood || state.engine.has_queued());
            if leaves_it {
                state.slice.feed();
            }
            leaves_it
        });
        if leaves_it {
            self.owner.set_quota(0);
        }
    }

    /// Begins a poller's slice. Returns true if handlers of arrivals feed the queue, so that it is one.
    fn begin_slice(&mut self) -> bool {
        let clock = &*self.shared.setup().clock;
        let packets = self.look(|state| {
            if state.lanes.is_flooded() {
                state.slice.feed();
            }
            state.slice.begin(|| clock.exact_ns())
        });
        packets.into_iter().for_each(|packets| self.owner.lower_quota(packets));
        packets.is_some()
    }

    /// Ends it, when `counted` packets of the run had been sent before.
    fn end_slice(&mut self, counted: u64) {
        let now_ns = self.shared.setup().clock.exact_ns();
        let sent = u32::try_from(self.packets() - counted).unwrap_or(u32::MAX);
        self.look(|state| {
            let took_ns = state.slice.end(sent, now_ns, state.engine.backlog() > 0);
            let counters = state.engine.counters();
            counters.overload_ns.add(took_ns);
            counters.overload_packets.add(sent.into());
        });
    }
}

/// Begins a poll: applies `irq`, forces completions if senders wait, receives. Returns the frames that the
/// device held before it received.
fn begin(
    state: &mut QueueState, irq: IrqChange, receive: Option<Receive<'_>>, found: &mut PollOutcome,
) -> usize {
    found.blocked = state.waiting || state.engine.backlog() > 0;
    match irq {
        IrqChange::Keep => {}
        IrqChange::Mask => state.engine.device_mut().disarm(),
        IrqChange::Unmask => found.unarmed = !state.engine.device_mut().arm(),
    }
    // What nobody receives is not an event: it cannot be taken.
    found.unarmed = found.unarmed && (receive.is_some() || state.engine.device_mut().rx().is_none());
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
