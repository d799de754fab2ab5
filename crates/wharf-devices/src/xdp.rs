//! `xdp:INTERFACE`: AF_XDP on queues of a network interface, by rings shared with the kernel. The kernel,
//! or the adapter, reads and writes the pool's own memory: there is no copy in user space.
//!
//! Sending: [`XdpSender`]. A frame's address goes into a ring, one system call hands a batch over, and the
//! frame comes back when it has left. These are real completions, so there is a byte queue limit. Needs
//! CAP_NET_RAW. Some drivers send without copies only beside a program: then one is attached that passes
//! all frames to the host. Receiving: [`XdpReceiver`]. Needs CAP_NET_ADMIN and CAP_BPF as well, for the
//! program that hands frames over. Both at once: [`XdpBoth`], by one socket. Driver and kernel decide the
//! mode; [`Device::mode`](wharf_core::device::Device::mode) says which it is.
//!
//! The interface is looked up in the network namespace of the thread that opens it.

mod access;
mod both;
#[doc(hidden)]
pub mod checksum;
mod doctor;
pub mod helper;
mod layers;
#[doc(hidden)]
pub mod memory;
mod metadata;
mod numa;
mod program;
mod queues;
#[doc(hidden)]
pub mod receiving;
#[doc(hidden)]
pub mod sending;
mod spec;
#[doc(hidden)]
pub mod steering;
mod table;
mod ways;

pub use access::{Access, BpfObject};
pub use both::XdpBoth;
pub use queues::QueueChoice;
pub use receiving::{ReceiveOptions, XdpReceiver};
pub use sending::XdpSender;
pub use steering::{Flow, Steering};
use ways::{Way, WaysTried};

use crate::iface::io_fault;
use crate::link::{Link, no_socket};
pub(crate) use spec::KIND;
use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};
use wharf_core::device::{self, DeviceError, LimitUnit};
use wharf_mem::Region;
use wharf_sys::errno::{E2BIG, EBUSY, EEXIST, EINVAL, ENOBUFS, ENOSPC, EOPNOTSUPP, EPERM};
use wharf_sys::ethtool::{Ethtool, Rings};
use wharf_sys::interface::InterfaceSocket;
use wharf_sys::mapping::{Mapping, PAGE_BYTES};
use wharf_sys::xdp::{Bind, UmemShape, XdpSocket};

/// Time that a queue, or memory, that was just released may take to be free: the kernel frees it later.
const FREE_WITHIN: Duration = Duration::from_millis(500);
/// Time that an adapter may take to leave the memory of a closed socket, at most: a driver resets the queue meanwhile.
const RELEASED_WITHIN: Duration = Duration::from_secs(3);
/// The mode without a copy.
const ZERO_COPY: &str = "zero-copy";
const NAP: Duration = Duration::from_millis(2);

/// Settings of an [`XdpSender`] or an [`XdpReceiver`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct XdpOptions {
    /// Number of the interface's queue, 0 by default.
    pub queue: u32,
    /// The copy mode.
    pub mode: Mode,
    /// Descriptors of each ring, rounded up to a power of two; by default 2048 to send, 8192 to receive, or more where the driver's own
    /// rings are longer.
    pub ring_entries: Option<u32>,
    /// True to leave checksums of frames that are sent to the driver, or to the kernel as it copies, where that has it; otherwise the
    /// device fills them in.
    pub offload_checksums: bool,
    /// True to give frames that ask for it the time at which the kernel has sent them, where it copies them.
    pub timestamps: bool,
    /// Unit of the byte queue limit; bytes by default.
    pub limit_unit: Option<LimitUnit>,
    /// The sources of sockets and of the program.
    pub access: Access,
}

impl XdpOptions {
    /// Least and most descriptors of a ring.
    const ENTRIES: (u32, u32) = (64, 65_536);

