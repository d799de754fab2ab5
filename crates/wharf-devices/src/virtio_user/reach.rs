//! How a back end is found: by connecting to it, or by waiting until it does.

use std::io;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

/// Between two looks at whether somebody is there.
const NAP: Duration = Duration::from_millis(10);

/// Connects; as long as nobody listens, and it `may_wait`, again.
pub(super) fn connect(path: &Path, may_wait: impl Fn() -> bool) -> io::Result<UnixStream> {
    patiently(|| UnixStream::connect(path), |error| is_nobody(error) && may_wait())
}

/// Whether that is why nobody could be reached: nobody listens.
pub(super) fn is_nobody(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound)
}

/// Listens until somebody connects, as long as it `may_wait`. The socket's file is there as long as that takes.
pub(super) fn accept(path: &Path, may_wait: impl Fn() -> bool) -> io::Result<UnixStream> {
    // One that nobody listens at any more is in the way.
    if matches!(UnixStream::connect(path), Err(error) if error.kind() == io::ErrorKind::ConnectionRefused) {
        std::fs::remove_file(path)?;
    }
    let listener = UnixListener::bind(path)?;
    listener.set_nonblocking(true)?;
    let is_early = |error: &io::Error| error.kind() == io::ErrorKind::WouldBlock;
    let accepted = patiently(|| listener.accept(), |error| is_early(error) && may_wait());
    let _ = std::fs::remove_file(path);
    let (socket, _) = accepted?;
    socket.set_nonblocking(false)?;
    Ok(socket)
}

/// Tries again after a nap, as long as that may be.
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
