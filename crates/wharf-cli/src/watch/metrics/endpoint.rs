//! The place of `--metrics`: an address, or a socket.

use crate::output::note;
use crate::watch::socket::bind_private;
use std::fmt::{Display, Formatter};
use std::io::ErrorKind;
use std::net::{self, SocketAddr};
use std::path::PathBuf;
use tokio::net::{TcpListener, UnixListener};
use wharf_sys::unix_socket::SocketFile;

/// The place to listen at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Endpoint {
    Address(SocketAddr),
    Socket(PathBuf),
}

/// A socket that listens.
pub(super) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Endpoint {
    /// Reads `ADDRESS:PORT` or the path of a socket.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text.contains('/') {
            return Ok(Self::Socket(text.into()));
        }
        let address = text.replace("localhost:", "127.0.0.1:").parse().map(Self::Address);
        address.map_err(|_| {
            "want ADDRESS:PORT, such as 127.0.0.1:9100 or [::1]:9100, or the path of a socket, such as /run/x.sock".into()
        })
    }
}

impl Display for Endpoint {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Socket(path) => path.display().fmt(f),
        }
    }
}

/// Listens at `endpoint`, within a runtime. Returns the file of a socket, too.
pub(super) fn bind(endpoint: &Endpoint) -> anyhow::Result<(Listener, Option<SocketFile>)> {
    match endpoint {
        Endpoint::Address(address) => {
            let listener = net::TcpListener::bind(address).map_err(|error| match error.kind() {
                ErrorKind::AddrInUse => anyhow::anyhow!("another program listens there: name another port"),
                _ => error.into(),
            })?;
            listener.set_nonblocking(true)?;
            if address.port() == 0 {
                note(&format!("metrics at http://{}/metrics", listener.local_addr()?));
            }
            Ok((Listener::Tcp(TcpListener::from_std(listener)?), None))
        }
        Endpoint::Socket(path) => {
            let (listener, file) = bind_private(path)?;
            listener.set_nonblocking(true)?;
            Ok((Listener::Unix(UnixListener::from_std(listener)?), Some(file)))
        }
    }
}
