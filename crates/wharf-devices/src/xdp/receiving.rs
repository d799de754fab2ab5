//! `XdpReceiver`: the receive side of AF_XDP sockets.

pub(super) mod deferred;
mod opening;
pub mod rings;
mod sockets;

pub use opening::ReceiveOptions;

use super::program::Programs;
use super::queues::{self, QueueChoice};
use super::{Mode, Refusal, WaysTried, XdpOptions, ZERO_COPY, await_release, memory};
use crate::iface::{Drops, LookTimer};
use crate::link::Link;
use crate::thinning::{self, THINNED};
use opening::{Open, Setup, no_completions};
use std::os::fd::{AsFd, RawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};
use wharf_core::device::{self, Device, DeviceError, ModeReason, Notify, Passes, RxDevice};
use wharf_core::pool::Cache;
use wharf_mem::{Batch, Frame, Region};
use wharf_sys::errno::ENODEV;
use wharf_sys::xdp::{Bind, Hook, Statistics, TxMetadataRoom, XdpSocket};

/// Time between two looks while nothing arrives: a poller that waits for the socket is not notified that its
/// interface is gone (`net/xdp/xsk.c`: `xsk_notifier` sets an error that `xsk_poll` does not show).
const LOOK_NS: u64 = 100_000_000;
/// Time for which an interface that is being removed is down before it is gone, at most: it is told once, as gone.
const REMOVED_WITHIN: Duration = Duration::from_millis(50);

/// Receives frames by AF_XDP sockets, one for each of its queues. A program hands them all frames of these queues; the
/// rest of the host does not see them.
///
/// The sockets share one registration of the pool's memory. Frames lie there from the beginning: up to three quarters of
/// the pool, 8192 frames for each queue at most, are posted to the fill rings, and come back when the device is closed.
/// [`RxDevice::drops`] shows frames dropped for lack of memory as `fill-ring-empty`, and frames that a ring had no room
/// for as `ring-full`.
///
/// The queues are received from in turn. A flow comes by one queue, and keeps its order.
///
/// An interface that is switched off is reported once; receiving goes on when it is up again.
#[derive(Debug)]
pub struct XdpReceiver {
    setup: Setup,
    mode: Option<&'static str>,
    tried: WaysTried,
    open: Option<Open>,
    /// The next look at the interface, after empty polls.
    look: LookTimer,
    /// True from `arm` to `disarm`.
    is_armed: bool,
    told_down: bool,
    /// The first look that found the interface down.
    down_since: Option<Instant>,
    ended: bool,
    /// Memory that was posted for packets when the device was closed.
    reclaimed: Vec<Frame>,
    /// The kernel's counts of drops as last read, and the drops found in the rings.
    kernel_drops: Statistics,
    drops: Drops,
    thinned: u64,
    /// What the interface's program had thinned when this device opened its queues.
    thinned_before: u64,
    /// Packets by the number of their queue, as last read.
    by_queue: Vec<(u32, u64)>,
}

impl XdpReceiver {
    /// Opens `count` devices that share out the queues `choice` of interface `interface`, and the interface's one program.
    /// The queues are taken when the devices are attached to memory.
    ///
    /// # Errors
    /// [`DeviceError::Io`] if there is no such interface, it is down, or CAP_NET_RAW is lacking;
    /// [`DeviceError::Unsupported`] if it is no Ethernet, or `choice` has fewer queues.
    pub fn open_queues(
        interface: &str, options: &ReceiveOptions, choice: QueueChoice, count: u32,
    ) -> Result<Vec<Self>, DeviceError> {
        let sets = choice.to_receive(count.max(1), queues::receiving(interface));
        let (device, why) = (format!("xdp:{interface}"), device::Refusal::NoSuchQueue);
        let sets = sets.map_err(|what| DeviceError::Refused { device, why, what, source: None })?;
        let last = sets.iter().flatten().max().copied().unwrap_or_default();
        let programs = Programs::new(options.common.access.source(interface, &options.steering)?, last);
        let one = |queues: Vec<u32>| {
            let common = XdpOptions { queue: queues[0], ..options.common.clone() };
            let options = ReceiveOptions { common, ..options.clone() };
            Setup::new(interface, options, queues, programs.clone()).map(Self::of)
        };
        sets.into_iter().map(one).collect()
    }

