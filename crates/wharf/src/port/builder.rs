//! `PortBuilder`: the settings of a new port.

mod opening;

use super::recovery::Recovery;
use super::{Host, OnGone, OnStall, Owners, Pollers, Port};
use std::sync::Arc;
use std::time::Duration;
use wharf_core::bql::Bounds;
use wharf_core::device::AnyDevice;
use wharf_core::engine::Batching;
use wharf_core::host::{Clock, Park};
use wharf_core::poller::Settings;
use wharf_core::pool::PagePool;
use wharf_core::qdisc::Qdisc;
use wharf_devices::registry::Registry;
use wharf_devices::spec::{DeviceSpec, Direction, Opened};

/// The settings of a new port. See [`Port::builder`].
///
/// ```
/// use wharf::qdisc::{Fifo, FifoLimit};
/// use wharf::{Direction, Owners, Port};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let port = Port::builder("null", Direction::Send)
///     .owners(Owners::Senders) // no thread: senders run the queue
///     .qdisc(Fifo::new(FifoLimit::Packets(100)))
///     .lane_packets(512)
///     .build()?;
/// # drop(port);
/// # Ok(())
/// # }
/// ```
pub struct PortBuilder {
    spec: String,
    /// The port's name, if that is not its device's.
    name: Option<String>,
    direction: Direction,
    /// Its queues, open already.
    opened: Vec<Opened>,
    qdisc: Option<Box<dyn Qdisc>>,
    wrap: Option<Box<dyn FnMut(AnyDevice) -> AnyDevice + Send>>,
    common: Common,
}

/// The settings that each queue of a device has.
#[derive(Clone, Default)]
struct Common {
    /// The specification, read already.
    parsed: Option<DeviceSpec>,
    registry: Registry,
    pool: Option<PagePool>,
    /// The pool of what arrives, if that is another one.
    receiving_pool: Option<PagePool>,
    byte_limits: Option<Bounds>,
    batching: Option<Batching>,
    small_queues: Option<Option<u32>>,
    poller: Settings,
    owners: Owners,
    poller_cpu: Option<usize>,
    pollers: Option<Arc<Pollers>>,
    has_one_poller: bool,
    recovery: Recovery,
    takes_chains: bool,
    lane_packets: Option<u32>,
    inbox_packets: Option<u32>,
    host: Host,
    is_far_end: bool,
}

impl std::fmt::Debug for PortBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PortBuilder({}, {:?})", self.spec, self.direction)
    }
}

impl PortBuilder {
    /// Returns the processor that the poller keeps to.
    fn cpu(&self) -> Option<usize> {
        self.common.poller_cpu.or(self.common.owners.cpu())
    }

    pub(super) fn new(spec: &str, direction: Direction) -> Self {
        Self {
            spec: spec.into(),
            name: None,
            direction,
            opened: Vec::new(),
            qdisc: None,
            wrap: None,
            common: Common::default(),
        }
    }

    pub(super) fn of_spec(spec: &DeviceSpec, direction: Direction) -> Self {
        let mut builder = Self::new(&spec.to_string(), direction);
        builder.common.parsed = Some(spec.clone());
        builder
    }

    pub(super) fn over(devices: Vec<Opened>, direction: Direction) -> Self {
        let spec = devices.first().map_or(String::new(), |opened| opened.device.name());
        Self { opened: devices, ..Self::new(&spec, direction) }
    }

    /// Returns the name of its specification, once that was read: that of a queue's device may be longer.
    pub(crate) fn spec_name(&self) -> Option<String> {
        self.common.parsed.as_ref().map(DeviceSpec::name)
    }

    /// Sets the kinds of devices; those of this crate by default.
    #[must_use]
    pub fn registry(mut self, registry: Registry) -> Self {
        self.common.registry = registry;
        self
    }

    /// Sets the pool, which several ports may share; by default one of its own, of 4096 frames for packets of
    /// up to 1536 bytes, or more where the device would copy otherwise: `xdp` that receives by `igb` or `igc`.
    #[must_use]
    pub fn pool(mut self, pool: &PagePool) -> Self {
        self.common.pool = Some(pool.clone());
        self
    }

    /// Sets the queueing discipline; a FIFO of 1000 packets by default.
    #[must_use]
    pub fn qdisc(mut self, qdisc: impl Qdisc + 'static) -> Self {
        self.qdisc = Some(Box::new(qdisc));
        self
    }

    /// Bounds the byte limit; unbounded by default. [`Bounds::OFF`] makes a limit that never binds: only the
    /// device's ring then bounds the frames in the device.
    #[must_use]
    pub fn byte_limits(mut self, bounds: Bounds) -> Self {
        self.common.byte_limits = Some(bounds);
        self
    }

    /// Sets the batching switch, for comparisons; on by default.
    #[doc(hidden)]
    #[must_use]
    pub fn batching(mut self, batching: Batching) -> Self {
        self.common.batching = Some(batching);
        self
    }

    /// Sets the most bytes that one sender may have inside before it waits (TCP small queues, for any
    /// sender), from 4096 to 2^30; `None` for no limit. Below it, the limit follows the sender's rate: about
    /// one millisecond. The default is 1 MiB, but no limit with a discipline that drops the oldest packets: a
    /// sender would wait for packets that should make way for its own.
    #[must_use]
    pub fn small_queues(mut self, max_bytes: Option<u32>) -> Self {
        self.common.small_queues = Some(max_bytes);
        self
    }

    /// Sets the packets that each sender may have on their way to the queue: a power of two up to 65536,
    /// 256 by default. What finds no room waits, or counts as `full_drops`, before the discipline sees it.
    #[must_use]
    pub fn lane_packets(mut self, packets: u32) -> Self {
        self.common.lane_packets = Some(packets);
        self
    }

