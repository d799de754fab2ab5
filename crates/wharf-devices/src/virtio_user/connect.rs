//! The two ways to reach a back end: connecting to it, or accepting its connection.

pub(super) use crate::unix_socket::has_no_listener;
use crate::unix_socket::{self, Listening};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;
use wharf_sys::epoll::Epoll;
use wharf_sys::unix_socket::Kind;

/// Time between two attempts to connect.
const NAP: Duration = Duration::from_millis(10);
/// Time between two checks whether a back end is still to be waited for, ns; its connection is noticed at
/// once.
const CHECK_NS: u64 = 250_000_000;

/// Connects; tries again while the other end does not listen and `may_wait` is true.
pub(super) fn connect(path: &Path, may_wait: impl Fn() -> bool) -> io::Result<UnixStream> {
    loop {
        match unix_socket::connect(path) {
            Err(error) if has_no_listener(&error) && may_wait() => std::thread::sleep(NAP),
            result => return result,
        }
    }
}

/// Listens until a back end connects, while `may_wait` is true. The socket's file exists for that time.
pub(super) fn accept(path: &Path, may_wait: impl Fn() -> bool) -> io::Result<UnixStream> {
    let listening = Listening::at(path, Kind::Stream, None, None)?;
    accept_from(&listening.listener, may_wait)
}

fn accept_from(listener: &UnixListener, may_wait: impl Fn() -> bool) -> io::Result<UnixStream> {
    listener.set_nonblocking(true)?;
    let set = Epoll::new()?;
    set.add(listener.as_raw_fd(), 0, true)?;
    loop {
        match listener.accept() {
            Ok((socket, _)) => return socket.set_nonblocking(false).map(|()| socket),
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
            Err(_) if may_wait() => {
                set.wait(CHECK_NS);
                set.take_events(|_| {});
            }
            Err(_) => return Err(io::Error::new(io::ErrorKind::TimedOut, "no back end connected in time")),
        }
    }
}
