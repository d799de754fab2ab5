//! The thread that listens, or connects, and serves one connection's messages at a time.

use super::link::Link;
use super::session::Session;
use super::unserved::{BODY_BYTES_MAX, HEADER_BYTES, Unserved, word};
use super::{RETRY_NS, VhostUserOptions};
use crate::unix_socket::{self, Listening};
use std::fmt::Display;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use vhost::vhost_user::{BackendReqHandler, Error};
use wharf_mem::lock;
use wharf_sys::epoll::Epoll;
use wharf_sys::stream::{has_ended, peek, unread_bytes};
use wharf_sys::unix_socket::{Kind, inherited, listens};

/// Time that a program that has connected may take to send its first message: others wait for the socket meanwhile.
const FIRST_WITHIN: Duration = Duration::from_secs(2);
/// Time that the rest of a message may take to come.
const MESSAGE_WITHIN: Duration = Duration::from_secs(1);
/// Time between two looks for it.
const LOOK_AFTER: Duration = Duration::from_millis(1);

/// Time without a message after which the pairs that are open are all that a driver opens now.
const QUIET: Duration = Duration::from_millis(5);

/// Number of a request.
const SET_VRING_ENABLE: u32 = 18;

/// Keys in the set that the thread waits on.
const WAKE: u64 = 0;
const SOCKET: u64 = 1;

/// Source of connections.
#[derive(Debug)]
pub(super) enum Source {
    /// The listener, unless the line is down, and where it listens again; nowhere if it was inherited.
    Listener(Option<Listening>, Option<(PathBuf, VhostUserOptions)>),
    /// A path to connect to again, if there is one, and the first connection.
    Peer(Option<PathBuf>, Option<UnixStream>),
}

impl Source {
    /// Listens at `path`, with the mode and group of `options`; a socket without a listener is replaced. `fd=N` is
    /// a socket that this process was started with: a listener, or one connection.
    pub(super) fn listen(path: &Path, options: &VhostUserOptions) -> io::Result<Self> {
        let number = path.to_str().and_then(|path| path.strip_prefix("fd=")?.parse().ok());
        let (listening, place) = match number.map(inherited).transpose()? {
            None => (listening_at(path, options)?, Some((path.to_path_buf(), *options))),
            Some(socket) if listens(&socket)? => (Listening::inherited(socket.into()), None),
            Some(socket) => return Ok(Self::Peer(None, Some(socket.into()))),
        };
        listening.listener.set_nonblocking(true)?;
        Ok(Self::Listener(Some(listening), place))
    }

    /// True if the line can be taken down: there is a way back.
    pub(super) fn has_line(&self) -> bool {
        matches!(self, Self::Listener(_, Some(_)) | Self::Peer(Some(_), _))
    }

    /// Connects to the listener at `path`.
    pub(super) fn connect(path: &Path) -> io::Result<Self> {
        let stream = unix_socket::connect(path)?;
        Ok(Self::Peer(Some(path.to_path_buf()), Some(stream)))
    }

    /// Makes the set that notifies of connections. It is made once, so a lack of descriptors later does not
    /// end the device.
    ///
    /// # Errors
    /// Those of epoll(7).
    pub(super) fn set(&self, link: &Link) -> io::Result<Epoll> {
        set(link, self.listener())
    }

    /// Returns the next connection; `None` when the device closes, or there can be none any more.
    fn next(&mut self, link: &Link, waits: &Waits<'_>) -> Option<UnixStream> {
        let mut is_told = false;
        while !link.closes() {
            if link.is_down() {
                // Whoever connects is refused.
                if let Self::Listener(listening @ Some(_), Some(_)) = self {
                    *listening = None;
                }
                waits.wait(u64::MAX);
                continue;
            }
            let connected = match self {
                Self::Listener(Some(Listening { listener, .. }), _) => {
                    listener.accept().and_then(|(stream, _)| stream.set_nonblocking(false).map(|()| stream))
                }
                Self::Listener(listening, place) => match listen_again(place.as_ref(), waits) {
                    Ok(again) => {
                        *listening = Some(again);
                        continue;
                    }
                    Err(error) => Err(error),
                },
                Self::Peer(path, first) => match (first.take(), path) {
                    (Some(stream), _) => Ok(stream),
                    (None, Some(path)) => unix_socket::connect(path),
                    (None, None) => return None,
                },
            };
            match (connected, &self) {
                (Ok(stream), _) => return Some(stream),
                (Err(_), Self::Peer(..)) => waits.wait(RETRY_NS),
                (Err(error), _) if error.kind() == io::ErrorKind::WouldBlock => waits.wait(u64::MAX),
                // The process may be out of descriptors: not for good.
                (Err(error), _) => {
                    if !std::mem::replace(&mut is_told, true) {
                        let what = match self.listener() {
                            Some(_) => "cannot take a connection, which waits",
                            None => "cannot listen again",
                        };
                        link.fault(format!("{what}: {error}"));
                    }
                    waits.wait(RETRY_NS);
                }
            }
        }
        None
    }

