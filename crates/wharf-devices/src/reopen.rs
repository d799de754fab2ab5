//! Devices that are opened anew, on the same memory, after their interface or peer has gone, or when they are reset.
//!
//! [`Reopener::around`] puts a wrapper around each side that one specification has opened. A wrapper whose device has gone closes
//! it: the socket is let go of, memory for arrivals comes back, and the frames that the device held fail as
//! [`LOST`](wharf_core::device::LOST). Until all wrappers of the specification hold a new device they take no frames, and
//! senders wait. A thread of the [`Reopener`]'s opens the device again, however long that takes: in the network namespace, and on
//! the processors, of the thread that opened it first.
//!
//! Reading order: this file (what the sides share, and the thread), `reopened.rs` (the wrapper), `side.rs`, `counts.rs`.

mod backoff;
mod counts;
mod reopened;
mod side;

pub use reopened::Reopened;

use crate::spec::{DeviceSpec, Direction, Opened, Place, Queues};
use backoff::{Backoff, PAUSE};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use wharf_core::device::{AnyDevice, DeviceError};
use wharf_core::host::{Wake, outlive};
use wharf_core::wrap_device;
use wharf_mem::{Region, lock};
use wharf_sys::event::EventFd;

/// Name of the threads that open interfaces again.
pub const INTERFACE_THREAD: &str = "wharf-reopen";
/// Time in which all sides are to have closed their device. The attempts begin without a side that nothing polls.
const CLOSING_MAX: Duration = Duration::from_secs(1);

/// Treatment of a device whose interface or peer has gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnGone {
    /// It is closed, and its frames fail as `lost`. Senders wait until the program asks for it to be opened again (`Port::reopen`).
    Wait,
    /// Works like [`OnGone::Wait`], and it is opened again: it is tried ten times a second, later less often.
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
    direction: Direction,
    queues: Queues,
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
}

#[derive(Default)]
struct State {
    slots: Vec<Slot>,
    /// Since when the device is closed, or to be closed.
    since: Option<Instant>,
    backoff: Backoff,
    /// A reset was asked for since.
    is_reset: bool,
    is_closed: bool,
}

/// The place of one side.
#[derive(Default)]
struct Slot {
    /// Memory that the device is attached to.
    region: Option<Arc<Region>>,
    /// The side has closed its device.
    is_retired: bool,
    /// The side is closed, and wants no device any more.
    is_gone: bool,
    /// The new device, and the value of [`Reopener::asked`] that it is newer than.
    next: Option<(u64, AnyDevice)>,
}

impl State {
    /// Asks the sides to close their device. Returns the devices that they have not taken yet.
    fn ask(&mut self, asked: &AtomicU64) -> Vec<(u64, AnyDevice)> {
        self.since = Some(Instant::now());
        asked.fetch_add(1, SeqCst);
        let untaken = self.slots.iter_mut().filter_map(|slot| {
            let next = slot.next.take()?;
            slot.is_retired = true;
            Some(next)
        });
        untaken.collect()
    }

    /// True once each side has closed its device. One that has no memory yet holds nothing.
    fn is_retired(&self) -> bool {
        self.slots.iter().all(|slot| slot.is_retired || slot.is_gone || slot.region.is_none())
    }

    fn attached(&self) -> usize {
        self.slots.iter().filter(|slot| slot.region.is_some()).count()
    }
}

impl std::fmt::Debug for Reopener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Reopener({})", self.spec)
    }
}

