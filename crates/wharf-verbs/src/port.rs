//! `Port`: an open port of an RDMA device, its queues, and its state.

use super::VerbsOptions;
use super::address::{Mac, PeerAddress, mac_of, text_of};
use super::neighbours::Neighbours;
use super::peers::Peers;
use super::resolver::{PORT as UDP_PORT, Resolver};
use crate::ibverbs::{
    AsyncEvent, CompletionChannel, CompletionQueue, Context, Gid, Library, PortState, ProtectionDomain,
    QueuePair, QueuePairOptions, Status,
};
use std::fs;
use std::io;
use std::net::Ipv6Addr;
use std::os::fd::AsRawFd;
use wharf_core::device::DeviceError;
use wharf_devices::iface::{State, io_fault, take_error};
use wharf_sys::epoll::Epoll;
use wharf_sys::errno::{EIO, ENETDOWN, ENODEV, ENOSYS};

/// Key of datagrams (Q_Key) between ends of Wharf: "whrf". The highest bit is clear, as it must be without a privilege.
const KEY: u32 = 0x7768_7266;
/// Bytes of a datagram that are copied into its request rather than fetched by the adapter, where the device can do that.
const INLINE_BYTES: u32 = 128;
/// The kernel's folder of RDMA devices.
const DEVICES: &str = "/sys/class/infiniband";

/// A port, open.
#[derive(Debug)]
pub(super) struct Port {
    pub(super) name: String,
    /// Before the queues that it completes in, and all before the context.
    pub(super) queue_pair: QueuePair,
    pub(super) sent: CompletionQueue,
    pub(super) received: CompletionQueue,
    pub(super) channel: CompletionChannel,
    pub(super) domain: ProtectionDomain,
    context: Context,
    pub(super) resolver: Resolver,
    pub(super) peers: Peers,
    /// `None` if it only receives.
    pub(super) neighbours: Option<Neighbours>,
    pub(super) epoll: Epoll,
    pub(super) number: u8,
    pub(super) mac: Mac,
    /// Bytes of the longest datagram.
    pub(super) mtu_bytes: u32,
    state: State,
    error: Option<DeviceError>,
}

impl Port {
    /// Opens device `device` as `options` say, with a queue pair of `sends` and `receives` requests.
    pub(super) fn open(
        library: Library, device: &str, options: &VerbsOptions, sends: u32, receives: u32,
    ) -> Result<Self, DeviceError> {
        let name = format!("verbs:{}", device.escape_debug());
        let fault = |what: &str| io_fault(&name, what);
        let context =
            Context::open(library, device).map_err(|error| fault(&refusal(&error, library))(error))?;
        let number = options.port;
        let state = context.port(number).map_err(fault(&format!("it has no port {number}")))?;
        if !state.is_ethernet {
            let what =
                "its port is one of InfiniBand: use an adapter of RoCE, or IPoIB's interface with packet:";
            return Err(DeviceError::Unsupported { device: name, what: what.into() });
        }
        if !state.is_active {
            let source = io::Error::from_raw_os_error(ENETDOWN);
            return Err(fault("its port is not active: is the interface below it up (`rdma link`)?")(source));
        }
        let (gid_index, gid) = choose_gid(&context, device, options, &state)
            .map_err(|what| DeviceError::Unsupported { device: name.clone(), what })?;
        let limits = context.limits().map_err(fault("it does not name its bounds"))?;
        let most = limits.work_requests.min(limits.completions);
        if sends.max(receives) > most {
            let what = format!("ring: this device has {most} requests at most");
            return Err(DeviceError::Unsupported { device: name, what });
        }
        let set_up = fault("cannot set up its queues");
        let channel = CompletionChannel::new(&context).map_err(&set_up)?;
        let queue = |entries: u32| CompletionQueue::new(&channel, entries.max(1));
        let (sent, received) = (queue(sends).map_err(&set_up)?, queue(receives).map_err(&set_up)?);
        let domain = ProtectionDomain::new(&context).map_err(&set_up)?;
        let wanted = QueuePairOptions { port: number, sends, receives, inline_bytes: INLINE_BYTES, key: KEY };
        let queue_pair = QueuePair::new(&domain, &sent, &received, &wanted).map_err(&set_up)?;
        let resolver = open_resolver(device, number, gid_index, &gid, receives > 0)?;
        let epoll = Epoll::new().map_err(&set_up)?;
        let (peers, neighbours) = peers(&domain, options, gid_index).map_err(&set_up)?;
        let fds = [channel.fd(), context.async_fd(), resolver.fd()];
        for fd in fds.into_iter().chain(neighbours.as_ref().map(Neighbours::fd)) {
            epoll.add(fd, 0, true).map_err(&set_up)?;
        }
        Ok(Self {
            name,
            queue_pair,
            sent,
            received,
            channel,
            domain,
            context,
            resolver,
            peers,
            neighbours,
            epoll,
            number,
            mac: mac_of(&gid),
            mtu_bytes: state.mtu_bytes,
            state: State::Up,
            error: None,
        })
    }

