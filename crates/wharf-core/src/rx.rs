//! `RxQueue`: the receive side of a device, run by pollers.
//!
//! A poll takes completions of the transmit side first, so that memory and room are freed before more is
//! taken. It then receives up to the poller's budget and hands the frames to the user's handler. While the
//! handler runs, only the queue's own lock is held, which other threads only try: the handler may send on
//! any queue, by [`crate::tx::sender::Sender::send`] without waiting. A handler that blocks also blocks its
//! poller and all devices of that.

mod counters;
mod flood;
mod inbox;
mod polled;
mod pulled;
mod receiver;
mod state;
mod whole;

pub use receiver::{Receiver, RecvError, select};

use crate::device::{Description, DeviceError, ModeReason, RxDevice, close_receiver};
use crate::host::Wake;
use crate::metrics::Measured;
use crate::monitor::{Link, Monitor, Watched};
use crate::pool::PagePool;
use crate::tx::queue::{QueueError, TxQueue};
use crate::wakeup::Callers;
use counters::{LastCounts, RxCounters};
use inbox::Inbox;
pub(crate) use pulled::PulledTarget;
use state::RxState;
pub use state::{Handler, Rest};
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
    device: Description,
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
        write!(f, "RxQueue({}, {} received)", self.device.name, self.counters.received.get())
    }
}

impl RxQueue {
    /// Receives from `device`, which only receives, into memory of `pool`. Each poll also takes the
    /// completions of `completions`, the queues that the handler sends by, unless another thread owns them.
    ///
    /// # Errors
    /// [`QueueError::Device`] when the device cannot use the memory, [`QueueError::Pool`].
    pub fn new(
        device: Box<dyn RxDevice>, pool: &PagePool, completions: &[TxQueue], handler: Handler,
    ) -> Result<Self, QueueError> {
        Self::over(device, false, pool, completions, handler).map_err(|(error, _)| error)
    }

    /// Works like [`RxQueue::new`]. The device `is_attached` if it has the memory of `pool` already: see
    /// [`RxQueue::release`].
    ///
    /// # Errors
    /// Those of [`RxQueue::new`], with the device as it was.
    #[doc(hidden)]
    pub fn over(
        mut device: Box<dyn RxDevice>, is_attached: bool, pool: &PagePool, completions: &[TxQueue],
        handler: Handler,
    ) -> Result<Self, (QueueError, Box<dyn RxDevice>)> {
        let state = RxState::new(pool, &device.name(), handler).and_then(|state| {
            if !is_attached {
                device.attach(pool.region().clone())?;
            }
            Ok(state)
        });
        match state {
            Ok(state) => {
                let description = Description::of(&*device);
                let state = RxState { device: Some(device), ..state };
                Ok(Self::of_parts(description, None, completions, state))
            }
            Err(error) => Err((error, device)),
        }
    }

    /// Receives from the device of `queue`, into memory of its pool. Its poller also runs the queue. While a
    /// dedicated owner has the queue, nothing is received.
    ///
    /// # Errors
    /// [`QueueError::OnlySends`], [`QueueError::Pool`].
    pub fn of(queue: &TxQueue, handler: Handler) -> Result<Self, QueueError> {
        let device = queue.shared.setup().device.clone();
        if !queue.shared.setup().receives {
            return Err(QueueError::OnlySends { device: device.name, what: "it only sends" });
        }
        let state = RxState::new(queue.pool(), &device.name, handler)?;
        Ok(Self::of_parts(device, Some(queue.clone()), &[], state))
    }

    fn of_parts(device: Description, of: Option<TxQueue>, completions: &[TxQueue], state: RxState) -> Self {
        let shared = RxShared {
            device,
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
        self.shared.device.wait_fd.is_some()
    }

    /// Returns how the device works on this machine: see [`Device::mode`](crate::device::Device::mode).
    pub fn device_mode(&self) -> Option<&'static str> {
        self.shared.of.as_ref().map_or(self.shared.device.mode, TxQueue::device_mode)
    }

    /// Returns the cause that the mode is no better one: see
    /// [`Device::mode_reason`](crate::device::Device::mode_reason).
    #[doc(hidden)]
    pub fn device_mode_reason(&self) -> Option<&ModeReason> {
        self.shared.device.mode_reason.as_ref()
    }

    /// True if both are handles to one queue.
    #[doc(hidden)]
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
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

    /// Has `monitor` hear of the queue. The first one stays.
    #[doc(hidden)]
    pub fn set_monitor(&self, monitor: Arc<dyn Monitor>) {
        _ = self.shared.monitor.set(monitor);
    }

