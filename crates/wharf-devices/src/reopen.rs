//! Devices that are opened anew, on the same memory, after their interface or peer has gone, or when they are reset.
//!
//! [`Reopener::around`] puts a wrapper around each side that one specification has opened. A wrapper whose device has gone closes
//! it: the socket is let go of, memory for arrivals comes back, and the frames that the device held fail as
//! [`LOST`](wharf_core::device::LOST). Until all wrappers of the specification hold a new device they take no frames, and
//! senders wait. A thread of the [`Reopener`]'s opens the device again, however long that takes: in the network namespace, and on
//! the processors, of the thread that opened it first.
//!
//! Reading order: this file (what the sides share), `state.rs`, `thread.rs`, `reopened.rs` (the wrapper),
//! `side.rs`, `counts.rs`.

mod backoff;
mod counts;
mod reopened;
mod side;
mod state;
mod thread;

pub use reopened::Reopened;

use crate::spec::{DeviceSpec, Opened, Opening, Place};
use state::State;
use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;
use wharf_core::device::{AnyDevice, DeviceError};
use wharf_core::host::{Wake, outlive};
use wharf_core::wrap_device;
use wharf_mem::{Region, lock};
use wharf_sys::event::EventFd;

/// Name of the threads that open interfaces again.
pub const INTERFACE_THREAD: &str = "wharf-reopen";

/// Treatment of a device whose interface or peer has gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnGone {
    /// It is closed, and its frames fail as `lost`. Senders wait until the program asks for it to be opened again (`Port::reopen`).
    Wait,
    /// Works like [`OnGone::Wait`], and it is opened again: that is tried every 100 ms, and every 20 ms in
    /// the first minute without an interface or peer. If the new device goes within a second each time,
    /// the pause before its first attempt grows to 3.2 s.
    #[default]
    Reopen,
    /// A path's queue ends: senders get [`SendError::Ended`](wharf_core::sender::SendError::Ended).
    Fail,
}

/// News of a device that is opened anew.
#[derive(Debug)]
pub enum Change<'a> {
    /// The device has gone: it is closed, and opened again once it can be.
    Gone(&'a DeviceError),
    /// A reset closes it.
    Reset,
    /// It cannot be opened yet.
    NotYet(&'a DeviceError),
    /// It is open again.
    Reopened {
        /// Time since it had gone, or was reset.
        after: Duration,
    },
}

type Observer = Arc<dyn Fn(&Change<'_>) + Send + Sync>;

/// State that the sides of one specification share.
pub struct Reopener {
    spec: DeviceSpec,
    opening: Opening,
    on_gone: OnGone,
    /// Number of times that the sides were asked to close their device.
    asked: AtomicU64,
    state: Mutex<State>,
    /// Told of each change of the state.
    changed: Condvar,
    /// Readable once the device is open again: what a poller waits for meanwhile.
    ready: EventFd,
    observers: Mutex<Vec<Observer>>,
    pollers: Mutex<Vec<Arc<dyn Wake>>>,
    /// Held from a change of the state to the end of its report, so that observers hear of changes in order.
    /// It is taken before the state, and not by observers: the device is away while they hear.
    reports: Mutex<()>,
}

impl std::fmt::Debug for Reopener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Reopener({})", self.spec)
    }
}

impl Reopener {
    /// Puts a wrapper around each device of `opened`, which `spec` has opened by `opening`. With
    /// [`OnGone::Fail`] the loss of a device is an error as without it, and [`Reopener::reset`] alone opens it again. Returns `None`,
    /// and leaves them as they are, if the kind of device has no place that could come back: a file would be begun anew.
    ///
    /// # Errors
    /// The system is out of descriptors, or gives no thread.
    pub fn around(
        spec: &DeviceSpec, opening: Opening, on_gone: OnGone, opened: &mut Vec<Opened>,
    ) -> std::io::Result<Option<Arc<Self>>> {
        if matches!(spec.kind().place, Place::Nowhere | Place::File(_)) {
            return Ok(None);
        }
        let reopener = Arc::new(Self {
            // Peers know the port that the kernel has chosen.
            spec: opened.first().map_or_else(|| spec.clone(), |one| spec.with_port_of(&one.device.name())),
            opening,
            on_gone,
            asked: AtomicU64::new(0),
            state: Mutex::default(),
            changed: Condvar::new(),
            ready: EventFd::new()?,
            observers: Mutex::default(),
            pollers: Mutex::default(),
            reports: Mutex::default(),
        });
        let serving = reopener.clone();
        // Opening an interface may take a privilege, and starts no thread. A peer's threads would inherit it.
        let is_interface = matches!(spec.kind().place, Place::Interface(_) | Place::Adapter(_));
        let name = if is_interface { INTERFACE_THREAD } else { "wharf-reconnect" };
        std::thread::Builder::new().name(name.into()).spawn(move || serving.serve())?;
        *opened = std::mem::take(opened).into_iter().map(|opened| reopener.wrap(opened)).collect();
        Ok(Some(reopener))
    }

    fn wrap(self: &Arc<Self>, opened: Opened) -> Opened {
        let device = wrap_device!(opened.device, |inner| Reopened::new(inner, self.clone(), self.add_slot()));
        let receiving = opened.receiving.map(|inner| {
            let at = self.add_slot();
            Box::new(Reopened::new(inner, self.clone(), at)) as Box<_>
        });
        Opened { device, receiving, ..opened }
    }