    fn listener(&self) -> Option<&UnixListener> {
        match self {
            Self::Listener(listening, _) => listening.as_ref().map(|listening| &listening.listener),
            Self::Peer(..) => None,
        }
    }
}

fn listening_at(path: &Path, options: &VhostUserOptions) -> io::Result<Listening> {
    let listening = Listening::at(path, Kind::Stream, options.mode, options.group)?;
    listening.listener.set_nonblocking(true)?;
    Ok(listening)
}

/// Listens at a place where the line was down.
fn listen_again(place: Option<&(PathBuf, VhostUserOptions)>, waits: &Waits<'_>) -> io::Result<Listening> {
    let (path, options) = place.ok_or(io::ErrorKind::NotFound)?;
    let listening = listening_at(path, options)?;
    waits.set.add(listening.listener.as_raw_fd(), SOCKET, true)?;
    Ok(listening)
}

/// The thread's wait set: a wake-up from the other threads, and events of a socket.
struct Waits<'a> {
    set: Epoll,
    link: &'a Link,
}

impl<'a> Waits<'a> {
    fn new(link: &'a Link, socket: &impl AsRawFd) -> io::Result<Self> {
        Ok(Self { set: set(link, Some(socket))?, link })
    }

    fn wait(&self, timeout_ns: u64) {
        self.set.wait(timeout_ns);
        self.set.take_events(|_| {});
        self.link.wake.clear();
    }
}

fn set(link: &Link, socket: Option<&impl AsRawFd>) -> io::Result<Epoll> {
    let set = Epoll::new()?;
    set.add(link.wake.as_fd().as_raw_fd(), WAKE, true)?;
    if let Some(socket) = socket {
        set.add(socket.as_raw_fd(), SOCKET, true)?;
    }
    Ok(set)
}

/// The thread: serves one connection after the other, of which `set` notifies, until the device closes, or no
/// other can come.
pub(super) fn run(link: &Arc<Link>, mut source: Source, set: Epoll, withheld: u64) {
    let waits = Waits { set, link };
    while let Some(stream) = source.next(link, &waits) {
        let first_within = source.listener().map(|_| FIRST_WITHIN);
        if let Err(what) = contained(|| connection(link, &stream, withheld, first_within)) {
            link.fault(what);
        }
        link.set_stream(None);
        link.reset();
    }
    link.end();
}

/// Serves a connection. A panic of that ends the connection, and not the device.
fn contained(serve: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    // All that a connection leaves behind is reset.
    catch_unwind(AssertUnwindSafe(serve)).unwrap_or_else(|_| Err(closed("a fault of this program (panic)")))
}

fn connection(
    link: &Arc<Link>, stream: &UnixStream, withheld: u64, first_within: Option<Duration>,
) -> Result<(), String> {
    link.set_stream(Some(stream.try_clone().map_err(closed)?));
    let waits = Waits::new(link, stream).map_err(closed)?;
    let first_until = first_within.map(|time| Instant::now() + time);
    let wait = |has_spoken: bool, is_unsettled: bool| {
        let until = first_until.filter(|_| !has_spoken);
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        if left == Some(Duration::ZERO) {
            return Err(closed(format_args!("it has sent nothing for {} s", FIRST_WITHIN.as_secs())));
        }
        let left = left.into_iter().chain(is_unsettled.then_some(QUIET)).min();
        waits.wait(left.map_or(u64::MAX, |left| left.as_nanos() as u64));
        Ok(())
    };
    serve(link, stream, withheld, wait)
}

