//! `Port`: a device, its pool, its queue and the thread that serves them, opened by one specification.

mod builder;
mod events;
mod host;
mod metrics;
mod owner;
mod receiving;
mod recovery;
mod world;

pub use builder::PortBuilder;
pub use events::{Event, Events, State};
pub use metrics::Metrics;
pub use owner::Owners;
pub use recovery::OnStall;

use crate::OpenError;
use crate::metrics::Snapshot;
use atomic_waker::AtomicWaker;
use events::PortMonitor;
pub(crate) use host::Host;
use host::{Served, Serving};
use metrics::Measurements;
use receiving::{GivingBack, Receiving, Source};
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::task::Poll;
use std::time::Duration;
use wharf_core::device::Duplex;
use wharf_core::host::outlive;
use wharf_core::monitor::Watched;
use wharf_core::poller::Settings;
use wharf_core::pool::{Audit, Burst, PagePool};
use wharf_core::queue::{QueueError, TxQueue};
use wharf_core::rx::RxQueue;
use wharf_core::sender::Sender;
pub use wharf_devices::reopen::OnGone;
use wharf_devices::spec::Direction;
pub(crate) use world::World;

/// A device, its pool, its transmit queue and the thread that serves them.
///
/// A clone is another handle to the same port, and so is a receiver. The last handle that is dropped waits
/// for no thread: another one lets go of the device soon after. (A wire's other end is let go of at once,
/// after the end of a handler that runs.) ([`Port::close`] returns once it is.) Senders may outlive the port,
/// and then run the queue themselves.
///
/// ```
/// use std::time::Duration;
/// use wharf::{Direction, Port};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let port = Port::open("wire", Direction::Send)?; // or xdp:eth0, packet:eth0, tap:NAME, ...
/// let far_end = port.far_end()?; // a wire has its other end in this process
/// let mut sender = port.sender("example")?;
/// let mut burst = sender.burst(32);
/// sender.fill(&mut burst, 32, 64, Duration::from_secs(1))?;
/// let sent = sender.send(&mut burst, Duration::from_secs(1))?;
/// assert_eq!(sent.left, 0, "all found room in time");
///
/// let mut receiver = far_end.receiver()?;
/// let (mut received, mut packets) = (far_end.burst(64), 0);
/// while packets < 32 {
///     packets += receiver.recv(&mut received, Duration::from_secs(1))?;
///     received.clear();
/// }
/// drop((sender, receiver));
/// let audit = port.close(Duration::from_secs(1));
/// assert_eq!((port.queue()?.counters().sent.get(), audit.out()), (32, 0), "{audit}");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Port {
    inner: Arc<Inner>,
}

impl std::fmt::Debug for Port {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Port({})", self.inner.name)
    }
}

struct Inner {
    name: String,
    pool: PagePool,
    /// `None` if it only receives.
    queue: Option<TxQueue>,
    host: Host,
    settings: Settings,
    owners: Owners,
    parts: Mutex<Parts>,
    giving_back: GivingBack,
    /// Receivers get packets longer than a frame, as chains.
    takes_chains: bool,
    /// Its device is the other end of another port's, in this process.
    is_far_end: bool,
    measured: Measurements,
    monitor: Arc<PortMonitor>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.monitor.close();
        let mut parts = wharf_mem::lock(&self.parts);
        let (poller, receiving) = (parts.poller.take(), parts.receiving.take());
        let source = std::mem::replace(&mut parts.source, Source::Closed);
        let far_end = parts.far_end.take();
        drop(parts);
        let Some(poller) = poller else { return receiving::close_kept(&self.pool, source) };
        let (pool, queue) = (self.pool.clone(), self.queue.clone());
        // The other end of a wire gives packets back to this end, which must still be there: it goes first.
        let is_at_once = self.is_far_end || matches!(self.host, Host::World(_));
        // A handler that has dropped the last handle ends with its queue: it cannot wait for its own end.
        let is_own_end = is_at_once && poller.runs_caller();
        let close = move || {
            drop(poller);
            let closed = receiving.iter().filter(|_| !is_own_end);
            closed.for_each(|receiving| _ = receiving.queue.close());
            receiving::close_kept(&pool, source);
            drop((queue, far_end));
        };
        if is_at_once {
            return close();
        }
        // Without a thread, the closure is dropped here, and closes by the drops of what it has.
        _ = std::thread::Builder::new().name("wharf-close".into()).spawn(close);
    }
}