    /// Returns a wake-up of the queue's poller, for threads that have work for it.
    #[doc(hidden)]
    pub fn call_poller(&self) -> Arc<dyn Wake> {
        Arc::new(Arc::downgrade(&self.shared))
    }

    /// Returns its metrics, for as long as it lives. A walk asks the next poll for those of the device.
    #[doc(hidden)]
    pub fn measured(&self) -> Weak<dyn Measured> {
        let shared: Arc<dyn Measured> = self.shared.clone();
        Arc::downgrade(&shared)
    }

    /// Has the device post memory for arrivals, on the caller's thread: a device drops what comes before. A
    /// poller does the same, once its thread runs. An error is told like one of a poll. A dedicated owner of
    /// the queue keeps the device.
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
            (Some(queue), _) if queue.shared.cell().word() & DEDICATED != 0 => {}
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

    /// Calls the poller of the queue: it shows the packets again that the handler has left ([`Rest::Again`]).
    /// Any thread may call, also while the handler runs: it then runs once more.
    pub fn resume(&self) {
        self.shared.resume();
    }

    /// Takes the last error of the device, or the panic of the device or the handler, which ends receiving.
    pub fn take_error(&self) -> Option<DeviceError> {
        lock(&self.shared.error).take()
    }

    /// Ends receiving: frees the frames that the handler had left, which count as dropped (`receiver-gone`),
    /// drops the handler, ends the wait of each [`Receiver`], closes a device that belongs to no transmit
    /// queue. Waits for the end of a poll, for ever if the handler calls it.
    ///
    /// # Errors
    /// The device's error.
    pub fn close(&self) -> Result<(), DeviceError> {
        let device = self.release();
        let cache = &mut lock(&self.shared.state).cache;
        device.map_or(Ok(()), |mut device| close_receiver(&mut *device, cache))
    }

    /// Works like [`RxQueue::close`], and returns the device that belongs to no transmit queue as it is: it
    /// keeps the frames that it has for arrivals.
    #[doc(hidden)]
    pub fn release(&self) -> Option<Box<dyn RxDevice>> {
        self.shared.end_with_rest();
        self.resume(); // A thread that polls in its own calls may wait in one.
        let mut last = LastCounts::default();
        self.look_at_device(|device| last.add(device));
        self.shared.counters.keep_last(last);
        let mut state = lock(&self.shared.state);
        self.shared.counters.count_left(state.burst.len());
        state.free();
        state.wait_for_memory_in_turn(false);
        let device = state.device.take();
        // Its senders give their memory back.
        let handler = state.take_handler();
        drop((state, handler));
        device
    }
}

impl Watched for RxQueue {
    fn link(&self) -> Link {
        self.shared.link()
    }
}

impl Wake for RxShared {
    fn wake(&self) {
        self.resume();
    }
}

impl RxShared {
    pub(crate) fn resume(&self) {
        self.callers.call_one();
    }

    /// Notes that no frame will be received any more, and wakes the receivers.
    fn end(&self) {
        self.ended.store(true, Release);
        self.tell();
    }

    /// Works like [`RxShared::end`], once the receivers have the packets that were held for them: they ask no
    /// more behind the end.
    fn end_with_rest(&self) {
        // A handler that has panicked is called no more.
        let mut state = self.state.lock();
        if let (Ok(state), Some(_)) = (&mut state, self.inboxes.get()) {
            state.hand_over();
        }
        self.ended.store(true, Release);
        drop(state);
        self.tell();
    }

    /// Wakes the receivers that wait and have packets; all if there is news for all.
    fn tell(&self) {
        let is_for_all = self.concerns_all();
        for inbox in self.inboxes.get().into_iter().flatten() {
            let mut inbox = lock(inbox);
            let has_news = is_for_all || !inbox.is_empty();
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
        *lock(&self.error) = Some(DeviceError::Io { device: self.device.name.clone(), what, source });
        self.monitor.get().inspect(|monitor| monitor.panicked("its handler or its device panicked", false));
        self.end();
    }

    /// Leaves the wait list: no poller may come back for the memory. Another poller joins it again.
    fn step_aside(&self) {
        if let Ok(mut state) = self.state.try_lock() {
            state.wait_for_memory_in_turn(false);
        }
    }

    fn note_error(&self, error: DeviceError) {
        self.monitor.get().inspect(|monitor| monitor.error(&error));
        *lock(&self.error) = Some(error);
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
