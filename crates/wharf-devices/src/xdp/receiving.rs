//! `XdpReceiver`: the receive side of an AF_XDP socket.

pub mod rings;

use super::program::{Program, Programs, Source};
use super::{Refusal, Step, ZERO_COPY, await_release, bind, fault, find, memory, registered};
use crate::iface::{Drops, LookTimer};
use crate::link::{EBUSY, EEXIST, EINVAL, ENODEV, EOPNOTSUPP, EPERM, Link};
use rings::Rings;
use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::Arc;
use wharf_core::device::{Device, DeviceError, Notify, RxDevice};
use wharf_core::pool::Cache;
use wharf_mem::{Batch, Frame, Region};
use wharf_sys::ethtool::Ethtool;
use wharf_sys::interface::InterfaceSocket;
use wharf_sys::mapping::PAGE_BYTES;
use wharf_sys::xdp::{Bind, Hook, Statistics, XdpSocket};

/// Entries of the fill and receive rings.
const ENTRIES: u32 = 8192;
const COMPLETION_ENTRIES: u32 = 64;
/// Time between two looks while nothing arrives: a poller that waits for the socket is not notified that its
/// interface is gone (`net/xdp/xsk.c`: `xsk_notifier` sets an error that `xsk_poll` does not show).
const LOOK_NS: u64 = 100_000_000;
/// Quarters of the pool that are posted for packets, at most: by a device that only receives, and by one that
/// sends as well.
const ALONE_QUARTERS: u32 = 3;
const BOTH_QUARTERS: u32 = 1;

/// Settings of an [`XdpReceiver`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReceiveOptions {
    /// Queue and mode.
    pub common: super::XdpOptions,
    /// True to finish checksums that a sender on this host has left unfinished. The default is true on
    /// interfaces that deliver such frames: a veth, a TAP, and those with the generic hook only (macvlan,
    /// bridge, vxlan, `lo`).
    pub fill_checksums: Option<bool>,
    /// Number of devices that share the pool, if more than one: each posts its part of the memory that it
    /// would post alone.
    pub pool_shared_by: u32,
}

/// Receives frames by an AF_XDP socket. A program of six instructions hands it all frames of its queue; the
/// rest of the host does not see them.
///
/// Frames lie in memory of the pool from the beginning: up to three quarters of it, 8192 frames at most, are
/// posted to the fill ring, and come back when the device is closed. [`RxDevice::drops`] shows frames dropped
/// for lack of memory as `fill-ring-empty`, and frames that the ring had no room for as `ring-full`.
///
/// An interface that is switched off is reported once; receiving goes on when it is up again.
#[derive(Debug)]
pub struct XdpReceiver {
    link: Link,
    options: ReceiveOptions,
    programs: Programs,
    mode: Option<&'static str>,
    open: Option<Open>,
    /// The next look at the interface, after empty polls.
    look: LookTimer,
    /// True from `arm` to `disarm`.
    is_armed: bool,
    told_down: bool,
    ended: bool,
    /// Memory that was posted for packets when the device was closed.
    reclaimed: Vec<Frame>,
    /// The kernel's counts of drops as last read, and the drops found in the rings.
    kernel_drops: Statistics,
    drops: Drops,
    /// Quarters of the pool that are posted for packets, at most.
    quarters: u32,
}

/// State of an open receiver. Dropped in this order: the program goes first, then the queue.
#[derive(Debug)]
struct Open {
    _program: Arc<Program>,
    rings: Rings,
    socket: Arc<XdpSocket>,
    asker: InterfaceSocket,
}

impl XdpReceiver {
    /// Opens interface `interface`. Its queue is taken when the device is attached to memory.
    ///
    /// # Errors
    /// [`DeviceError::Io`] if there is no such interface, it is down, or CAP_NET_RAW is lacking;
    /// [`DeviceError::Unsupported`] if it is no Ethernet.
    pub fn open(interface: &str, options: ReceiveOptions) -> Result<Self, DeviceError> {
        Self::open_one(interface, options, Programs::new(Source::Loaded, options.common.queue))
    }

    /// Opens `count` queues of interface `interface`, from the queue in `options` on. They share the
    /// interface's one program.
    ///
    /// # Errors
    /// The errors of [`XdpReceiver::open`].
    pub fn open_queues(
        interface: &str, options: ReceiveOptions, count: u32,
    ) -> Result<Vec<Self>, DeviceError> {
        let first = options.common.queue;
        let programs = Programs::new(Source::Loaded, first.saturating_add(count));
        let one = |at| {
            let common = super::XdpOptions { queue: first.saturating_add(at), ..options.common };
            Self::open_one(interface, ReceiveOptions { common, ..options }, programs.clone())
        };
        (0..count).map(one).collect()
    }

