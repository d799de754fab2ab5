//! A receive queue as pollers and monitors see it: a poll, from the poller's call to the handler.

use super::state::RxState;
use super::{EndOnPanic, RxShared};
use crate::counters::QueueCounters;
use crate::device::{DeviceError, RxDevice};
use crate::monitor::{Link, Monitor, Watched};
use crate::poller::poll_target::PollTarget;
use crate::poller::schedule::{IrqChange, PollOutcome};
use crate::tx::feeding::{Feeding, take_held};
use crate::tx::queue::{TxQueue, poll_queue};
use crate::wakeup::Call;
use std::os::fd::RawFd;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::{Arc, TryLockError};

/// Budgets that one poll receives in a flood, at most.
const FLOOD_ROUNDS: u32 = 64;

impl Watched for RxShared {
    fn link(&self) -> Link {
        match &self.of {
            Some(queue) => queue.link(),
            None => self.state.try_lock().ok()?.device.as_mut()?.link(),
        }
    }

    fn counters(&self) -> Option<&QueueCounters> {
        self.of.as_ref().map(TxQueue::counters)
    }

    fn has_completions_due(&self) -> Option<bool> {
        self.of.as_ref()?.has_completions_due()
    }

    fn fail(&self, why: &str) {
        // A device of its own has gone with the transmit side beside it.
        self.of.iter().chain(&self.completions).for_each(|queue| queue.fail(why));
    }
}

impl PollTarget for RxShared {
    fn poll(&self, irq: IrqChange, away: bool, budget_packets: u32) -> PollOutcome {
        let mut state = match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::WouldBlock) => {
                return PollOutcome { busy: true, receives: true, ..PollOutcome::default() };
            }
            // The handler or the device has panicked.
            Err(TryLockError::Poisoned(poisoned)) => {
                // Other caches wait for the buffers that it would gather.
                poisoned.into_inner().wait_for_memory_in_turn(false);
                self.end();
                let over = || PollOutcome { over: true, ..PollOutcome::default() };
                // Senders rely on this poller still.
                let of = self.of.as_ref().map(|queue| &*queue.shared);
                return of.map_or_else(over, |of| poll_queue(of, irq, away, budget_packets, None));
            }
        };
        let panicked = EndOnPanic(self);
        let (found, has_news) = self.poll_state(&mut state, irq, away, budget_packets);
        std::mem::forget(panicked);
        drop(state);
        if has_news {
            self.tell();
        }
        found
    }

    fn monitored(&self) -> Option<(&dyn Monitor, &dyn Watched)> {
        Some((&**self.monitor.get()?, self))
    }

    fn wait_fd(&self) -> Option<RawFd> {
        self.device.wait_fd
    }

    fn enroll(&self, call: &Arc<Call>) {
        self.callers.add(call);
        self.of.iter().for_each(|queue| queue.shared.add_poller(call));
    }

    fn leave(&self, call: &Arc<Call>) {
        self.step_aside();
        self.callers.remove(call);
        self.callers.call_one();
        self.of.iter().for_each(|queue| queue.shared.remove_poller(call));
    }
}

impl RxShared {
    /// Polls, with the state in hand. Returns the outcome, and true if there may be news for receivers.
    fn poll_state(
        &self, state: &mut RxState, irq: IrqChange, away: bool, budget_packets: u32,
    ) -> (PollOutcome, bool) {
        if self.ended.load(Relaxed) && state.device.is_none() && self.of.is_none() {
            // It was closed.
            return (PollOutcome { over: true, ..PollOutcome::default() }, true);
        }
        let is_flood = state.flood.is_on(|| self.now_ns(state));
        let _feeding = state.flood.begin(is_flood);
        if state.has_memory() {
            self.completions.iter().for_each(TxQueue::poll);
        } else {
            // Memory may lie in a device that delays completions.
            self.completions.iter().chain(&self.of).for_each(TxQueue::poll_for_memory);
            state.cache.pool().peers().reap(self.of.as_ref().map(|queue| &*queue.shared));
        }
        let had_packets = !state.burst.is_empty();
        let budget = if state.hand_over() && !self.ended.load(Relaxed) { budget_packets as usize } else { 0 };
        let mut found = self.receive(state, irq, away, budget_packets, budget);
        let mut is_through = state.hand_over();
        let is_held = take_held() && had_packets && budget == 0;
        // A side that waits floods nothing.
        let is_full = (is_held || budget > 0 && found.received as usize >= budget) && !state.holds_back;
        let now_ns = if is_full { self.now_ns(state) } else { 0 };
        state.flood.note_full(is_full, is_flood, now_ns);
        if is_full && is_flood {
            is_through = self.gather(state, away, budget, &mut found);
        }
        let starved = found.received == 0 && found.receives && !state.has_memory();
        if starved || state.pool_place.is_some() {
            state.wait_for_memory_in_turn(starved);
        }
        self.counters.count_poll(found.more, is_through, starved);
        if !is_through || starved {
            // Nothing notifies of memory, nor of a handler that takes packets again.
            (found.waiting, found.due_ns) = (true, found.due_ns.filter(|&due_ns| due_ns != u64::MAX));
            // What the device has to be received is not an event: it cannot be taken.
            found.unarmed = false;
        }
        // A dead queue, too, is over only once the handler has all that came.
        found.over &= is_through;
        if is_through && (found.over || !found.receives) {
            self.ended.store(true, Release);
        }
        // What has come and is not received any more cannot be taken, either.
        found.unarmed &= found.receives;
        found.over |= self.of.is_none() && !found.receives && is_through;
        let has_packets = had_packets || found.received > 0;
        (found, has_packets || found.over || !found.receives || self.concerns_all())
    }

