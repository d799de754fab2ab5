//! `PortBuilder`: the settings of a new port.

use super::metrics::Measurements;
use super::recovery::Recovery;
use super::{Host, Inner, OnGone, OnStall, Owners, Parts, Port, PortMonitor, Source};
use crate::OpenError;
use crate::metrics::Snapshot;
use std::slice::from_ref;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use wharf_core::bql::Bounds;
use wharf_core::device::{AnyDevice, DeviceError, Duplex};
use wharf_core::engine::Batching;
use wharf_core::poller::Settings;
use wharf_core::pool::PagePool;
use wharf_core::qdisc::Qdisc;
use wharf_core::queue::{QueueError, TxQueue};
use wharf_devices::registry::Registry;
use wharf_devices::reopen::Reopener;
use wharf_devices::spec::{DeviceSpec, Direction, Opened, QueueLayout, Queues, SUPER_PACKET_BYTES_MAX};

/// The settings of a new port. See [`Port::builder`].
pub struct PortBuilder {
    spec: String,
    direction: Direction,
    registry: Registry,
    pool: Option<PagePool>,
    qdisc: Option<Box<dyn Qdisc>>,
    byte_limits: Option<Bounds>,
    batching: Option<Batching>,
    small_queues: Option<Option<u32>>,
    poller: Settings,
    owners: Owners,
    stall_after: Option<Duration>,
    on_stall: OnStall,
    on_gone: OnGone,
    takes_chains: bool,
    lane_packets: Option<u32>,
    wrap: Option<Box<dyn FnMut(AnyDevice) -> AnyDevice + Send>>,
    pub(super) host: Host,
    is_far_end: bool,
}

impl std::fmt::Debug for PortBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PortBuilder({}, {:?})", self.spec, self.direction)
    }
}

impl PortBuilder {
    pub(super) fn new(spec: &str, direction: Direction) -> Self {
        Self {
            spec: spec.into(),
            direction,
            registry: Registry::default(),
            pool: None,
            qdisc: None,
            byte_limits: None,
            batching: None,
            small_queues: None,
            poller: Settings::default(),
            owners: Owners::default(),
            stall_after: None,
            on_stall: OnStall::default(),
            on_gone: OnGone::default(),
            takes_chains: false,
            lane_packets: None,
            wrap: None,
            host: Host::default(),
            is_far_end: false,
        }
    }

    /// Sets the kinds of devices; those of this crate by default.
    #[must_use]
    pub fn registry(mut self, registry: Registry) -> Self {
        self.registry = registry;
        self
    }

    /// Sets the pool, which several ports may share; by default one of its own, of 4096 frames for packets of
    /// up to 1536 bytes, or more where the device would copy otherwise: `xdp` that receives by `igb` or `igc`.
    #[must_use]
    pub fn pool(mut self, pool: &PagePool) -> Self {
        self.pool = Some(pool.clone());
        self
    }

    /// Sets the queueing discipline; a FIFO of 1000 packets by default.
    #[must_use]
    pub fn qdisc(mut self, qdisc: impl Qdisc + 'static) -> Self {
        self.qdisc = Some(Box::new(qdisc));
        self
    }

    /// Bounds the byte limit; unbounded by default: see [`wharf_core::queue::QueueBuilder::byte_limits`].
    #[must_use]
    pub fn byte_limits(mut self, bounds: Bounds) -> Self {
        self.byte_limits = Some(bounds);
        self
    }

    /// Sets the batching switch; on by default.
    #[must_use]
    pub fn batching(mut self, batching: Batching) -> Self {
        self.batching = Some(batching);
        self
    }

    /// Bounds the bytes that one sender has inside: see [`wharf_core::queue::QueueBuilder::small_queues`].
    #[must_use]
    pub fn small_queues(mut self, max_bytes: Option<u32>) -> Self {
        self.small_queues = Some(max_bytes);
        self
    }