/// The parts that come and go.
struct Parts {
    source: Source,
    far_end: Option<Box<dyn Duplex>>,
    /// The receive side in use.
    receiving: Option<Receiving>,
    /// A receive side that is being closed, or given back.
    leaving: Option<RxQueue>,
    /// What receive sides that were closed have counted.
    received: Snapshot,
    /// The drops of the device since it was opened, when they were last read.
    device_drops: Vec<(&'static str, u64)>,
    /// The poller's thread, unless a receiver polls for it.
    poller: Option<Serving>,
}

impl Port {
    /// Opens `spec`, such as `xdp:eth0`, for `direction`, with defaults for all else: a pool of 4096 frames,
    /// each for a packet of up to 1536 bytes, a FIFO of 1000 packets, a byte limit, a thread that takes
    /// completions.
    ///
    /// Opening for [`Direction::Both`] or [`Direction::Receive`] takes packets away from the host's network
    /// stack where the kind of device does so (`xdp`): open a port that only sends for [`Direction::Send`].
    /// Nothing is refused, even if the host depends on the interface, as the command does: ask
    /// [`Kind::host_loss`](wharf_devices::spec::Kind::host_loss) before.
    ///
    /// # Errors
    /// [`OpenError`] with the reason.
    pub fn open(spec: &str, direction: Direction) -> Result<Self, OpenError> {
        Self::builder(spec, direction).build()
    }

    /// Builds a port over `spec` for `direction`, with other settings than those of [`Port::open`].
    pub fn builder(spec: &str, direction: Direction) -> PortBuilder {
        PortBuilder::new(spec, direction)
    }

    /// Returns the port's name: its device's, with the port that `udp:HOST:0` was given.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Returns the pool of its packets.
    pub fn pool(&self) -> &PagePool {
        &self.inner.pool
    }

    /// Makes an empty burst for up to `capacity` packets, at most 256.
    pub fn burst(&self, capacity: usize) -> Burst {
        self.inner.pool.burst(capacity)
    }

    /// Returns its transmit queue: counters, switches.
    ///
    /// # Errors
    /// [`QueueError::Device`] if it only receives.
    pub fn queue(&self) -> Result<&TxQueue, QueueError> {
        self.inner.queue.as_ref().ok_or_else(|| self.fault("it only receives"))
    }

    /// Returns the metrics of all that it consists of.
    pub fn metrics(&self) -> Metrics<'_> {
        Metrics::new(self)
    }

    /// Returns what the port has counted so far, also once it is closed. Values are of slightly different
    /// moments; at rest they are of one. Counting a pool's frames reads a row per frame: some microseconds
    /// for each 4096.
    pub fn snapshot(&self) -> Snapshot {
        let Inner { name, pool, queue, monitor, .. } = &*self.inner;
        let mut parts = self.parts();
        let in_use = parts.receiving.as_ref().map(|receiving| receiving.queue.clone());
        let receiver = in_use.or_else(|| parts.leaving.clone());
        parts.note_device_drops(receiver.as_ref());
        let (mut snapshot, of_device) = (parts.received.clone(), parts.device_drops.clone());
        drop(parts);
        of_device.into_iter().for_each(|(reason, count)| snapshot.add_drops(reason, count));
        (snapshot.device, snapshot.reopened) = (name.clone(), monitor.reopened());
        snapshot.frames_out = pool.audit().out() as u64;
        queue.iter().for_each(|queue| snapshot.add_queue(queue));
        receiver.iter().for_each(|receiver| snapshot.add_receiver(receiver));
        snapshot
    }