    /// Returns the descriptors of a ring. If none are asked for, it has `usual` of them, or `wanted` if that is more: what the
    /// driver's own ring takes.
    fn entries(&self, usual: u32, wanted: Option<u32>) -> u32 {
        let (least, most) = Self::ENTRIES;
        let entries = self.ring_entries.unwrap_or_else(|| usual.max(wanted.unwrap_or_default()));
        entries.clamp(least, most).next_power_of_two()
    }
}

/// The copy mode: if the kernel may copy frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// No copy if the driver can do without, else a copy by the kernel.
    #[default]
    Auto,
    /// A copy by the kernel.
    Copy,
    /// No copy, or it is an error.
    ZeroCopy,
}

impl Mode {
    /// Returns the ways to bind that are to be tried, the best one first.
    fn ways(self) -> impl Iterator<Item = Bind> {
        let (without, with) = (self != Mode::Copy, self != Mode::ZeroCopy);
        let all = [(true, true), (true, false), (false, true), (false, false)];
        all.into_iter()
            .filter(move |&(zero_copy, _)| if zero_copy { without } else { with })
            .map(|(zero_copy, multi_buffer)| Bind { zero_copy, multi_buffer })
    }
}

/// Looks for an interface, and checks that this process may use it. The name of a queue behind the first has its number, so
/// that metrics and errors tell queues apart.
fn find(interface_name: &str, queue: u32, access: &Access) -> Result<Link, DeviceError> {
    let name = match queue {
        0 => format!("xdp:{interface_name}"),
        _ => format!("xdp:{interface_name}#{queue}"),
    };
    let fault = |what: &str| io_fault(&name.escape_debug().to_string(), what);
    access.socket(interface_name).map_err(|error| fault(&no_socket("an AF_XDP socket", &error))(error))?;
    let asker = InterfaceSocket::open().map_err(fault("cannot ask about interfaces"))?;
    Link::find(name, interface_name, asker.as_fd())
}

/// Explains an error of binding to queue `queue`.
fn fault(link: &Link, queue: u32, region: &Region, (step, source): Refusal) -> DeviceError {
    let interface = &link.interface_name;
    let what = match (step, source.raw_os_error()) {
        (Step::Register, Some(ENOBUFS)) => format!(
            "the pool's {} KiB may not be locked in memory: raise the limit (`ulimit -l`), or use fewer frames",
            region.mapping().len_bytes() >> 10
        ),
        (Step::Register, _) => "the kernel cannot share the pool's memory".into(),
        (Step::Rings, _) => "cannot set up its rings".into(),
        (Step::Bind, Some(EBUSY)) => format!("queue {queue} is in use by another AF_XDP socket"),
        (Step::Bind, Some(EOPNOTSUPP)) => {
            "the driver cannot do without copying here: mode=auto takes the best that works".into()
        }
        (Step::Bind, Some(EINVAL)) => {
            ways::invalid(link, queue)
        }
        (Step::Bind, _) => format!("cannot use queue {queue}"),
        (Step::Kick, _) => format!("{interface} does not send from queue {queue}"),
        (Step::Program | Step::Attach, Some(EPERM)) => {
            "receiving loads a program, for which it needs CAP_BPF and CAP_NET_ADMIN, and not in a user namespace".into()
        }
        (Step::Program, _) => "the kernel refuses the program that hands frames over".into(),
        (Step::Attach, Some(EBUSY | EEXIST)) => format!(
            "{interface} has an XDP program already (`ip link show {interface}`), another one or for another steer=. map=PATH alone takes its pinned map of sockets"
        ),
        (Step::Share, _) => format!(
            "{interface} has an XDP program already (`ip link show {interface}`): to share another wharf's takes CAP_SYS_ADMIN"
        ),
        (Step::Attach, Some(ENOSPC)) => format!("the other end of {interface} sends by more queues than this one receives by (`ethtool -L` at either end)"),
        (Step::Attach, _) => "cannot attach the program that hands frames over".into(),
        (Step::Direct, Some(E2BIG)) => format!("the program's map of sockets has no room for queue {queue}"),
        (Step::Direct, _) => format!("cannot put the socket of queue {queue} into the program's map"),
    };
    let why = match (step, source.raw_os_error()) {
        (Step::Register, Some(ENOBUFS)) => device::Refusal::LockedMemory,
        (Step::Bind, Some(EINVAL)) if ways::lacks(link, queue) => device::Refusal::NoSuchQueue,
        _ => return link.fault(&what)(source),
    };
    DeviceError::Refused { device: link.name.clone(), why, what, source: Some(source) }
}

