//! `RxQueue`: the receive side of a device, run by pollers.
//!
//! A poll takes completions of the transmit side first, so that memory and room are freed before more is taken. It
//! then receives up to the poller's budget and hands the frames to the user's handler. While the handler runs, only
//! the queue's own lock is held, which other threads only try: the handler may send on any queue, by
//! [`crate::tx::sender::Sender::try_send`]. A handler that blocks also blocks its poller and all devices of that.

mod counters;
mod inbox;
mod mode;
mod polled;
mod pulled;
mod receiver;
mod state;
mod whole;

pub use receiver::Receiver;

use crate::device::{DeviceError, RxDevice, close_receiver};
use crate::metrics::Measured;
use crate::monitor::Monitor;
use crate::poller::poll_queue;
use crate::poller::schedule::{IrqChange, PollOutcome};
use crate::pool::PagePool;
use crate::tx::queue::{QueueError, TxQueue};
use crate::wakeup::Callers;
use counters::{LastCounts, RxCounters};
use inbox::Inbox;
use mode::DeviceMode;
pub(crate) use pulled::PulledTarget;
use state::RxState;
pub use state::{Handler, Rest};
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use wharf_mem::lock;
use wharf_mem::word::DEDICATED;
pub use whole::TOO_LONG;

/// The receive side of a device. A clone is another handle to the same queue.
#[derive(Debug, Clone)]
pub struct RxQueue {
    pub(crate) shared: Arc<RxShared>,
}

pub(crate) struct RxShared {
    name: String,
    mode: DeviceMode,
    wait_fd: Option<RawFd>,
    /// The transmit queue that the device belongs to, if any.
    of: Option<TxQueue>,
    /// Queues whose completions are taken at each poll.
    completions: Vec<TxQueue>,
    state: Mutex<RxState>,
    callers: Callers,
    counters: RxCounters,
    ended: AtomicBool,
    takes_chains: AtomicBool,
    error: Mutex<Option<DeviceError>>,
    pub(crate) monitor: OnceLock<Arc<dyn Monitor>>,
    /// The inboxes that the handler fills, where that is a [`Receiver`]'s.
    inboxes: OnceLock<Vec<Arc<Mutex<Inbox>>>>,
}

impl std::fmt::Debug for RxShared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RxQueue({}, {} received)", self.name, self.counters.received.get())
    }
}

impl RxQueue {
    /// Receives from `device`, which only receives, into memory of `pool`. Each poll also takes the completions of
    /// `completions`, the queues that the handler sends by, unless another thread owns them.
    ///
    /// # Errors
    /// [`QueueError::Device`] when the device cannot use the memory, [`QueueError::Pool`].
    pub fn new(
        mut device: Box<dyn RxDevice>, pool: &PagePool, completions: &[TxQueue], handler: Handler,
    ) -> Result<Self, QueueError> {
        device.attach(pool.region().clone())?;
        let parts = (device.name(), (device.mode(), device.mode_reason()), device.wait_fd());
        let state = RxState::new(Some(device), pool, &parts.0, handler)?;
        Ok(Self::of_parts(parts, None, completions, state))
    }

    /// Receives from the device of `queue`, into memory of its pool. Its poller also runs the queue. While a
    /// dedicated owner has the queue, nothing is received.
    ///
    /// # Errors
    /// [`QueueError::Device`] if the device only sends, [`QueueError::Pool`].
    pub fn of(queue: &TxQueue, handler: Handler) -> Result<Self, QueueError> {
        let name = queue.shared.name.clone();
        if !queue.shared.receives {
            return Err(DeviceError::Unsupported { device: name, what: "it only sends".into() }.into());
        }
        let state = RxState::new(None, queue.pool(), &name, handler)?;
        let mode = (queue.device_mode(), queue.device_mode_reason().cloned());
        let parts = (name, mode, queue.shared.wait_fd);
        Ok(Self::of_parts(parts, Some(queue.clone()), &[], state))
    }