    /// Sets the packets that each sender may have on their way to the queue: a power of two up to 65536,
    /// 256 by default. What finds no room waits, or counts as `full_drops`, before the discipline sees it.
    #[must_use]
    pub fn lane_packets(self, packets: u32) -> Self {
        Self { lane_packets: Some(packets), ..self }
    }

    /// Puts what `wrap` makes around each device that is opened, such as one that fails in a test, or a
    /// trace: see [`wrap_device!`](crate::device::wrap_device).
    #[must_use]
    pub fn wrap(mut self, wrap: impl FnMut(AnyDevice) -> AnyDevice + Send + 'static) -> Self {
        self.wrap = Some(Box::new(wrap));
        self
    }

    /// Sets the clock and what runs its pollers.
    pub(crate) fn host(self, host: Host) -> Self {
        Self { host, ..self }
    }

    /// Sets mode and budget of the port's pollers.
    #[must_use]
    pub fn poller(mut self, settings: Settings) -> Self {
        self.poller = settings;
        self
    }

    /// Sets the threads that run the transmit queue; [`Owners::Auto`] by default.
    #[must_use]
    pub fn owners(mut self, owners: Owners) -> Self {
        self.owners = owners;
        self
    }

    /// Sets the time without a completion, while the device holds frames, that is a stall: see
    /// [`Port::events`]. By default it is eight times the longest recent delay of a completion, from 100 ms
    /// to 1 s.
    #[must_use]
    pub fn stall_after(mut self, time: Duration) -> Self {
        self.stall_after = Some(time);
        self
    }

    /// Sets what is done about a device that stalls; by default it is told alone.
    #[must_use]
    pub fn on_stall(mut self, on_stall: OnStall) -> Self {
        self.on_stall = on_stall;
        self
    }

    /// Sets what is done about a device whose interface or peer has gone; by default it is opened again when
    /// it is back.
    #[must_use]
    pub fn on_gone(mut self, on_gone: OnGone) -> Self {
        self.on_gone = on_gone;
        self
    }

    /// Has receivers and handlers get packets longer than a frame ([`PagePool::packet_bytes_max`]) as chains,
    /// if `takes_chains` is true: see [`Packet::is_chain`](crate::Packet::is_chain). By default such packets
    /// are dropped, and counted as `too-long`; `tap`, `virtio-user` and `vhost-user` are opened with
    /// `offload=off` then. A key that asks for super-packets is refused, unless frames hold them.
    #[must_use]
    pub fn takes_chains(self, takes_chains: bool) -> Self {
        Self { takes_chains, ..self }
    }

    /// Opens the port.
    ///
    /// # Errors
    /// [`OpenError`] with the reason: a specification that cannot be, a device that cannot be opened, no
    /// memory, no thread, no such processor.
    pub fn build(self) -> Result<Port, OpenError> {
        let (spec, direction, registry) = (self.spec.clone(), self.direction, self.registry.clone());
        self.built().map_err(|error| OpenError::new(&spec, direction, &registry, error))
    }

    fn built(mut self) -> Result<Port, QueueError> {
        let (mut opened, recovery) = self.open(1)?;
        let opened = opened.pop().ok_or_else(|| fault(&self.spec, "no queue"))?;
        let name = opened.device.name();
        self.build_over(name, opened, recovery)
    }

