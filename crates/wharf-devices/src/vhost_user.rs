//! `vhost-user:SOCKET`: the device side of virtio-net, for a virtual machine or any other driver that shares
//! its memory over a socket (virtio 1.2, section 5.1; QEMU, docs/interop/vhost-user.rst).
//!
//! A thread serves the messages (`control`, `session`): they announce the driver's memory, and its virtqueues
//! therein (`vring`). The thread that moves frames takes a virtqueue's lock once per batch (`link`), copies
//! frames into the driver's buffers (`sending`) or out of them (`receiving`), and uses each buffer at once.
//! So no buffer is ever held in a virtqueue: it can be left and resumed at any time. Where it stands, a split
//! ring shows; a packed one does not always, and then the front end's table of what is in flight does
//! ([`crate::virtio::InflightTable`]).
//!
//! The other side is not trusted: addresses are looked up and lengths checked each time, and a value is read
//! once and then used. A driver that breaks the rules of its virtqueue loses that virtqueue until it sets it
//! up anew. One that breaks the rules of the messages loses its connection. [`RxDevice::receive`] or
//! [`TxDevice::reap`] reports either as an error, and the device goes on.
//!
//! A driver that truncates the file behind its memory would end the process by `SIGBUS`. The device seals
//! each file against that. It rejects memory that cannot be sealed, unless the program has called
//! [`install_sigbus_handler`].

mod control;
mod doctor;
mod link;
mod receiving;
mod sending;
mod session;
mod spec;
mod unserved;
mod vring;

pub use link::PAIRS_MAX;
pub use wharf_sys::guard::install as install_sigbus_handler;

use crate::iface::{io_fault, pool_fault};
use crate::virtio::{feature, words};
use control::Source;
use link::Link;
use receiving::Receiving;
use sending::Sending;
pub(crate) use spec::KIND;
use std::io::{Error, ErrorKind};
use std::os::fd::RawFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;
use wharf_core::device::{
    CompletionMode, Completions, Device, DeviceError, LimitUnit, Notify, RxDevice, Signals, Transmitted,
    TxDevice, TxInfo,
};
use wharf_core::pool::Cache;
use wharf_mem::{Batch, Frame, Region};

/// Time between two attempts to reconnect.
const RETRY_NS: u64 = 200_000_000;

/// Reason of frames to a driver that has enabled no virtqueue for them, and of frames from one that it has
/// switched off.
const NOT_ENABLED: &str = "not-enabled";
/// Reason of frames from a driver that another device had taken when it ended, and of one to a driver that it
/// had not shown.
const PEER_GONE: &str = "peer-gone";
/// Reason of frames to a driver whose line was taken down.
const LINK_DOWN: &str = "link-down";
/// Reason of frames that waited too long for the driver's buffers.
const RING_FULL: &str = "ring-full";

/// Settings of a [`VhostUser`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VhostUserOptions {
    /// True to connect to a driver that listens; else the device listens.
    pub client: bool,
    /// Queue pairs that it offers, 1 to [`PAIRS_MAX`]: 1 by default.
    pub pairs: u16,
    /// True to offer the packed layout, the default: the driver chooses.
    pub packed: bool,
    /// True to offer offloads, the default: unfinished checksums and super-packets, both ways.
    pub offload: bool,
    /// True to offer that buffers are used in order, the default.
    pub in_order: bool,
    /// Permissions of the socket that it listens at; by default what the umask leaves.
    pub mode: Option<u32>,
    /// Group of that socket, by number.
    pub group: Option<u32>,
    /// The machine's address, to be announced once on a connection that goes on where another ended: after a
    /// migration switches learn where the machine is.
    pub mac: Option<[u8; 6]>,
    /// Unit of the byte queue limit: bytes by default.
    pub limit_unit: LimitUnit,
}

impl Default for VhostUserOptions {
    fn default() -> Self {
        let limit_unit = LimitUnit::Bytes;
        Self {
            client: false,
            pairs: 1,
            packed: true,
            offload: true,
            in_order: true,
            mode: None,
            group: None,
            mac: None,
            limit_unit,
        }
    }
}

/// The device side of virtio-net, with all of its queue pairs.
///
/// Up to 256 frames for the driver wait while it has no buffers or there is no driver. Then the queue stops,
/// and nothing is lost: unless the queue may drop ([`TxDevice::set_patience`]). Then frames fail once no
/// virtqueue has been enabled for them for that time (`not-enabled`), and those that waited for buffers for
/// longer as soon as there are some (`ring-full`). A driver that takes super-packets and unfinished checksums
/// gets them; for another they are segmented and filled in here. A frame is complete when it has been copied.
pub struct VhostUser {
    link: Arc<Link>,
    sending: Sending,
    receiving: Receiving,
    limit_unit: LimitUnit,
    /// Its line can be taken down.
    has_line: bool,
    /// `None` once closed.
    thread: Option<JoinHandle<()>>,
}

