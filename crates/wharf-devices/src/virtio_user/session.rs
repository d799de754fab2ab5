//! `Session`: the connection to a back end, and the agreed features (QEMU, docs/interop/vhost-user.rst).

mod start;

pub use start::Queue;
pub(super) use start::Shared;

use super::VirtioUserOptions;
use super::connect::{accept, connect};
use super::timeout::Timeout;
use crate::iface::io_fault;
use crate::virtio::{Layout, feature};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use vhost::VhostBackend;
use vhost::vhost_user::message::{VhostUserHeaderFlag, VhostUserProtocolFeatures};
use vhost::vhost_user::{Frontend, VhostUserFrontend};
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};
use wharf_core::device::DeviceError;
use wharf_sys::epoll::Epoll;
use wharf_sys::event::take_shared;
use wharf_sys::stream;

/// Time to stop a back end that only holds copies: none of our memory depends on its answer.
const STOPS_WITHIN: Duration = Duration::from_millis(100);
/// Time until a back end listens, or, with `server=on`, connects.
const LISTEN_WITHIN: Duration = Duration::from_millis(500);
const CONNECT_WITHIN: Duration = Duration::from_secs(60);

/// Virtqueues of a queue pair: the first receives, the second transmits (virtio 1.2, section 5.1.2).
pub(super) const RECEIVE: usize = 0;
pub(super) const TRANSMIT: usize = 1;
const QUEUES: usize = 2;

/// Number of the request for the number of queue pairs.
const GET_QUEUE_NUM: u32 = 17;

/// Features that are taken if offered, and not needed.
const WELCOME: u64 = feature::INDIRECT | feature::EVENT_IDX | feature::VHOST_PROTOCOL;
/// Features that leave work to the back end, by default.
const OFFLOADS: u64 =
    feature::CSUM | feature::HOST_TSO4 | feature::HOST_TSO6 | feature::HOST_ECN | feature::HOST_USO;

/// The descriptor that becomes readable when there is something to do, on any connection.
#[derive(Debug)]
pub(super) struct Events {
    /// Signals of the back end.
    call: EventFd,
    /// Signals of news about a connection.
    news: EventFd,
    /// Readable when either was signalled, or the connection ends.
    set: Epoll,
}

impl Events {
    fn new() -> io::Result<Self> {
        let (call, news, set) = (EventFd::new(EFD_NONBLOCK)?, EventFd::new(EFD_NONBLOCK)?, Epoll::new()?);
        set.add(call.as_raw_fd(), 0, true)?;
        set.add(news.as_raw_fd(), 1, true)?;
        Ok(Self { call, news, set })
    }

    /// Signals news.
    pub(super) fn tell(&self) {
        // A counter that is full is readable.
        let _ = self.news.write(1);
    }

    pub(super) fn wait_fd(&self) -> RawFd {
        self.set.as_raw_fd()
    }

    /// Returns the number of signals of the back end since the last call.
    pub(super) fn take_calls(&self) -> u64 {
        take_shared(self.call.as_raw_fd())
    }

    /// Makes it unreadable, once the calls are taken.
    pub(super) fn clear(&self) {
        self.set.take_events(|_| {});
    }
}

/// The place of back ends, and the settings.
#[derive(Debug, Clone)]
pub(super) struct Endpoint {
    pub(super) name: String,
    path: PathBuf,
    pub(super) options: VirtioUserOptions,
    pub(super) events: Arc<Events>,
}

impl Endpoint {
    pub(super) fn new(name: String, path: PathBuf, options: VirtioUserOptions) -> Result<Self, DeviceError> {
        let events = Events::new().map_err(io_fault(&name, "cannot set up its descriptors")).map(Arc::new)?;
        Ok(Self { name, path, options, events })
    }

    /// Returns a connection to the next back end; waits while there is none and `may_wait` is true.
    pub(super) fn connect(&self, may_wait: impl Fn() -> bool) -> Result<UnixStream, DeviceError> {
        let fault = |what: &str| io_fault(&self.name, what);
        match self.options.server {
            false => connect(&self.path, may_wait).map_err(fault("cannot connect to a back end")),
            true => accept(&self.path, may_wait).map_err(fault("no back end has connected")),
        }
    }