    /// Opens `count` queues of the device (`xdp`, `packet`, `tap`), and returns a port for each. `each` sets
    /// what belongs to one queue, given its number: the qdisc, the owners and their processor. The device or
    /// the kernel gives all packets of a flow to one queue; a [`Spread`](wharf_core::sender::Spread) over a
    /// sender of each port sends them so.
    ///
    /// The ports share one pool, by default of 4096 frames for each. A device that has its queues inside
    /// ([`QueueLayout::Pairs`]) is one port.
    ///
    /// ```
    /// use wharf::{Direction, Port};
    /// use wharf::qdisc::{Fifo, FifoLimit};
    /// use wharf::queue::Spread;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let ports = Port::builder("null", Direction::Send)
    ///     .build_queues(4, |queue, _number| queue.qdisc(Fifo::new(FifoLimit::Packets(100))))?;
    /// let senders = ports.iter().map(|port| port.sender("example"));
    /// let mut sender = Spread::new(senders.collect::<Result<_, _>>()?)?;
    /// let mut burst = ports[0].burst(32);
    /// sender.fill(&mut burst, 32, 64, wharf::Wait::Forever)?;
    /// assert_eq!(sender.send(&mut burst, wharf::Wait::Forever)?.left, 0);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The errors of [`PortBuilder::build`], also for a kind with a single queue, or a qdisc set before
    /// `each`.
    pub fn build_queues(
        self, count: u32, each: impl FnMut(Self, usize) -> Self,
    ) -> Result<Vec<Port>, OpenError> {
        let (spec, direction, registry) = (self.spec.clone(), self.direction, self.registry.clone());
        let built = self.built_queues(count, each);
        built.map_err(|error| OpenError::new(&spec, direction, &registry, error))
    }

    fn built_queues(
        mut self, count: u32, mut each: impl FnMut(Self, usize) -> Self,
    ) -> Result<Vec<Port>, QueueError> {
        if self.qdisc.is_some() {
            return Err(fault(&self.spec, "each queue has a qdisc of its own"));
        }
        let (queues, reopener) = self.open(count)?;
        if self.pool.is_none() {
            self.pool = Some(self.host.pool(&queues)?);
        }
        let mut ports = Vec::new();
        for (number, opened) in queues.into_iter().enumerate() {
            let (mut name, suffix) = (opened.device.name(), format!("#{number}"));
            if number > 0 && !name.ends_with(&suffix) {
                name += &suffix;
            }
            let (spec, registry, pool) = (self.spec.clone(), self.registry.clone(), self.pool.clone());
            let host = self.host.clone();
            let queue = Self { spec, registry, pool, host, qdisc: None, wrap: None, ..self };
            ports.push(each(queue, number).build_over(name, opened, reopener.clone())?);
        }
        Ok(ports)
    }

    /// Opens the device's queues, and returns their way to be opened again.
    fn open(&mut self, count: u32) -> Result<(Vec<Opened>, Option<Arc<Reopener>>), QueueError> {
        let spec = self.parse()?;
        if self.direction == Direction::Both && !spec.kind().can.both {
            return Err(fault(&self.spec, "it cannot send and receive at once"));
        }
        if count == 0 || count > 1 && spec.kind().queues == QueueLayout::One {
            return Err(fault(&self.spec, format!("it cannot have {count} queues")));
        }
        let queues = Queues { count, ..Queues::default() };
        let queues = Queues { pool_shared_by: spec.devices(queues) as u32, ..queues };
        let mut opened = self.host.open(&spec, self.direction, queues)?;
        let mut reopener = None;
        if self.on_gone != OnGone::Fail || self.on_stall == OnStall::Reset {
            let around = Reopener::around(&spec, self.direction, queues, self.on_gone, &mut opened);
            reopener = around.map_err(|error| fault(&self.spec, format!("no descriptor: {error}")))?;
        }
        if let Some(mut wrap) = self.wrap.take() {
            let wrapped = |opened: Opened| Opened { device: wrap(opened.device), ..opened };
            opened = opened.into_iter().map(wrapped).collect();
        }
        Ok((opened, reopener))
    }

    /// Reads the specification. A device that makes super-packets by default makes none for a program that
    /// takes no chains.
    fn parse(&self) -> Result<DeviceSpec, QueueError> {
        let parse = |text: &str| self.registry.parse_for(text, self.direction).map_err(DeviceError::from);
        let spec = parse(&self.spec)?;
        let frame_bytes = self.pool.as_ref().map_or(0, PagePool::packet_bytes_max);
        let takes_all = self.takes_chains || frame_bytes >= SUPER_PACKET_BYTES_MAX;
        match spec.kind().whole_by {
            Some((key, value)) if self.direction != Direction::Send && !takes_all => {
                match spec.options().text(key) {
                    None => Ok(parse(&format!("{},{key}={value}", self.spec))?),
                    Some(given) if given == value => Ok(spec),
                    Some(given) => Err(fault(
                        &self.spec,
                        format!(
                            "{key}={given} brings super-packets, as chains: call \
                             PortBuilder::takes_chains(true), or give the key {key}={value}"
                        ),
                    )),
                }
            }
            _ => Ok(spec),
        }
    }