    /// Sets the packets that each receiver holds until a call takes them: 1 to 65536, 256 by default. A
    /// receiver that is full drops further packets if it is one of several. One that is alone leaves them to
    /// the poller and the device. Several receivers together hold at most half of the pool, by packets and by
    /// bytes; one alone holds at most half of it, by packets, or 256.
    #[must_use]
    pub fn inbox_packets(mut self, packets: u32) -> Self {
        self.common.inbox_packets = Some(packets);
        self
    }

    /// Sets the clock of the queue, its discipline and its pool (unless that is set), and how senders and
    /// served receivers wait by it. By default they are those of the host:
    /// [`HostClock`](crate::queue::HostClock), and threads that are parked.
    ///
    /// The clock must count the host's seconds, from any start: pollers and devices wait by the host's clock.
    /// Packets have times of this clock by `depart_at_ns` and `expire_at_ns` alone: an
    /// [`Instant`](std::time::Instant) is of the host's. A port of [`Virtual`](crate::testing::Virtual) keeps
    /// its virtual time.
    #[must_use]
    pub fn clock(self, clock: Arc<dyn Clock>, park: Arc<dyn Park>) -> Self {
        if let Host::World(_) = self.common.host { self } else { self.host(Host::Own(clock, park)) }
    }

    /// Puts what `wrap` makes around each device, outside of what opens it again, and around a receive side
    /// that is a device of its own (`packet`, opened both ways): one that fails in a test, or a trace. See
    /// [`wrap_device!`](crate::device::wrap_device).
    #[must_use]
    pub fn wrap(mut self, wrap: impl FnMut(AnyDevice) -> AnyDevice + Send + 'static) -> Self {
        self.wrap = Some(Box::new(wrap));
        self
    }

    /// Sets the clock and what runs its pollers.
    pub(crate) fn host(mut self, host: Host) -> Self {
        self.common.host = host;
        self
    }

    /// Sets mode and budget of the port's pollers.
    #[must_use]
    pub fn poller(mut self, settings: Settings) -> Self {
        self.common.poller = settings;
        self
    }

    /// Keeps the port's poller to a processor, whichever threads run the queue: [`Owners::Poller`] names one
    /// for itself.
    #[must_use]
    pub fn poller_cpu(mut self, cpu: usize) -> Self {
        self.common.poller_cpu = Some(cpu);
        self
    }

    /// Has the poller of `port` serve this port, too, with that poller's settings and processor; by default
    /// each port has a poller of its own.
    #[must_use]
    pub fn poller_of(self, port: &Port) -> Self {
        self.polled_by(&port.inner.pollers)
    }

    /// Has one poller serve all queues of [`PortBuilder::build_queues`], if `has_one` is true.
    #[must_use]
    pub fn one_poller(mut self, has_one: bool) -> Self {
        self.common.has_one_poller = has_one;
        self
    }

    pub(crate) fn polled_by(mut self, pollers: &Arc<Pollers>) -> Self {
        self.common.pollers = Some(pollers.clone());
        self
    }

    pub(crate) fn direction(self, direction: Direction) -> Self {
        Self { direction, ..self }
    }

    /// Sets the pool of what arrives, where the device receives apart from its transmit queue.
    pub(crate) fn receiving_pool(mut self, pool: &PagePool) -> Self {
        self.common.receiving_pool = Some(pool.clone());
        self
    }

    /// Sets the threads that run the transmit queue; [`Owners::Auto`] by default.
    #[must_use]
    pub fn owners(mut self, owners: Owners) -> Self {
        self.common.owners = owners;
        self
    }

    /// Sets the time without a completion, while the device holds frames, that is a stall: see
    /// [`Port::events`]. By default it is eight times the longest recent delay of a completion, from 100 ms
    /// to 1 s.
    #[must_use]
    pub fn stall_after(mut self, time: Duration) -> Self {
        self.common.recovery.stall_after = Some(time);
        self
    }

    /// Sets how long the line must be down before [`Event::Down`](crate::Event::Down) reports it (a router's
    /// carrier delay), so that a line that flaps is not reported. The default is zero. The host's clock
    /// counts, and the line is checked every 50 to 500 ms while it is down: a shorter `Up` may be missed.
    /// [`Port::state`] does not wait for it.
    #[must_use]
    pub fn down_after(mut self, time: Duration) -> Self {
        self.common.recovery.down_after = time;
        self
    }

    /// Sets what is done about a device that stalls; by default it is only reported.
    #[must_use]
    pub fn on_stall(mut self, on_stall: OnStall) -> Self {
        self.common.recovery.on_stall = on_stall;
        self
    }

    /// Sets how long a stall must last before the action of [`PortBuilder::on_stall`] runs; by default it runs
    /// at once.
    #[must_use]
    pub fn remedy_after(mut self, time: Duration) -> Self {
        self.common.recovery.remedy_after = Some(time);
        self
    }

    /// Sets what is done about a device whose interface or peer has gone; by default it is opened again when
    /// it is back.
    #[must_use]
    pub fn on_gone(mut self, on_gone: OnGone) -> Self {
        self.common.recovery.on_gone = on_gone;
        self
    }

    /// Has receivers and handlers get packets longer than a frame ([`PagePool::packet_bytes_max`]) as chains,
    /// if `takes_chains` is true: see [`Packet::is_chain`](crate::Packet::is_chain). By default such packets
    /// are dropped, and counted as `too-long`; `tap`, `virtio-user` and `vhost-user` are opened with
    /// `offload=off` then. A key that asks for super-packets is refused, unless frames hold them.
    #[must_use]
    pub fn takes_chains(mut self, takes_chains: bool) -> Self {
        self.common.takes_chains = takes_chains;
        self
    }
}
