//! `Link`: the state that the message thread and the thread that moves frames share.
//!
//! Each virtqueue has a lock of its own: the thread that moves frames takes it once per batch, the message
//! thread for a change. So a ring that was stopped is not in use, whenever its frames were moved last.

mod announcing;
mod faults;
mod pair_signals;

use super::vring::{Agreed, NoStart, Ring, Vring};
use crate::virtio::{Memory, Place, RingError};
use announcing::Announcing;
use faults::Faults;
use pair_signals::PairSignals;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};
use wharf_core::device::{DeviceError, Signals};
use wharf_mem::lock;
use wharf_sys::epoll::Epoll;
use wharf_sys::event::EventFd;

/// Most queue pairs: as many as fit the word of open pairs.
pub const PAIRS_MAX: u16 = 32;

/// Key of a change in the set that a poller waits on; the kicks follow.
const CHANGE: u64 = 0;

#[derive(Debug)]
pub(super) struct Link {
    name: String,
    /// Virtqueues by their number in messages: first the one for frames to the driver, then the one for
    /// frames from it.
    vrings: Box<[Mutex<Vring>]>,
    /// True if the poller wants notifications of buffers: not while polling.
    is_armed: AtomicBool,
    /// Bit n: frames may go to the driver by pair n, since its messages have been quiet.
    open_pairs: AtomicU32,
    /// The pairs that are open now: a driver opens them one by one, and flows would change their ring with
    /// each.
    announced_pairs: AtomicU32,
    /// A virtqueue of either direction runs and is enabled.
    is_ready: AtomicBool,
    /// Since when there has been no open pair; `None` while there is one.
    shut_since: Mutex<Option<Instant>>,
    /// The poller's wait set: kicks, and changes.
    poll: Epoll,
    change: EventFd,
    faults: Faults,
    /// Wakes the message thread.
    pub(super) wake: EventFd,
    /// True if the connection is to end, and the device with it.
    hangs_up: AtomicBool,
    /// The line was taken down: there is no connection meanwhile.
    is_down: AtomicBool,
    closes: AtomicBool,
    /// No driver will come any more.
    has_ended: AtomicBool,
    /// The connection, so that it can be ended from outside.
    stream: Mutex<Option<UnixStream>>,
    /// It has sent a message.
    has_driver: AtomicBool,
    /// Frames that another device left in flight.
    pub(super) given_back: AtomicU64,
    /// What was agreed upon with the driver.
    features: AtomicU64,
    signals: PairSignals,
    pub(super) announcing: Announcing,
}

impl Link {
    pub(super) fn new(name: String, pairs: u16, mac: Option<[u8; 6]>) -> std::io::Result<Self> {
        let (poll, change) = (Epoll::new()?, EventFd::new()?);
        poll.add(change.as_fd().as_raw_fd(), CHANGE, true)?;
        Ok(Self {
            name,
            vrings: (0..2 * pairs).map(|_| Mutex::default()).collect(),
            is_armed: AtomicBool::new(false),
            open_pairs: AtomicU32::new(0),
            announced_pairs: AtomicU32::new(0),
            is_ready: AtomicBool::new(false),
            shut_since: Mutex::new(Some(Instant::now())),
            poll,
            change,
            faults: Faults::default(),
            wake: EventFd::new()?,
            hangs_up: AtomicBool::new(false),
            is_down: AtomicBool::new(false),
            closes: AtomicBool::new(false),
            has_ended: AtomicBool::new(false),
            stream: Mutex::new(None),
            has_driver: AtomicBool::new(false),
            given_back: AtomicU64::new(0),
            features: AtomicU64::new(0),
            signals: PairSignals::new(pairs),
            announcing: Announcing::new(mac),
        })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn pairs(&self) -> usize {
        self.vrings.len() / 2
    }

    /// Returns virtqueue `index`, as messages count them.
    #[inline]
    pub(super) fn vring(&self, index: usize) -> Option<MutexGuard<'_, Vring>> {
        self.vrings.get(index).map(lock)
    }

    /// Calls `each` with every running ring of one direction; `first` is the number of its first virtqueue.
    pub(super) fn each_running(&self, first: usize, mut each: impl FnMut(&mut Ring)) {
        for mut vring in self.vrings.iter().skip(first).step_by(2).map(lock) {
            vring.running().into_iter().for_each(|running| running.write(&mut each));
        }
    }