    fn of(setup: Setup) -> Self {
        Self {
            setup,
            mode: None,
            tried: WaysTried::default(),
            open: None,
            look: LookTimer::new(LookTimer::EVERY),
            is_armed: false,
            told_down: false,
            down_since: None,
            ended: false,
            reclaimed: Vec::new(),
            kernel_drops: Statistics::default(),
            drops: Drops::default(),
            thinned: 0,
            thinned_before: 0,
            by_queue: Vec::new(),
        }
    }

    /// Leaves half of the pool to the transmit side of the first socket.
    pub(super) fn that_sends(mut self) -> Self {
        self.setup.sends = true;
        self
    }

    pub(super) fn options(&self) -> &ReceiveOptions {
        &self.setup.options
    }

    /// Returns the bytes of a pool's frame with which it need not copy, where the usual ones are too few.
    pub(super) fn frame_bytes(&self) -> Option<u32> {
        let link = self.link();
        let driver = link.driver().filter(|_| self.options().common.mode != Mode::Copy)?;
        memory::frame_bytes(&driver, link.longest_arrival_bytes())
    }

    pub(super) fn link(&self) -> &Link {
        &self.setup.link
    }

    /// Works like [`Device::attach`], after `prepare` has set up the rest of the first socket, which is not bound yet.
    /// Returns the result of `prepare`, the socket, and the way in which it was bound.
    pub(super) fn attach_with<T>(
        &mut self, region: &Arc<Region>, prepare: impl Fn(&XdpSocket) -> Result<T, Refusal>,
    ) -> Result<(T, Arc<XdpSocket>, Bind), DeviceError> {
        let (open, prepared, how) = self.setup.open(region, &prepare)?;
        self.mode = Some(mode_of(open.program.hook(), how));
        self.tried.clone_from(&open.tried);
        self.thinned_before = thinned(&open);
        let socket = self.open.insert(open).sockets.first().clone();
        Ok((prepared, socket, how))
    }

    /// Returns the room for metadata of a first socket that sends: see [`metadata::room`](super::metadata::room).
    pub(super) fn metadata(
        &self, region: &Region, zero_copy: bool,
    ) -> Result<Option<TxMetadataRoom>, String> {
        self.setup.metadata(region, zero_copy)
    }

    /// Nothing has arrived: looks whether anything still can.
    #[cold]
    fn look(&mut self) -> Result<(), DeviceError> {
        self.look.restart(LookTimer::EVERY);
        let Some(open) = self.open.as_ref().filter(|_| !self.ended) else { return Ok(()) };
        if let Some(fault) = self.setup.helper_fault() {
            self.ended = true;
            return Err(fault);
        }
        let state = self.setup.link.interface.state(open.asker.as_fd());
        match &state {
            Ok(state) if state.is_up => (self.told_down, self.down_since) = (false, None),
            Ok(_) if self.told_down => return Ok(()),
            Ok(_) if self.down_since.get_or_insert_with(Instant::now).elapsed() < REMOVED_WITHIN => {
                return Ok(());
            }
            Ok(_) => {}
            Err(error) => self.ended = error.raw_os_error() == Some(ENODEV),
        }
        let fault = self.setup.link.arrival_fault(open.asker.as_fd(), state);
        self.told_down |= fault.is_some();
        fault.map_or(Ok(()), Err)
    }

    fn read_counts(&mut self) {
        if let Some(Ok(statistics)) = self.open.as_ref().map(|open| open.sockets.statistics()) {
            self.kernel_drops = statistics;
        }
        if let Some(open) = &self.open {
            self.drops.clone_from(open.rings.drops());
            self.by_queue = open.sockets.queues().zip(open.rings.packets()).collect();
            self.thinned = thinned(open) - self.thinned_before;
        }
    }
}

/// Returns the packets of its queues that the program has thinned, whichever device had opened them.
fn thinned(open: &Open) -> u64 {
    let of_queue = |queue| open.program.thins().map_or(0, |map| thinning::dropped(map, queue));
    open.sockets.queues().map(of_queue).sum()
}

/// Returns the mode in words.
fn mode_of(hook: Option<Hook>, how: Bind) -> &'static str {
    match (how.zero_copy, hook) {
        (true, _) => ZERO_COPY,
        (false, Some(Hook::Native)) => "native, copy",
        (false, Some(Hook::Generic)) => "generic, copy",
        (false, None) => "program of others, copy",
    }
}

impl Notify for XdpReceiver {
    /// Makes the next empty poll look at the interface: the kernel does not notify that it is switched off.
    fn arm(&mut self) -> bool {
        self.look.restart(1);
        self.is_armed = true;
        self.open.as_mut().is_none_or(|open| open.sockets.arm() && open.rings.is_empty())
    }

