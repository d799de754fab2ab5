//! Unix sockets in the file system, and errors that describe another file found at a path.

use std::fs::Permissions;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, PermissionsExt, lchown};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

/// Longest path: the size of `sun_path` without the end (unix(7)).
const PATH_BYTES_MAX: usize = 107;

/// Listens as [`listen`] does, at a socket with this mode and group; `None` leaves either as it comes.
///
/// # Errors
/// Those of bind(2), chown(2) and chmod(2), after which no socket is left.
#[cfg(feature = "vhost")]
pub(crate) fn listen_as(path: &Path, mode: Option<u32>, group: Option<u32>) -> io::Result<UnixListener> {
    let listener = listen(path)?;
    give_to(path, mode, group)?;
    Ok(listener)
}

/// Works like [`listen_as`], for messages whose bounds are kept (`SOCK_SEQPACKET`).
///
/// # Errors
/// Those of [`listen_as`].
#[cfg(feature = "xdp")]
pub(crate) fn listen_seqpacket(
    path: &Path, mode: Option<u32>, group: Option<u32>,
) -> io::Result<UnixListener> {
    use wharf_sys::seqpacket;
    let listener = listen_by(path, seqpacket::listen, seqpacket::connect)?;
    give_to(path, mode, group)?;
    Ok(listener)
}

/// Sets the mode and the group of the socket at `path`, or removes it.
fn give_to(path: &Path, mode: Option<u32>, group: Option<u32>) -> io::Result<()> {
    // In this order the mode is never that of another group.
    let given = group.map_or(Ok(()), |group| lchown(path, None, Some(group)));
    let set = |mode| std::fs::set_permissions(path, Permissions::from_mode(mode));
    given.and_then(|()| mode.map_or(Ok(()), set)).inspect_err(|_| drop(std::fs::remove_file(path)))
}

/// Listens at `path`. A socket without a listener is replaced, and no other file.
///
/// # Errors
/// Those of bind(2), with advice if there is any.
#[cfg(feature = "vhost")]
pub(crate) fn listen(path: &Path) -> io::Result<UnixListener> {
    listen_by(path, |path| UnixListener::bind(path), |path| UnixStream::connect(path))
}

fn listen_by(
    path: &Path, bind: fn(&Path) -> io::Result<UnixListener>, connect: fn(&Path) -> io::Result<UnixStream>,
) -> io::Result<UnixListener> {
    let is_stale = || {
        let is_socket = std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
        // Connecting to another kind of file fails with the same error.
        is_socket && connect(path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
    };
    let listener = match bind(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse && is_stale() => {
            std::fs::remove_file(path)?;
            bind(path)
        }
        bound => bound,
    };
    listener.map_err(|error| said(path, error))
}

/// Connects to the listener at `path`.
///
/// # Errors
/// Those of connect(2), with advice if there is any.
#[cfg(feature = "vhost")]
pub(crate) fn connect(path: &Path) -> io::Result<UnixStream> {
    UnixStream::connect(path).map_err(|error| said(path, error))
}

/// Returns true if the error means that there is no listener yet.
#[cfg(feature = "vhost")]
pub(crate) fn has_no_listener(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound)
}

/// Returns advice for an error, if there is any.
fn said(path: &Path, error: io::Error) -> io::Error {
    use io::ErrorKind::{AddrInUse, AlreadyExists, ConnectionRefused, InvalidInput, NotFound};
    let bytes = path.as_os_str().as_bytes().len();
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty() && !parent.exists());
    let is_socket = std::fs::metadata(path).is_ok_and(|found| found.file_type().is_socket());
    let (kind, what) = match (error.kind(), directory) {
        (InvalidInput, _) if bytes > PATH_BYTES_MAX => {
            let what = format!("its path has {bytes} bytes: a socket's has {PATH_BYTES_MAX} at most");
            (InvalidInput, what)
        }
        (NotFound, Some(directory)) => {
            let shown = directory.display().to_string();
            (NotFound, format!("there is no directory {}", shown.escape_debug()))
        }
        (AddrInUse, _) if is_socket => {
            (AddrInUse, "another program listens there: end it, or choose another path".into())
        }
        (AddrInUse | ConnectionRefused, _) if !is_socket => {
            (AlreadyExists, "what is there is no socket: remove it, or choose another path".into())
        }
        _ => return error,
    };
    io::Error::new(kind, what)
}