    fn open_one(interface: &str, options: ReceiveOptions, programs: Programs) -> Result<Self, DeviceError> {
        let link = find(interface, options.common.queue)?;
        Ok(Self {
            link,
            options,
            programs,
            mode: None,
            open: None,
            look: LookTimer::new(LookTimer::EVERY),
            is_armed: false,
            told_down: false,
            ended: false,
            reclaimed: Vec::new(),
            kernel_drops: Statistics::default(),
            drops: Drops::default(),
            quarters: ALONE_QUARTERS,
        })
    }

    /// Leaves half of the pool to the transmit side of the same socket.
    pub(super) fn that_sends(mut self) -> Self {
        self.quarters = BOTH_QUARTERS;
        self
    }

    pub(super) fn link(&self) -> &Link {
        &self.link
    }

    /// Works like [`Device::attach`], after `prepare` has set up the rest of the socket, which is not bound yet.
    /// Returns the result of `prepare`, the socket, and the way in which it was bound.
    pub(super) fn attach_with<T>(
        &mut self, region: &Arc<Region>, prepare: impl Fn(&XdpSocket) -> Result<T, Refusal>,
    ) -> Result<(T, Arc<XdpSocket>, Bind), DeviceError> {
        let (bytes, least) = (region.data_bytes_max(), memory::ROOM_BYTES_MIN);
        if bytes < least {
            let what = format!("the pool's frames hold {bytes} bytes: to receive takes {least} at least");
            return Err(DeviceError::Unsupported { device: self.link.name.clone(), what });
        }
        let best = self.make_best(region, prepare);
        let (open, prepared, hook, how) =
            best.map_err(|refusal| fault(&self.link, self.options.common.queue, region, refusal))?;
        self.mode = Some(mode_of(hook, how));
        let socket = self.open.insert(open).socket.clone();
        Ok((prepared, socket, how))
    }

    /// Returns the best way that works: hook by hook, and for each the ways to bind.
    fn make_best<T>(
        &self, region: &Arc<Region>, prepare: impl Fn(&XdpSocket) -> Result<T, Refusal>,
    ) -> Result<(Open, T, Hook, Bind), Refusal> {
        let mut last = (Step::Bind, io::Error::from_raw_os_error(EOPNOTSUPP));
        for hook in self.programs.hooks() {
            for how in self.options.common.mode.ways() {
                if how.zero_copy && (hook == Hook::Generic || region.mapping().page_bytes() == PAGE_BYTES) {
                    continue;
                }
                match self.make(region, hook, how, &prepare) {
                    Ok((open, prepared)) => return Ok((open, prepared, hook, how)),
                    Err((step, error)) if may_try_on(step, &error) => last = (step, error),
                    Err(refusal) => return Err(refusal),
                }
            }
        }
        Err(last)
    }

    fn make<T>(
        &self, region: &Arc<Region>, hook: Hook, how: Bind,
        prepare: impl Fn(&XdpSocket) -> Result<T, Refusal>,
    ) -> Result<(Open, T), Refusal> {
        let (index, queue) = (self.link.interface.index, self.options.common.queue);
        let window = memory::to_receive(region);
        let socket = registered(region, &window.shape)?;
        let refused = Step::Rings.refused();
        let prepared = prepare(&socket)?;
        let (fill, receive) =
            (socket.fill_ring(ENTRIES).map_err(&refused)?, socket.receive_ring(ENTRIES).map_err(&refused)?);
        let asker = InterfaceSocket::open().map_err(&refused)?;
        let program = self.programs.at(index, hook)?;
        bind(&socket, index, queue, how)?;
        program.direct(queue, &socket)?;
        let pages = how.zero_copy.then(|| region.mapping().page_bytes());
        let rings = Rings::new(fill, receive, region.clone(), window, pages, self.fills_checksums(hook));
        let rings = rings.keeping(self.quarters, self.options.pool_shared_by);
        let socket = Arc::new(socket);
        Ok((Open { _program: program, rings, socket, asker }, prepared))
    }

    /// Returns true if frames may arrive unfinished. With the generic hook frames come from anywhere in the
    /// kernel. Of the drivers with a hook of their own, those of virtual interfaces pass on frames that a
    /// sender on this host left to an adapter.
    fn fills_checksums(&self, hook: Hook) -> bool {
        let is_virtual = || {
            let driver = Ethtool::open().and_then(|tool| tool.driver(&self.link.interface_name));
            driver.is_ok_and(|(driver, _)| matches!(driver.as_str(), "veth" | "tun"))
        };
        self.options.fill_checksums.unwrap_or_else(|| hook == Hook::Generic || is_virtual())
    }

    /// Nothing has arrived: looks whether anything still can.
    #[cold]
    fn look(&mut self) -> Result<(), DeviceError> {
        self.look.restart(LookTimer::EVERY);
        let Some(open) = self.open.as_ref().filter(|_| !self.ended) else { return Ok(()) };
        let state = self.link.interface.state(open.asker.as_fd());
        match &state {
            Ok(state) if state.is_up => self.told_down = false,
            Ok(_) if self.told_down => return Ok(()),
            Ok(_) => {}
            Err(error) => self.ended = error.raw_os_error() == Some(ENODEV),
        }
        let fault = self.link.arrival_fault(state);
        self.told_down |= fault.is_some();
        fault.map_or(Ok(()), Err)
    }

