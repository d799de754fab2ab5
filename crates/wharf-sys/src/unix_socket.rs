//! Unix sockets in the file system (unix(7)): a listener whose file is given a mode and a group, and removed,
//! without a step that another user could turn to another file; and sockets of kind `SOCK_SEQPACKET`, whose
//! connections keep the bounds of messages.

mod file;

pub use file::SocketFile;

use crate::call;
use crate::option;
use file::Folder;
use rustix::fs::fchmod;
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, socket_with};
use std::io;
use std::mem::offset_of;
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant};

/// Bytes of a path, at most: a zero byte ends it.
const LONGEST: usize = size_of::<libc::sockaddr_un>() - offset_of!(libc::sockaddr_un, sun_path) - 1;

/// Kind of socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Bytes (`SOCK_STREAM`).
    Stream,
    /// Messages whose bounds are kept (`SOCK_SEQPACKET`).
    Seqpacket,
}

impl Kind {
    fn socket_type(self) -> SocketType {
        match self {
            Self::Stream => SocketType::STREAM,
            Self::Seqpacket => SocketType::SEQPACKET,
        }
    }

    /// Returns the most connections that wait to be accepted: as many as the system permits for streams, as
    /// the standard library has it.
    fn backlog(self) -> i32 {
        match self {
            Self::Stream => -1,
            Self::Seqpacket => 64,
        }
    }
}

/// Users that may connect to a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Those that the process's umask leaves.
    Umask,
    /// The user of this process alone.
    Private,
    /// Those that may write to a file of this mode, and of this group if there is one.
    Mode(u32, Option<u32>),
}

/// Time that a listener may take to have room for a connection.
const CONNECT_WITHIN: Duration = Duration::from_secs(1);

/// Connects to the listener at `path`.
///
/// # Errors
/// `TimedOut` if it has had no room for 1 s: a program that accepts none. `ENOENT`, `ECONNREFUSED` without a
/// listener, `EPROTOTYPE` if it is of another kind; `InvalidInput` for a path that is too long.
pub fn connect(path: &Path, kind: Kind) -> io::Result<UnixStream> {
    let (socket, address, until) = (open(kind)?, address(path)?, Instant::now() + CONNECT_WITHIN);
    loop {
        // A time of 0 would be none.
        let left = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        set_socket_timeout(&socket, Timeout::Send, Some(left))?;
        match rustix::net::connect(&socket, &address) {
            Ok(()) => break,
            Err(Errno::AGAIN) => {
                let what = "its listener accepts no connections";
                return Err(io::Error::new(io::ErrorKind::TimedOut, what));
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    set_socket_timeout(&socket, Timeout::Send, None)?;
    Ok(socket.into())
}

/// True if no process listens at the socket `path` any more. Connecting to another kind of file fails with
/// the same error.
pub fn is_left_over(path: &Path, kind: Kind) -> bool {
    connect(path, kind).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

/// Listens at `path`, for the users of `access`. A socket without a listener is replaced, and no other file.
/// Returns the file, too.
///
/// With [`Access::Mode`] the folder has to be one in which no other user may put another file in the socket's
/// place.
///
/// # Errors
/// `EADDRINUSE` if there is a file or another listener; `EACCES`; `InvalidInput` for a path that is too long;
/// `PermissionDenied`, with the reason, for a folder that is refused. No socket is left then.
pub fn listen(path: &Path, kind: Kind, access: Access) -> io::Result<(UnixListener, SocketFile)> {
    let (address, (folder, name)) = (address(path)?, Folder::of(path)?);
    let bound_mode = match access {
        Access::Umask => None,
        Access::Private => Some(0o600),
        Access::Mode(..) => Some(file::UNGIVEN),
    };
    if let Access::Mode(..) = access {
        folder.check()?;
    }
    let is_left_over = || folder.has_socket(&name) && is_left_over(path, kind);
    let socket = match bind(&address, kind, bound_mode) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse && is_left_over() => {
            folder.remove(&name)?;
            bind(&address, kind, bound_mode)
        }
        bound => bound,
    }?;
    let file = SocketFile::new(folder, name);
    // Before any user may connect: a second process would take it for one that is left over.
    rustix::net::listen(&socket, kind.backlog()).inspect_err(|_| file.remove())?;
    if let Access::Mode(mode, group) = access {
        file.give(mode, group)?;
    }
    Ok((socket.into(), file))
}

/// Binds a new socket to `address`. Its file has `mode` less the umask from the first moment on: that of the
/// socket before (`unix_bind`).
fn bind(address: &SocketAddrUnix, kind: Kind, mode: Option<u32>) -> io::Result<OwnedFd> {
    let socket = open(kind)?;
    if let Some(mode) = mode {
        fchmod(&socket, mode.into())?;
    }
    rustix::net::bind(&socket, address)?;
    Ok(socket)
}

/// Returns the number of the user at the other end, as it connected (`SO_PEERCRED`).
///
/// # Errors
/// Those of `getsockopt(2)`.
pub fn peer_uid(stream: &UnixStream) -> io::Result<u32> {
    Ok(peer(stream)?[1])
}

/// Returns the process that listened or connected at the other end; 0 for one of another namespace.
///
/// # Errors
/// Those of `getsockopt(2)`.
pub fn peer_pid(stream: &UnixStream) -> io::Result<u32> {
    Ok(peer(stream)?[0])
}

/// Returns process, user and group (`struct ucred`). Not by rustix, whose process is never 0.
fn peer(stream: &UnixStream) -> io::Result<[u32; 3]> {
    let mut credentials = [0u32; 3];
    option::get(stream.as_fd(), libc::SOL_SOCKET, libc::SO_PEERCRED, &mut credentials)?;
    Ok(credentials)
}

/// Returns the bytes of messages, with the kernel's overhead, that were sent by `stream` and that the other
/// end has not read (`SIOCOUTQ`). Descriptors on their way are among them.
///
/// # Errors
/// Those of `ioctl(2)`.
pub fn peer_unread_bytes(stream: &UnixStream) -> io::Result<usize> {
    call::queue_bytes(stream.as_fd())
}

/// Returns a duplicate of descriptor `number`, which this process has inherited.
///
/// # Errors
/// `EBADF` if there is none.
pub fn inherited(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: plain numbers; the duplicate is new, and the kernel checks that there is a descriptor of that
    // number.
    unsafe { call::descriptor(libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 0)) }
}

/// True if the socket takes connections; false if it is one.
///
/// # Errors
/// `ENOTSOCK`.
pub fn listens(socket: &impl AsFd) -> io::Result<bool> {
    Ok(rustix::net::sockopt::socket_acceptconn(socket)?)
}

fn open(kind: Kind) -> io::Result<OwnedFd> {
    Ok(socket_with(AddressFamily::UNIX, kind.socket_type(), SocketFlags::CLOEXEC, None)?)
}

fn address(path: &Path) -> io::Result<SocketAddrUnix> {
    let len_bytes = path.as_os_str().len();
    if len_bytes > LONGEST {
        let what = format!("its path has {len_bytes} bytes: a socket's has {LONGEST} at most");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
    }
    Ok(SocketAddrUnix::new(path)?)
}

#[cfg(test)]
mod tests;
