//! `verbs:DEVICE`: unreliable datagrams of an RDMA device, by libibverbs, with IPoIB's encapsulation.
//!
//! A frame's EtherType and payload are a datagram (RFC 4391). Frames that leave together are linked work requests, posted by one call and
//! completed by one completion. Frames are sent from, and received into, the pool's memory, which is one memory region: nothing is copied
//! here. Completions are real, so there is a byte queue limit.
//!
//! Reading order: this file; `port.rs` (device, queues, state), `peers.rs`, `resolver.rs` and `neighbours.rs` (the way to a peer),
//! `encapsulation.rs`, `sending.rs`, `receiving.rs`.

#![deny(unsafe_code)]

mod address;
mod doctor;
mod encapsulation;
#[allow(unsafe_code)]
mod ibverbs;
mod neighbours;
mod options;
mod peers;
mod port;
mod receiving;
mod resolver;
mod sending;
mod spec;

pub use address::PeerAddress;
#[cfg(feature = "fake")]
#[doc(hidden)]
pub use ibverbs::fake;
pub use ibverbs::free_removed_devices;
pub use spec::KIND;

use crate::ibverbs::{Library, MemoryRegion};
use port::Port;
use receiving::Receiving;
use resolver::Heard;
use sending::Sending;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::Duration;
use wharf_core::device::{
    CompletionMode, Completions, Device, DeviceError, Notify, RxDevice, Signals, Transmitted, TxDevice,
    TxInfo,
};
use wharf_core::host::Clock;
use wharf_core::pool::Cache;
use wharf_devices::host::HostClock;
use wharf_devices::iface::{LookTimer, State};
use wharf_mem::{Batch, Frame, Region};

/// Time until the next look at a device that holds frames, or waits for a peer, though nothing notifies.
const LOOK_NS: u64 = 20_000_000;

/// Memory that is registered with the device, and the region that it is.
type Memory = (MemoryRegion, Arc<Region>);

/// Settings of a [`Verbs`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VerbsOptions {
    /// Port of the device, 1 by default.
    pub port: u8,
    /// Entry of the port's table of GIDs; `None` to choose one.
    pub gid_index: Option<u8>,
    /// The peer that frames go to unless their address names another one.
    pub peer: Option<PeerAddress>,
    /// True if frames that leave together are posted together: the default.
    pub batches: bool,
    /// Requests of each queue: 1024 by default.
    pub ring_frames: u32,
    /// True if it sends, and if it receives: both by default.
    pub sends: bool,
    /// See `sends`.
    pub receives: bool,
    /// Devices that receive into one pool.
    pub pool_shared_by: u32,
}

impl Default for VerbsOptions {
    fn default() -> Self {
        Self {
            port: 1,
            gid_index: None,
            peer: None,
            batches: true,
            ring_frames: 1024,
            sends: true,
            receives: true,
            pool_shared_by: 1,
        }
    }
}

/// A queue pair of an RDMA device; it sends and receives.
///
/// A device that is removed, a queue pair in error, and a device that completes nothing for 5 s are [`DeviceError::Gone`]: it takes no
/// frame any more, and is to be opened again. While its port is down, frames fail (`link-down`).
#[derive(Debug)]
pub struct Verbs {
    name: String,
    options: VerbsOptions,
    /// `None` once closed.
    port: Option<Port>,
    memory: Option<Memory>,
    sending: Sending,
    receiving: Receiving,
    look: LookTimer,
    is_armed: bool,
    signals: Signals,
    /// Time that has passed beside the host's clock, in tests.
    passed_ns: u64,
}

impl Verbs {
    /// Opens device `device`.
    ///
    /// # Errors
    /// [`DeviceError::Io`] if there is no libibverbs or no such device, or its port is not active; [`DeviceError::Unsupported`] for a GID
    /// or a ring that the device does not have.
    pub fn open(device: &str, options: VerbsOptions) -> Result<Self, DeviceError> {
        let name = format!("verbs:{}", device.escape_debug());
        let what = "cannot load libibverbs (`apt install libibverbs1 ibverbs-providers`)".into();
        let library = Library::load().map_err(|source| DeviceError::Io { device: name, what, source })?;
        Self::open_by(library, device, options, 0)
    }

