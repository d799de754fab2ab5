//! `RxQueue`: the receive side of a device, in pollers' hands.
//!
//! A poll takes completions of the transmit side first, so that memory and room come back before more is taken, then
//! receives up to the poller's budget, then hands the frames to the user's handler. Nothing is held while the handler
//! runs but the queue's own lock, which others only try: the handler may send on any queue, by
//! [`crate::tx::sender::Sender::try_send`]; blocking in it blocks the poller, and all that it looks after.

use crate::device::{DeviceError, RxDevice, close_receiver};
use crate::host::Wake;
use crate::poller::schedule::{IrqChange, PollOutcome};
use crate::poller::{PollTarget, poll_queue};
use crate::pool::{Burst, Cache, PagePool, WaitPlace, lock};
use crate::tx::queue::{QueueError, TxQueue};
use crate::wakeup::{Call, Callers};
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, TryLockError};
use wharf_mem::batch::BATCH_FRAMES_MAX;

/// What becomes of the frames that a handler has left in the burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rest {
    /// Their memory is freed.
    Free,
    /// They are shown again at the next poll, and nothing else is received before: back-pressure.
    Again,
}

/// What frames are handed to, in order.
pub type Handler = Box<dyn FnMut(&mut Burst) -> Rest + Send>;

/// A device's receive side. Cloning gives another handle to the same.
#[derive(Debug, Clone)]
pub struct RxQueue {
    pub(crate) shared: Arc<RxShared>,
}

pub(crate) struct RxShared {
    name: String,
    wait_fd: Option<RawFd>,
    /// Where the device belongs to a transmit queue, that queue.
    of: Option<TxQueue>,
    /// Whose completions are taken at each poll.
    completions: Vec<TxQueue>,
    state: Mutex<RxState>,
    callers: Callers,
    received: AtomicU64,
    ended: AtomicBool,
    error: Mutex<Option<DeviceError>>,
}

struct RxState {
    /// `None` where it belongs to a transmit queue, or is closed.
    device: Option<Box<dyn RxDevice>>,
    cache: Cache,
    /// Its place in the line of those who wait for memory.
    pool_place: Option<WaitPlace>,
    burst: Burst,
    handler: Handler,
}

/// Nobody sleeps for it: a poller that is short of memory comes back by itself.
#[derive(Debug)]
struct ComesBack;

impl Wake for ComesBack {
    fn wake(&self) {}
}

impl std::fmt::Debug for RxShared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RxQueue({}, {} received)", self.name, self.received.load(Relaxed))
    }
}

impl RxQueue {
    /// Receives from `device`, which only receives, into memory of `pool`. At each poll, completions of the queues
    /// `completions` are taken, too, if nobody is at them: those that the handler sends by.
    ///
    /// # Errors
    /// [`QueueError::Device`] when the device cannot use the memory, [`QueueError::Pool`].
    pub fn new(
        mut device: Box<dyn RxDevice>, pool: &PagePool, completions: &[TxQueue], handler: Handler,
    ) -> Result<Self, QueueError> {
        device.attach(pool.region().clone())?;
        let (name, wait_fd) = (device.name(), device.wait_fd());
        let state = RxState::new(Some(device), pool, &name, handler)?;
        Ok(Self::of_parts(name, wait_fd, None, completions, state))
    }

