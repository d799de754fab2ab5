//! `Session`: the connection to a back end, and what was agreed upon (QEMU, docs/interop/vhost-user.rst).

use super::VirtioUserOptions;
use crate::virtio::{DriverRing, Layout, Options, Place, RingError, feature};
use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use vhost::vhost_user::message::{VhostUserHeaderFlag, VhostUserProtocolFeatures};
use vhost::vhost_user::{Frontend, VhostUserFrontend};
use vhost::{VhostBackend, VhostUserMemoryRegionInfo, VringConfigData};
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};
use wharf_core::device::DeviceError;
use wharf_mem::Region;
use wharf_sys::epoll::Epoll;
use wharf_sys::mapping::Mapping;
use wharf_sys::shared::Area;
use wharf_sys::stream;

/// A back end that takes longer to answer is gone.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// How long one may take until it listens, or, with `server=on`, connects.
const LISTEN_WITHIN: Duration = Duration::from_millis(500);
const CONNECT_WITHIN: Duration = Duration::from_secs(60);
const NAP: Duration = Duration::from_millis(10);

/// Where the back end sees our memory: addresses that mean nothing but there.
const RINGS_AT: u64 = 1 << 28;
pub(super) const POOL_AT: u64 = 1 << 32;

/// Virtqueues of a queue pair: the first receives, the second transmits (virtio 1.2, section 5.1.2).
pub(super) const RECEIVE: usize = 0;
pub(super) const TRANSMIT: usize = 1;
const QUEUES: usize = 2;

/// What we take where it is offered, and nothing hangs on.
const WELCOME: u64 = feature::INDIRECT | feature::EVENT_IDX | feature::VHOST_PROTOCOL;
/// And what is left to the back end, by default.
const OFFLOADS: u64 = feature::CSUM | feature::HOST_TSO4 | feature::HOST_TSO6 | feature::HOST_USO;

pub(super) struct Session {
    name: String,
    frontend: Frontend,
    /// The same connection, to look whether it still stands.
    socket: UnixStream,
    pub(super) features: u64,
    /// What the back end signals.
    call: EventFd,
    /// Readable when something was signalled, or the connection ends.
    events: Epoll,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Session({}, features {:#x})", self.name, self.features)
    }
}

/// A virtqueue that was set up: the ring, and what tells the back end.
#[derive(Debug)]
pub(super) struct Queue<R> {
    pub(super) ring: R,
    kick: EventFd,
    /// How often it was told.
    pub(super) kicks: u64,
}

impl<R> Queue<R> {
    /// Tells the back end.
    pub(super) fn tell(&mut self) {
        self.kicks += 1;
        // A counter that is full is readable.
        let _ = self.kick.write(1);
    }
}

impl Session {
    pub(super) fn open(name: &str, path: &Path, options: &VirtioUserOptions) -> Result<Self, DeviceError> {
        let fault = |what: &str| io_fault(name, what.to_string());
        let socket = match options.server {
            false => connect(path).map_err(fault("cannot connect to a back end"))?,
            true => accept(path).map_err(fault("no back end has connected"))?,
        };
        let made = || -> io::Result<_> {
            socket.set_read_timeout(Some(ANSWER_WITHIN))?;
            socket.set_write_timeout(Some(ANSWER_WITHIN))?;
            let (call, events, ours) = (EventFd::new(EFD_NONBLOCK)?, Epoll::new()?, socket.try_clone()?);
            events.add(call.as_raw_fd(), 0, true)?;
            events.add(ours.as_raw_fd(), 1, true)?;
            Ok((call, events, ours))
        };
        let (call, events, ours) = made().map_err(fault("cannot set up its descriptors"))?;
        let frontend = Frontend::from_stream(socket, QUEUES as u64);
        let mut session = Self { name: name.into(), frontend, socket: ours, features: 0, call, events };
        session.negotiate(options)?;
        Ok(session)
    }