    /// Works like [`Endpoint::connect`], with the time limit for opening a device.
    pub(super) fn connect_soon(&self) -> Result<UnixStream, DeviceError> {
        let until = Instant::now() + if self.options.server { CONNECT_WITHIN } else { LISTEN_WITHIN };
        self.connect(|| Instant::now() < until)
    }
}

pub(super) struct Session {
    name: String,
    frontend: Frontend,
    /// The same connection, to check that it still stands.
    socket: UnixStream,
    pub(super) features: u64,
    /// The back end records what is in flight.
    pub(super) records: bool,
    pairs: u16,
    answers_within: Duration,
    events: Arc<Events>,
    /// True if the back end took too long for its answers and was cut off.
    is_late: Arc<AtomicBool>,
}

impl Drop for Session {
    fn drop(&mut self) {
        // The number was put in there.
        let _ = self.events.set.remove(self.socket.as_raw_fd());
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Session({}, features {:#x})", self.name, self.features)
    }
}

impl Session {
    /// Agrees on features with the back end at the other end of `socket`; on the features `before`, if there
    /// was an earlier one.
    pub(super) fn open(
        endpoint: &Endpoint, socket: UnixStream, before: Option<u64>,
    ) -> Result<Self, DeviceError> {
        let (name, events) = (endpoint.name.clone(), endpoint.events.clone());
        let VirtioUserOptions { pairs, answers_within, .. } = endpoint.options;
        let made = || -> io::Result<_> {
            let ours = socket.try_clone()?;
            events.set.add(ours.as_raw_fd(), 2, true)?;
            Ok(ours)
        };
        let ours = made().map_err(io_fault(&name, "cannot set up its descriptors"))?;
        let frontend = Frontend::from_stream(socket, (usize::from(pairs) * QUEUES) as u64);
        let is_late = Arc::default();
        let (features, records) = (0, false);
        let mut session =
            Self { name, frontend, socket: ours, features, records, pairs, answers_within, events, is_late };
        let _patience = session.patience(answers_within)?;
        session.negotiate(&endpoint.options, before)?;
        Ok(session)
    }

    fn refused<E: std::error::Error + Send + Sync + 'static>(
        &self, what: &'static str,
    ) -> impl Fn(E) -> DeviceError {
        let (name, is_late) = (self.name.clone(), self.is_late.clone());
        move |error| match is_late.load(Ordering::Acquire) {
            false => io_fault(&name, &format!("the back end refuses {what}"))(io::Error::other(error)),
            true => io_fault(&name, "the back end does not answer")(io::ErrorKind::TimedOut.into()),
        }
    }

    /// Starts the time limit for the back end's answers.
    fn patience(&self, time: Duration) -> Result<Timeout, DeviceError> {
        let patience = Timeout::new(&self.socket, time, &self.is_late);
        patience.map_err(io_fault(&self.name, "no thread to watch over its back end"))
    }

    fn unsupported(&self, what: String) -> DeviceError {
        DeviceError::Unsupported { device: self.name.clone(), what }
    }

    fn negotiate(&mut self, options: &VirtioUserOptions, before: Option<u64>) -> Result<(), DeviceError> {
        self.frontend.set_owner().map_err(self.refused("an owner"))?;
        let offered = self.frontend.get_features().map_err(self.refused("to say what it can"))?;
        self.features = self.choose(options, offered)?;
        if let Some(before) = before {
            let missing = before & !offered;
            if missing != 0 {
                let what =
                    format!("the back end does not offer features {missing:#x}, as the one before it did");
                return Err(self.unsupported(what));
            }
            // The device's properties are fixed once a queue uses it.
            self.features = before;
        }
        if self.features & feature::VHOST_PROTOCOL != 0 {
            self.negotiate_protocol(options.reconnect)?;
        }
        self.frontend.set_features(self.features).map_err(self.refused("features that it offers"))
    }

    /// Returns the wanted ones of the features `offered`.
    fn choose(&self, options: &VirtioUserOptions, offered: u64) -> Result<u64, DeviceError> {
        let wanted = [
            (feature::VERSION_1, true, "virtio 1.0"),
            (feature::PACKED, options.packed, "packed=on"),
            (feature::IN_ORDER, options.in_order == Some(true), "in_order=on"),
            (feature::MRG_RXBUF, options.mrg_rxbuf == Some(true), "mrg_rxbuf=on"),
            // The control queue, by which a driver chooses the number of pairs, ends at the front end: here.
            (feature::MQ | feature::VHOST_PROTOCOL, options.pairs > 1, "several queue pairs"),
        ];
        let lacking = wanted.iter().find(|(bits, is_wanted, _)| *is_wanted && offered & bits != *bits);
        if let Some((_, _, what)) = lacking {
            return Err(self.unsupported(format!("the back end does not offer {what}")));
        }
        let bits = wanted.iter().filter(|want| want.1).fold(0, |bits, want| bits | want.0);
        let mergeable = if options.mrg_rxbuf == Some(false) { 0 } else { feature::MRG_RXBUF };
        let in_order = if options.in_order == Some(false) { 0 } else { feature::IN_ORDER };
        let offloads = if options.offload { OFFLOADS } else { 0 };
        Ok(offered & (bits | WELCOME | mergeable | in_order | offloads))
    }

    fn negotiate_protocol(&mut self, reconnects: bool) -> Result<(), DeviceError> {
        let can = self.frontend.get_protocol_features().map_err(self.refused("to say what it can"))?;
        let mut wanted = VhostUserProtocolFeatures::REPLY_ACK;
        wanted.set(VhostUserProtocolFeatures::MQ, self.pairs > 1);
        wanted.set(VhostUserProtocolFeatures::INFLIGHT_SHMFD, reconnects);
        wanted &= can;
        self.records = wanted.contains(VhostUserProtocolFeatures::INFLIGHT_SHMFD);
        self.frontend.set_protocol_features(wanted).map_err(self.refused("protocol features"))?;
        if self.pairs > 1 {
            let pairs = self.ask_for_pairs().map_err(self.refused("to say how many queue pairs it has"))?;
            if pairs < self.pairs.into() {
                let what = format!("the back end has {pairs} queue pairs: {} are wanted", self.pairs);
                return Err(self.unsupported(what));
            }
        }
        if wanted.contains(VhostUserProtocolFeatures::REPLY_ACK) {
            self.frontend.set_hdr_flags(VhostUserHeaderFlag::NEED_REPLY);
        }
        Ok(())
    }

    /// Returns the back end's number of queue pairs. `Frontend` would take the answer for its number of
    /// virtqueues, which is twice that.
    fn ask_for_pairs(&self) -> io::Result<u64> {
        const REPLY: u32 = 1 | 4;
        let mut socket = &self.socket;
        let words = |words: [u32; 3]| words.map(u32::to_ne_bytes).concat();
        socket.write_all(&words([GET_QUEUE_NUM, 1, 0]))?;
        let (mut header, mut pairs) = ([0; 12], [0; 8]);
        socket.read_exact(&mut header)?;
        if header[..] != words([GET_QUEUE_NUM, REPLY, 8]) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "that is no answer to what it was asked"));
        }
        socket.read_exact(&mut pairs)?;
        Ok(u64::from_ne_bytes(pairs))
    }

    pub(super) fn layout(&self) -> Layout {
        if self.features & feature::PACKED != 0 { Layout::Packed } else { Layout::Split }
    }

    /// Stops the virtqueues: a back end that keeps to the rules then touches neither them nor our memory.
    pub(super) fn stop(&self, has_copies: bool) -> bool {
        // Without that it might never come back.
        let time = if has_copies { STOPS_WITHIN } else { self.answers_within };
        let Ok(_patience) = self.patience(time) else { return false };
        (0..QUEUES * usize::from(self.pairs)).all(|index| self.frontend.get_vring_base(index).is_ok())
    }

    /// Returns true if the connection stands. Words that nothing has asked for may be unread in front of its end.
    pub(super) fn is_alive(&self) -> bool {
        !stream::has_ended(self.socket.as_fd())
    }
}