impl std::fmt::Debug for VhostUser {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "VhostUser({}, {} pairs)", self.link.name(), self.link.pairs())
    }
}

impl VhostUser {
    /// Listens at `path`, or connects to it, and serves each driver that comes.
    ///
    /// # Errors
    /// [`DeviceError::Io`] if that fails; [`DeviceError::Refused`] for an invalid number of pairs.
    pub fn open(path: &Path, options: VhostUserOptions) -> Result<Self, DeviceError> {
        let name = format!("vhost-user:{}", path.display().to_string().escape_debug());
        if !(1..=PAIRS_MAX).contains(&options.pairs) {
            let what = format!("{} queue pairs cannot be: 1 to {PAIRS_MAX}", options.pairs);
            return Err(wharf_core::options::OptionError { subject: name, what }.into());
        }
        let fault = |what: &str| io_fault(&name, what);
        let source = match options.client {
            false => Source::listen(path, &options).map_err(fault("cannot listen"))?,
            true => {
                Source::connect(path).map_err(|error| match crate::unix_socket::has_no_listener(&error) {
                    true => fault("no driver listens there: start the driver first")(error),
                    false => fault("cannot connect")(error),
                })?
            }
        };
        let link =
            Arc::new(Link::new(name.clone(), options.pairs, options.mac).map_err(fault("descriptors"))?);
        let has_line = source.has_line();
        let set = source.set(&link).map_err(fault("descriptors"))?;
        let offers = [
            (options.packed, feature::PACKED),
            (options.offload, feature::OFFLOADS),
            (options.in_order, feature::IN_ORDER),
        ];
        let withheld = offers.iter().filter(|offer| !offer.0).fold(0, |bits, offer| bits | offer.1);
        let theirs = link.clone();
        let thread = std::thread::Builder::new().name("vhost-user".into());
        let thread =
            thread.spawn(move || control::run(&theirs, source, set, withheld)).map_err(fault("no thread"))?;
        let (sending, receiving) = (Sending::new(&link), Receiving::default());
        Ok(Self { link, sending, receiving, limit_unit: options.limit_unit, has_line, thread: Some(thread) })
    }

    /// Ends the connection and the thread.
    fn end(&mut self) {
        if let Some(thread) = self.thread.take() {
            self.link.close();
            // The thread may have panicked: nothing of it is used any more.
            let _ = thread.join();
            self.link.reset();
        }
    }
}

impl Drop for VhostUser {
    fn drop(&mut self) {
        self.end();
    }
}

impl Notify for VhostUser {
    fn arm(&mut self) -> bool {
        self.link.look();
        self.link.set_armed(true);
        let nothing_came = self.receiving.arm(&self.link);
        self.sending.arm(&self.link) && nothing_came
    }

    fn disarm(&mut self) {
        self.link.set_armed(false);
        self.receiving.disarm(&self.link);
        self.sending.disarm(&self.link);
    }

    fn wait_fd(&self) -> Option<RawFd> {
        Some(self.link.poll_fd())
    }

    fn signals(&mut self) -> Option<Signals> {
        let add = |one: Signals, other: Signals| Signals {
            interrupts: one.interrupts + other.interrupts,
            kicks: one.kicks + other.kicks,
        };
        Some(self.link.signals().fold(Signals::default(), add))
    }
}

impl Device for VhostUser {
    fn name(&self) -> String {
        self.link.name().into()
    }

    fn mode(&self) -> Option<&'static str> {
        self.link.features().map(words)
    }

    fn facts(&self, see: &mut dyn FnMut(&'static str, Option<u32>, u64)) {
        let (link, pairs) = (&self.link, self.link.pairs());
        let of_device = [
            ("link_up", link.is_ready().into()),
            ("features", link.features().unwrap_or(0)),
            ("pairs", pairs as u64),
            ("pairs_in_use", link.open_pairs().count_ones().into()),
        ];
        let asked = self.has_line.then(|| ("link_asked", u64::from(!link.is_down())));
        of_device.into_iter().chain(asked).for_each(|(name, value)| see(name, None, value));
        for (pair, Signals { interrupts, kicks }) in link.signals().enumerate() {
            let pair = Some(pair as u32);
            let counts = [("interrupts", interrupts), ("kicks", kicks)];
            counts.into_iter().for_each(|(name, value)| see(name, pair, value));
        }
    }

    fn set_line(&mut self, is_up: bool) -> bool {
        if self.has_line {
            self.link.set_down(!is_up);
        }
        self.has_line
    }

    fn link(&mut self) -> Option<Result<(), DeviceError>> {
        let (what, source) = match (self.link.has_driver(), self.link.is_ready()) {
            (true, true) => return Some(Ok(())),
            (true, false) => {
                ("no virtqueue of its driver is enabled", Error::other("its machine boots, or is paused"))
            }
            (false, _) if self.link.is_down() => {
                ("its line was taken down", Error::other("until it is set up"))
            }
            (false, _) => ("no driver is here", ErrorKind::NotConnected.into()),
        };
        Some(Err(DeviceError::Down { device: self.name(), what: what.into(), source }))
    }

    fn attach(&mut self, region: Arc<Region>) -> Result<(), DeviceError> {
        self.sending.attach(region);
        Ok(())
    }

    fn visit(&self, see: &mut dyn FnMut(&Frame)) {
        self.sending.visit(see);
    }

    fn close(&mut self) -> Result<(), DeviceError> {
        self.end();
        self.sending.close();
        Ok(())
    }
}