    pub(super) fn wait_fd(&self) -> i32 {
        self.epoll.as_raw_fd()
    }

    #[inline]
    pub(super) fn state(&self) -> State {
        self.state
    }

    /// Returns the error to be reported, once.
    #[inline]
    pub(super) fn take_error(&mut self) -> Result<(), DeviceError> {
        take_error(&mut self.error)
    }

    /// Returns the error to be reported to a receiver, once. A port that is down is no error: it receives
    /// again once it is up.
    #[inline]
    pub(super) fn take_receiving_error(&mut self) -> Result<(), DeviceError> {
        if matches!(self.error, Some(DeviceError::Down { .. })) { Ok(()) } else { self.take_error() }
    }

    /// Keeps `error` until it is reported, unless another one waits.
    #[cold]
    pub(super) fn report(&mut self, error: DeviceError) {
        self.error.get_or_insert(error);
    }

    /// Returns true if an error is to be reported at once. A port that is down is none: the next frame finds it out.
    pub(super) fn has_error(&self) -> bool {
        self.error.as_ref().is_some_and(|error| !matches!(error, DeviceError::Down { .. }))
    }

    /// Handles events of the device, if there are any: the port has gone down or come up, a queue is in error, the device is removed.
    #[cold]
    pub(super) fn take_events(&mut self) {
        while let Some(event) = self.context.take_event() {
            match event {
                AsyncEvent::DeviceFatal => self.lose("the device is gone", ENODEV),
                AsyncEvent::QueueError => self.lose("its queue is in error", EIO),
                AsyncEvent::Other => self.look(),
            }
        }
    }

    /// Asks for the state of the port.
    #[cold]
    pub(super) fn look(&mut self) {
        if self.state == State::Gone {
            return;
        }
        match self.context.port(self.number) {
            Ok(state) if state.is_active => {
                if std::mem::replace(&mut self.state, State::Up) == State::Down {
                    self.error = None;
                }
            }
            Ok(_) if self.state == State::Down => {}
            Ok(_) => {
                let (device, source) = (self.name.clone(), io::Error::from_raw_os_error(ENETDOWN));
                let what = "its port is not active: is the interface below it up (`rdma link`)?".into();
                self.state = State::Down;
                self.error = Some(DeviceError::Down { device, what, source });
            }
            Err(error) => self.lose("the device is gone", error.raw_os_error().unwrap_or(ENODEV)),
        }
    }

    /// Returns the state as of now: see [`Device::link`](wharf_core::device::Device::link).
    pub(super) fn link(&mut self) -> Result<(), DeviceError> {
        self.take_events();
        self.look();
        let (what, errno) = match self.state {
            State::Gone => ("it does not work any more", ENODEV),
            _ => ("its port is not active", ENETDOWN),
        };
        self.state.error(&self.name, what, errno).map_or(Ok(()), Err)
    }

    /// Notes that a request has failed: the queue pair is in error, and takes none any more.
    #[cold]
    pub(super) fn lose_by(&mut self, status: Status) {
        self.lose_unless_known(&format!("its queue pair is in error: {}", status.name()), EIO);
    }

    /// Notes that the device does not work any more, for `what` unless an event or its port has a better reason: it is removed.
    #[cold]
    pub(super) fn lose_unless_known(&mut self, what: &str, errno: i32) {
        self.take_events();
        self.look();
        self.lose(what, errno);
    }

    /// Notes that the device does not work any more, as it is open.
    #[cold]
    pub(super) fn lose(&mut self, what: &str, errno: i32) {
        if self.state != State::Gone {
            let (device, source) = (self.name.clone(), io::Error::from_raw_os_error(errno));
            self.state = State::Gone;
            self.error = Some(DeviceError::Gone { device, what: what.into(), source });
        }
    }
}