/// The step of the setup that failed, and the system's answer.
type Refusal = (Step, io::Error);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Register,
    Rings,
    Bind,
    /// The first doorbell.
    Kick,
    Program,
    Attach,
    Share,
    /// Putting the socket into the map of the program.
    Direct,
}

impl Step {
    fn name(self) -> &'static str {
        match self {
            Step::Register => "memory",
            Step::Rings => "rings",
            Step::Bind => "bind",
            Step::Kick => "send",
            Step::Program => "program",
            Step::Attach | Step::Share => "attach",
            Step::Direct => "map",
        }
    }

    fn refused(self) -> impl Fn(io::Error) -> Refusal {
        move |error| (self, error)
    }
}

/// Returns the sizes of the driver's rings, if it tells.
fn driver_rings(link: &Link) -> Option<Rings> {
    Ethtool::open().and_then(|tool| tool.rings(&link.interface_name)).ok()
}

/// Gives `socket` the memory `region`.
fn registered(
    socket: io::Result<XdpSocket>, region: &Region, shape: &UmemShape,
) -> Result<XdpSocket, Refusal> {
    let socket = socket.map_err(Step::Rings.refused())?;
    // Memory that was just released counts towards the limit for a while.
    let registered = patiently(&[ENOBUFS], || socket.register(region.mapping(), shape));
    registered.map_err(Step::Register.refused())?;
    Ok(socket)
}

/// Binds, and waits for a queue that is being freed.
fn bind(socket: &XdpSocket, index: i32, queue: u32, how: Bind) -> Result<(), Refusal> {
    patiently(&[EBUSY], || socket.bind(index, queue, how)).map_err(Step::Bind.refused())
}

/// Tries again while the answer is one of the errors `busy`, for a while.
fn patiently<T>(busy: &[i32], attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    patiently_for(FREE_WITHIN, busy, attempt)
}

/// Tries again while the answer is one of the errors `busy`, for `time`.
fn patiently_for<T>(
    time: Duration, busy: &[i32], mut attempt: impl FnMut() -> io::Result<T>,
) -> io::Result<T> {
    let until = Instant::now() + time;
    loop {
        match attempt() {
            Err(error)
                if error.raw_os_error().is_some_and(|errno| busy.contains(&errno))
                    && Instant::now() < until =>
            {
                std::thread::sleep(NAP);
            }
            result => return result,
        }
    }
}

/// Waits, for a while, until another socket could have the queue. Until then, with zero-copy, the adapter may
/// still read and write the memory, though the socket is closed.
///
/// `socket` was opened with the queue: by now this process may have given up the privilege.
fn await_release(socket: XdpSocket, link: &Link, queue: u32) {
    let Ok(memory) = Mapping::shared_small_pages(PAGE_BYTES) else { return };
    let made = [
        socket.register(&memory, &memory::smallest()).map(drop),
        socket.fill_ring(1).map(drop),
        socket.completion_ring(1).map(drop),
        socket.transmit_ring(1).map(drop),
    ];
    if made.iter().all(Result::is_ok) {
        // An interface that is gone has released the memory, too.
        let how = Bind { zero_copy: false, multi_buffer: false };
        let _ = patiently_for(RELEASED_WITHIN, &[EBUSY], || socket.bind(link.interface.index, queue, how));
    }
}
