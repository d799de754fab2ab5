//! `Port`: a device, its pool, its queue and the thread that serves them, opened by one specification.

mod builder;
mod closing;
mod events;
mod giving_back;
mod host;
mod metrics;
mod owner;
mod pollers;
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
use events::PortMonitor;
use giving_back::GivingBack;
pub(crate) use host::Host;
use host::{Served, Serving};
use metrics::{Gone, Measurements};
pub(crate) use pollers::Pollers;
use receiving::{Receiving, Source};
use std::sync::{Arc, Mutex, MutexGuard};
use wharf_core::device::AnyDevice;
use wharf_core::monitor::Watched;
use wharf_core::poller::{PollerCounters, Settings};
use wharf_core::pool::{Burst, PagePool};
use wharf_core::queue::{QueueError, TxQueue};
use wharf_core::rx::RxQueue;
use wharf_core::sender::Sender;
pub use wharf_devices::reopen::OnGone;
use wharf_devices::spec::{DeviceSpec, Direction, Opened};
pub(crate) use world::World;

/// A device, its pool, its transmit queue and the thread that serves them.
///
/// A clone is another handle to the same port, and so is a receiver. To drop the last
/// handle does not block: another thread closes the device soon after. (A wire's other end is closed at once,
/// after the end of a handler that runs.) [`Port::close`] blocks until it is closed. Senders may outlive the
/// port, and then run the queue themselves.
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
/// assert_eq!((port.snapshot().sent, audit.out()), (32, 0), "{audit}");
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
    /// The pool of what arrives.
    receiving_pool: PagePool,
    /// `None` if it only receives.
    queue: Option<TxQueue>,
    host: Host,
    settings: Settings,
    owners: Owners,
    pollers: Arc<Pollers>,
    /// Its number among the ports of the pollers.
    number: usize,
    parts: Mutex<Parts>,
    giving_back: GivingBack,
    /// Receivers get packets longer than a frame, as chains.
    takes_chains: bool,
    /// Packets that a receiver holds, if that was set.
    inbox_packets: Option<u32>,
    /// Its device is the other end of another port's, in this process.
    is_far_end: bool,
    measured: Measurements,
    monitor: Arc<PortMonitor>,
}

/// The parts that come and go.
struct Parts {
    source: Source,
    far_end: Option<AnyDevice>,
    /// The receive side in use.
    receiving: Option<Receiving>,
    /// Receive sides that are being closed, or given back.
    leaving: Vec<RxQueue>,
    /// Receive sides that were closed, whose receivers may still take packets.
    emptying: Vec<RxQueue>,
    /// What receive sides that were closed have counted.
    received: Snapshot,
    gone: Gone,
    /// The drops of the device since it was opened, when they were last read.
    device_drops: Vec<(&'static str, u64)>,
}

impl Parts {
    fn new(source: Source, far_end: Option<AnyDevice>) -> Self {
        let (received, device_drops) = (Snapshot::default(), Vec::new());
        let (leaving, emptying) = (Vec::new(), Vec::new());
        Self {
            source,
            far_end,
            receiving: None,
            leaving,
            emptying,
            received,
            gone: Gone::default(),
            device_drops,
        }
    }
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

    /// Works like [`Port::builder`], for a specification that is read already.
    pub fn builder_of(spec: &DeviceSpec, direction: Direction) -> PortBuilder {
        PortBuilder::of_spec(spec, direction)
    }

    /// Builds a port over devices of one's own, which are open and have no memory yet: one for each queue. They
    /// cannot be opened again.
    ///
    /// ```
    /// use wharf::device::Opened;
    /// use wharf::{Direction, Port};
    /// # use wharf_devices::null::Null as MyDevice;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let device = Opened::tx(MyDevice::default()); // a `TxDevice`
    /// let port = Port::builder_over(vec![device], Direction::Send).build()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn builder_over(devices: Vec<Opened>, direction: Direction) -> PortBuilder {
        PortBuilder::over(devices, direction)
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
    /// [`QueueError::OnlyReceives`].
    pub fn queue(&self) -> Result<&TxQueue, QueueError> {
        self.inner.queue.as_ref().ok_or_else(|| QueueError::OnlyReceives { device: self.name().into() })
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
        let receivers = parts.receivers();
        parts.note_device_drops(receivers.last());
        let (mut snapshot, of_device) = (parts.received.clone(), parts.device_drops.clone());
        let is_closed = matches!(parts.source, Source::Closed);
        drop(parts);
        // Nothing else polls it any more, and the other end of a wire may have given packets back since.
        queue.iter().filter(|_| is_closed).for_each(TxQueue::poll);
        snapshot.add_device_drops(&of_device);
        (snapshot.device, snapshot.reopened) = (name.clone(), monitor.reopened());
        snapshot.frames_out = pool.audit().out() as u64;
        queue.iter().for_each(|queue| snapshot.add_queue(queue));
        receivers.iter().for_each(|receiver| snapshot.add_receiver(receiver));
        // The queues know that of the first opening.
        snapshot.mode = monitor.reopener().and_then(|reopener| reopener.mode()).or(snapshot.mode);
        snapshot
    }