    fn disarm(&mut self) {
        if let (true, Some(open)) = (self.is_armed, &self.open) {
            open.sockets.disarm();
        }
        self.is_armed = false;
    }

    fn wait_fd(&self) -> Option<RawFd> {
        self.open.as_ref().map(|open| open.sockets.wait_fd())
    }
}

impl Device for XdpReceiver {
    fn name(&self) -> String {
        self.setup.link.name.clone()
    }

    fn mode(&self) -> Option<&'static str> {
        self.mode
    }

    fn mode_reason(&self) -> Option<ModeReason> {
        self.tried.why_copied().filter(|_| self.mode != Some(ZERO_COPY))
    }

    fn link(&mut self) -> Option<Result<(), DeviceError>> {
        let open = self.open.as_ref()?;
        if let Some(fault) = self.setup.helper_fault() {
            return Some(Err(fault));
        }
        let state = self.setup.link.interface.state(open.asker.as_fd());
        Some(self.setup.link.line_fault(open.asker.as_fd(), state).map_or(Ok(()), Err))
    }

    fn attach(&mut self, region: Arc<Region>) -> Result<(), DeviceError> {
        self.attach_with(&region, no_completions).map(drop)
    }

    fn visit(&self, see: &mut dyn FnMut(&Frame)) {
        self.reclaimed.iter().for_each(&mut *see);
        if let Some(open) = &self.open {
            open.rings.visit(see);
        }
    }

    fn close(&mut self) -> Result<(), DeviceError> {
        self.read_counts();
        let Some(Open { rings, sockets, program, spare, .. }) = self.open.take() else { return Ok(()) };
        drop(program);
        let held = rings.close();
        let queues: Vec<u32> = sockets.queues().collect();
        drop(sockets);
        let of_queues = queues.into_iter().zip(spare);
        of_queues.for_each(|(queue, spare)| await_release(spare, &self.setup.link, queue));
        self.reclaimed.extend(held);
        Ok(())
    }
}

impl RxDevice for XdpReceiver {
    #[inline]
    fn receive(&mut self, cache: &mut Cache, to: &mut Batch, budget: usize) -> Result<usize, DeviceError> {
        let Some(open) = &mut self.open else { return Ok(0) };
        let device = || self.setup.link.name.clone();
        let mut received = open.rings.receive(cache, to, budget.min(to.room()), device)?;
        open.take_frames().map_err(|(_, error)| {
            self.setup.link.fault("cannot put its sockets into the program's map")(error)
        })?;
        if received == 0 && self.setup.options.busy_poll.is_some() && budget > 0 {
            open.sockets.busy_poll();
            received = open.rings.receive(cache, to, budget.min(to.room()), device)?;
        }
        open.rings.each_asleep(|at| open.sockets.wake_fill(at));
        if received > 0 {
            (self.told_down, self.down_since) = (false, None);
        } else if budget > 0 && self.look.is_due() {
            self.look()?;
        }
        Ok(received)
    }

    fn ended(&self) -> bool {
        self.ended || self.open.is_none()
    }

    fn reclaim(&mut self, to: &mut Batch) -> usize {
        to.fill_by(|| self.reclaimed.pop())
    }

    fn drops(&mut self, see: &mut dyn FnMut(&'static str, u64)) {
        self.read_counts();
        // The kernel drops a frame once and counts it twice if the fill ring is empty or the frame is longer
        // than it.
        see("fill-ring-empty", self.kernel_drops.received_dropped);
        if self.kernel_drops.receive_ring_full > 0 {
            see("ring-full", self.kernel_drops.receive_ring_full);
        }
        if self.thinned > 0 {
            see(THINNED, self.thinned);
        }
        self.drops.show(see);
    }

    fn thin(&mut self, passes: Option<&Passes>) -> bool {
        let Some((open, map)) = self.open.as_ref().and_then(|open| Some((open, open.program.thins()?)))
        else {
            return false;
        };
        open.sockets.queues().for_each(|queue| thinning::set(map, queue, passes));
        true
    }

    fn queue_packets(&mut self, see: &mut dyn FnMut(u32, u64)) {
        self.read_counts();
        self.by_queue.iter().for_each(|&(queue, packets)| see(queue, packets));
    }

    fn next_arrival_ns(&self) -> Option<u64> {
        // Only for a poller that sleeps until notified: a nap is as short as the poller has learnt.
        (self.is_armed && !self.ended()).then_some(LOOK_NS)
    }
}
