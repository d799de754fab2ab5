//! TAP interfaces: a virtual Ethernet interface of the kernel, whose other end is a file
//! (Documentation/networking/tuntap.rst, `drivers/net/tun.c`). A virtio net header is in front of each frame,
//! both ways.

pub use crate::packet::VNET_HEADER_BYTES;

use crate::call::{check, descriptor};
use crate::ifreq::{Operation, Request};
use crate::interface::{Interface, InterfaceSocket};
use crate::namespace;
use crate::netlink::Netlink;
use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

/// The file that makes interfaces.
const TUN: &str = "/dev/net/tun";
/// Offload flags, most first: later kernels know more of them.
const OFFLOADS: [(libc::c_uint, Offloads); 3] = [
    (TCP | libc::TUN_F_TSO_ECN | libc::TUN_F_USO4 | libc::TUN_F_USO6, Offloads::TcpUdp),
    (TCP | libc::TUN_F_TSO_ECN, Offloads::Tcp),
    (libc::TUN_F_CSUM, Offloads::Checksum),
];
const TCP: libc::c_uint = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6;

/// Work that the kernel leaves to the reader of frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offloads {
    /// None: frames are as on a wire.
    None,
    /// To fill in checksums.
    Checksum,
    /// To fill in checksums, and to segment TCP super-packets.
    Tcp,
    /// To fill in checksums, and to segment TCP and UDP super-packets (Linux 6.2).
    TcpUdp,
}

/// A queue of a TAP interface. The interface is removed with its last queue, unless it is persistent.
#[derive(Debug)]
pub struct Tap {
    file: File,
    is_multi_queue: bool,
}

