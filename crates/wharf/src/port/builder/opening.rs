//! A port made of its settings: the device is opened, and is given memory, a queue and a poller.

use super::PortBuilder;
use crate::OpenError;
use crate::metrics::Snapshot;
use crate::open_error::Refusing;
use crate::port::metrics::Measurements;
use crate::port::recovery::Recovery;
use crate::port::{Inner, OnGone, OnStall, Parts, Pollers, Port, PortMonitor, Source};
use std::sync::{Arc, Mutex};
use wharf_core::device::{AnyDevice, DeviceError, Duplex};
use wharf_core::pool::PagePool;
use wharf_core::queue::{QueueError, TxQueue};
use wharf_devices::reopen::Reopener;
use wharf_devices::spec::{DeviceSpec, Direction, Opened, QueueLayout, Queues, SUPER_PACKET_BYTES_MAX};

/// Frames of a pool, for each queue.
const POOL_FRAMES: u32 = 4096;

impl PortBuilder {
    /// Opens `count` queues of the device now, without memory. [`PortBuilder::build`] or
    /// [`PortBuilder::build_queues`], which opens them otherwise, then gives them memory, and may wait for a
    /// peer (`virtio-user`).
    ///
    /// # Errors
    /// [`OpenError`] with the reason: a specification that cannot be, a device that cannot be opened.
    pub fn open(self, count: u32) -> Result<Self, OpenError> {
        self.open_as(Queues { count, ..Queues::default() })
    }

    pub(crate) fn open_as(mut self, queues: Queues) -> Result<Self, OpenError> {
        let refusing = self.refusing();
        self.opened(queues).map_err(|error| refusing.error(error))?;
        Ok(self)
    }

    /// Returns the queues of the device, once they are open: each one's name and abilities.
    pub fn devices(&self) -> &[Opened] {
        &self.opened
    }

    /// Opens the port.
    ///
    /// # Errors
    /// [`OpenError`] with the reason: a specification that cannot be, a device that cannot be opened, no
    /// memory, no thread, no such processor.
    pub fn build(self) -> Result<Port, OpenError> {
        let refusing = self.refusing();
        self.built().map_err(|error| refusing.error(error))
    }

    pub(crate) fn refusing(&self) -> Refusing {
        let registry = self.parsed.is_none().then(|| self.registry.clone());
        Refusing { spec: self.spec.clone(), direction: self.direction, registry }
    }

    fn built(mut self) -> Result<Port, QueueError> {
        self.opened(Queues::default())?;
        match self.opened.pop() {
            Some(opened) if self.opened.is_empty() => self.build_over(opened.device.name(), opened),
            _ => Err(fault(&self.spec, "several queues are several ports: call build_queues")),
        }
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
        let refusing = self.refusing();
        self.built_queues(count, each).map_err(|error| refusing.error(error))
    }

    fn built_queues(
        mut self, count: u32, mut each: impl FnMut(Self, usize) -> Self,
    ) -> Result<Vec<Port>, QueueError> {
        if self.qdisc.is_some() {
            return Err(fault(&self.spec, "each queue has a qdisc of its own"));
        }
        self.opened(Queues { count, ..Queues::default() })?;
        let queues = std::mem::take(&mut self.opened);
        if self.pool.is_none() {
            let frames = POOL_FRAMES.saturating_mul(queues.len() as u32);
            self.pool = Some(PagePool::builder().frames(frames).build()?);
        }
        if self.has_one_poller && self.pollers.is_none() {
            self.pollers = Some(self.new_pollers());
        }
        let mut ports = Vec::new();
        for (number, opened) in queues.into_iter().enumerate() {
            let (mut name, suffix) = (opened.device.name(), format!("#{number}"));
            if number > 0 && !name.ends_with(&suffix) {
                name += &suffix;
            }
            let (spec, parsed, registry) = (self.spec.clone(), self.parsed.clone(), self.registry.clone());
            let (pool, receiving_pool) = (self.pool.clone(), self.receiving_pool.clone());
            let (host, pollers, reopener) = (self.host.clone(), self.pollers.clone(), self.reopener.clone());
            let opened_later = Vec::new();
            let queue = Self {
                spec,
                parsed,
                registry,
                opened: opened_later,
                reopener,
                pool,
                receiving_pool,
                host,
                pollers,
                qdisc: None,
                wrap: None,
                ..self
            };
            ports.push(each(queue, number).build_over(name, opened)?);
        }
        Ok(ports)
    }