    fn refused<E: std::error::Error + Send + Sync + 'static>(
        &self, what: &'static str,
    ) -> impl Fn(E) -> DeviceError {
        let name = self.name.clone();
        move |error| io_fault(&name, format!("the back end refuses {what}"))(io::Error::other(error))
    }

    fn negotiate(&mut self, options: &VirtioUserOptions) -> Result<(), DeviceError> {
        self.frontend.set_owner().map_err(self.refused("an owner"))?;
        let offered = self.frontend.get_features().map_err(self.refused("to say what it can"))?;
        let wanted = [
            (feature::VERSION_1, true, "virtio 1.0"),
            (feature::PACKED, options.packed, "packed=on"),
            (feature::IN_ORDER, options.in_order == Some(true), "in_order=on"),
            (feature::MRG_RXBUF, options.mrg_rxbuf == Some(true), "mrg_rxbuf=on"),
        ];
        if let Some((_, _, what)) = wanted.iter().find(|(bit, is_wanted, _)| *is_wanted && offered & bit == 0)
        {
            let what = format!("the back end does not offer {what}");
            return Err(DeviceError::Unsupported { device: self.name.clone(), what });
        }
        let bits = wanted.iter().filter(|want| want.1).fold(0, |bits, want| bits | want.0);
        let mergeable = if options.mrg_rxbuf == Some(false) { 0 } else { feature::MRG_RXBUF };
        let in_order = if options.in_order == Some(false) { 0 } else { feature::IN_ORDER };
        let offloads = if options.offload { OFFLOADS } else { 0 };
        self.features = offered & (bits | WELCOME | mergeable | in_order | offloads);
        if self.features & feature::VHOST_PROTOCOL != 0 {
            let can = self.frontend.get_protocol_features().map_err(self.refused("to say what it can"))?;
            let wanted = can & VhostUserProtocolFeatures::REPLY_ACK;
            self.frontend.set_protocol_features(wanted).map_err(self.refused("protocol features"))?;
            if !wanted.is_empty() {
                self.frontend.set_hdr_flags(VhostUserHeaderFlag::NEED_REPLY);
            }
        }
        self.frontend.set_features(self.features).map_err(self.refused("features that it offers"))
    }

    pub(super) fn layout(&self) -> Layout {
        if self.features & feature::PACKED != 0 { Layout::Packed } else { Layout::Split }
    }

    /// Gives the back end the pool's memory and that of the rings, and starts it: the receive queue, the transmit queue.
    pub(super) fn start<R: DriverRing>(
        &self, region: &Region, size: u16,
    ) -> Result<[Queue<R>; QUEUES], DeviceError> {
        let layout = self.layout();
        let each_bytes = Place::len_bytes(layout, size);
        let mapping = Mapping::shared_small_pages(each_bytes * QUEUES)
            .map_err(io_fault(&self.name, "no memory for its rings".into()))?;
        let area = Arc::new(Area::new(mapping));
        let memory = [(POOL_AT, region.mapping()), (RINGS_AT, area.mapping().unwrap_or(region.mapping()))];
        let memory = memory.map(|(address, mapping)| VhostUserMemoryRegionInfo {
            guest_phys_addr: address,
            memory_size: mapping.len_bytes() as u64,
            userspace_addr: address,
            mmap_offset: 0,
            mmap_handle: mapping.fd().as_raw_fd(),
        });
        self.frontend.set_mem_table(&memory).map_err(self.refused("our memory"))?;
        let start = |index| self.start_queue(index, &area, index * each_bytes, layout, size);
        Ok([start(RECEIVE)?, start(TRANSMIT)?])
    }

