//! `Setup`: the settings of a receiver, and the way from them to bound sockets.

use super::super::memory::Window;
use super::super::program::{Program, Programs};
use super::super::steering::Steering;
use super::super::{
    Refusal, Step, Way, WaysTried, XdpOptions, driver_rings, find, layers, memory, metadata, numa,
    patiently_for, registered, ways,
};
use super::deferred::{self, Deferred};
use super::rings::Rings;
use super::sockets::{Bound, Sockets};
use crate::link::Link;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use wharf_core::device::DeviceError;
use wharf_mem::Region;
use wharf_sys::errno::{EBUSY, EEXIST, EINVAL, EOPNOTSUPP, EPERM, EPIPE};
use wharf_sys::interface::InterfaceSocket;
use wharf_sys::netlink::Netlink;
use wharf_sys::packet::PacketSocket;
use wharf_sys::xdp::{Bind, BusyPoll, Consumer, Descriptor, Hook, Producer, TxMetadataRoom, XdpSocket};

/// Entries of the fill and receive rings, by default.
const ENTRIES: u32 = 8192;
const COMPLETION_ENTRIES: u32 = 64;
/// Quarters of the pool that are posted for packets, at most: by a device that only receives, and by one that
/// sends as well.
const ALONE_QUARTERS: u32 = 3;
const BOTH_QUARTERS: u32 = 1;

/// Settings of an [`XdpReceiver`](super::super::XdpReceiver).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceiveOptions {
    /// Queue, mode and rings.
    pub common: XdpOptions,
    /// True to finish checksums that a sender on this host has left unfinished. The default is true on
    /// interfaces that deliver such frames: a veth, a TAP, and those with the generic hook only (macvlan,
    /// bridge, vxlan, `lo`).
    pub fill_checksums: Option<bool>,
    /// True to receive frames for other addresses, too: the interface is promiscuous as long as the device is open.
    pub promiscuous: bool,
    /// The frames to receive; the others are the host's.
    pub steering: Steering,
    /// Polling by the device's own calls in place of interrupts; needs CAP_NET_ADMIN.
    pub busy_poll: Option<BusyPoll>,
    /// Number of devices that share the pool, if more than one: each posts its part of the memory that it
    /// would post alone.
    pub pool_shared_by: u32,
}

/// A receiver before it has memory.
#[derive(Debug)]
pub(super) struct Setup {
    pub(super) link: Link,
    pub(super) options: ReceiveOptions,
    /// Numbers of its queues: at least one.
    queues: Vec<u32>,
    programs: Programs,
    /// The first socket sends as well, and has half of the pool.
    pub(super) sends: bool,
}

/// State of an open receiver. Dropped in this order: the program goes first, then the queues.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) program: Arc<Program>,
    /// The program hands frames to the sockets: from the first look on, when memory is posted for them. Until then they are the host's.
    takes: bool,
    pub(super) rings: Rings,
    pub(super) sockets: Sockets,
    /// The queues whose interrupts are put off, with busy polling.
    deferred: Vec<Deferred>,
    /// A socket for each queue, by which closing waits until adapter and kernel have left the memory, where they reach it later.
    pub(super) spare: Vec<XdpSocket>,
    pub(super) asker: InterfaceSocket,
    /// The ways that were refused before.
    pub(super) tried: WaysTried,
    _promiscuous: Option<PacketSocket>,
}

impl Open {
    /// Hands frames to the sockets if that has not begun.
    #[inline]
    pub(super) fn take_frames(&mut self) -> Result<(), Refusal> {
        if self.takes {
            return Ok(());
        }
        self.takes = true;
        self.sockets.iter().try_for_each(|bound| self.program.direct(bound.queue, &bound.socket))
    }
}

/// A refusal, and the queue that it is about.
type AtQueue = (u32, Refusal);

impl Setup {
    /// Looks for interface `interface`, whose queues `queues` a device is to receive from.
    pub(super) fn new(
        interface: &str, options: ReceiveOptions, queues: Vec<u32>, programs: Programs,
    ) -> Result<Self, DeviceError> {
        let link = find(interface, options.common.queue, &options.common.access)?;
        check_program(&link, &options.common)?;
        Ok(Self { link, options, queues, programs, sends: false })
    }

