//! Unix sockets of kind `SOCK_SEQPACKET` (unix(7)): a connection that keeps the bounds of messages. The standard library's types
//! take such sockets, but do not make them.

use crate::call::{self, check};
use crate::option;
use std::io;
use std::mem::offset_of;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

/// Connections that wait to be accepted, at most.
const BACKLOG: libc::c_int = 64;

/// Connects to the listener at `path`.
///
/// # Errors
/// `ENOENT`, `ECONNREFUSED` without a listener, `EPROTOTYPE` if it is of another kind; `EINVAL` for a path that is too long.
pub fn connect(path: &Path) -> io::Result<UnixStream> {
    let (socket, address) = (open()?, address(path)?);
    let (fd, len) = (socket.as_raw_fd(), size_of_val(&address) as libc::socklen_t);
    // SAFETY: an address of that length, which lives as long as the call.
    check(unsafe { libc::connect(fd, (&raw const address).cast(), len) })?;
    Ok(socket.into())
}

/// Listens at `path`.
///
/// # Errors
/// `EADDRINUSE` if there is a file; `EACCES`; `EINVAL` for a path that is too long.
pub fn listen(path: &Path) -> io::Result<UnixListener> {
    let socket = open()?;
    call::bind(socket.as_fd(), &address(path)?)?;
    // SAFETY: plain numbers.
    check(unsafe { libc::listen(socket.as_raw_fd(), BACKLOG) })?;
    Ok(socket.into())
}

/// Returns the number of the user at the other end, as it connected (`SO_PEERCRED`).
///
/// # Errors
/// Those of `getsockopt(2)`.
pub fn peer_uid(stream: &UnixStream) -> io::Result<u32> {
    // Process, user and group: `struct ucred`.
    let mut credentials = [0u32; 3];
    option::get(stream.as_fd(), libc::SOL_SOCKET, libc::SO_PEERCRED, &mut credentials)?;
    Ok(credentials[1])
}

/// Returns the bytes of messages, with the kernel's overhead, that were sent by `stream` and that the other end has not read
/// (`SIOCOUTQ`). Descriptors on their way are among them.
///
/// # Errors
/// Those of `ioctl(2)`.
pub fn peer_unread_bytes(stream: &UnixStream) -> io::Result<usize> {
    let mut count: libc::c_int = 0;
    // SAFETY: the call writes an int, and nothing else.
    check(unsafe { libc::ioctl(stream.as_raw_fd(), libc::TIOCOUTQ, &raw mut count) })?;
    Ok(usize::try_from(count).unwrap_or(0))
}

/// Returns a duplicate of descriptor `number`, which this process has inherited.
///
/// # Errors
/// `EBADF` if there is none.
pub fn inherited(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: plain numbers; the duplicate is new, and the kernel checks that there is a descriptor of that number.
    unsafe { call::descriptor(libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 0)) }
}

fn open() -> io::Result<OwnedFd> {
    call::socket(libc::AF_UNIX, libc::SOCK_SEQPACKET, 0)
}

fn address(path: &Path) -> io::Result<libc::sockaddr_un> {
    // SAFETY: plain numbers, for which zero is valid.
    let mut address: libc::sockaddr_un = unsafe { std::mem::zeroed() };
    address.sun_family = libc::AF_UNIX as libc::sa_family_t;
    let bytes = path.as_os_str().as_bytes();
    // A zero byte ends the path.
    if bytes.len() >= size_of_val(&address) - offset_of!(libc::sockaddr_un, sun_path) || bytes.contains(&0) {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    for (to, &from) in address.sun_path.iter_mut().zip(bytes) {
        *to = from as libc::c_char;
    }
    Ok(address)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::has_ended;
    use std::io::{Read, Write};

    #[test]
    fn messages_keep_their_bounds() {
        let path = std::env::temp_dir().join(format!("wharf-seqpacket-{}", std::process::id()));
        let listener = listen(&path).unwrap();
        let (mut near, mut far) = (connect(&path).unwrap(), listener.accept().unwrap().0);
        near.write_all(b"one").unwrap();
        near.write_all(b"two").unwrap();
        let read = |far: &mut UnixStream| {
            let mut bytes = [0; 64];
            let count = far.read(&mut bytes).unwrap();
            bytes[..count].to_vec()
        };
        assert_eq!((read(&mut far), read(&mut far)), (b"one".to_vec(), b"two".to_vec()));
        assert_eq!(peer_unread_bytes(&near).unwrap(), 0);
        near.write_all(b"three").unwrap();
        assert!(peer_unread_bytes(&near).unwrap() > 0 && !has_ended(near.as_fd()));
        assert_eq!((read(&mut far), peer_unread_bytes(&near).unwrap()), (b"three".to_vec(), 0));
        drop(far);
        assert!(has_ended(near.as_fd()));
        assert_eq!(listen(&path).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(connect(&path).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_path_that_is_too_long_is_refused() {
        let path = "x".repeat(108);
        assert_eq!(connect(Path::new(&path)).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }

    #[test]
    fn a_number_without_a_descriptor_is_refused() {
        assert_eq!(inherited(-1).unwrap_err().raw_os_error(), Some(libc::EBADF));
    }
}
