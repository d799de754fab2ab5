//! `Notifier`: messages to the service manager, as `sd_notify(3)` sends them: a datagram each, of lines `NAME=VALUE`.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// See the module.
#[derive(Debug)]
pub(super) struct Notifier {
    socket: UnixDatagram,
    manager: SocketAddr,
}

impl Notifier {
    /// Returns the one that `NOTIFY_SOCKET` names.
    pub(super) fn of_environment() -> Option<Self> {
        Self::to(&std::env::var_os("NOTIFY_SOCKET")?).ok()
    }

    /// `place` is a path, or behind `@` an abstract name: unix(7).
    fn to(place: &OsStr) -> io::Result<Self> {
        let manager = match place.as_bytes().strip_prefix(b"@") {
            Some(name) => SocketAddr::from_abstract_name(name)?,
            None => SocketAddr::from_pathname(place)?,
        };
        let socket = UnixDatagram::unbound()?;
        // A manager that reads no messages holds up no run.
        socket.set_nonblocking(true)?;
        Ok(Self { socket, manager })
    }

    /// Sends a message. The manager may be gone, or have no room for it: there is nothing to do then.
    pub(super) fn tell(&self, message: &str) {
        let _ = self.socket.send_to_addr(message.as_bytes(), &self.manager);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_reach_a_path_and_an_abstract_name() {
        let folder = std::env::temp_dir();
        let path = folder.join(format!("wharf-notify-{}", std::process::id()));
        let name = format!("wharf-notify-{}", std::process::id());
        let abstract_name = SocketAddr::from_abstract_name(&name).unwrap();
        let listeners =
            [UnixDatagram::bind(&path).unwrap(), UnixDatagram::bind_addr(&abstract_name).unwrap()];
        for (place, listener) in
            [path.clone().into_os_string(), format!("@{name}").into()].iter().zip(listeners)
        {
            let notifier = Notifier::to(place).unwrap();
            notifier.tell("READY=1");
            let mut bytes = [0; 64];
            let count = listener.recv(&mut bytes).unwrap();
            assert_eq!(&bytes[..count], b"READY=1", "{place:?}");
            drop(listener);
            notifier.tell("STOPPING=1");
        }
        std::fs::remove_file(path).unwrap();
        assert!(Notifier::to(OsStr::new("/no\0path")).is_err());
    }
}