    /// Opens the queues in the best way that works. `prepare` sets up the rest of the first socket, before that is bound.
    /// Returns the result of `prepare`, too, and the way in which the sockets were bound.
    pub(super) fn open<T>(
        &self, region: &Arc<Region>, prepare: &impl Fn(&XdpSocket) -> Result<T, Refusal>,
    ) -> Result<(Open, T, Bind), DeviceError> {
        let (bytes, least) = (region.data_bytes_max(), memory::ROOM_BYTES_MIN);
        if bytes < least {
            let what = format!("the pool's frames hold {bytes} bytes: to receive takes {least} at least");
            return Err(DeviceError::Unsupported { device: self.link.name.clone(), what });
        }
        numa::place(&self.link, region);
        let mut tried = WaysTried::default();
        let best = self.make_best(region, prepare, &mut tried);
        let explain =
            |(queue, refusal)| tried.fault(&self.link, &self.options.common, (queue, region), refusal);
        let (mut open, prepared, how) = best.map_err(explain)?;
        let (index, name) = (self.link.interface.index, &self.link.interface_name);
        if let Some(how) = self.options.busy_poll {
            let what = "no busy polling, which needs CAP_NET_ADMIN: busy-poll=0 does without";
            open.sockets.set_busy_poll(how).map_err(self.link.fault(what))?;
            open.deferred =
                open.sockets.queues().filter_map(|queue| Deferred::begin(index, name, queue)).collect();
        } else {
            open.sockets.queues().for_each(|queue| _ = deferred::restored(index, name, queue));
        }
        // A helper does that for its users.
        let is_ours = self.options.promiscuous && self.options.common.access.helper.is_none();
        let _promiscuous = is_ours.then(|| self.make_promiscuous()).transpose()?;
        Ok((Open { _promiscuous, tried, ..open }, prepared, how))
    }

    /// Returns the fault that the helper has ended which had attached the program.
    pub(super) fn helper_fault(&self) -> Option<DeviceError> {
        let what = "the helper (`wharf admin helper`) has ended, and its program with it";
        self.programs.has_lost_its_helper().then(|| DeviceError::Gone {
            device: self.link.name.clone(),
            what: what.into(),
            source: io::Error::from_raw_os_error(EPIPE),
        })
    }

    /// Makes the interface promiscuous until the socket is closed, at the latest with the process.
    fn make_promiscuous(&self) -> Result<PacketSocket, DeviceError> {
        let fault = self.link.fault("the interface cannot be made promiscuous: promisc=off does without");
        let socket = PacketSocket::open().map_err(&fault)?;
        socket.make_promiscuous(self.link.interface.index).map_err(&fault)?;
        Ok(socket)
    }

    /// Returns the best way that works: hook by hook, and for each the ways to bind. Notes the others.
    fn make_best<T>(
        &self, region: &Arc<Region>, prepare: &impl Fn(&XdpSocket) -> Result<T, Refusal>,
        tried: &mut WaysTried,
    ) -> Result<(Open, T, Bind), AtQueue> {
        let mut last = (self.queues[0], (Step::Bind, io::Error::from_raw_os_error(EOPNOTSUPP)));
        // A bond's ports hand a program's frames over in their own name: none would arrive.
        let is_bond = layers::is_bond(&self.link);
        for hook in self.programs.hooks().filter(|&hook| hook == Hook::Generic || !is_bond) {
            // Held from one way to the next: some drivers reset the adapter when a program comes or goes.
            let program = self.programs.at(self.link.interface.index, hook);
            for (window, how) in self.ways(region, hook) {
                let way = Way::to_receive(how, !window.shape.is_unaligned);
                let made = match &program {
                    Ok(_) => self.make(region, (hook, how, window), prepare),
                    Err((step, error)) => Err((self.queues[0], (*step, copied(error)))),
                };
                let (queue, refusal) = match made {
                    Ok((open, prepared)) => match self.unfit(region, window, how) {
                        None => return Ok((open, prepared, how)),
                        Some(why) => (self.queues[0], (Step::Register, io::Error::other(why))),
                    },
                    Err(refused) => refused,
                };
                tried.note(&self.link, queue, way, &refusal);
                let may_try_on = may_try_on(refusal.0, &refusal.1);
                last = (queue, refusal);
                if !may_try_on {
                    return Err(last);
                }
            }
        }
        Err(last)
    }