    fn start_queue<R: DriverRing>(
        &self, index: usize, area: &Arc<Area>, at: usize, layout: Layout, size: u16,
    ) -> Result<Queue<R>, DeviceError> {
        let ring_fault = |error: RingError| DeviceError::Unsupported {
            device: self.name.clone(),
            what: error.to_string(),
        };
        let place = Place::within(area, at, layout, size.into()).map_err(ring_fault)?;
        let ring = R::begin(place, Options::of(self.features)).map_err(ring_fault)?;
        let [descriptors, driver, device] = Place::offsets(layout, size, at).map(|at| RINGS_AT + at as u64);
        let addresses = VringConfigData {
            queue_max_size: size,
            queue_size: size,
            flags: 0,
            desc_table_addr: descriptors,
            used_ring_addr: device,
            avail_ring_addr: driver,
            log_addr: None,
        };
        // A packed ring begins on a round whose wrap counter is 1.
        let base = if layout == Layout::Packed { 0x8000 } else { 0 };
        let kick = EventFd::new(EFD_NONBLOCK).map_err(io_fault(&self.name, "no event counter".into()))?;
        let set_up = || {
            self.frontend.set_vring_num(index, size)?;
            self.frontend.set_vring_base(index, base)?;
            self.frontend.set_vring_addr(index, &addresses)?;
            self.frontend.set_vring_call(index, &self.call)?;
            self.frontend.set_vring_kick(index, &kick)?;
            if self.features & feature::VHOST_PROTOCOL != 0 {
                self.frontend.clone().set_vring_enable(index, true)?;
            }
            vhost::Result::Ok(())
        };
        set_up().map_err(self.refused("a virtqueue"))?;
        // Rings start with the first kick.
        kick.write(1).map_err(io_fault(&self.name, "cannot signal".into()))?;
        Ok(Queue { ring, kick, kicks: 1 })
    }

    /// Stops the virtqueues: the back end touches neither them nor our memory any more, if it keeps to the rules.
    pub(super) fn stop(&self) -> bool {
        (0..QUEUES).all(|index| self.frontend.get_vring_base(index).is_ok())
    }

    /// Whether the connection stands.
    pub(super) fn is_alive(&self) -> bool {
        !matches!(stream::peek(self.socket.as_fd(), &mut [0]), Ok(Some(0)) | Err(_))
    }

    /// What becomes readable when something is to be looked at.
    pub(super) fn wait_fd(&self) -> RawFd {
        self.events.as_raw_fd()
    }

    /// How often the back end has signalled since this was asked last.
    pub(super) fn take_calls(&self) -> u64 {
        self.call.read().unwrap_or(0)
    }

    /// Makes it unreadable, once the calls are taken.
    pub(super) fn clear(&self) {
        self.events.told(|_| {});
    }
}

fn io_fault(name: &str, what: String) -> impl FnOnce(io::Error) -> DeviceError {
    let device = name.to_string();
    move |source| DeviceError::Io { device, what, source }
}

/// Connects, and waits a little for somebody who listens.
fn connect(path: &Path) -> io::Result<UnixStream> {
    patiently(
        LISTEN_WITHIN,
        || UnixStream::connect(path),
        |error| matches!(error.kind(), io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound),
    )
}

/// Listens until somebody connects. The socket's file is there as long as that takes.
fn accept(path: &Path) -> io::Result<UnixStream> {
    // One that nobody listens at any more is in the way.
    if matches!(UnixStream::connect(path), Err(error) if error.kind() == io::ErrorKind::ConnectionRefused) {
        std::fs::remove_file(path)?;
    }
    let listener = UnixListener::bind(path)?;
    listener.set_nonblocking(true)?;
    let accepted =
        patiently(CONNECT_WITHIN, || listener.accept(), |error| error.kind() == io::ErrorKind::WouldBlock);
    let _ = std::fs::remove_file(path);
    let (socket, _) = accepted?;
    socket.set_nonblocking(false)?;
    Ok(socket)
}

/// Tries again for a while.
fn patiently<T>(
    within: Duration, attempt: impl Fn() -> io::Result<T>, may_try_again: impl Fn(&io::Error) -> bool,
) -> io::Result<T> {
    let until = Instant::now() + within;
    loop {
        match attempt() {
            Err(error) if may_try_again(&error) && Instant::now() < until => std::thread::sleep(NAP),
            result => return result,
        }
    }
}