/// Returns the peers of a port, and what finds their addresses, if it sends.
fn peers(
    domain: &ProtectionDomain, options: &VerbsOptions, gid_index: u8,
) -> io::Result<(Peers, Option<Neighbours>)> {
    let start = || Neighbours::start(domain.clone(), options.port, gid_index);
    let (mut peers, mut neighbours) = (Peers::new(options.peer), options.sends.then(start).transpose()?);
    if let Some(neighbours) = &mut neighbours {
        peers.ask_early(|gid| neighbours.ask(gid));
    }
    Ok((peers, neighbours))
}

/// Explains why a device cannot be opened.
fn refusal(error: &io::Error, library: Library) -> String {
    let known = library.devices().unwrap_or_default();
    match (error.raw_os_error(), &known[..]) {
        // Without the kernel's module of verbs there is nothing to list devices by.
        (Some(ENODEV | ENOSYS), []) => {
            "no RDMA device: `rdma link add NAME type rxe netdev INTERFACE` makes one".into()
        }
        (Some(ENODEV), known) => format!("no such RDMA device; there are {}", known.join(", ")),
        _ => "cannot open it: may this user open /dev/infiniband/uverbs*?".into(),
    }
}

/// Returns the entries of a port's table of GIDs that are not free.
fn entries(context: &Context, port: u8, state: &PortState) -> impl Iterator<Item = (u8, Gid)> {
    (0..state.gids.min(256)).filter_map(move |index| {
        let gid = context.gid(port, index).ok().filter(|gid| *gid != [0; 16])?;
        Some((u8::try_from(index).ok()?, gid))
    })
}

/// Returns the entries that an end can be named by.
pub(super) fn usable_gids(
    context: &Context, device: &str, port: u8, state: &PortState,
) -> impl Iterator<Item = (u8, Gid)> {
    // RoCE version 1 has entries of the same addresses, and does not pass routers.
    entries(context, port, state).filter(move |(index, _)| {
        let kind = fs::read_to_string(format!("{DEVICES}/{device}/ports/{port}/gid_attrs/types/{index}"));
        !kind.is_ok_and(|kind| kind.starts_with("IB/RoCE v1") && state.is_ethernet)
    })
}

/// Chooses the entry of the table of GIDs: the given one; else the first of the peer's family, IPv4 before others where there is no peer.
fn choose_gid(
    context: &Context, device: &str, options: &VerbsOptions, state: &PortState,
) -> Result<(u8, Gid), String> {
    let port = options.port;
    if let Some(index) = options.gid_index {
        let there = || {
            let entries =
                entries(context, port, state).map(|(index, gid)| format!("{index} ({})", text_of(&gid)));
            entries.collect::<Vec<_>>().join(", ")
        };
        let given = entries(context, port, state).find(|(at, _)| *at == index);
        return given.ok_or_else(|| format!("gid: entry {index} is free; there are {}", there()));
    }
    let usable: Vec<(u8, Gid)> = usable_gids(context, device, port, state).collect();
    let wanted = options.peer.map(|PeerAddress { gid, .. }| family(&gid));
    let found = match wanted {
        Some(wanted) => usable.iter().find(|(_, gid)| family(gid) == wanted),
        None => usable.iter().min_by_key(|(_, gid)| family(gid)),
    };
    found.copied().ok_or_else(|| match wanted {
        Some(_) => {
            "its port has no GID of the peer's kind: give its interface an address like the peer's".into()
        }
        None => "its port has no GID: give its interface an address".into(),
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Family {
    V4,
    Global,
    LinkLocal,
}

fn family(gid: &Gid) -> Family {
    let address = Ipv6Addr::from(*gid);
    match address.to_ipv4_mapped() {
        Some(_) => Family::V4,
        None if address.is_unicast_link_local() => Family::LinkLocal,
        None => Family::Global,
    }
}

/// Opens the socket for questions at the address of `gid`, entry `gid_index` of the port's table.
fn open_resolver(
    device: &str, port: u8, gid_index: u8, gid: &Gid, receives: bool,
) -> Result<Resolver, DeviceError> {
    let folder = format!("{DEVICES}/{device}/ports/{port}/gid_attrs/ndevs");
    let interface = fs::read_to_string(format!("{folder}/{gid_index}")).unwrap_or_default();
    let index =
        fs::read_to_string(format!("/sys/class/net/{}/ifindex", interface.trim())).unwrap_or_default();
    let what = format!(
        "cannot answer at {}, UDP port {UDP_PORT}: another end may receive there; choose another gid=",
        text_of(gid)
    );
    let name = format!("verbs:{}", device.escape_debug());
    Resolver::open(gid, index.trim().parse().unwrap_or(0), receives).map_err(io_fault(&name, &what))
}