    /// Makes a sender, for one thread; its memory and its counters are listed under `name`.
    ///
    /// # Errors
    /// [`QueueError::Device`] if the port only receives, [`QueueError::Senders`], [`QueueError::Pool`],
    /// [`QueueError::Closed`], [`QueueError::Ended`].
    pub fn sender(&self, name: &str) -> Result<Sender, QueueError> {
        self.queue()?.sender(name)
    }

    /// Makes a port of the other end of its device, where that is in this process: a wire's. It has a pool of
    /// its own, and takes chains if this port does.
    ///
    /// # Errors
    /// [`QueueError::Device`] if there is none, or it was taken already; [`QueueError::Closed`].
    pub fn far_end(&self) -> Result<Self, QueueError> {
        let mut parts = self.parts();
        parts.check_open()?;
        let far_end = parts.far_end.take();
        drop(parts);
        let far_end = far_end.ok_or_else(|| self.fault("its other end is not in this process"))?;
        PortBuilder::of_far_end(self, far_end)
    }

    /// Returns the state of the device, which is asked for its line, unless a thread works with it. A state
    /// that is over is forgotten: a line that is up again is [`State::Up`].
    pub fn state(&self) -> State {
        let parts = self.parts();
        let receiver = parts.receiving.as_ref().map(|receiving| receiving.queue.clone());
        drop(parts);
        let at = self.inner.queue.as_ref().map(|queue| queue as &dyn Watched);
        self.inner.monitor.state(at.or(receiver.as_ref().map(|queue| queue as &dyn Watched)))
    }