    /// Opens a port over the other end of the device of `near`.
    pub(super) fn of_far_end(near: &Port, far_end: Box<dyn Duplex>) -> Result<Port, QueueError> {
        let Inner { name, takes_chains, host, .. } = &*near.inner;
        let name = format!("far end of {name}");
        let far = Self { host: host.clone(), is_far_end: true, ..Self::new(&name, Direction::Both) };
        far.takes_chains(*takes_chains).build_over(name, Opened::new(AnyDevice::Duplex(far_end)), None)
    }

    fn build_over(
        self, name: String, opened: Opened, reopener: Option<Arc<Reopener>>,
    ) -> Result<Port, QueueError> {
        let Self {
            direction, owners, poller: settings, stall_after, on_stall, on_gone, takes_chains, ..
        } = self;
        let (host, is_far_end) = (self.host.clone(), self.is_far_end);
        if let Some(cpu) = owners.cpu().filter(|cpu| !wharf_devices::host::processors().contains(cpu)) {
            return Err(fault(&name, format!("no processor {cpu} for this process")));
        }
        let pool = match &self.pool {
            Some(pool) => pool.clone(),
            None => host.pool(from_ref(&opened))?,
        };
        let Opened { device, receiving, far_end, .. } = opened;
        let (queue, source) = match direction {
            Direction::Receive => (None, Source::Apart(device.into_rx()?)),
            Direction::Send => (Some(self.queue(&pool, device)?), Source::Gone("it was opened to send")),
            Direction::Both => {
                (Some(self.queue(&pool, device)?), receiving.map_or(Source::OfQueue, Source::Apart))
            }
        };
        let monitor = PortMonitor::new(stall_after, Recovery { on_stall, on_gone, reopener });
        if let Some(queue) = &queue {
            queue.set_claimants(owners.claimants());
            monitor.watch(queue);
        }
        let settings = host.settings(owners.settings(settings));
        let parts = Parts {
            source,
            far_end,
            receiving: None,
            leaving: None,
            received: Snapshot::default(),
            device_drops: Vec::new(),
            poller: None,
        };
        let (parts, measured) = (Mutex::new(parts), Measurements::default());
        let inner = Inner {
            name,
            pool,
            queue,
            host,
            settings,
            owners,
            parts,
            giving_back: Default::default(),
            takes_chains,
            is_far_end,
            measured,
            monitor,
        };
        let port = Port { inner: Arc::new(inner) };
        port.restart_poller(&mut port.parts())?;
        Ok(port)
    }

    fn queue(self, pool: &PagePool, device: AnyDevice) -> Result<TxQueue, QueueError> {
        let mut builder = TxQueue::builder_of(pool, device, self.host.clock(), self.host.park())?;
        if let Some(qdisc) = self.qdisc {
            builder = builder.qdisc(qdisc);
        }
        if let Some(bounds) = self.byte_limits {
            builder = builder.byte_limits(bounds);
        }
        if let Some(batching) = self.batching {
            builder = builder.batching(batching);
        }
        if let Some(packets) = self.lane_packets {
            builder = builder.lane_frames(packets);
        }
        if let Some(max_bytes) = self.small_queues {
            builder = builder.small_queues(max_bytes);
        }
        builder.build()
    }
}

pub(super) fn fault(name: &str, what: impl Into<String>) -> QueueError {
    DeviceError::Unsupported { device: name.into(), what: what.into() }.into()
}
