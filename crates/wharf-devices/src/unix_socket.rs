//! Unix sockets in the file system, and errors that describe another file found at a path.

use std::io;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixListener;
#[cfg(feature = "vhost")]
use std::os::unix::net::UnixStream;
use std::path::Path;
use wharf_sys::unix_socket::{self, Access, Kind, SocketFile};

/// A listener, whose file is removed with it unless another one is there by then.
#[derive(Debug)]
pub(crate) struct Listening {
    pub(crate) listener: UnixListener,
    /// None if this process was started with the listener.
    file: Option<SocketFile>,
}

impl Listening {
    /// Listens at `path`. A socket without a listener is replaced, and no other file. The socket has this
    /// mode and group: without either those that it comes with, with a group alone mode 660.
    ///
    /// # Errors
    /// Those of bind(2), with advice if there is any, after which no socket is left; with a mode or a group
    /// the folder may be refused.
    pub(crate) fn at(path: &Path, kind: Kind, mode: Option<u32>, group: Option<u32>) -> io::Result<Self> {
        let mode = mode.or(group.map(|_| 0o660));
        let access = mode.map_or(Access::Umask, |mode| Access::Mode(mode, group));
        let listening = unix_socket::listen(path, kind, access);
        listening
            .map(|(listener, file)| Self { listener, file: Some(file) })
            .map_err(|error| said(path, error))
    }

    /// Takes a listener that this process was started with.
    #[cfg(feature = "vhost")]
    pub(crate) fn inherited(listener: UnixListener) -> Self {
        Self { listener, file: None }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.file.iter().for_each(SocketFile::remove);
    }
}

/// Connects to the listener at `path`.
///
/// # Errors
/// Those of connect(2), with advice if there is any.
#[cfg(feature = "vhost")]
pub(crate) fn connect(path: &Path) -> io::Result<UnixStream> {
    unix_socket::connect(path, Kind::Stream).map_err(|error| said(path, error))
}

/// Returns true if the error means that there is no listener yet.
#[cfg(feature = "vhost")]
pub(crate) fn has_no_listener(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound)
}

/// Returns advice for an error, if there is any.
fn said(path: &Path, error: io::Error) -> io::Error {
    use io::ErrorKind::{AddrInUse, AlreadyExists, ConnectionRefused, NotFound};
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty() && !parent.exists());
    let is_socket = std::fs::metadata(path).is_ok_and(|found| found.file_type().is_socket());
    let (kind, what) = match (error.kind(), directory) {
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