    fn new_pollers(&self) -> Arc<Pollers> {
        let settings = self.host.settings(self.owners.settings(self.poller));
        Pollers::new(self.host.clone(), settings, self.owners.cpu())
    }

    /// Opens the device's queues, unless they are open.
    fn opened(&mut self, queues: Queues) -> Result<(), QueueError> {
        if !self.opened.is_empty() {
            return Ok(());
        }
        let spec = self.parse()?;
        if self.direction == Direction::Both && !spec.kind().can.both {
            return Err(fault(&self.spec, "it cannot send and receive at once"));
        }
        if queues.count == 0 || queues.count > 1 && spec.kind().queues == QueueLayout::One {
            return Err(fault(&self.spec, format!("it cannot have {} queues", queues.count)));
        }
        let pool_shared_by = queues.pool_shared_by.max(spec.devices(queues) as u32);
        let queues = Queues { pool_shared_by, ..queues };
        let mut opened = self.host.open(&spec, self.direction, queues)?;
        if self.on_gone != OnGone::Fail || self.on_stall == OnStall::Reset {
            let around = Reopener::around(&spec, self.direction, queues, self.on_gone, &mut opened);
            self.reopener = around.map_err(|error| fault(&self.spec, format!("no descriptor: {error}")))?;
        }
        if let Some(mut wrap) = self.wrap.take() {
            let wrapped = |opened: Opened| Opened { device: wrap(opened.device), ..opened };
            opened = opened.into_iter().map(wrapped).collect();
        }
        self.opened = opened;
        Ok(())
    }

    /// Reads the specification. A device that makes super-packets by default makes none for a program that
    /// takes no chains.
    fn parse(&self) -> Result<DeviceSpec, QueueError> {
        let parse = |text: &str| self.registry.parse_for(text, self.direction).map_err(DeviceError::from);
        let spec = self.parsed.clone().map_or_else(|| parse(&self.spec), Ok)?;
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
    pub(in crate::port) fn of_far_end(near: &Port, far_end: Box<dyn Duplex>) -> Result<Port, QueueError> {
        let Inner { name, takes_chains, host, .. } = &*near.inner;
        let name = format!("far end of {name}");
        let far = Self { host: host.clone(), is_far_end: true, ..Self::new(&name, Direction::Both) };
        far.takes_chains(*takes_chains).build_over(name, Opened::new(AnyDevice::Duplex(far_end)))
    }

    fn build_over(mut self, name: String, opened: Opened) -> Result<Port, QueueError> {
        let Self { direction, owners, poller: settings, takes_chains, .. } = self;
        let (on_stall, on_gone) = (self.on_stall, self.on_gone);
        let recovery = Recovery {
            on_stall,
            on_gone,
            stall_after: self.stall_after,
            remedy_after: self.remedy_after,
            reopener: self.reopener.take(),
        };
        let (host, is_far_end) = (self.host.clone(), self.is_far_end);
        if let Some(cpu) = owners.cpu().filter(|cpu| !wharf_devices::host::processors().contains(cpu)) {
            return Err(fault(&name, format!("no processor {cpu} for this process")));
        }
        let pool = match &self.pool {
            Some(pool) => pool.clone(),
            None => PagePool::builder().frames(POOL_FRAMES).clock(host.clock()).build()?,
        };
        let receiving_pool = self.receiving_pool.take().unwrap_or_else(|| pool.clone());
        let pollers = self.pollers.take().unwrap_or_else(|| self.new_pollers());
        let Opened { device, receiving, far_end, .. } = opened;
        let (queue, source) = match direction {
            Direction::Receive => (None, Source::Apart(device.into_rx()?)),
            Direction::Send => (Some(self.queue(&pool, device)?), Source::Gone("it was opened to send")),
            Direction::Both => {
                (Some(self.queue(&pool, device)?), receiving.map_or(Source::OfQueue, Source::Apart))
            }
        };
        let monitor = PortMonitor::new(recovery);
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
        };
        let (parts, measured, number) = (Mutex::new(parts), Measurements::default(), pollers.join());
        let inner = Inner {
            name,
            pool,
            receiving_pool,
            queue,
            host,
            settings,
            owners,
            pollers,
            number,
            parts,
            takes_chains,
            is_far_end,
            measured,
            monitor,
        };
        let port = Port { inner: Arc::new(inner) };
        port.restart_poller(&port.parts())?;
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

pub(in crate::port) fn fault(name: &str, what: impl Into<String>) -> QueueError {
    DeviceError::Unsupported { device: name.into(), what: what.into() }.into()
}