    /// Returns the port's events from now on: link down, up, device gone; stalled (no completion for longer
    /// than usual, see [`PortBuilder::stall_after`]), resumed; a handler panicked. Each value has all events.
    /// While there is one, the poller checks an idle link twice a second.
    ///
    /// ```
    /// use std::time::Duration;
    /// use wharf::{Direction, Event, Port};
    /// use wharf::State;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let port = Port::open("null", Direction::Send)?; // or xdp:eth0, packet:eth0, ...
    /// let events = port.events()?;
    /// let watcher = std::thread::spawn(move || {
    ///     for event in events {
    ///         match event {
    ///             Event::Down { why, .. } | Event::Gone { why, .. } => eprintln!("no line: {why}"),
    ///             Event::Stalled { why, .. } => eprintln!("stalled: {why}"),
    ///             other => eprintln!("{other:?}"),
    ///         }
    ///     }
    /// });
    /// assert_eq!(port.state(), State::Up);
    /// port.close(Duration::from_secs(1)); // ends the iterator
    /// watcher.join().unwrap();
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`QueueError::Device`]: the system is out of descriptors.
    pub fn events(&self) -> Result<Events, QueueError> {
        Events::new(&self.inner.monitor, &self.inner.host)
            .map_err(|error| self.fault(format!("no descriptor: {error}")))
    }

    /// Closes the device, whose frames fail as `lost`, and opens it again, on the same memory. Senders and
    /// receivers keep their handles, and wait meanwhile. It returns at once; [`Event::Reopened`] tells of the
    /// end.
    ///
    /// # Errors
    /// [`QueueError::Device`]: the device has no place to be opened from again (`null`, `wire`, `pcap`, a far
    /// end), or the port was built with [`OnGone::Fail`] and without [`OnStall::Reset`].
    /// [`QueueError::Closed`].
    pub fn reopen(&self) -> Result<(), QueueError> {
        self.parts().check_open()?;
        let reopener = self.inner.monitor.reopener();
        reopener.map(|reopener| reopener.reset()).ok_or_else(|| self.fault("it cannot be opened again"))
    }

    /// Waits up to `time` until all packets sent so far have left. Returns true if they have.
    pub fn drain(&self, time: Duration) -> bool {
        self.inner.queue.as_ref().is_none_or(|queue| queue.drain(time))
    }

    /// Closes the port: senders get [`SendError::Closed`](crate::SendError::Closed). Packets inside are
    /// sent for up to `time`, the others return to the pool; those that the device has stay with it.
    /// Returns the holders of the pool's frames. A port that is dropped without this returns what has not
    /// left at once.
    ///
    /// The device is free to be opened again, whatever clones, senders, receivers and events of the port
    /// live: their calls say that the queue is shut down, once a receiver has taken what came before. `udp`
    /// takes up to 4 s more, to hear of a neighbour that does not answer.
    ///
    /// It waits for the end of a handler that runs ([`Port::on_receive`]): a handler must not call it. It
    /// waits for up to 5 s for another thread that drops a receiver just then, and has the device.
    pub fn close(&self, time: Duration) -> Audit {
        if let Some(queue) = &self.inner.queue {
            queue.shutdown(time);
        }
        let mut parts = self.parts();
        let source = std::mem::replace(&mut parts.source, Source::Closed);
        let (receiving, poller) = (parts.receiving.take(), parts.poller.take());
        let receiving = receiving.map(|receiving| receiving.queue).or_else(|| parts.leaving.clone());
        parts.leaving.clone_from(&receiving);
        // The packets on their way to another end that is not in use are this port's again.
        parts.far_end = None;
        drop(parts);
        if let Some(queue) = receiving {
            // The device's error, at its end, changes nothing for the caller.
            let _ = queue.close();
            self.parts().count_last(&queue);
        }
        drop(poller);
        receiving::close_kept(&self.inner.pool, source);
        self.inner.giving_back.wait();
        self.inner.monitor.close();
        self.inner.queue.as_ref().map_or_else(|| self.inner.pool.audit(), TxQueue::audit)
    }

    /// Works like [`Port::close`], for a task: a thread of its own closes the port.
    ///
    /// # Cancel safety
    /// The port is closed all the same if the future is dropped after its first poll.
    pub async fn close_async(&self, time: Duration) -> Audit {
        let closed = Arc::new((AtomicWaker::new(), OnceLock::new()));
        let (port, closing) = (self.clone(), closed.clone());
        let close = move || {
            // A handler's drop may panic.
            let audit = outlive(|| port.close(time)).unwrap_or_else(|| port.pool().audit());
            _ = closing.1.set(audit);
            closing.0.wake();
        };
        if std::thread::Builder::new().name("wharf-close".into()).spawn(close).is_err() {
            return self.close(time);
        }
        poll_fn(move |cx| {
            closed.0.register(cx.waker());
            closed.1.get().map_or(Poll::Pending, |audit| Poll::Ready(Audit::clone(audit)))
        })
        .await
    }

    fn parts(&self) -> MutexGuard<'_, Parts> {
        wharf_mem::lock(&self.inner.parts)
    }

    /// Starts a poller for the queues that there are now, in place of the present one. Returns that.
    fn restart_poller(&self, parts: &mut Parts) -> Result<Option<Serving>, QueueError> {
        let Inner { queue, host, settings, owners, measured, .. } = &*self.inner;
        let served = parts.receiving.as_ref().filter(|receiving| receiving.is_served());
        let is_received_from = parts.receiving.as_ref().is_some_and(|receiving| receiving.is_of_queue);
        // A device has one place in a poller: its receive queue runs its transmit queue, too.
        let queue = queue.as_ref().filter(|_| !is_received_from);
        let mut started = None;
        if queue.is_some() || served.is_some() {
            let served = Served { queue, receiver: served.map(|receiving| &receiving.queue) };
            let serving = host.serve(*settings, owners.cpu(), served);
            started = Some(serving.map_err(|error| self.fault(format!("no thread to poll it: {error}")))?);
        }
        started.iter().filter_map(Serving::counters).for_each(|counters| measured.add(counters));
        let before = std::mem::replace(&mut parts.poller, started);
        before.iter().filter_map(Serving::counters).for_each(|counters| measured.forget(counters));
        Ok(before)
    }

    fn fault(&self, what: impl Into<String>) -> QueueError {
        builder::fault(&self.inner.name, what)
    }
}