    /// Opens device `device` of `library`. Rings begin at request `first`.
    #[doc(hidden)]
    pub fn open_by(
        library: Library, device: &str, options: VerbsOptions, first: u32,
    ) -> Result<Self, DeviceError> {
        let ring_frames = options.ring_frames.next_power_of_two();
        let ring = |is_used| if is_used { ring_frames } else { 1 };
        let receives = if options.receives { ring_frames } else { 0 };
        let port = Port::open(library, device, &options, ring(options.sends), receives)?;
        Ok(Self {
            name: port.name.clone(),
            options,
            sending: Sending::new(ring(options.sends), options.batches, first),
            receiving: Receiving::new(ring(options.receives), first),
            port: Some(port),
            memory: None,
            look: LookTimer::new(1),
            is_armed: false,
            signals: Signals::default(),
            passed_ns: 0,
        })
    }

    /// Lets time pass for this device.
    #[doc(hidden)]
    pub fn pass(&mut self, time: Duration) {
        self.passed_ns += time.as_nanos() as u64;
    }

    #[inline]
    fn now_ns(&self) -> u64 {
        HostClock.now_ns() + self.passed_ns
    }

    /// Handles what is due now and then: events of the device, questions and answers, a device that is stuck. Returns false if more
    /// questions and answers are there, or what frames may have waited for has come.
    #[cold]
    fn serve(&mut self) -> bool {
        let now_ns = self.now_ns();
        let Some(port) = &mut self.port else { return true };
        self.look.restart(LookTimer::EVERY);
        port.take_events();
        self.sending.check_stuck(port, now_ns);
        let own = self.receiving.is_ready().then(|| port.queue_pair.number());
        let Port { resolver, peers, neighbours, .. } = port;
        let was_waited_for = peers.is_waited_for();
        // Answers first: one that has come is no unanswered question.
        let is_all = resolver.serve(own, |heard| {
            match heard {
                Heard::Answer(queue_pair) => peers.answered(queue_pair, now_ns),
                Heard::Proven(gid, queue_pair) => _ = peers.heard(&gid, queue_pair, now_ns),
                Heard::Question(gid, queue_pair) => return peers.questioned(&gid, queue_pair, now_ns),
            }
            false
        });
        if let Some(neighbours) = neighbours {
            neighbours.take_answers(|gid, address| peers.take_address(gid, address, now_ns));
        }
        if let Some(gid) = peers.next_to_ask(now_ns) {
            resolver.ask(&gid, own);
        }
        is_all && (peers.is_waited_for() || !was_waited_for)
    }

    /// Returns true while frames may wait for a peer's answer, or for the kernel's of a neighbour.
    #[inline]
    fn is_waited_for(&self) -> bool {
        self.port.as_ref().is_some_and(|port| port.peers.is_waited_for())
    }

    /// Serves if that is due, or frames wait for an answer.
    #[inline]
    fn serve_now_and_then(&mut self) {
        if self.look.is_due() || self.look.is_late() || self.is_waited_for() {
            self.serve();
        }
    }
}

impl Notify for Verbs {
    /// Asks for notifications of both queues, and polls them again, as NAPI does: what came before notifies of nothing.
    fn arm(&mut self) -> bool {
        // Descriptors notify of an edge: one that comes while they are read shows again.
        self.port.iter_mut().for_each(|port| port.epoll.take_events(|_| {}));
        let is_served = self.serve();
        let Some(port) = &mut self.port else { return true };
        let events = port.channel.take_events();
        self.signals.interrupts += events;
        if events > 0 || !self.is_armed {
            // Of a device that is gone the events tell.
            let armed = port.sent.arm().and(port.received.arm());
            self.is_armed = armed.is_ok();
        }
        let sent = self.sending.poll(port, self.sending.ring_frames() as usize);
        let has_sent = sent.as_ref().is_ok_and(|&count| count > 0);
        if let Err(error) = sent {
            port.report(error);
        }
        let has_arrived = self.receiving.find(port);
        is_served && !has_sent && !has_arrived && !port.has_error()
    }

    fn wait_fd(&self) -> Option<RawFd> {
        self.port.as_ref().map(Port::wait_fd)
    }

    fn signals(&mut self) -> Option<Signals> {
        Some(self.signals)
    }
}

impl Device for Verbs {
    fn name(&self) -> String {
        self.name.clone()
    }