    /// Returns the time, good to some milliseconds, by the clock of a queue if there is one.
    fn now_ns(&self, state: &RxState) -> u64 {
        let queue = self.of.iter().chain(&self.completions).next();
        queue.map_or_else(|| state.cache.pool().now_ns(), |queue| queue.shared.setup().clock.now_ns())
    }

    /// Receives again and again, until less than a budget has come: what the handler sends goes into
    /// disciplines. Returns true if the handler has taken all.
    #[cold]
    fn gather(&self, state: &mut RxState, away: bool, budget: usize, found: &mut PollOutcome) -> bool {
        let (mut is_through, mut rounds) = (state.burst.is_empty(), 1);
        // Receivers hear of what has come after the poll, and have an inbox of a few budgets.
        let rounds_max = if self.inboxes.get().is_some() { 1 } else { FLOOD_ROUNDS };
        while is_through && found.receives && rounds < rounds_max && !self.ended.load(Relaxed) {
            let next = self.receive(state, IrqChange::Keep, away, 0, budget);
            is_through = state.hand_over();
            let (received, sent) = (found.received + next.received, found.sent + next.sent);
            *found = PollOutcome { received, sent, completed: found.completed + next.completed, ..next };
            if (next.received as usize) < budget {
                break;
            }
            rounds += 1;
        }
        found.more = true;
        is_through
    }

    /// Receives from the queue's device or its own.
    fn receive(
        &self, state: &mut RxState, irq: IrqChange, away: bool, quota: u32, budget: usize,
    ) -> PollOutcome {
        let is_flood = Feeding::now() == Feeding::Flood;
        let now_ns = if is_flood { self.now_ns(state) } else { 0 };
        let RxState { device, cache, burst, joiner, holds_back, flood, .. } = state;
        if burst.pool().region().number() != cache.pool().region().number() {
            burst.rebind(cache.pool());
        }
        let mut seen = PollOutcome { receives: !self.ended.load(Relaxed), ..PollOutcome::default() };
        let mut receive = |device: &mut dyn RxDevice| {
            self.counters.note_device(device);
            if budget == 0 {
                return;
            }
            let (before, count) = (burst.batch_mut().bytes(), burst.batch_mut().len());
            // A device may fail behind packets that it has put there.
            let result = device.receive(cache, burst.batch_mut(), budget);
            let came = burst.len() - count;
            let may_chain = burst.batch_mut().any_meta() && !self.takes_chains.load(Relaxed);
            let dropped = if may_chain { joiner.make_whole(cache, burst.batch_mut()) } else { 0 };
            self.counters.bytes.add(burst.batch_mut().bytes() - before);
            *holds_back = device.holds_back();
            match is_flood {
                true => flood.settle(
                    device,
                    burst.frames().get(count..).unwrap_or_default(),
                    cache.pool().region(),
                    now_ns,
                ),
                false => flood.end(device),
            }
            self.note(result.err(), came, dropped, device, &mut seen);
        };
        let mut found = match (&self.of, device) {
            (Some(queue), _) => poll_queue(&queue.shared, irq, away, quota, Some(&mut receive)),
            (None, Some(device)) => {
                let unarmed = match irq {
                    IrqChange::Keep => false,
                    IrqChange::Mask => {
                        device.disarm();
                        false
                    }
                    IrqChange::Unmask => !device.arm(),
                };
                receive(&mut **device);
                PollOutcome { unarmed, ..PollOutcome::default() }
            }
            (None, None) => {
                seen.receives = false;
                PollOutcome::default()
            }
        };
        let dues = [found.due_ns, seen.due_ns].into_iter().flatten();
        // Nothing else brings the poller back to end the thinning.
        found.due_ns = dues.chain(flood.end_due_ns()).min();
        (found.received, found.receives) = (seen.received, seen.receives);
        found.more |= seen.received as usize >= budget && budget > 0;
        found
    }

    /// Counts `received` frames, and notes the error of the same call.
    fn note(
        &self, error: Option<DeviceError>, received: usize, dropped: u64, device: &dyn RxDevice,
        seen: &mut PollOutcome,
    ) {
        let is_last = received == 0 || error.is_some();
        if let Some(error) = error {
            self.note_error(error);
        }
        self.counters.count(received as u64, dropped);
        seen.received = received as u32;
        seen.due_ns = device.next_arrival_ns();
        if is_last && device.ended() {
            seen.receives = false;
        }
    }
}
