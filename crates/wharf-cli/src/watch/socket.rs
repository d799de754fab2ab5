//! Sockets of a run, which only its user may connect to.

use anyhow::{Context, bail};
use rustix::fs::Mode;
use std::io::ErrorKind;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

/// Listens at the socket `path`, with mode 0600. A socket that a killed process has left is removed first.
pub(super) fn bind_private(path: &Path) -> anyhow::Result<UnixListener> {
    match std::fs::symlink_metadata(path) {
        Ok(there) if !there.file_type().is_socket() => bail!("it is there, and no socket: name another"),
        Ok(_) if !is_left_over(path) => bail!("another process listens there: name another"),
        Ok(_) => {
            std::fs::remove_file(path).context("a killed process has left it, and it cannot be removed")?
        }
        Err(_) => {}
    }
    // The mode of a socket is that of all files that the process creates. No other thread of this process creates any now.
    let before = rustix::process::umask(Mode::from_raw_mode(0o177));
    let bound = UnixListener::bind(path);
    rustix::process::umask(before);
    bound.context("cannot listen there")
}

/// True if no process listens at the socket `path` any more.
pub(super) fn is_left_over(path: &Path) -> bool {
    UnixStream::connect(path).is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
}