    fn receivers_and_gone(&self) -> (Gone, Vec<RxQueue>) {
        let mut parts = self.parts();
        let receivers = parts.receivers();
        (parts.gone.clone(), receivers)
    }

    /// Makes a sender, for one thread; its memory and its counters are listed under `name`.
    ///
    /// # Errors
    /// [`QueueError::OnlyReceives`], [`QueueError::Senders`], [`QueueError::Pool`], [`QueueError::Closed`],
    /// [`QueueError::Ended`].
    pub fn sender(&self, name: &str) -> Result<Sender, QueueError> {
        self.queue()?.sender(name)
    }

    /// Makes a port of the other end of its device, where that is in this process: a wire's. It has a pool of
    /// its own, and takes chains if this port does.
    ///
    /// # Errors
    /// [`QueueError::NoFarEnd`]; [`QueueError::Closed`].
    pub fn far_end(&self) -> Result<Self, QueueError> {
        self.far_end_builder(Direction::Both)?.built()
    }

    /// Works like [`Port::far_end`], with other settings.
    ///
    /// # Errors
    /// Those of [`Port::far_end`].
    pub fn far_end_builder(&self, direction: Direction) -> Result<PortBuilder, QueueError> {
        let mut parts = self.parts();
        parts.check_open()?;
        let far_end = parts.far_end.take();
        drop(parts);
        let far_end = far_end.ok_or_else(|| QueueError::NoFarEnd { device: self.name().into() })?;
        Ok(PortBuilder::of_far_end(self, far_end, direction))
    }

    /// Returns the counters of the thread that polls it, if there is one now.
    pub fn poller_counters(&self) -> Option<Arc<PollerCounters>> {
        self.inner.pollers.counters()
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
    /// [`QueueError::System`]: there are no descriptors left.
    pub fn events(&self) -> Result<Events, QueueError> {
        Events::new(&self.inner.monitor, &self.inner.host)
            .map_err(|source| self.system_fault("no descriptor", source))
    }

    /// Closes the device, whose frames fail as `lost`, and opens it again, on the same memory. Senders and
    /// receivers keep their handles, and wait meanwhile. It returns at once; [`Event::Reopened`] tells of the
    /// end.
    ///
    /// # Errors
    /// [`QueueError::CannotReopen`]: no specification says how to open the device again (`null`, `wire`,
    /// `pcap`, a far end), or the port was built with [`OnGone::Fail`] and without [`OnStall::Reset`].
    /// [`QueueError::Closed`].
    pub fn reopen(&self) -> Result<(), QueueError> {
        self.parts().check_open()?;
        let reopener = self.inner.monitor.reopener();
        let reopener = reopener.ok_or_else(|| QueueError::CannotReopen { device: self.name().into() })?;
        reopener.reset();
        Ok(())
    }

    fn parts(&self) -> MutexGuard<'_, Parts> {
        wharf_mem::lock(&self.inner.parts)
    }

    /// Has its queues polled that there are now. Returns the poller until now.
    fn restart_poller(&self, parts: &Parts) -> Result<Option<Serving>, QueueError> {
        let Inner { queue, pollers, number, .. } = &*self.inner;
        let served = parts.receiving.as_ref().filter(|receiving| receiving.is_served());
        let is_received_from = parts.receiving.as_ref().is_some_and(|receiving| receiving.is_of_queue);
        // A device has one place in a poller: its receive queue runs its transmit queue, too.
        let queue = queue.clone().filter(|_| !is_received_from);
        let served = Served { queue, receiver: served.map(|receiving| receiving.queue.clone()) };
        let before = pollers.serve(*number, served);
        before.map_err(|source| self.system_fault("no thread to poll it", source))
    }

    fn system_fault(&self, what: &'static str, source: std::io::Error) -> QueueError {
        QueueError::System { device: self.name().into(), what, source }
    }
}