    fn count_drops(&mut self) {
        if let Some(Ok(statistics)) = self.open.as_ref().map(|open| open.socket.statistics()) {
            self.kernel_drops = statistics;
        }
        if let Some(open) = &self.open {
            self.drops.clone_from(open.rings.drops());
        }
    }
}

/// Returns the mode in words.
fn mode_of(hook: Hook, how: Bind) -> &'static str {
    match (how.zero_copy, hook) {
        (true, _) => ZERO_COPY,
        (false, Hook::Native) => "native, copy",
        (false, Hook::Generic) => "generic, copy",
    }
}

/// Returns true if a lesser way may work although this one does not.
fn may_try_on(step: Step, error: &io::Error) -> bool {
    match step {
        Step::Bind => matches!(error.raw_os_error(), Some(EOPNOTSUPP | EINVAL)),
        // A program that is there keeps one from either hook.
        Step::Attach => !matches!(error.raw_os_error(), Some(EPERM | EBUSY | EEXIST)),
        _ => false,
    }
}

impl Notify for XdpReceiver {
    /// Makes the next empty poll look at the interface: the kernel does not notify that it is switched off.
    fn arm(&mut self) -> bool {
        self.look.restart(1);
        self.is_armed = true;
        self.open.as_mut().is_none_or(|open| open.rings.is_empty())
    }

    fn disarm(&mut self) {
        self.is_armed = false;
    }

    fn wait_fd(&self) -> Option<RawFd> {
        self.open.as_ref().map(|open| open.socket.fd().as_raw_fd())
    }
}

impl Device for XdpReceiver {
    fn name(&self) -> String {
        self.link.name.clone()
    }

    fn mode(&self) -> Option<&'static str> {
        self.mode
    }

    fn link(&mut self) -> Option<Result<(), DeviceError>> {
        let state = self.link.interface.state(self.open.as_ref()?.asker.as_fd());
        Some(self.link.arrival_fault(state).map_or(Ok(()), Err))
    }

    fn attach(&mut self, region: Arc<Region>) -> Result<(), DeviceError> {
        // A completion ring must exist; it stays empty, since nothing is sent.
        let completion = |socket: &XdpSocket| {
            socket.completion_ring(COMPLETION_ENTRIES).map(drop).map_err(Step::Rings.refused())
        };
        self.attach_with(&region, completion).map(drop)
    }

    fn visit(&self, see: &mut dyn FnMut(&Frame)) {
        self.reclaimed.iter().for_each(&mut *see);
        if let Some(open) = &self.open {
            open.rings.visit(see);
        }
    }

    fn close(&mut self) -> Result<(), DeviceError> {
        self.count_drops();
        let Some(Open { rings, socket, _program, .. }) = self.open.take() else { return Ok(()) };
        drop(_program);
        let held = rings.close();
        drop(socket);
        if self.mode == Some(ZERO_COPY) {
            await_release(&self.link, self.options.common.queue);
        }
        self.reclaimed.extend(held);
        Ok(())
    }
}

impl RxDevice for XdpReceiver {
    #[inline]
    fn receive(&mut self, cache: &mut Cache, to: &mut Batch, budget: usize) -> Result<usize, DeviceError> {
        let Some(open) = &mut self.open else { return Ok(0) };
        let device = || self.link.name.clone();
        let received = open.rings.receive(cache, to, budget.min(to.room()), device)?;
        if open.rings.needs_wakeup() {
            // A look at the interface finds the error.
            let _ = open.socket.wake_fill();
        }
        if received > 0 {
            self.told_down = false;
        } else if budget > 0 && self.look.is_due() {
            self.look()?;
        }
        Ok(received)
    }

    fn ended(&self) -> bool {
        self.ended || self.open.is_none()
    }

    fn reclaim(&mut self, to: &mut Batch) -> usize {
        let count = self.reclaimed.len().min(to.room());
        self.reclaimed.drain(..count).for_each(|frame| drop(to.push(frame)));
        count
    }

    fn drops(&mut self, see: &mut dyn FnMut(&'static str, u64)) {
        self.count_drops();
        // The kernel drops a frame once and counts it twice if the fill ring is empty or the frame is longer
        // than it.
        see("fill-ring-empty", self.kernel_drops.received_dropped);
        if self.kernel_drops.receive_ring_full > 0 {
            see("ring-full", self.kernel_drops.receive_ring_full);
        }
        self.drops.show(see);
    }

    fn next_arrival_ns(&self) -> Option<u64> {
        // Only for a poller that sleeps until notified: a nap is as short as the poller has learnt.
        (self.is_armed && !self.ended()).then_some(LOOK_NS)
    }
}
