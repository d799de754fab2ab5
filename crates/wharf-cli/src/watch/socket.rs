//! Sockets of a run, which only its user may connect to.

use anyhow::anyhow;
use std::io::ErrorKind;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use wharf_sys::unix_socket::{self, Access, Kind, SocketFile};

/// Listens at the socket `path`, with mode 0600. A socket that a killed process has left is replaced. Returns
/// the file, too.
pub(super) fn bind_private(path: &Path) -> anyhow::Result<(UnixListener, SocketFile)> {
    unix_socket::listen(path, Kind::Stream, Access::Private).map_err(|error| match error.kind() {
        ErrorKind::AddrInUse if is_socket(path) => anyhow!("another process listens there: name another"),
        ErrorKind::AddrInUse => anyhow!("it is there, and no socket: name another"),
        _ => anyhow::Error::new(error).context("cannot listen there"),
    })
}

fn is_socket(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|there| there.file_type().is_socket())
}

/// True if no process listens at the socket `path` any more.
pub(super) fn is_left_over(path: &Path) -> bool {
    unix_socket::is_left_over(path, Kind::Stream)
}