    /// Returns the windows into `region`, and the ways to bind: that of an earlier device of the same opening, whose memory can be
    /// shared, and then the best first.
    fn ways(&self, region: &Arc<Region>, hook: Hook) -> Vec<(Window, Bind)> {
        let (usual, aligned) = (memory::to_receive(region), memory::to_receive_aligned(region));
        let ways = self.options.common.mode.ways().filter(|how| !how.zero_copy || hook == Hook::Native);
        let rooms = [false, true].map(|zero_copy| self.metadata(region, zero_copy).unwrap_or_default());
        let windows = |how: Bind| {
            let all = std::iter::once(usual).chain(aligned.filter(|_| how.zero_copy));
            all.map(move |window| window.with_metadata(rooms[usize::from(how.zero_copy)]))
        };
        let mut ways: Vec<(Window, Bind)> =
            ways.flat_map(|how| windows(how).map(move |window| (window, how))).collect();
        ways.sort_by_key(|(window, how)| self.programs.owner_of(region, (*how, window.shape)).is_none());
        ways
    }

    /// Returns the room for metadata, if the first socket sends: see [`metadata::room`].
    pub(super) fn metadata(
        &self, region: &Region, zero_copy: bool,
    ) -> Result<Option<TxMetadataRoom>, String> {
        let how = (&self.options.common, zero_copy);
        if self.sends { metadata::room(&self.link, region, how, || self.socket()) } else { Ok(None) }
    }

    /// Returns why `window` is of no use without copying, though the driver has taken it.
    fn unfit(&self, region: &Region, window: Window, how: Bind) -> Option<String> {
        let driver = self.link.driver().unwrap_or_default();
        let unfit = || memory::unfit_to_receive(region, &window, &driver, self.link.longest_arrival_bytes());
        how.zero_copy.then(unfit).flatten()
    }

    /// Binds the socket of the first queue, and then those of the others. They share a registration of the memory: that of an
    /// earlier device of the same opening, or the first one's.
    fn make<T>(
        &self, region: &Arc<Region>, (hook, how, window): (Hook, Bind, Window),
        prepare: &impl Fn(&XdpSocket) -> Result<T, Refusal>,
    ) -> Result<(Open, T), AtQueue> {
        let (first, index) = (self.queues[0], self.link.interface.index);
        let at_first = |refusal| (first, refusal);
        if how.zero_copy && ways::never_zero_copy(&self.link) {
            return Err(at_first((Step::Bind, io::Error::from_raw_os_error(EOPNOTSUPP))));
        }
        let owner = self.programs.owner_of(region, (how, window.shape));
        let unbound = match &owner {
            Some(_) => self.socket().map_err(Step::Rings.refused()),
            None => registered(self.socket(), region, &window.shape),
        };
        let socket = Arc::new(unbound.map_err(at_first)?);
        let prepared = prepare(&socket).map_err(at_first)?;
        let (fill, receive) = self.rings(&socket).map_err(at_first)?;
        let asker = InterfaceSocket::open().map_err(Step::Rings.refused()).map_err(at_first)?;
        let program = self.programs.at(index, hook).map_err(at_first)?;
        if how.zero_copy && program.hook() == Some(Hook::Generic) {
            // Another owner's.
            return Err(at_first((Step::Bind, io::Error::from_raw_os_error(EOPNOTSUPP))));
        }
        let bound = bind_within(program.patience(), || match &owner {
            Some(owner) => socket.bind_sharing(index, first, owner),
            None => socket.bind(index, first, how),
        });
        bound.and_then(|()| program.direct(first, &socket)).map_err(at_first)?;
        self.programs.add_owner(&socket, region, (how, window.shape));
        let pages = how.zero_copy.then(|| region.mapping().page_bytes());
        let fills = self.fills_checksums(program.hook());
        let mut rings = Rings::new(fill, receive, region.clone(), window, pages, fills);
        let mut bound = vec![Bound { queue: first, socket }];
        for &queue in &self.queues[1..] {
            let further = self.further(&program, queue, &bound[0].socket);
            let (socket, fill, receive) = further.map_err(|refusal| (queue, refusal))?;
            rings = rings.and(fill, receive);
            bound.push(Bound { queue, socket: Arc::new(socket) });
        }
        let quarters = if self.sends { BOTH_QUARTERS } else { ALONE_QUARTERS };
        let rings = rings.keeping(quarters, self.options.pool_shared_by);
        let sockets = Sockets::new(bound, self.sends).map_err(Step::Rings.refused()).map_err(at_first)?;
        self.queues.iter().for_each(|&queue| program.leave(queue));
        // Without one, closing does not wait for the adapter.
        let waits = how.zero_copy || (self.sends && ways::copies_late(&self.link, &self.options.common));
        let spare = self.queues.iter().filter(|_| waits).filter_map(|_| self.socket().ok()).collect();
        let (tried, takes) = (WaysTried::default(), false);
        let deferred = Vec::new();
        Ok((
            Open { program, takes, rings, sockets, deferred, spare, asker, tried, _promiscuous: None },
            prepared,
        ))
    }

