//! The two ways to reach a back end: connecting to it, or accepting its connection.

pub(super) use crate::unix_socket::has_no_listener;
use crate::unix_socket::{self, Listening};
use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;
use wharf_sys::unix_socket::Kind;

/// Time between two attempts.
const NAP: Duration = Duration::from_millis(10);

/// Connects; tries again while the other end does not listen and `may_wait` is true.
pub(super) fn connect(path: &Path, may_wait: impl Fn() -> bool) -> io::Result<UnixStream> {
    patiently(|| unix_socket::connect(path), |error| has_no_listener(error) && may_wait())
}

/// Listens until a back end connects, while `may_wait` is true. The socket's file exists for that time.
pub(super) fn accept(path: &Path, may_wait: impl Fn() -> bool) -> io::Result<UnixStream> {
    let listening = Listening::at(path, Kind::Stream, None, None)?;
    let listener = &listening.listener;
    listener.set_nonblocking(true)?;
    let is_early = |error: &io::Error| error.kind() == io::ErrorKind::WouldBlock;
    let accepted = patiently(|| listener.accept(), |error| is_early(error) && may_wait());
    drop(listening);
    let (socket, _) = accepted.map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => io::Error::new(io::ErrorKind::TimedOut, "no back end connected in time"),
        _ => error,
    })?;
    socket.set_nonblocking(false)?;
    Ok(socket)
}

/// Tries again after a nap, while `may_wait` is true.
fn patiently<T>(
    attempt: impl Fn() -> io::Result<T>, may_try_again: impl Fn(&io::Error) -> bool,
) -> io::Result<T> {
    loop {
        match attempt() {
            Err(error) if may_try_again(&error) => std::thread::sleep(NAP),
            result => return result,
        }
    }
}