    fn add_slot(&self) -> usize {
        let mut state = self.lock();
        state.slots.push(Default::default());
        state.slots.len() - 1
    }

    /// Adds an observer, which hears of each [`Change`], in any thread, with no lock held.
    pub fn observe(&self, observer: impl Fn(&Change<'_>) + Send + Sync + 'static) {
        lock(&self.observers).push(Arc::new(observer));
    }

    /// Adds a wake-up of a poller that serves a side: called when the side has something to do.
    pub fn add_poller(&self, poller: Arc<dyn Wake>) {
        lock(&self.pollers).push(poller);
    }

    /// Closes the device, whose frames are lost, and opens it again. While that goes on already, it is done once more at most. A side
    /// that nothing polls closes its device when its line is next asked for: see [`Device::link`](wharf_core::device::Device::link).
    pub fn reset(&self) {
        self.lose(&Change::Reset);
        self.notify();
    }

    /// True if a device that has gone is opened again without a [`Reopener::reset`].
    pub fn is_automatic(&self) -> bool {
        self.on_gone == OnGone::Reopen
    }

    /// Returns the mode of the device as it was opened again last: see
    /// [`Device::mode`](wharf_core::device::Device::mode).
    pub fn mode(&self) -> Option<&'static str> {
        self.lock().mode
    }

    /// Returns the time for which the device has been closed; `None` while it is open.
    pub fn away(&self) -> Option<Duration> {
        self.lock().since.map(|since| since.elapsed())
    }

    /// The device of a side has gone: all sides close theirs.
    fn gone(&self, error: &DeviceError) {
        if self.lose(&Change::Gone(error)) {
            self.notify();
        }
    }

    /// Asks the sides to close their device, and reports why, unless they are asked already, or closed.
    /// Returns true if that is news.
    fn lose(&self, why: &Change<'_>) -> bool {
        let is_reset = matches!(why, Change::Reset);
        let is_away = |state: &mut State| {
            // A reset concerns the device that comes.
            state.is_reset |= is_reset && state.since.is_some();
            state.is_closed || state.since.is_some()
        };
        // Without the lock on reports: an observer that resets the device comes here.
        if is_away(&mut self.lock()) {
            return false;
        }
        let _reports = lock(&self.reports);
        let mut state = self.lock();
        if is_away(&mut state) {
            return false;
        }
        state.is_reset |= is_reset;
        let untaken = state.ask(&self.asked);
        drop((state, untaken));
        self.tell(why);
        true
    }

    /// Returns the number of times that the sides were asked to close their device.
    #[inline(always)]
    fn asked(&self) -> u64 {
        self.asked.load(SeqCst)
    }

    /// Notes the memory of side `at`.
    fn attach(&self, at: usize, region: &Arc<Region>) {
        self.lock().slots[at].region = Some(region.clone());
    }

    /// Side `at` has closed its device.
    fn retired(&self, at: usize) {
        self.lock().slots[at].is_retired = true;
        self.changed.notify_all();
    }

    /// Side `at` is closed for good: the device is not opened any more once all are.
    fn closed(&self, at: usize) {
        let mut state = self.lock();
        state.slots[at].is_gone = true;
        let next = state.slots[at].next.take();
        state.is_closed = state.slots.iter().all(|slot| slot.is_gone);
        drop((state, next));
        self.changed.notify_all();
    }

    /// Waits until the thread has no device any more once all sides are closed, for at most `time`.
    pub fn wait_closed(&self, time: Duration) {
        let state = self.lock();
        _ = self.changed.wait_timeout_while(state, time, |state| state.is_closed && state.is_opening);
    }

    /// Takes the new device of side `at`, if it is there, and the value of [`Reopener::asked`] that it is
    /// newer than.
    fn take(&self, at: usize) -> Option<(u64, AnyDevice)> {
        let slot = &mut self.lock().slots[at];
        let next = slot.next.take();
        // A side that has closed its device late has the mark still.
        slot.is_retired &= next.is_none();
        next
    }

    /// Reports a change behind those that are being reported.
    fn report(&self, change: &Change<'_>) {
        let _reports = lock(&self.reports);
        self.tell(change);
    }

    fn tell(&self, change: &Change<'_>) {
        let observers = lock(&self.observers).clone();
        observers.iter().for_each(|observer| _ = outlive(|| observer(change)));
    }

    /// Calls the thread, and the sides' pollers.
    fn notify(&self) {
        self.changed.notify_all();
        let pollers = lock(&self.pollers).clone();
        pollers.into_iter().for_each(|poller| _ = outlive(|| poller.wake()));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

/// True if the error says that there is no interface or peer, or that the interface is down.
fn is_absent(error: &DeviceError) -> bool {
    let errno = error.source().and_then(|source| source.downcast_ref::<std::io::Error>()?.raw_os_error());
    is_missing(error) || errno == Some(wharf_sys::errno::ENETDOWN)
}

/// True if the error says that there is no such interface or peer, which is no news once it has gone.
pub fn is_missing(error: &DeviceError) -> bool {
    use wharf_sys::errno::{ECONNREFUSED, ENODEV, ENOENT, ENXIO};
    match error {
        DeviceError::Gone { .. } => true,
        DeviceError::Io { source, .. } => {
            source.raw_os_error().is_some_and(|errno| [ECONNREFUSED, ENODEV, ENOENT, ENXIO].contains(&errno))
        }
        _ => false,
    }
}