    /// Receives from the device of `queue`, into memory of its pool. Its poller looks after the queue as well. While a
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
        Ok(Self::of_parts(name, queue.shared.wait_fd, Some(queue.clone()), &[], state))
    }

    fn of_parts(
        name: String, wait_fd: Option<RawFd>, of: Option<TxQueue>, completions: &[TxQueue], state: RxState,
    ) -> Self {
        let shared = RxShared {
            name,
            wait_fd,
            of,
            completions: completions.to_vec(),
            state: Mutex::new(state),
            callers: Callers::default(),
            received: AtomicU64::new(0),
            ended: AtomicBool::new(false),
            error: Mutex::new(None),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Frames received.
    pub fn received(&self) -> u64 {
        self.shared.received.load(Relaxed)
    }

    /// Whether nothing will be received any more.
    pub fn has_ended(&self) -> bool {
        self.shared.ended.load(Relaxed)
    }

    /// Shows how many frames were dropped before they could be received, by reason: see [`RxDevice::drops`]. Of a
    /// device that is closed nothing, where it belongs to no transmit queue. Waits for a poll under way.
    pub fn drops(&self, see: &mut dyn FnMut(&'static str, u64)) {
        if let Some(queue) = &self.shared.of {
            return queue.shared.look_at_device(|device| {
                if let Some(device) = device.rx() {
                    device.drops(see);
                }
            });
        }
        if let Some(device) = &mut lock(&self.shared.state).device {
            device.drops(see);
        }
    }

    /// The last error of the device, once.
    pub fn take_error(&self) -> Option<DeviceError> {
        lock(&self.shared.error).take()
    }

    /// Closes a device that belongs to no transmit queue, and frees what the handler still had before it. Waits for a
    /// poll under way.
    ///
    /// # Errors
    /// What the device could not complete.
    pub fn close(&self) -> Result<(), DeviceError> {
        self.shared.ended.store(true, Relaxed);
        let mut state = lock(&self.shared.state);
        state.free();
        state.wait_for_memory_in_turn(false);
        let device = state.device.take();
        device.map_or(Ok(()), |mut device| close_receiver(&mut *device, &mut state.cache))
    }
}

impl RxState {
    fn new(
        device: Option<Box<dyn RxDevice>>, pool: &PagePool, name: &str, handler: Handler,
    ) -> Result<Self, QueueError> {
        let (cache, burst) = (pool.cache(&format!("receiver of {name}"))?, pool.burst(BATCH_FRAMES_MAX));
        Ok(Self { device, cache, pool_place: None, burst, handler })
    }

    /// Shows the frames to the handler; whether it is through with them.
    fn hand_over(&mut self) -> bool {
        if !self.burst.is_empty() && (self.handler)(&mut self.burst) == Rest::Free {
            self.free();
        }
        self.burst.is_empty()
    }

    fn free(&mut self) {
        if !self.burst.is_empty() && self.cache.give(self.burst.batch_mut()).is_err() {
            // The handler has bound it to another pool.
            self.burst.clear();
        }
    }

    /// Whether there is memory to receive into, and was for what has come: of a long packet's there may be some, and too little.
    fn has_memory(&mut self) -> bool {
        !self.cache.ran_out() && (self.cache.has_frames() || self.cache.pool().depot_len() > 0)
    }
}

impl RxState {
    /// Waits for memory in turn, or no longer.
    fn wait_for_memory_in_turn(&mut self, starved: bool) {
        let is_waiting = self.pool_place.as_ref().is_some_and(|place| place.before().is_some());
        if starved && is_waiting {
            return;
        }
        if let Some(place) = self.pool_place.take() {
            place.leave(true);
        }
        self.cache.gather(starved);
        if starved {
            self.pool_place = Some(self.cache.join_wait_list(Arc::new(ComesBack)));
        }
    }
}

impl RxShared {
    /// Receives, from whichever device it is.
    fn receive(
        &self, state: &mut RxState, irq: IrqChange, away: bool, quota: u32, budget: usize,
    ) -> PollOutcome {
        let RxState { device, cache, burst, .. } = state;
        if burst.pool().region().number() != cache.pool().region().number() {
            burst.rebind(cache.pool());
        }
        let mut seen = PollOutcome { receives: true, ..PollOutcome::default() };
        let mut receive = |device: &mut dyn RxDevice| {
            if budget == 0 {
                return;
            }
            let result = device.receive(cache, burst.batch_mut(), budget);
            self.note(result, device, &mut seen);
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

    /// Nobody may come back for what it waits for. Another poller that does waits anew.
    fn step_aside(&self) {
        if let Ok(mut state) = self.state.try_lock() {
            state.wait_for_memory_in_turn(false);
        }
    }

    fn note(&self, result: Result<usize, DeviceError>, device: &dyn RxDevice, seen: &mut PollOutcome) {
        let received = result.unwrap_or_else(|error| {
            *lock(&self.error) = Some(error);
            0
        });
        self.received.fetch_add(received as u64, Relaxed);
        seen.received = received as u32;
        seen.due_ns = device.next_arrival_ns();
        if received == 0 && device.ended() {
            seen.receives = false;
            self.ended.store(true, Relaxed);
        }
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
                // Others wait for what it was to gather.
                poisoned.into_inner().wait_for_memory_in_turn(false);
                self.ended.store(true, Relaxed);
                return PollOutcome { over: true, ..PollOutcome::default() };
            }
        };
        if state.has_memory() {
            self.completions.iter().for_each(TxQueue::poll);
        } else {
            // It may lie in a device that holds back what has left.
            self.completions.iter().chain(&self.of).for_each(TxQueue::poll_for_memory);
            state.cache.pool().peers().reap(self.of.as_ref().map(|queue| &*queue.shared));
        }
        let budget = if state.hand_over() { budget_packets as usize } else { 0 };
        let mut found = self.receive(&mut state, irq, away, budget_packets, budget);
        let is_through = state.hand_over();
        let starved = found.received == 0 && found.receives && !state.has_memory();
        if starved || state.pool_place.is_some() {
            state.wait_for_memory_in_turn(starved);
        }
        found.waiting |= !is_through || starved;
        found.over |= self.of.is_none() && !found.receives && is_through;
        found
    }

    fn wait_fd(&self) -> Option<RawFd> {
        self.wait_fd
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

#[cfg(test)]
pub(crate) mod tests;
