//! TAP interfaces: a virtual Ethernet interface of the kernel whose other end is a file (Documentation/networking/tuntap.rst,
//! `drivers/net/tun.c`). Before each frame, both ways, stands a virtio net header.

use crate::ifreq::{Operation, Request};
use crate::interface::Asker;
use crate::namespace;
use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

/// The file that an interface is made by.
const TUN: &str = "/dev/net/tun";
/// Bytes of the header before each frame: virtio 1.2, section 5.1.6, without the number of buffers.
pub const VNET_HEADER_BYTES: usize = 10;

/// What the kernel may leave to us, the most first: later kernels know more of it.
const OFFLOADS: [(libc::c_uint, Offloads); 3] = [
    (TCP | libc::TUN_F_TSO_ECN | libc::TUN_F_USO4 | libc::TUN_F_USO6, Offloads::TcpUdp),
    (TCP | libc::TUN_F_TSO_ECN, Offloads::Tcp),
    (libc::TUN_F_CSUM, Offloads::Checksum),
];
const TCP: libc::c_uint = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6;

/// What the kernel leaves to us of frames that it hands over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offloads {
    /// Nothing: they are as on a wire.
    None,
    /// To fill in checksums.
    Checksum,
    /// That, and to cut TCP super-packets.
    Tcp,
    /// That, and those of UDP (Linux 6.2).
    TcpUdp,
}

/// A queue of a TAP interface. The interface goes with its last queue, unless it is persistent.
#[derive(Debug)]
pub struct Tap {
    file: File,
    is_multi_queue: bool,
}

impl Tap {
    /// Whether an interface may have that name: 1 to 15 bytes, none of them white space, control, `/`, `:` or `%`, and
    /// neither `.` nor `..`.
    pub fn is_name(name: &str) -> bool {
        let is_odd = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '/' | ':' | '%');
        (1..libc::IFNAMSIZ).contains(&name.len()) && !name.contains(is_odd) && name != "." && name != ".."
    }

    /// Makes interface `name` in the network namespace of the calling thread, or takes the one that there is, which
    /// must be a TAP that nobody has. With `multi_queue` others may open it, too, each a queue of it.
    ///
    /// # Errors
    /// ENOENT without /dev/net/tun; EPERM without CAP_NET_ADMIN, unless it was made for this user; EBUSY when somebody
    /// has it; EINVAL when it is no TAP, or of one queue only; E2BIG when it has no further queue.
    pub fn open(name: &str, multi_queue: bool) -> io::Result<Self> {
        if !Self::is_name(name) {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        let file = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(TUN)?;
        let attached = attach(&file, name, multi_queue);
        let is_multi_queue = match attached {
            // One that is there already may be of several queues, and must be asked for as such.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) && !multi_queue => {
                attach(&file, name, true).map_err(|_| error)?;
                true
            }
            attached => attached.map(|()| multi_queue)?,
        };
        let tap = Self { file, is_multi_queue };
        tap.set(libc::TUNSETVNETHDRSZ, VNET_HEADER_BYTES as libc::c_int)?;
        // In the byte order of the machine, whatever a former user wanted. The second is not in every kernel.
        tap.set(libc::TUNSETVNETLE, 0)?;
        let _ = tap.set(libc::TUNSETVNETBE, 0);
        Ok(tap)
    }

    /// The file's descriptor: readable when there is a frame.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Whether the interface is of several queues.
    pub fn is_multi_queue(&self) -> bool {
        self.is_multi_queue
    }

    /// What the interface is called now, and whether it stays when nobody has it open.
    ///
    /// # Errors
    /// EBADFD when it is gone.
    pub fn name(&self) -> io::Result<(String, bool)> {
        let mut request = Request::empty();
        request.ask(self.fd(), Operation::GET_TUN)?;
        Ok((request.name(), request.flags() & libc::IFF_PERSIST != 0))
    }

    /// Has the kernel leave us all that it can, or nothing; what that is. It goes for all queues of the interface, and
    /// stays with a persistent one.
    ///
    /// # Errors
    /// EBADFD when it is gone.
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

    /// Whether the interface stays when nobody has it open.
    ///
    /// # Errors
    /// EBADFD when it is gone.
    pub fn set_persistent(&self, stays: bool) -> io::Result<()> {
        number(&self.file, libc::TUNSETPERSIST, libc::c_ulong::from(stays))
    }

    /// Bytes of frames (counted with the kernel's own overhead) that may be on their way through the kernel before it
    /// takes no more; nearly without bound at first. For all queues of the interface.
    ///
    /// # Errors
    /// EINVAL for 0 or less.
    pub fn set_send_buffer(&self, bytes: i32) -> io::Result<()> {
        self.set(libc::TUNSETSNDBUF, bytes)
    }

    /// What answers questions about the interface, which may have been moved to another namespace since.
    ///
    /// # Errors
    /// EBADFD when it is gone, EPERM without CAP_NET_ADMIN and CAP_SYS_ADMIN, ENOTTY before Linux 5.3.
    pub fn asker(&self) -> io::Result<Asker> {
        // SAFETY: takes no argument; a descriptor that comes back is new and ours alone.
        let space = unsafe {
            let fd = libc::ioctl(self.file.as_raw_fd(), libc::TUNGETDEVNETNS as _);
            if fd == -1 {
                return Err(io::Error::last_os_error());
            }
            OwnedFd::from_raw_fd(fd)
        };
        namespace::within(space, Asker::open)?
    }

    /// Reads a frame with its header into the `pieces`, one after the other; bytes of both, those that they had no
    /// room for not counted.
    ///
    /// # Errors
    /// EAGAIN when there is none, EBADFD when the interface is gone.
    #[inline]
    pub fn read(&self, pieces: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        (&self.file).read_vectored(pieces)
    }

    /// Hands a frame with its header to the kernel, which has it when this returns.
    ///
    /// # Errors
    /// EIO when the interface is down, EBADFD when it is gone, EINVAL for what cannot be; EAGAIN and ENOBUFS when
    /// there is no room now.
    #[inline]
    pub fn write(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        (&self.file).write_vectored(pieces)
    }

    fn set(&self, what: libc::Ioctl, value: libc::c_int) -> io::Result<()> {
        // SAFETY: private, and called only for those that read an `int`.
        done(unsafe { libc::ioctl(self.file.as_raw_fd(), what as _, &raw const value) })
    }
}

/// Makes `file` a queue of interface `name`.
fn attach(file: &File, name: &str, multi_queue: bool) -> io::Result<()> {
    let mut request = Request::named(name)?;
    let several = if multi_queue { libc::IFF_MULTI_QUEUE } else { 0 };
    request.set_flags(libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR | several);
    request.ask(file.as_fd(), Operation::SET_TUN)
}

/// An ioctl(2) of this file that takes a number.
fn number(file: &File, what: libc::Ioctl, value: libc::c_ulong) -> io::Result<()> {
    // SAFETY: private, and called only for those that take a number in place of an address.
    done(unsafe { libc::ioctl(file.as_raw_fd(), what as _, value) })
}

fn done(returned: libc::c_int) -> io::Result<()> {
    if returned == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for name in ["a", "tap0", "wharf-tap.1_2", "fifteen-bytes-x"] {
            assert!(Tap::is_name(name), "{name}");
        }
        for name in ["", ".", "..", "sixteen-bytes-xx", "a/b", "a b", "a\tb", "a:b", "tap%d", "a\0b", "\n"] {
            assert!(!Tap::is_name(name), "{name:?}");
            assert_eq!(Tap::open(name, false).unwrap_err().raw_os_error(), Some(libc::EINVAL), "{name:?}");
        }
    }
}
