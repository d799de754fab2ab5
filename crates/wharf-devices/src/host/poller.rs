//! A poller's thread, which waits for a call, a time, or any of its devices.

use super::ExactClock;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::atomic::{AtomicU8, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use wharf_core::host::{Clock, PollerWait, Wake};
use wharf_core::poller::{Poller, PollerCounters, PollerStop, Settings};
use wharf_core::queue::TxQueue;
use wharf_core::rx::RxQueue;
use wharf_sys::epoll::Epoll;
use wharf_sys::event::EventFd;

/// Waits in epoll(7).
#[derive(Debug)]
pub struct HostWait {
    epoll: Epoll,
    bell: Arc<Bell>,
    /// Sources by device.
    watched: BTreeMap<usize, Watched>,
    /// Devices that notified while another one was unmasked.
    told: Vec<usize>,
}

/// A device's descriptor.
///
/// A masked descriptor is not in epoll's set at all. A socket in the set, masked or not, takes the set's lock
/// with each packet that leaves or arrives, on any processor (`net/core/sock.c`: `sock_def_write_space`;
/// `fs/eventpoll.c`: `ep_poll_callback`).
#[derive(Debug)]
struct Watched {
    fd: RawFd,
    is_in_set: bool,
}

/// The key of the bell, which is no device's.
const BELL: u64 = u64::MAX;

/// Wakes the waiting thread: by a system call only while it sleeps.
#[derive(Debug)]
struct Bell {
    state: AtomicU8,
    event: EventFd,
}

const AWAKE: u8 = 0;
const SLEEPS: u8 = 1;
const RUNG: u8 = 2;

impl Wake for Bell {
    fn wake(&self) {
        if self.state.compare_exchange(AWAKE, RUNG, SeqCst, SeqCst) == Err(SLEEPS) {
            // The sleeper alone changes the state: a thread that is stopped here keeps no other one from the signal.
            self.event.signal();
        }
    }
}

impl HostWait {
    /// Makes a new one, for any thread.
    ///
    /// # Errors
    /// The system is out of descriptors.
    pub fn new() -> io::Result<Self> {
        let (epoll, event) = (Epoll::new()?, EventFd::new()?);
        epoll.add(event.as_fd().as_raw_fd(), BELL, true)?;
        let bell = Arc::new(Bell { state: AtomicU8::new(AWAKE), event });
        let wait = Self { epoll, bell, watched: BTreeMap::new(), told: Vec::new() };
        // An event counter is writable, and reports that once.
        wait.epoll.take_events(|_| {});
        Ok(wait)
    }

    /// Puts device `at` into the set, or arms it anew. Returns false if the system lacks the resources.
    fn include(&mut self, at: usize) -> bool {
        let Some(Watched { fd, is_in_set }) = self.watched.get_mut(&at) else { return true };
        let set =
            if *is_in_set { self.epoll.set(*fd, at as u64, true) } else { Err(ErrorKind::NotFound.into()) };
        // Another file may stand behind the number since, which is not in the set yet, or from an earlier time.
        let result = match set {
            Err(error) if error.kind() == ErrorKind::NotFound => self.epoll.add(*fd, at as u64, true),
            result => result,
        };
        let result = match result {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => self.epoll.set(*fd, at as u64, true),
            result => result,
        };
        *is_in_set = result.is_ok();
        // Fails otherwise only for a device that has been closed since: its next poll finds that.
        !result.is_err_and(|error| matches!(error.kind(), ErrorKind::OutOfMemory | ErrorKind::StorageFull))
    }

    fn collect(&mut self) {
        let (told, bell) = (&mut self.told, &self.bell);
        self.epoll.take_events(|number| match number {
            BELL => _ = bell.event.clear(),
            at => told.push(at as usize),
        });
    }
}

impl PollerWait for HostWait {
    fn waker(&self) -> Arc<dyn Wake> {
        self.bell.clone()
    }

    fn now_ns(&self) -> u64 {
        ExactClock.now_ns()
    }

    fn watch(&mut self, at: usize, fd: RawFd) -> bool {
        // Some descriptors cannot be waited on: adding one shows that.
        let can_be = self.epoll.add(fd, at as u64, false).and_then(|()| self.epoll.remove(fd)).is_ok();
        if can_be {
            self.watched.insert(at, Watched { fd, is_in_set: false });
        }
        can_be
    }

    fn unmask(&mut self, at: usize) {
        let will_tell = self.include(at);
        // Most sockets are writable at any time, and report so now. Only later events count.
        self.collect();
        self.told.retain(|&told| told != at);
        if !will_tell {
            // Polled again at once, until it can be added.
            self.told.push(at);
        }
    }

    fn mask(&mut self, at: usize) {
        if let Some(Watched { fd, is_in_set }) = self.watched.get_mut(&at)
            && std::mem::take(is_in_set)
        {
            // Fails only for a device that has been closed since, and is in no set any more.
            let _ = self.epoll.remove(*fd);
        }
    }

    fn wait(&mut self, timeout_ns: u64, told: &mut dyn FnMut(usize)) {
        let sleeps = timeout_ns > 0 && self.told.is_empty();
        if sleeps && self.bell.state.compare_exchange(AWAKE, SLEEPS, SeqCst, SeqCst).is_ok() {
            self.epoll.wait(timeout_ns);
        }
        if timeout_ns > 0 {
            self.bell.state.swap(AWAKE, SeqCst);
        }
        self.collect();
        self.told.drain(..).for_each(told);
    }
}

/// A poller's thread, stopped and joined when dropped.
#[derive(Debug)]
pub struct PollerThread {
    stop: PollerStop,
    counters: Arc<PollerCounters>,
    thread: Option<JoinHandle<()>>,
}

/// The task of a poller's thread.
#[derive(Debug, Default)]
pub struct PollerBuilder {
    settings: Settings,
    cpu: Option<usize>,
    queues: Vec<TxQueue>,
    receivers: Vec<RxQueue>,
}

impl PollerThread {
    /// Starts a poller for `queue`, with the default settings.
    ///
    /// # Errors
    /// The system gave no thread, or is out of descriptors.
    pub fn start(queue: &TxQueue) -> io::Result<Self> {
        Self::builder().queue(queue).start()
    }

    /// Returns the poller's counters.
    pub fn counters(&self) -> &Arc<PollerCounters> {
        &self.counters
    }

    /// True if the calling thread is the poller's: a handler calls.
    pub fn is_current(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| thread.thread().id() == thread::current().id())
    }

    /// Asks the thread to end, and does not wait for that: it lets go of its queues soon after.
    pub fn detach(mut self) {
        self.thread = None;
    }

    /// Builds a poller for any number of devices.
    pub fn builder() -> PollerBuilder {
        PollerBuilder::default()
    }
}