impl Tap {
    /// True if an interface may have that name: 1 to 15 bytes, without white space, control characters, `/`,
    /// `:` and `%`, and neither `.` nor `..`.
    pub fn is_name(name: &str) -> bool {
        let is_odd = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '/' | ':' | '%');
        (1..libc::IFNAMSIZ).contains(&name.len()) && !name.contains(is_odd) && name != "." && name != ".."
    }

    /// Makes interface `name` in the calling thread's network namespace, or takes an existing one, which must
    /// be a free TAP, or a macvtap whose file is in /dev. With `multi_queue` others may open it, too, each a
    /// queue of it.
    ///
    /// # Errors
    /// `ENOENT` without /dev/net/tun; `EPERM` without `CAP_NET_ADMIN`, unless it was made for this user;
    /// `EBUSY` if another process has it; `EINVAL` if it is no TAP, or has one queue only; `E2BIG` if it has
    /// no further queue.
    pub fn open(name: &str, multi_queue: bool) -> io::Result<Self> {
        if !Self::is_name(name) {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        let opened = Self::attached(TUN, name, multi_queue);
        let tap = match opened {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                Self::macvtap(name, multi_queue).ok_or(error)?
            }
            opened => opened?,
        };
        tap.set(libc::TUNSETVNETHDRSZ, VNET_HEADER_BYTES as libc::c_int)?;
        // In the machine's byte order, whatever an earlier user set. Not every kernel knows the second.
        tap.set(libc::TUNSETVNETLE, 0)?;
        let _ = tap.set(libc::TUNSETVNETBE, 0);
        Ok(tap)
    }

    fn attached(path: &str, name: &str, multi_queue: bool) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(path)?;
        let is_multi_queue = match attach(&file, name, multi_queue) {
            // An existing interface may have several queues: then it must be opened so.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) && !multi_queue => {
                attach(&file, name, true).map_err(|_| error)?;
                true
            }
            attached => attached.map(|()| multi_queue)?,
        };
        Ok(Self { file, is_multi_queue })
    }

    /// Opens a macvtap interface (`drivers/net/tap.c`): it is there, and has a file of its own, named by its
    /// number. `None` if `name` is none, or its file is not here.
    fn macvtap(name: &str, multi_queue: bool) -> Option<Self> {
        let socket = InterfaceSocket::open().ok()?;
        let index = Interface::find(socket.as_fd(), name).ok()?.index;
        let tap = Self::attached(&format!("/dev/tap{index}"), name, multi_queue).ok()?;
        // The file may be that of an interface in another namespace.
        (tap.name().ok()?.0 == name).then_some(tap)
    }

    /// True if `name` is a macvtap interface that can be opened here: it is not made, and does not go.
    pub fn is_macvtap(name: &str) -> bool {
        Self::macvtap(name, false).is_some()
    }

    /// Returns the file's descriptor, which is readable while there is a frame.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// True if the interface has several queues.
    pub fn is_multi_queue(&self) -> bool {
        self.is_multi_queue
    }

    /// Returns the interface's present name, and true if it is persistent.
    ///
    /// # Errors
    /// `EBADFD` if it is gone.
    pub fn name(&self) -> io::Result<(String, bool)> {
        let mut request = Request::empty();
        request.ask(self.fd(), Operation::GET_TUN)?;
        Ok((request.name(), request.flags() & libc::IFF_PERSIST != 0))
    }

    /// Makes the kernel leave as much work as it can to the reader, or none, and returns what it leaves. This
    /// is a setting of the interface: it holds for all queues, and stays with a persistent one.
    ///
    /// # Errors
    /// `EBADFD` if it is gone.
    pub fn set_offloads(&self, wanted: bool) -> io::Result<Offloads> {
        for (flags, offloads) in OFFLOADS.into_iter().filter(|_| wanted) {
            match number(&self.file, libc::TUNSETOFFLOAD, flags as libc::c_ulong) {
                Ok(()) => return Ok(offloads),
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
                Err(error) => return Err(error),
            }
        }
        number(&self.file, libc::TUNSETOFFLOAD, 0)?;
        Ok(Offloads::None)
    }

    /// Sets whether the interface stays when no process has it open.
    ///
    /// # Errors
    /// `EBADFD` if it is gone.
    pub fn set_persistent(&self, stays: bool) -> io::Result<()> {
        number(&self.file, libc::TUNSETPERSIST, libc::c_ulong::from(stays))
    }

    /// Sets the send buffer: bytes of frames, with the kernel's overhead, that may be in the kernel before it
    /// takes no more. The default is nearly without bound. It holds for all queues.
    ///
    /// # Errors
    /// `EINVAL` for 0 or less.
    pub fn set_send_buffer(&self, bytes: i32) -> io::Result<()> {
        self.set(libc::TUNSETSNDBUF, bytes)
    }

    /// Has `filter` ([`load_filter`](crate::xdp::load_filter)) choose the frames that the interface sends, or
    /// takes all. It holds for all queues, and stays with a persistent interface.
    ///
    /// # Errors
    /// `EINVAL` before Linux 4.16, `EBADFD` if the interface is gone.
    pub fn filter(&self, filter: Option<BorrowedFd<'_>>) -> io::Result<()> {
        self.set(libc::TUNSETFILTEREBPF, filter.map_or(-1, |filter| filter.as_raw_fd()))
    }

    /// Opens a socket in the interface's network namespace, to which it may have been moved.
    ///
    /// # Errors
    /// `EBADFD` if it is gone, `EPERM` without `CAP_NET_ADMIN` and `CAP_SYS_ADMIN`, `ENOTTY` before Linux
    /// 5.3.
    pub fn interface_socket(&self) -> io::Result<InterfaceSocket> {
        self.within(InterfaceSocket::open)
    }

    /// Does as [`Tap::interface_socket`].
    ///
    /// # Errors
    /// Those of [`Tap::interface_socket`].
    pub fn netlink(&self) -> io::Result<Netlink> {
        self.within(Netlink::open)
    }

    fn within<T: Send>(&self, open: fn() -> io::Result<T>) -> io::Result<T> {
        // SAFETY: takes no argument; the descriptor is new.
        let space = unsafe { descriptor(libc::ioctl(self.file.as_raw_fd(), libc::TUNGETDEVNETNS as _)) };
        namespace::within(space?, open)?
    }

    /// Reads a frame with its header into the `pieces`, in order. Returns the number of bytes read: what the
    /// pieces have no room for is cut off.
    ///
    /// # Errors
    /// `EAGAIN` if there is no frame, `EBADFD` if the interface is gone.
    #[inline]
    pub fn read(&self, pieces: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        (&self.file).read_vectored(pieces)
    }

    /// Writes a frame with its header. The kernel has taken it when this returns.
    ///
    /// # Errors
    /// `EIO` if the interface is down, `EBADFD` if it is gone, `EINVAL` for an impossible header or frame;
    /// `EAGAIN` and `ENOBUFS` if there is no room now.
    #[inline]
    pub fn write(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        (&self.file).write_vectored(pieces)
    }

    fn set(&self, what: libc::Ioctl, value: libc::c_int) -> io::Result<()> {
        // SAFETY: private, and called only for those that read an `int`.
        check(unsafe { libc::ioctl(self.file.as_raw_fd(), what as _, &raw const value) }).map(drop)
    }
}

/// Makes `file` a queue of interface `name`.
fn attach(file: &File, name: &str, multi_queue: bool) -> io::Result<()> {
    let mut request = Request::named(name)?;
    let several = if multi_queue { libc::IFF_MULTI_QUEUE } else { 0 };
    request.set_flags(libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR | several);
    request.ask(file.as_fd(), Operation::SET_TUN)
}

/// Does an `ioctl(2)` of this file that takes a number.
fn number(file: &File, what: libc::Ioctl, value: libc::c_ulong) -> io::Result<()> {
    // SAFETY: private, and called only for those that take a number in place of an address.
    check(unsafe { libc::ioctl(file.as_raw_fd(), what as _, value) }).map(drop)
}