    /// Returns the way in which frames are posted.
    fn mode(&self) -> Option<&'static str> {
        let port = self.port.as_ref().filter(|_| self.options.sends)?;
        Some(match (self.options.batches, port.queue_pair.inline_bytes() > 0) {
            (true, true) => "linked, inline",
            (true, false) => "linked",
            (false, true) => "one by one, inline",
            (false, false) => "one by one",
        })
    }

    fn attach(&mut self, region: Arc<Region>) -> Result<(), DeviceError> {
        let Some(port) = &self.port else { return Ok(()) };
        if self.options.receives {
            let fits = receiving::check_room(&region, port.mtu_bytes);
            fits.map_err(|what| DeviceError::Unsupported { device: self.name.clone(), what })?;
        }
        let registered = MemoryRegion::register(&port.domain, region.clone()).map_err(|source| {
            let what = "cannot register the pool's memory (`ulimit -l`)".into();
            DeviceError::Io { device: self.name.clone(), what, source }
        })?;
        if self.options.receives {
            let quarters = if self.options.sends { 1 } else { 3 };
            self.receiving.keep(&region, quarters, self.options.pool_shared_by);
        }
        self.memory = Some((registered, region));
        Ok(())
    }

    fn link(&mut self) -> Option<Result<(), DeviceError>> {
        self.port.as_mut().map(Port::link)
    }

    fn visit(&self, see: &mut dyn FnMut(&Frame)) {
        self.sending.visit(see);
        self.receiving.visit(see);
    }

    fn close(&mut self) -> Result<(), DeviceError> {
        let Some(mut port) = self.port.take() else { return Ok(()) };
        // What has completed by now was sent.
        _ = self.sending.poll(&mut port, self.sending.ring_frames() as usize);
        // The queue pair goes first: the device then accesses no memory for it.
        if let Err(source) = port.queue_pair.destroy() {
            // It may still: its memory stays registered and its frames out, until the process ends.
            std::mem::forget(self.memory.take());
            self.sending.abandon();
            self.receiving.abandon();
            let what =
                "cannot destroy its queue pair: the frames that it holds are lost to this process; end it"
                    .into();
            return Err(DeviceError::Io { device: self.name.clone(), what, source });
        }
        self.sending.close();
        self.receiving.close();
        self.memory = None;
        Ok(())
    }
}

impl TxDevice for Verbs {
    fn info(&self) -> TxInfo {
        TxInfo {
            ring_frames: Some(self.sending.ring_frames()),
            completions: CompletionMode::Real,
            segments_max: 1,
            ..TxInfo::default()
        }
    }

    #[inline]
    fn transmit(&mut self, batch: &mut Batch, more: bool) -> Transmitted {
        if !self.sending.has_staged() {
            self.serve_now_and_then();
        }
        let now_ns = self.now_ns();
        let Some(port) = &mut self.port else { return self.sending.refuse(batch, "closed") };
        let Some(memory) = &self.memory else { return self.sending.refuse(batch, "not-attached") };
        self.sending.transmit(port, memory, batch, more, now_ns, &mut self.signals.kicks)
    }

    fn flush(&mut self) -> bool {
        let (Some(port), Some(memory)) = (&mut self.port, &self.memory) else { return false };
        let rang = self.sending.flush(port, memory);
        self.signals.kicks += u64::from(rang);
        rang
    }

    #[inline]
    fn reap(&mut self, budget: usize, _urgent: bool, into: &mut Completions) -> Result<(), DeviceError> {
        let Some(port) = &mut self.port else {
            self.sending.book.reap(budget, into);
            return Ok(());
        };
        let polled = match self.sending.has_posted() {
            true => self.sending.poll(port, self.sending.ring_frames() as usize),
            false => Ok(0),
        };
        self.sending.book.reap(budget, into);
        let error = polled.map(drop).and_then(|()| port.take_error());
        if self.look.is_late() {
            self.serve();
        }
        error
    }

    fn outstanding(&self) -> usize {
        self.sending.outstanding()
    }

    fn next_completion_ns(&self) -> Option<u64> {
        let is_looked_for = self.sending.outstanding() > 0 || self.is_waited_for();
        is_looked_for.then_some(LOOK_NS)
    }
}

impl RxDevice for Verbs {
    #[inline]
    fn receive(&mut self, cache: &mut Cache, to: &mut Batch, budget: usize) -> Result<usize, DeviceError> {
        let now_ns = self.now_ns();
        let (Some(port), Some(memory)) = (&mut self.port, &self.memory) else { return Ok(0) };
        let received = self.receiving.receive(port, memory, cache, to, budget, now_ns)?;
        if received == 0 {
            port.take_receiving_error()?;
        }
        if self.look.is_late() {
            self.serve();
        }
        Ok(received)
    }

    /// The end comes behind the error that reports it.
    fn ended(&self) -> bool {
        self.port.as_ref().is_none_or(|port| port.state() == State::Gone && !port.has_error())
    }

    fn reclaim(&mut self, to: &mut Batch) -> usize {
        if self.port.is_some() { 0 } else { self.receiving.reclaim(to) }
    }

    fn drops(&mut self, see: &mut dyn FnMut(&'static str, u64)) {
        self.receiving.drops.show(see);
    }
}
