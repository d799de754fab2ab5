//! A privileged helper of AF_XDP sockets: the messages, and a user's side.
//!
//! The helper attaches the program of an interface, and gives its map of sockets to processes that may not load one. The messages
//! are those of the AF_XDP device plug-in for Kubernetes (`intel/afxdp-plugins-for-kubernetes`, DPDK's `use_cni`), with two more:
//!
//! | request | answer |
//! |---|---|
//! | `/connect,NAME` | `/host_ok`, or `/host_nak` |
//! | `/version` | `0.1` |
//! | `/xsk_map_fd,INTERFACE` | `/fd_ack` with the XSKMAP, or `/fd_nak` |
//! | `/xsk_socket,INTERFACE` | `/fd_ack` with an AF_XDP socket, or `/fd_nak`: Wharf's own, for processes without CAP_NET_RAW |
//! | `/fin` | `/fin_ack` |
//! | `/stay` | `/stay_ack`, and the helper hangs up when it ends, or `/nak`: Wharf's own, too |
//! | any other | `/nak` |
//!
//! A message is a packet of a `SOCK_SEQPACKET` socket, of at most `MESSAGE_BYTES_MAX` bytes. A user reads a descriptor before it asks for
//! the next: a user that leaves them unread is let go, since the kernel counts them towards the helper's.

mod guests;
mod server;

pub use server::{Helper, HelperOptions};

use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};
use vmm_sys_util::sock_ctrl_msg::ScmSocket;
use wharf_sys::stream::has_ended;
use wharf_sys::unix_socket::{self, Kind};
use wharf_sys::xdp::{SocketMap, XdpSocket};

/// Longest message: a request with the longest name of a host.
const MESSAGE_BYTES_MAX: usize = 128;
/// Further attempts after the helper has hung up, and the time between two.
const ATTEMPTS: u32 = 20;
const PAUSE: Duration = Duration::from_millis(50);
/// Longest wait for a descriptor, all attempts together.
const PATIENCE: Duration = Duration::from_secs(5);

const CONNECT: &str = "/connect";
const HOST_OK: &str = "/host_ok";
const VERSION: &str = "/version";
const VERSION_IS: &str = "0.1";
const MAP: &str = "/xsk_map_fd";
const SOCKET: &str = "/xsk_socket";
const FD_ACK: &str = "/fd_ack";
const FD_NAK: &str = "/fd_nak";
const FIN: &str = "/fin";
const FIN_ACK: &str = "/fin_ack";
const NAK: &str = "/nak";
const STAY: &str = "/stay";
const STAY_ACK: &str = "/stay_ack";

/// A connection that lasts as long as the helper.
#[derive(Debug)]
pub(super) struct Presence(UnixStream);

impl Presence {
    /// True if the helper has ended, and its program with it.
    pub(super) fn is_over(&self) -> bool {
        has_ended(self.0.as_fd())
    }
}

/// Asks the helper at `path` for the map of sockets of `interface`. Returns it with the helper's presence, if the helper is Wharf's.
///
/// # Errors
/// Those of connecting; `NotFound` if the helper does not serve the interface; `InvalidData` for an answer that is none.
pub(super) fn map(path: &Path, interface: &str) -> io::Result<(SocketMap, Option<Presence>)> {
    let (fd, stream) = ask(path, MAP, interface)?;
    let stays = exchange(&stream, STAY).is_ok_and(|(answer, _)| answer == STAY_ACK);
    Ok((SocketMap::of(fd)?, stays.then_some(Presence(stream))))
}

/// Asks the helper at `path` for an AF_XDP socket in the network namespace of `interface`.
///
/// # Errors
/// Those of [`map`]; `Unsupported` if the helper gives no sockets.
pub(super) fn socket(path: &Path, interface: &str) -> io::Result<XdpSocket> {
    let (fd, stream) = ask(path, SOCKET, interface)?;
    // Its answer tells nothing more.
    let _ = send(&stream, FIN);
    XdpSocket::of(fd)
}

/// Asks for a descriptor; returns it with the connection. Asks anew where a helper with many users has hung up.
fn ask(path: &Path, what: &str, interface: &str) -> io::Result<(OwnedFd, UnixStream)> {
    let (mut attempts, until) = (0..ATTEMPTS, Instant::now() + PATIENCE);
    loop {
        match ask_once(path, what, interface, until) {
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset
                ) && Instant::now() < until
                    && attempts.next().is_some() =>
            {
                std::thread::sleep(PAUSE);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    format!("no answer within {PATIENCE:?}"),
                ));
            }
            asked => return asked,
        }
    }
}

fn ask_once(path: &Path, what: &str, interface: &str, until: Instant) -> io::Result<(OwnedFd, UnixStream)> {
    let stream = unix_socket::connect(path, Kind::Seqpacket).map_err(|error| match error.kind() {
        kind @ (io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => io::Error::new(
            kind,
            format!("nothing listens there: `sudo wharf admin helper {interface} --socket ...` does"),
        ),
        _ => error,
    })?;
    let exchange = |request: &str| {
        // A timeout of zero would be an error.
        let left = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        stream.set_read_timeout(Some(left))?;
        stream.set_write_timeout(Some(left))?;
        exchange(&stream, request)
    };
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let (answer, _) = exchange(&format!("{CONNECT},{}", host.trim()))?;
    if answer != HOST_OK {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "the helper does not serve this host"));
    }
    match exchange(&format!("{what},{interface}"))? {
        (answer, Some(fd)) if answer == FD_ACK => Ok((fd, stream)),
        (answer, _) if answer == FD_NAK => {
            Err(io::Error::new(io::ErrorKind::NotFound, "the helper does not serve this interface"))
        }
        (answer, _) if answer == NAK => {
            Err(io::Error::new(io::ErrorKind::Unsupported, format!("the helper does not know {what}")))
        }
        (answer, _) => {
            let what = format!("\"{}\" came from the helper, without a descriptor", answer.escape_debug());
            Err(io::Error::new(io::ErrorKind::InvalidData, what))
        }
    }
}

/// Reads a request; `None` at the end. The kernel closes descriptors that come with it.
fn request(mut stream: &UnixStream) -> io::Result<Option<String>> {
    let mut bytes = [0; MESSAGE_BYTES_MAX];
    let count = stream.read(&mut bytes)?;
    Ok((count > 0).then(|| text(&bytes[..count])))
}

/// Sends a request, and reads its answer.
fn exchange(stream: &UnixStream, request: &str) -> io::Result<(String, Option<OwnedFd>)> {
    send(stream, request)?;
    receive(stream)?.ok_or_else(|| io::Error::new(io::ErrorKind::UnexpectedEof, "the helper has hung up"))
}

fn send(stream: &UnixStream, message: &str) -> io::Result<()> {
    stream.send_with_fds(&[message.as_bytes()], &[]).map(drop).map_err(io::Error::from)
}

/// Reads an answer, and the descriptor that came with it; `None` at the end.
fn receive(stream: &UnixStream) -> io::Result<Option<(String, Option<OwnedFd>)>> {
    let mut bytes = [0; MESSAGE_BYTES_MAX];
    let (count, file) = stream.recv_with_fd(&mut bytes)?;
    // The duplicate is closed on exec, which the one that came is not.
    let fd = file.map(|file| file.try_clone().map(OwnedFd::from)).transpose()?;
    Ok((count > 0).then(|| (text(&bytes[..count]), fd)))
}

/// Returns the text of a message. Some peers end it with a zero.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim_end_matches('\0').to_string()
}