/// Serves one connection's messages until it ends, which is no error if the other side ended it between two
/// messages. Waits for more by `wait`, which is told whether one has come, and whether something is due
/// after [`QUIET`].
pub(super) fn serve(
    link: &Arc<Link>, stream: &UnixStream, withheld: u64, wait: impl Fn(bool, bool) -> Result<(), String>,
) -> Result<(), String> {
    let session = Arc::new(Mutex::new(Session::new(link.clone(), withheld)));
    let mut handler = BackendReqHandler::from_stream(stream.try_clone().map_err(closed)?, session.clone());
    let (mut has_spoken, mut spoke_at) = (false, Instant::now());
    while !link.closes() && !link.hangs_up() {
        let request = match await_message(link, stream)? {
            Message::Whole(request) => request,
            Message::Ended => return Ok(()),
            Message::None => {
                if spoke_at.elapsed() >= QUIET {
                    settle(link, &mut lock(&session))?;
                }
                wait(has_spoken, link.is_unsettled() || lock(&session).rests())?;
                continue;
            }
        };
        let (is_early, is_served) = {
            let mut session = lock(&session);
            end_rest(&mut session, Some(request))?;
            (request == SET_VRING_ENABLE && session.enables_early(), session.serves(request))
        };
        let handled = match (is_early, is_served) {
            (true, _) => Unserved::read(stream).and_then(|message| message.enable_early(stream, &session)),
            (false, true) => handler.handle_request(),
            (false, false) => Unserved::read(stream).and_then(|message| message.carry_out(stream, &session)),
        };
        spoke_at = Instant::now();
        match handled {
            Ok(()) if !has_spoken => {
                has_spoken = true;
                link.note_driver();
            }
            // A request that is declined leaves words.
            Ok(()) => drop(lock(&session).take_fault()),
            Err(_) if link.closes() || link.is_down() => return Ok(()),
            Err(error) => {
                let fault = lock(&session).take_fault();
                return Err(match (fault, error) {
                    (Some(fault), _) => closed(fault),
                    (None, Error::Disconnected) => return Ok(()),
                    // The other side left before it was answered.
                    (None, Error::SocketBroken(error)) if is_gone(&error) => return Ok(()),
                    (None, error) => closed(format_args!("message of request {request}: {error}")),
                });
            }
        }
    }
    Ok(())
}

/// No message has come for [`QUIET`]: has frames go by all that is open now.
fn settle(link: &Link, session: &mut Session) -> Result<(), String> {
    end_rest(session, None)?;
    if link.is_unsettled() {
        link.settle();
    }
    Ok(())
}

fn end_rest(session: &mut Session, request: Option<u32>) -> Result<(), String> {
    session
        .end_rest(request)
        .map_err(|error| closed(session.take_fault().unwrap_or_else(|| error.to_string())))
}

fn closed(why: impl Display) -> String {
    format!("the connection is closed: {why}")
}

fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}

/// Outcome of a look for a message.
enum Message {
    /// A request of this number.
    Whole(u32),
    /// No message yet.
    None,
    /// No message, and none will come.
    Ended,
}

/// Looks for a message, and waits for the rest of one that has begun: its reader would wait for ever.
fn await_message(link: &Link, stream: &UnixStream) -> Result<Message, String> {
    let mut header = [0; HEADER_BYTES];
    let mut until = None;
    loop {
        let is_all = has_ended(stream.as_fd());
        let came = match peek(stream.as_fd(), &mut header) {
            Ok(None) => return Ok(Message::None),
            Ok(Some(0)) => return Ok(Message::Ended),
            Ok(Some(came)) => came,
            Err(error) if is_gone(&error) => return Ok(Message::Ended),
            Err(error) => return Err(closed(error)),
        };
        let (request, body_bytes) = (word(&header, 0), word(&header, 8) as usize);
        let unread = unread_bytes(stream.as_fd()).map_err(closed)?;
        // The reader rejects a message that is too long, by its header.
        if came == HEADER_BYTES && (body_bytes > BODY_BYTES_MAX || unread >= HEADER_BYTES + body_bytes) {
            return Ok(Message::Whole(request));
        }
        let until = *until.get_or_insert_with(|| Instant::now() + MESSAGE_WITHIN);
        if is_all || Instant::now() >= until || link.closes() {
            return Err(closed(format_args!("a message was cut short, after {unread} bytes")));
        }
        std::thread::sleep(LOOK_AFTER);
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_panic_ends_its_connection_with_a_word() {
        assert_eq!(super::contained(|| Ok(())), Ok(()));
        let fault = super::contained(|| panic!("in a test")).unwrap_err();
        assert_eq!(fault, "the connection is closed: a fault of this program (panic)");
    }
}