    /// Binds a socket to `queue`, with the memory of `owner`.
    fn further(
        &self, program: &Program, queue: u32, owner: &XdpSocket,
    ) -> Result<(XdpSocket, Producer<u64>, Consumer<Descriptor>), Refusal> {
        let socket = self.socket().map_err(Step::Rings.refused())?;
        no_completions(&socket)?;
        let (fill, receive) = self.rings(&socket)?;
        let index = self.link.interface.index;
        bind_within(program.patience(), || socket.bind_sharing(index, queue, owner))?;
        program.direct(queue, &socket)?;
        Ok((socket, fill, receive))
    }

    fn socket(&self) -> io::Result<XdpSocket> {
        self.options.common.access.socket(&self.link.interface_name)
    }

    fn rings(&self, socket: &XdpSocket) -> Result<(Producer<u64>, Consumer<Descriptor>), Refusal> {
        // The driver fills its own ring from the fill ring, which is to have as much again.
        let wanted = driver_rings(&self.link).map(|rings| rings.rx.saturating_mul(2));
        let (entries, refused) = (self.options.common.entries(ENTRIES, wanted), Step::Rings.refused());
        Ok((socket.fill_ring(entries).map_err(&refused)?, socket.receive_ring(entries).map_err(&refused)?))
    }

    /// Returns true if frames may arrive unfinished. With the generic hook frames come from anywhere in the
    /// kernel. Of the drivers with a hook of their own, those of virtual interfaces pass on frames that a
    /// sender on this host left to an adapter.
    fn fills_checksums(&self, hook: Option<Hook>) -> bool {
        let is_virtual = || matches!(self.link.driver().as_deref(), Some("veth" | "tun"));
        self.options.fill_checksums.unwrap_or_else(|| hook != Some(Hook::Native) || is_virtual())
    }
}

/// Checks that there is a program to read a map that was named without one.
fn check_program(link: &Link, options: &XdpOptions) -> Result<(), DeviceError> {
    if options.access.map.is_none() || options.access.program.is_some() {
        return Ok(());
    }
    // Without an answer nothing is known.
    let found = Netlink::open().and_then(|netlink| netlink.describe(link.interface.index));
    match found {
        Ok(found) if found.program.is_none() => {
            let what = "map: no XDP program is attached that could read it: program=PATH attaches one".into();
            Err(DeviceError::Unsupported { device: link.name.clone(), what })
        }
        _ => Ok(()),
    }
}

/// Binds by `bind`, and waits for a queue that is freed within `time`.
fn bind_within(time: Duration, bind: impl FnMut() -> io::Result<()>) -> Result<(), Refusal> {
    patiently_for(time, &[EBUSY], bind).map_err(Step::Bind.refused())
}

/// Makes the completion ring, which must exist; it stays empty, since nothing is sent.
pub(super) fn no_completions(socket: &XdpSocket) -> Result<(), Refusal> {
    socket.completion_ring(COMPLETION_ENTRIES).map(drop).map_err(Step::Rings.refused())
}

/// Makes the same error once more.
fn copied(error: &io::Error) -> io::Error {
    error.raw_os_error().map_or_else(|| io::Error::other(error.to_string()), io::Error::from_raw_os_error)
}

/// Returns true if a lesser way may work although this one does not.
fn may_try_on(step: Step, error: &io::Error) -> bool {
    match step {
        Step::Bind => matches!(error.raw_os_error(), Some(EOPNOTSUPP | EINVAL)),
        // Memory that is of no use without copying.
        Step::Register => error.raw_os_error().is_none(),
        // A program that is there keeps one from either hook.
        Step::Attach => !matches!(error.raw_os_error(), Some(EPERM | EBUSY | EEXIST)),
        _ => false,
    }
}
