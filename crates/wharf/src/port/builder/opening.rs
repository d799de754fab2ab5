//! A port made of its settings: the device is opened, and is given memory, a queue and a poller.

use super::{Common, PortBuilder};
use crate::OpenError;
use crate::open_error::Refusing;
use crate::port::metrics::Measurements;
use crate::port::recovery::Recovery;
use crate::port::{Inner, OnGone, OnStall, Parts, Pollers, Port, PortMonitor, Source};
use std::ops::RangeInclusive;
use std::slice::from_ref;
use std::sync::{Arc, Mutex};
use wharf_core::device::{AnyDevice, DeviceError};
use wharf_core::direct::Direct;
use wharf_core::pool::PagePool;
use wharf_core::queue::{QueueBuilder, QueueError, TxQueue};
use wharf_devices::reopen::Reopener;
use wharf_devices::spec::{DeviceSpec, Direction, Opened, Opening, QueueLayout, SUPER_PACKET_BYTES_MAX};

/// Bounds of [`PortBuilder::inbox_packets`].
const INBOX_BOUNDS: RangeInclusive<u32> = 1..=65536;

impl PortBuilder {
    /// Opens `count` queues of the device now, without memory. [`PortBuilder::build`] or
    /// [`PortBuilder::build_queues`], which opens them otherwise, then gives them memory, and may wait for a
    /// peer (`virtio-user`).
    ///
    /// # Errors
    /// [`OpenError`] with the reason: a specification that cannot be, a device that cannot be opened.
    pub fn open(self, count: u32) -> Result<Self, OpenError> {
        let pool_shared_by = self.devices_of(count).map_err(|error| self.refusing().error(error))?;
        self.open_as(count, pool_shared_by)
    }

    /// Returns the number of devices that there are going to be for `count` queues. They share a pool.
    fn devices_of(&self, count: u32) -> Result<u32, QueueError> {
        let spec = self.parse()?;
        if count == 0 || count > 1 && spec.kind().queues == QueueLayout::One {
            return Err(misuse(&self.spec, format!("it cannot have {count} queues")));
        }
        Ok(spec.devices(count) as u32)
    }

    pub(crate) fn open_as(mut self, queues: u32, pool_shared_by: u32) -> Result<Self, OpenError> {
        let refusing = self.refusing();
        self.opened(queues, pool_shared_by).map_err(|error| refusing.error(error))?;
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
        let is_read = self.common.parsed.is_some() || !self.opened.is_empty();
        let registry = (!is_read).then(|| self.common.registry.clone());
        Refusing { spec: self.spec.clone(), registry }
    }

    pub(in crate::port) fn built(mut self) -> Result<Port, QueueError> {
        let opened = self.only()?;
        let name = self.name.take().unwrap_or_else(|| opened.device.name());
        self.build_over(name, opened)
    }

    /// Opens the device, unless it is open, and takes its only queue.
    fn only(&mut self) -> Result<Opened, QueueError> {
        self.opened(1, 1)?;
        match self.opened.pop() {
            Some(opened) if self.opened.is_empty() => self.wrapped(opened),
            _ => Err(misuse(&self.spec, "several queues are several ports: call build_queues")),
        }
    }

    /// Opens the device for one sender that owns its queue, in place of a port: no lane, no poller and no
    /// watch; see [`Direct`]. Of the settings, those of owners, pollers, receivers and stalls do nothing.
    ///
    /// ```
    /// use std::time::Duration;
    /// use wharf::{Direction, Port};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let mut path = Port::builder("null", Direction::Send).build_direct()?;
    /// let mut burst = path.burst(32);
    /// path.fill(&mut burst, 32, 64, Duration::ZERO)?;
    /// assert_eq!(path.send(&mut burst, Duration::from_secs(1))?.accepted, 32);
    /// assert_eq!(path.close().out(), 0);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of [`PortBuilder::build`].
    pub fn build_direct(mut self) -> Result<Direct, OpenError> {
        let refusing = self.refusing();
        self.built_direct().map_err(|error| refusing.error(error))
    }

    fn built_direct(&mut self) -> Result<Direct, QueueError> {
        let opened = self.only()?;
        let pool = self.pool_for(&opened)?;
        self.queue(&pool, opened.device)?.build_direct()
    }