impl Reopener {
    /// Puts a wrapper around each device of `opened`, which `spec` has opened for `direction` with `queues`. With
    /// [`OnGone::Fail`] the loss of a device is an error as without it, and [`Reopener::reset`] alone opens it again. Returns `None`,
    /// and leaves them as they are, if the kind of device has no place that could come back: a file would be begun anew.
    ///
    /// # Errors
    /// The system is out of descriptors, or gives no thread.
    pub fn around(
        spec: &DeviceSpec, direction: Direction, queues: Queues, on_gone: OnGone, opened: &mut Vec<Opened>,
    ) -> std::io::Result<Option<Arc<Self>>> {
        if matches!(spec.kind().place, Place::Nowhere | Place::File(_)) {
            return Ok(None);
        }
        let reopener = Arc::new(Self {
            spec: spec.clone(),
            direction,
            queues,
            on_gone,
            asked: AtomicU64::new(0),
            state: Mutex::default(),
            changed: Condvar::new(),
            ready: EventFd::new()?,
            observers: Mutex::default(),
            pollers: Mutex::default(),
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
        state.slots.push(Slot::default());
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
        let mut state = self.lock();
        if state.is_closed {
            return;
        }
        state.is_reset = true;
        let is_news = state.since.is_none();
        let untaken = if is_news { state.ask(&self.asked) } else { Vec::new() };
        drop((state, untaken));
        if is_news {
            self.tell(&Change::Reset);
        }
        self.notify();
    }

    /// True if a device that has gone is opened again without a [`Reopener::reset`].
    pub fn is_automatic(&self) -> bool {
        self.on_gone == OnGone::Reopen
    }

    /// Returns the time for which the device has been closed; `None` while it is open.
    pub fn away(&self) -> Option<Duration> {
        self.lock().since.map(|since| since.elapsed())
    }

    /// The device of a side has gone: all sides close theirs.
    fn gone(&self, error: &DeviceError) {
        let mut state = self.lock();
        if state.is_closed || state.since.is_some() {
            return;
        }
        let untaken = state.ask(&self.asked);
        drop((state, untaken));
        self.tell(&Change::Gone(error));
        self.notify();
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

    /// Takes the new device of side `at`, if it is there, and the value of [`Reopener::asked`] that it is newer than.
    fn take(&self, at: usize) -> Option<(u64, AnyDevice)> {
        self.lock().slots[at].next.take()
    }

    /// Opens the device again each time that it has gone or is reset. The thread's work, until all sides are closed.
    fn serve(&self) {
        while self.wait_for_loss() {
            self.ready.clear();
            let mut is_first = true;
            while let Some(slots) = self.wait_for_turn(std::mem::take(&mut is_first)) {
                let attached = slots.iter().flatten().count();
                // A kind of the user's may panic.
                match outlive(|| self.open(slots)).unwrap_or_else(|| Err(self.spec.fault("it panicked"))) {
                    Ok(devices) => {
                        if self.hand_out(devices, attached) {
                            break;
                        }
                    }
                    // What a reset finds missing has gone.
                    Err(error) if !self.is_automatic() && is_missing(&error) => {
                        self.tell(&Change::Gone(&error));
                        if self.on_gone == OnGone::Fail {
                            return;
                        }
                    }
                    Err(error) => self.tell(&Change::NotYet(&error)),
                }
            }
        }
        self.ready.clear(); // descriptors of closed sides stand for it
    }

    /// Waits until the device is to be opened again. Returns false once all sides are closed.
    fn wait_for_loss(&self) -> bool {
        let mut state = self.lock();
        while !state.is_closed && !(state.since.is_some() && (self.is_automatic() || state.is_reset)) {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        !state.is_closed
    }

    /// Waits until the next attempt is due, as [`Backoff`] says or a reset asks, and not before the sides
    /// have closed their device. Returns the memory of each side; `None` if all are closed.
    fn wait_for_turn(&self, is_first: bool) -> Option<Vec<Option<Arc<Region>>>> {
        let mut state = self.lock();
        let began = state.since.filter(|_| is_first).unwrap_or_else(Instant::now);
        let closing_max = state.since.map_or(began, |since| since + CLOSING_MAX);
        let is_asked = state.is_reset;
        let pause = if is_first { state.backoff.lost(began, is_asked) } else { PAUSE };
        while !state.is_closed {
            let now = Instant::now();
            let earliest = began + if state.is_reset { pause.min(PAUSE) } else { pause };
            let until = if state.is_retired() { earliest } else { closing_max.max(earliest) };
            if now >= until {
                // A reset from here on concerns the device that is opened now.
                state.is_reset = false;
                return Some(state.slots.iter().map(|slot| slot.region.clone()).collect());
            }
            let waited = self.changed.wait_timeout(state, until - now);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        None
    }

    /// Opens the device, and attaches each side to its memory.
    fn open(&self, slots: Vec<Option<Arc<Region>>>) -> Result<Vec<AnyDevice>, DeviceError> {
        let opened = self.spec.open(self.direction, self.queues)?;
        let sides = opened.into_iter().flat_map(|opened| {
            [Some(opened.device), opened.receiving.map(AnyDevice::from)].into_iter().flatten()
        });
        let mut devices: Vec<AnyDevice> = sides.collect();
        if devices.len() != slots.len() {
            return Err(self.spec.fault("it came back with another number of queues"));
        }
        for (device, region) in devices.iter_mut().zip(slots) {
            if let Some(region) = region {
                device.attach(region)?;
            }
        }
        Ok(devices)
    }

    /// Gives each side its device, `attached` of which are attached to memory. Returns false if more sides are by
    /// now, or a reset was asked for: another attempt is necessary.
    fn hand_out(&self, devices: Vec<AnyDevice>, attached: usize) -> bool {
        let after = self.away().unwrap_or_default();
        let mut state = self.lock();
        if state.is_reset || state.attached() != attached {
            return false;
        }
        drop(state);
        // Before a side can tell that its line is up, or that the new device has gone as well.
        self.tell(&Change::Reopened { after });
        state = self.lock();
        let (generation, mut unused) = (self.asked(), Vec::new());
        for (slot, device) in state.slots.iter_mut().zip(devices) {
            if slot.is_gone {
                unused.push(device);
            } else {
                (slot.next, slot.is_retired) = (Some((generation, device)), false);
            }
        }
        state.since = None;
        state.backoff.opened(Instant::now());
        // A reset that came with the news is one of the new device.
        let untaken = if std::mem::take(&mut state.is_reset) { state.ask(&self.asked) } else { Vec::new() };
        state.is_reset = !untaken.is_empty();
        drop((state, unused, untaken));
        self.ready.signal();
        self.notify();
        true
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