    pub(super) fn vrings(&self) -> impl Iterator<Item = MutexGuard<'_, Vring>> {
        self.vrings.iter().map(lock)
    }

    /// Returns the open pairs: bit n for pair n.
    #[inline]
    pub(super) fn open_pairs(&self) -> u32 {
        self.open_pairs.load(Ordering::Relaxed)
    }

    /// True if other pairs are to be open once no message comes: see [`Link::settle`].
    pub(super) fn is_unsettled(&self) -> bool {
        self.open_pairs() != self.announced_pairs.load(Ordering::Relaxed)
    }

    /// Has frames go by the pairs that are open now.
    pub(super) fn settle(&self) {
        let mut shut_since = lock(&self.shut_since);
        let mask = self.announced_pairs.load(Ordering::Relaxed);
        *shut_since = if mask == 0 { shut_since.or_else(|| Some(Instant::now())) } else { None };
        self.open_pairs.store(mask, Ordering::Relaxed);
        drop(shut_since);
        if mask != 0 {
            self.announcing.open();
        }
        self.change.signal();
    }

    /// Returns true if no frame may go to the driver: there is none, or it has no virtqueue for them that is
    /// enabled.
    #[inline]
    pub(super) fn is_shut(&self) -> bool {
        self.open_pairs.load(Ordering::Relaxed) == 0
    }

    /// Returns true if the driver has a virtqueue of either direction that is enabled.
    pub(super) fn is_ready(&self) -> bool {
        self.is_ready.load(Ordering::Relaxed)
    }

    /// Returns the time for which no frame could go to the driver; `None` if frames can.
    pub(super) fn shut_for(&self) -> Option<Duration> {
        lock(&self.shut_since).map(|since| since.elapsed())
    }

    /// Sets the event that notifies of buffers in virtqueue `index`.
    pub(super) fn set_kick(
        &self, index: usize, vring: &mut Vring, kick: Option<EventFd>,
    ) -> std::io::Result<()> {
        self.unset_kick(vring);
        if let Some(kick) = &kick {
            self.poll.add(kick.as_fd().as_raw_fd(), CHANGE + 1 + index as u64, true)?;
        }
        vring.kick = Some(kick);
        Ok(())
    }

    pub(super) fn unset_kick(&self, vring: &mut Vring) {
        if let Some(Some(kick)) = vring.kick.take() {
            // The number was put in there.
            let _ = self.poll.remove(kick.as_fd().as_raw_fd());
        }
    }

    /// Starts virtqueue `index` if all is known. An impossible ring is a fault of the connection; one that
    /// cannot be resumed is reported.
    pub(super) fn start(&self, index: usize, memory: &Arc<Memory>, agreed: Agreed) -> Result<(), RingError> {
        let Some(vring) = self.vring(index) else { return Ok(()) };
        let place = vring.place(memory, agreed)?;
        drop(vring);
        // The first touch of the peer's memory may wait for the kernel: no thread shall wait for the lock meanwhile.
        place.iter().for_each(Place::touch);
        let Some(mut vring) = self.vring(index) else { return Ok(()) };
        // Threads that change it take the virtqueue's lock afterwards.
        let started = vring.start(memory, agreed, self.is_armed.load(Ordering::Relaxed));
        if vring.has_gone_before() {
            self.announcing.go_on();
        }
        let (given_back, holes) = (std::mem::take(&mut vring.given_back), std::mem::take(&mut vring.holes));
        drop(vring);
        // Given back unused, a buffer for a frame to the driver loses none.
        let lost = if index.is_multiple_of(2) { holes } else { given_back };
        self.given_back.fetch_add(lost, Ordering::Relaxed);
        self.changed();
        match started {
            Ok(_) => Ok(()),
            Err(NoStart::Ring(error)) => Err(error),
            Err(error @ NoStart::Unknown) => {
                self.fault(format!("virtqueue {index}: {error}"));
                Ok(())
            }
        }
    }

    /// Notifies the thread that moves frames: a virtqueue was started, stopped, or switched on or off.
    pub(super) fn changed(&self) {
        // Of two threads the second one reads what the first one has changed: no mask is that of before.
        let shut_since = lock(&self.shut_since);
        let open = self.vrings().step_by(2).enumerate().filter(|(_, vring)| vring.is_open());
        let mask = open.fold(0, |mask, (pair, _)| mask | 1u32 << pair);
        let is_ready = self.vrings().any(|mut vring| vring.is_enabled && vring.running().is_some());
        self.is_ready.store(is_ready, Ordering::Relaxed);
        self.announced_pairs.store(mask, Ordering::Relaxed);
        drop(shut_since);
        if mask == 0 || self.pairs() == 1 {
            return self.settle();
        }
        self.change.signal();
        // It settles them.
        self.wake.signal();
    }

    /// Forgets all that the connection announced.
    pub(super) fn reset(&self) {
        for mut vring in self.vrings() {
            vring.stop();
            self.unset_kick(&mut vring);
            *vring = Vring::default();
        }
        self.hangs_up.store(false, Ordering::Relaxed);
        self.announcing.begin();
        self.changed();
    }

    /// Sets whether virtqueues that start from now on notify of buffers; running ones are set one by one.
    pub(super) fn set_armed(&self, is_armed: bool) {
        self.is_armed.store(is_armed, Ordering::Relaxed);
    }

    /// Returns the descriptor that notifies a poller of kicks and changes.
    pub(super) fn poll_fd(&self) -> RawFd {
        self.poll.as_raw_fd()
    }

    /// Clears the notifications so far.
    pub(super) fn look(&self) {
        self.poll.take_events(|key| {
            key.checked_sub(CHANGE + 1).into_iter().for_each(|index| self.signals.came(index as usize));
        });
    }

    /// Notes a notification of the driver about virtqueue `index`.
    #[inline]
    pub(super) fn note_call(&self, index: usize) {
        self.signals.sent(index);
    }

    /// Returns the notifications of the driver that were seen, and those sent to it, by pair.
    pub(super) fn signals(&self) -> impl Iterator<Item = Signals> {
        self.signals.each()
    }

    /// Notes what was agreed upon.
    pub(super) fn note_features(&self, features: u64) {
        self.features.store(features, Ordering::Relaxed);
    }

    /// Returns what was agreed upon with the driver that is there.
    pub(super) fn features(&self) -> Option<u64> {
        self.has_driver().then(|| self.features.load(Ordering::Relaxed)).filter(|&features| features != 0)
    }

    /// Notes an error for the thread that moves frames.
    pub(super) fn fault(&self, what: String) {
        self.faults.add(what);
        self.change.signal();
    }

    /// Returns the first error to be reported, once.
    #[inline]
    pub(super) fn take_fault(&self) -> Result<(), DeviceError> {
        if !self.faults.has_any() { Ok(()) } else { self.take_first_fault() }
    }

    #[cold]
    fn take_first_fault(&self) -> Result<(), DeviceError> {
        let error = |what| DeviceError::Unsupported { device: self.name.clone(), what };
        self.faults.take().map_or(Ok(()), |what| Err(error(what)))
    }

    /// Has the machine's MAC address announced, after a migration: the word begins with its bytes.
    pub(super) fn announce(&self, mac: u64) {
        self.announcing.add(mac);
        self.change.signal();
    }

    /// Reports a virtqueue whose driver breaks the rules.
    #[cold]
    pub(super) fn broken(&self, index: usize, error: &RingError) {
        self.fault(format!("virtqueue {index}: {error}; it stands still until its driver sets it up anew"));
    }

    /// Ends the connection: shared memory has gone.
    #[cold]
    pub(super) fn lost_memory(&self) {
        if !self.hangs_up.swap(true, Ordering::Relaxed) {
            self.fault("the other side made its shared memory shorter; the connection is closed".into());
            self.wake.signal();
        }
    }

    pub(super) fn hangs_up(&self) -> bool {
        self.hangs_up.load(Ordering::Relaxed)
    }

    /// Notes that no driver will come any more.
    pub(super) fn end(&self) {
        self.has_ended.store(true, Ordering::Relaxed);
        self.change.signal();
    }

    pub(super) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Relaxed)
    }

    pub(super) fn closes(&self) -> bool {
        self.closes.load(Ordering::Relaxed)
    }

    /// Notes the connection that is served, if the device is open; or that there is none.
    pub(super) fn set_stream(&self, stream: Option<UnixStream>) {
        self.has_driver.store(false, Ordering::Relaxed);
        self.note_features(0);
        *lock(&self.stream) = stream;
        if self.closes() || self.is_down() {
            self.shut();
        }
    }

    /// Takes the line down, and ends the connection, or has it up again.
    pub(super) fn set_down(&self, is_down: bool) {
        self.is_down.store(is_down, Ordering::Relaxed);
        if is_down {
            self.shut();
        }
        self.wake.signal();
        self.change.signal();
    }

    /// True if the line was taken down.
    #[inline]
    pub(super) fn is_down(&self) -> bool {
        self.is_down.load(Ordering::Relaxed)
    }

    /// Notes that the other side of the connection speaks as a driver.
    pub(super) fn note_driver(&self) {
        self.has_driver.store(true, Ordering::Relaxed);
    }

    pub(super) fn has_driver(&self) -> bool {
        self.has_driver.load(Ordering::Relaxed)
    }

    /// Ends the device: the message thread comes to its end.
    pub(super) fn close(&self) {
        self.closes.store(true, Ordering::Relaxed);
        self.shut();
        self.wake.signal();
    }

    fn shut(&self) {
        if let Some(stream) = lock(&self.stream).take() {
            // The connection may be gone.
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
    }
}