    /// Returns the pool that was set, or makes one.
    fn pool_for(&self, opened: &Opened) -> Result<PagePool, QueueError> {
        let own = || self.common.host.pool(from_ref(opened));
        Ok(self.common.pool.clone().map_or_else(own, Ok)?)
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
            return Err(misuse(&self.spec, "each queue has a qdisc of its own"));
        }
        if self.opened.is_empty() {
            self.opened(count, self.devices_of(count)?)?;
        }
        let queues = std::mem::take(&mut self.opened);
        if self.common.pool.is_none() {
            self.common.pool = Some(self.common.host.pool(&queues)?);
        }
        if self.common.has_one_poller && self.common.pollers.is_none() {
            self.common.pollers = Some(self.new_pollers());
        }
        let port = |(number, opened)| {
            let opened = self.wrapped(opened)?;
            self.port_of(number, opened, |queue| each(queue, number))
        };
        queues.into_iter().enumerate().map(port).collect()
    }

    /// Returns the number of queues that it has, or will have if `queues` are asked for.
    pub(crate) fn queues_of(&self, queues: u32) -> usize {
        let of_spec = || self.parse().map_or(1, |spec| spec.devices(queues));
        if self.opened.is_empty() { of_spec() } else { self.opened.len() }
    }

    /// Takes the queues of the device, once they are open: for a program that drives them itself.
    pub fn take_devices(&mut self) -> Vec<Opened> {
        std::mem::take(&mut self.opened)
    }

    /// Builds the port of queue `number`, with these settings and what `each` makes of them.
    pub(crate) fn port_of(
        &self, number: usize, opened: Opened, each: impl FnOnce(Self) -> Self,
    ) -> Result<Port, QueueError> {
        let (mut name, suffix) = (opened.device.name(), format!("#{number}"));
        if number > 0 && !name.ends_with(&suffix) {
            name += &suffix;
        }
        let queue = Self { common: self.common.clone(), ..Self::new(&self.spec, self.direction) };
        each(queue).build_over(name, opened)
    }

    fn new_pollers(&self) -> Arc<Pollers> {
        let settings = self.common.host.settings(self.common.owners.settings(self.common.poller));
        Pollers::new(self.common.host.clone(), settings, self.cpu())
    }

    pub(crate) fn wrapped(&mut self, opened: Opened) -> Result<Opened, QueueError> {
        let Some(wrap) = &mut self.wrap else { return Ok(opened) };
        let device = wrap(opened.device);
        let receiving = opened.receiving.map(|device| wrap(device.into()).into_rx()).transpose()?;
        Ok(Opened { device, receiving, ..opened })
    }

    /// Opens the device's queues, unless they are open.
    fn opened(&mut self, queues: u32, pool_shared_by: u32) -> Result<(), QueueError> {
        if !self.opened.is_empty() {
            return Ok(());
        }
        let spec = self.parse()?;
        if self.direction == Direction::Both && !spec.kind().can.both {
            let what = "it cannot send and receive at once".into();
            return Err(DeviceError::Unsupported { device: self.spec.clone(), what }.into());
        }
        let opening = Opening { direction: self.direction, queues, pool_shared_by };
        let mut opened = self.common.host.open(&spec, opening)?;
        let Recovery { on_gone, on_stall, .. } = self.common.recovery;
        if on_gone != OnGone::Fail || on_stall == OnStall::Reset {
            let around = Reopener::around(&spec, opening, on_gone, &mut opened);
            let fault = |source| {
                let (device, what) = (self.spec.clone(), "no descriptor");
                QueueError::System { device, what, source }
            };
            self.common.recovery.reopener = around.map_err(fault)?;
        }
        self.opened = opened;
        Ok(())
    }

    /// Reads the specification. A device that makes super-packets by default makes none for a program that
    /// takes no chains.
    fn parse(&self) -> Result<DeviceSpec, QueueError> {
        let parse =
            |text: &str| self.common.registry.parse_for(text, self.direction).map_err(DeviceError::from);
        let spec = self.common.parsed.clone().map_or_else(|| parse(&self.spec), Ok)?;
        let frame_bytes = self.common.pool.as_ref().map_or(0, PagePool::packet_bytes_max);
        let takes_all = self.common.takes_chains || frame_bytes >= SUPER_PACKET_BYTES_MAX;
        match spec.kind().whole_by {
            Some((key, value)) if self.direction != Direction::Send && !takes_all => {
                match spec.options().text(key) {
                    None => Ok(parse(&format!("{},{key}={value}", self.spec))?),
                    Some(given) if given == value => Ok(spec),
                    Some(given) => Err(misuse(
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

    /// Builds a port over the other end of the device of `near`.
    pub(in crate::port) fn of_far_end(near: &Port, far_end: AnyDevice, direction: Direction) -> Self {
        let Inner { name, takes_chains, host, .. } = &*near.inner;
        let common =
            Common { takes_chains: *takes_chains, host: host.clone(), is_far_end: true, ..Common::default() };
        let devices = vec![Opened::new(far_end)];
        Self { name: Some(format!("far end of {name}")), common, ..Self::over(devices, direction) }
    }

    /// Checks the settings that no part of the port checks by itself.
    fn check(&self, name: &str) -> Result<(), QueueError> {
        if let Some(cpu) = self.cpu().filter(|cpu| !wharf_devices::host::processors().contains(cpu)) {
            return Err(misuse(name, format!("no processor {cpu} for this process")));
        }
        let refused = |packets: u32| {
            let (setting, value, why) = ("inbox packets", packets.into(), "1 to 65536");
            Err(QueueError::Setting { setting, value, why })
        };
        self.common.inbox_packets.filter(|packets| !INBOX_BOUNDS.contains(packets)).map_or(Ok(()), refused)
    }

    fn build_over(mut self, name: String, opened: Opened) -> Result<Port, QueueError> {
        let Common { owners, poller: settings, takes_chains, inbox_packets, is_far_end, .. } = self.common;
        let (host, direction) = (self.common.host.clone(), self.direction);
        self.check(&name)?;
        let pool = self.pool_for(&opened)?;
        let receiving_pool = self.common.receiving_pool.take().unwrap_or_else(|| pool.clone());
        let pollers = self.common.pollers.take().unwrap_or_else(|| self.new_pollers());
        let monitor = PortMonitor::new(std::mem::take(&mut self.common.recovery));
        let Opened { device, receiving, far_end, .. } = opened;
        let (queue, source) = match direction {
            Direction::Receive => (None, Source::Apart(receiving.map_or_else(|| device.into_rx(), Ok)?)),
            Direction::Send => (
                Some(self.queue(&pool, device)?.build()?),
                Source::Gone(|device| QueueError::OnlySends { device, what: "it was opened to send" }),
            ),
            Direction::Both => {
                (Some(self.queue(&pool, device)?.build()?), receiving.map_or(Source::OfQueue, Source::Apart))
            }
        };
        if let Some(queue) = &queue {
            queue.set_claimants(owners.claimants());
            monitor.watch(queue);
        }
        let settings = host.settings(owners.settings(settings));
        let (parts, number) = (Mutex::new(Parts::new(source, far_end)), pollers.join());
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
            giving_back: Default::default(),
            takes_chains,
            inbox_packets,
            is_far_end,
            measured: Measurements::default(),
            monitor,
        };
        let port = Port { inner: Arc::new(inner) };
        port.restart_poller(&port.parts())?;
        Ok(port)
    }

    fn queue(&mut self, pool: &PagePool, device: AnyDevice) -> Result<QueueBuilder, QueueError> {
        let mut builder =
            TxQueue::builder_of(pool, device, self.common.host.clock(), self.common.host.park())?;
        if let Some(qdisc) = self.qdisc.take() {
            builder = builder.qdisc(qdisc);
        }
        if let Some(bounds) = self.common.byte_limits {
            builder = builder.byte_limits(bounds);
        }
        if let Some(batching) = self.common.batching {
            builder = builder.batching(batching);
        }
        if let Some(packets) = self.common.lane_packets {
            builder = builder.lane_frames(packets);
        }
        if let Some(max_bytes) = self.common.small_queues {
            builder = builder.small_queues(max_bytes);
        }
        Ok(builder)
    }
}

fn misuse(name: &str, what: impl Into<String>) -> QueueError {
    QueueError::Misuse { device: name.into(), what: what.into() }
}