    fn of_parts(
        (name, mode, wait_fd): (String, DeviceMode, Option<RawFd>), of: Option<TxQueue>,
        completions: &[TxQueue], state: RxState,
    ) -> Self {
        let shared = RxShared {
            name,
            mode,
            wait_fd,
            of,
            completions: completions.to_vec(),
            state: Mutex::new(state),
            callers: Callers::default(),
            counters: RxCounters::default(),
            ended: AtomicBool::new(false),
            takes_chains: AtomicBool::new(false),
            error: Mutex::new(None),
            monitor: OnceLock::new(),
            inboxes: OnceLock::new(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// True if a poller can wait for the device's notifications.
    #[doc(hidden)]
    pub fn notifies(&self) -> bool {
        self.shared.wait_fd.is_some()
    }

    /// Returns the number of frames received.
    pub fn received(&self) -> u64 {
        self.shared.counters.received.get()
    }

    /// Returns the bytes of those frames, from the Ethernet header on.
    pub fn received_bytes(&self) -> u64 {
        self.shared.counters.bytes.get()
    }

    /// True if no frame will be received any more.
    pub fn has_ended(&self) -> bool {
        self.shared.ended.load(Acquire)
    }

    /// Has the handler get packets longer than a frame, as chains
    /// ([`Packet::is_chain`](crate::pool::Packet::is_chain)), if `takes` is true. By default they are
    /// dropped, and counted as [`TOO_LONG`]: see [`RxQueue::drops`].
    #[must_use]
    pub fn takes_chains(self, takes: bool) -> Self {
        self.shared.takes_chains.store(takes, Relaxed);
        self
    }

    fn look_at_device(&self, look: impl FnOnce(&mut dyn RxDevice)) {
        if let Some(queue) = &self.shared.of {
            return queue.shared.look_at_device(|device| {
                if let Some(device) = device.rx() {
                    look(device);
                }
            });
        }
        if let Some(device) = &mut lock(&self.shared.state).device {
            look(&mut **device);
        }
    }

    /// Returns its metrics, for as long as it lives. A walk asks the next poll for those of the device.
    #[doc(hidden)]
    pub fn measured(&self) -> Weak<dyn Measured> {
        let shared: Arc<dyn Measured> = self.shared.clone();
        Arc::downgrade(&shared)
    }

    /// Has the device post memory for arrivals, on the caller's thread: a device drops what comes before. A poller does the
    /// same, once its thread runs. An error is told like one of a poll. A dedicated owner of the queue keeps the device.
    #[doc(hidden)]
    pub fn post_memory(&self) {
        let panicked = EndOnPanic(&self.shared);
        let mut state = lock(&self.shared.state);
        let RxState { device, cache, burst, .. } = &mut *state;
        let mut post = |device: &mut dyn RxDevice| {
            if let Err(error) = device.receive(cache, burst.batch_mut(), 0) {
                self.shared.note_error(error);
            }
        };
        match (&self.shared.of, device) {
            (Some(queue), _) if queue.shared.cell.word() & DEDICATED != 0 => {}
            (Some(queue), _) => queue.shared.look_at_device(|side| side.rx().into_iter().for_each(post)),
            (None, Some(device)) => post(&mut **device),
            (None, None) => {}
        }
        drop(state);
        std::mem::forget(panicked);
    }

    /// Notes the inboxes that its handler fills: their receivers are woken.
    fn fill(&self, inboxes: Vec<Arc<Mutex<Inbox>>>) -> &[Arc<Mutex<Inbox>>] {
        self.shared.inboxes.get_or_init(|| inboxes)
    }

    /// Calls the poller of the queue: it shows the packets again that the handler has left ([`Rest::Again`]). Any thread
    /// may call, also while the handler runs: it then runs once more.
    pub fn resume(&self) {
        self.shared.resume();
    }

    /// Takes the last error of the device, or the panic of the device or the handler, which ends receiving.
    pub fn take_error(&self) -> Option<DeviceError> {
        lock(&self.shared.error).take()
    }

    /// Ends receiving: frees the frames that the handler had left, drops the handler, ends the wait of each [`Receiver`], closes a
    /// device that belongs to no transmit queue. Waits for the end of a poll, for ever if the handler calls it.
    ///
    /// # Errors
    /// The device's error.
    pub fn close(&self) -> Result<(), DeviceError> {
        self.shared.end();
        self.resume(); // A thread that polls in its own calls may wait in one.
        let mut last = LastCounts::default();
        self.look_at_device(|device| last.add(device));
        self.shared.counters.keep_last(last);
        let mut state = lock(&self.shared.state);
        state.free();
        state.wait_for_memory_in_turn(false);
        let closed =
            state.device.take().map_or(Ok(()), |mut device| close_receiver(&mut *device, &mut state.cache));
        // Its senders give their memory back.
        let handler = state.take_handler();
        drop((state, handler));
        closed
    }
}

impl RxShared {
    /// Receives from the queue's device or its own.
    fn receive(
        &self, state: &mut RxState, irq: IrqChange, away: bool, quota: u32, budget: usize,
    ) -> PollOutcome {
        let RxState { device, cache, burst, joiner, .. } = state;
        if burst.pool().region().number() != cache.pool().region().number() {
            burst.rebind(cache.pool());
        }
        let mut seen = PollOutcome { receives: !self.ended.load(Relaxed), ..PollOutcome::default() };
        let mut receive = |device: &mut dyn RxDevice| {
            self.counters.note_device(device);
            if budget == 0 {
                return;
            }
            let before = burst.batch_mut().bytes();
            let result = device.receive(cache, burst.batch_mut(), budget);
            let may_chain = burst.batch_mut().any_meta() && !self.takes_chains.load(Relaxed);
            let dropped = if may_chain { joiner.make_whole(cache, burst.batch_mut()) } else { 0 };
            self.counters.bytes.add(burst.batch_mut().bytes() - before);
            self.note(result, dropped, device, &mut seen);
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
        found.due_ns = dues.min();
        (found.received, found.receives) = (seen.received, seen.receives);
        found.more |= seen.received as usize >= budget && budget > 0;
        found
    }

    pub(crate) fn resume(&self) {
        self.callers.call_one();
    }

    /// Notes that no frame will be received any more, and wakes the receivers.
    fn end(&self) {
        self.ended.store(true, Release);
        self.tell();
    }

    /// Wakes the receivers that wait and have packets; all if there is news for all.
    fn tell(&self) {
        let is_for_all = self.concerns_all();
        for inbox in self.inboxes.get().into_iter().flatten() {
            let mut inbox = lock(inbox);
            let has_news = is_for_all || !inbox.burst.is_empty();
            let waiting = if has_news { inbox.waiting.take() } else { None };
            drop(inbox);
            waiting.map(crate::host::wake);
        }
    }

    /// True if receiving has ended, or the device has an error that no call has told.
    fn concerns_all(&self) -> bool {
        self.ended.load(Acquire) || lock(&self.error).is_some()
    }

    /// Notes a panic of the handler or the device: nothing is received any more.
    fn end_of_panic(&self) {
        let source = std::io::Error::other("its handler or its device panicked");
        let what = "receiving has ended".into();
        *lock(&self.error) = Some(DeviceError::Io { device: self.name.clone(), what, source });
        self.monitor.get().inspect(|monitor| monitor.panicked("its handler or its device panicked", false));
        self.end();
    }

    /// Leaves the wait list: no poller may come back for the memory. Another poller joins it again.
    fn step_aside(&self) {
        if let Ok(mut state) = self.state.try_lock() {
            state.wait_for_memory_in_turn(false);
        }
    }

    fn note(
        &self, result: Result<usize, DeviceError>, dropped: u64, device: &dyn RxDevice,
        seen: &mut PollOutcome,
    ) {
        let received = result.unwrap_or_else(|error| {
            self.note_error(error);
            0
        });
        self.counters.count(received as u64, dropped);
        seen.received = received as u32;
        seen.due_ns = device.next_arrival_ns();
        if received == 0 && device.ended() {
            seen.receives = false;
            self.ended.store(true, Release);
        }
    }

    fn note_error(&self, error: DeviceError) {
        self.monitor.get().inspect(|monitor| monitor.error(&error));
        *lock(&self.error) = Some(error);
    }

    /// Polls, with the state in hand. Returns the outcome, and true if there may be news for receivers.
    fn poll_state(
        &self, state: &mut RxState, irq: IrqChange, away: bool, budget_packets: u32,
    ) -> (PollOutcome, bool) {
        if self.ended.load(Relaxed) && state.device.is_none() && self.of.is_none() {
            // It was closed.
            return (PollOutcome { over: true, ..PollOutcome::default() }, true);
        }
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
        let is_through = state.hand_over();
        let starved = found.received == 0 && found.receives && !state.has_memory();
        if starved || state.pool_place.is_some() {
            state.wait_for_memory_in_turn(starved);
        }
        self.counters.count_poll(found.more, is_through, starved);
        if !is_through || starved {
            // Nothing notifies of memory, nor of a handler that takes packets again.
            (found.waiting, found.due_ns) = (true, found.due_ns.filter(|&due_ns| due_ns != u64::MAX));
        }
        if found.over {
            // The queue is dead.
            self.ended.store(true, Release);
        }
        found.over |= self.of.is_none() && !found.receives && is_through;
        let has_packets = had_packets || found.received > 0;
        (found, has_packets || found.over || !found.receives || self.concerns_all())
    }
}

/// Ends a receive queue whose handler or device panics; forgotten otherwise.
struct EndOnPanic<'a>(&'a RxShared);

impl Drop for EndOnPanic<'_> {
    fn drop(&mut self) {
        self.0.end_of_panic();
    }
}

#[cfg(test)]
pub(crate) mod tests;