impl TxDevice for VhostUser {
    /// The device does the work that the driver does not take, so these properties do not depend on the
    /// driver.
    fn info(&self) -> TxInfo {
        let any = TxInfo::of_any_frame(sending::RING_FRAMES, CompletionMode::Real);
        TxInfo { limit_unit: self.limit_unit, ..any }
    }

    fn transmit(&mut self, batch: &mut Batch, more: bool) -> Transmitted {
        self.sending.transmit(&self.link, batch, more)
    }

    fn flush(&mut self) -> bool {
        self.sending.flush(&self.link)
    }

    fn reap(&mut self, budget: usize, _urgent: bool, into: &mut Completions) -> Result<(), DeviceError> {
        self.sending.reap(&self.link, budget, into);
        self.link.take_fault()
    }

    fn outstanding(&self) -> usize {
        self.sending.held()
    }

    /// A kick tells of buffers, and the message thread of each change of a virtqueue.
    fn next_completion_ns(&self) -> Option<u64> {
        self.sending.next_completion_ns(&self.link)
    }

    fn set_patience(&mut self, patience: Option<Duration>) {
        self.sending.set_patience(patience);
    }
}

impl RxDevice for VhostUser {
    fn holds_back(&self) -> bool {
        true
    }

    fn receive(&mut self, cache: &mut Cache, to: &mut Batch, budget: usize) -> Result<usize, DeviceError> {
        self.link.take_fault()?;
        let received = self.receiving.receive(&self.link, cache, to, budget);
        received.map_err(|error| pool_fault(self.name(), error))
    }

    fn next_arrival_ns(&self) -> Option<u64> {
        self.receiving.next_arrival_ns()
    }

    /// Another driver may come at any time, but to a device that was started with its connection.
    fn ended(&self) -> bool {
        self.thread.is_none() || self.link.has_ended()
    }

    fn drops(&mut self, see: &mut dyn FnMut(&'static str, u64)) {
        self.receiving.drops(see);
        let given_back = self.link.given_back.load(Ordering::Relaxed);
        if given_back > 0 {
            see(PEER_GONE, given_back);
        }
    }
}

/// Serves the messages of one connection until it ends, and moves frames both ways each time that no message
/// is left: for fuzzing. Then `more` has its turn: it writes messages, or shuts the connection down. Returns
/// the frames that came.
///
/// # Errors
/// The connection's error that [`RxDevice::receive`] would return.
#[doc(hidden)]
pub fn converse(
    stream: &std::os::unix::net::UnixStream, cache: &mut Cache, mut more: impl FnMut(),
) -> Result<usize, String> {
    let link = Arc::new(Link::new("fuzz".into(), 2, None).map_err(|error| error.to_string())?);
    let (mut sending, mut receiving) = (Sending::new(&link), Receiving::default());
    sending.attach(cache.pool().region().clone());
    let mut done = Completions::new(256);
    let mut came = 0;
    let turns = std::cell::RefCell::new(|| {
        link.settle();
        let (mut frames, mut arrived) = (Batch::new(8), Batch::new(64));
        // A pool whose frames all wait has none: those are tried again.
        let _ = cache.take(&mut frames, 7, 100).and_then(|_| cache.take(&mut frames, 1, 1000));
        sending.transmit(&link, &mut frames, false);
        came += receiving.receive(&link, cache, &mut arrived, 64).unwrap_or(0);
        sending.reap(&link, 256, &mut done);
        // Cannot fail: they are this pool's.
        let _ = (cache.give(&mut frames), cache.give(&mut arrived));
        give_back(cache, &mut done);
        more();
    });
    let turn = || turns.borrow_mut()();
    let served = control::serve(&link, stream, 0, |_, _| {
        turn();
        Ok(())
    });
    turn();
    sending.close();
    sending.reap(&link, 256, &mut done);
    link.reset();
    give_back(cache, &mut done);
    served.map(|()| came)
}

fn give_back(cache: &mut Cache, done: &mut Completions) {
    let failed = done.failed.drain(..).map(|(frame, _)| frame).collect::<Vec<_>>();
    failed.into_iter().for_each(|frame| drop(cache.give_one(frame)));
    let _ = cache.give(&mut done.sent);
}