impl PollerBuilder {
    /// Sets mode, budget and the like.
    #[must_use]
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// Pins it to processor `cpu`.
    #[must_use]
    pub fn pin(mut self, cpu: usize) -> Self {
        self.cpu = Some(cpu);
        self
    }

    /// Polls `queue`. Other pollers may do so as well.
    #[must_use]
    pub fn queue(mut self, queue: &TxQueue) -> Self {
        self.queues.push(queue.clone());
        self
    }

    /// Receives from `queue`. Other pollers may do so as well.
    #[must_use]
    pub fn receiver(mut self, queue: &RxQueue) -> Self {
        self.receivers.push(queue.clone());
        self
    }

    /// Starts it.
    ///
    /// # Errors
    /// The system gave no thread, is out of descriptors, or has no such processor for this process.
    pub fn start(self) -> io::Result<PollerThread> {
        if let Some(cpu) = self.cpu.filter(|cpu| !super::processors().contains(cpu)) {
            let what = format!("no processor {cpu} for this process");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        let mut poller = Poller::new(Box::new(HostWait::new()?), self.settings);
        self.queues.iter().for_each(|queue| poller.add(queue));
        self.receivers.iter().for_each(|receiver| poller.add_receiver(receiver));
        let (stop, counters, cpu) = (poller.stopper(), poller.counters(), self.cpu);
        let (begun, begins) = mpsc::channel::<()>();
        let thread = thread::Builder::new().name("wharf-poller".into()).spawn(move || {
            wharf_sys::timer::precise_sleeps();
            wharf_sys::slice::shorten();
            // The processor existed a moment ago; if it has gone since, the thread runs on any other.
            let _ = cpu.map(super::pin);
            let mut poller = poller.begin();
            drop(begun);
            poller.run();
        })?;
        // From here on senders know that they have a poller. The channel ends then.
        let _ = begins.recv();
        Ok(PollerThread { stop, counters, thread: Some(thread) })
    }
}

impl Drop for PollerThread {
    fn drop(&mut self) {
        self.stop.stop();
        // A handler may hold the last handle to its own thread, which then ends by itself.
        let joined = |thread: &JoinHandle<()>| thread.thread().id() != thread::current().id();
        if let Some(thread) = self.thread.take().filter(joined) {
            // A device that panicked has marked its queue dead already.
            let _ = thread.join();
        }
    }
}
