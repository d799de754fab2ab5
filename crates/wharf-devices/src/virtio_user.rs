//! `virtio-user:SOCKET`: a virtio-net driver in user space (virtio 1.2, section 5.1), over a vhost-user back end: a virtual switch, a
//! virtual machine's network turned round, or [`crate::virtio`]'s other side.
//!
//! The pool's memory is shared with the back end: frames are sent and received as they lie, with the virtio net header in the
//! headroom before them. So the back end can write to all of the pool at any time. What it says of buffers is
//! checked ([`crate::virtio`]); what it writes into frames are bytes like those of any wire.
//!
//! One object sends and receives. A frame that was sent comes back when the back end says that it has left: real completions, so that there is a
//! byte queue limit; unless they are looked for late (`napi=off`): see [`Napi`]. Notifications are asked for only by
//! [`Device::arm`]: of completions, delayed until three quarters are back, and of every arrival. The back end is told of new buffers
//! only while it wants to be, once a batch.

mod cleaning;
mod receiving;
mod sending;
mod session;
pub(crate) mod spec;

use crate::host::HostClock;
use crate::refused::Refused;
use crate::virtio::packed::PackedDriver;
use crate::virtio::split::SplitDriver;
use crate::virtio::{DriverRing, Layout, RingError, feature};
use crate::vnet::{VNET_HEADER_BYTES, VnetHeader};
use cleaning::Cleaning;
use receiving::{Drops, Receiving};
use sending::{SEGMENTS_MAX, Sending};
use session::{RECEIVE, Session, TRANSMIT};
use std::io;
use std::os::fd::RawFd;
use std::path::Path;
use std::sync::Arc;
use wharf_core::device::{Capabilities, Completions, Device, DeviceError, Signals, Transmitted};
use wharf_core::pool::{Cache, PoolError};
use wharf_mem::{Batch, Frame, Region};

/// Bytes of the header before a frame: that of a packet socket, and the number of buffers.
const HEADER_BYTES: usize = 12;
/// Polls that find nothing between two looks at the connection.
const LOOK_EVERY: u32 = 64;

/// When frames that have left are taken out of the transmit queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Napi {
    /// By whoever polls, be it to receive; senders are charged for a frame until then, and there is a byte queue limit.
    On {
        /// Whether a poller on any processor does so at any time. By default another processor than that which transmits
        /// does only when it was told, or somebody waits.
        anywhere: bool,
    },
    /// After the next transmit. Senders are charged until the queue has the frame: nothing but the ring bounds what they
    /// have in it, and there is no byte queue limit.
    Off,
    /// As that, and ten times a second, by the poller.
    Timer,
}

/// How a `virtio-user:` device should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VirtioUserOptions {
    /// Whether it listens until a back end connects, in place of connecting to one.
    pub server: bool,
    /// Whether its rings are packed, or split.
    pub packed: bool,
    /// Whether the back end must use buffers in order: where it offers that, by default.
    pub in_order: Option<bool>,
    /// Whether frames may arrive in several buffers: where the back end offers it, by default.
    pub mrg_rxbuf: Option<bool>,
    /// Whether checksums and the cutting of super-packets are left to the back end, where it offers that. Where they are not, it need
    /// not read the header before a frame, and may copy short frames faster: DPDK's does.
    pub offload: bool,
    /// Descriptors of each ring, 256 by default: a power of two up to 32768, packed ones any number.
    pub size: u16,
    /// When sent frames are taken back; [`Napi::On`] by default, on the processor that transmits.
    pub napi: Napi,
}

impl Default for VirtioUserOptions {
    fn default() -> Self {
        Self {
            server: false,
            packed: false,
            in_order: None,
            mrg_rxbuf: None,
            offload: true,
            size: 256,
            napi: Napi::On { anywhere: false },
        }
    }
}

/// Opens the driver, by whichever layout.
///
/// # Errors
/// [`DeviceError::Io`] when there is no back end, or it refuses something; [`DeviceError::Unsupported`] for a size that cannot be, and
/// for what the back end does not offer.
pub fn open(path: &Path, options: VirtioUserOptions) -> Result<Box<dyn Device>, DeviceError> {
    let name = format!("virtio-user:{}", path.display().to_string().escape_debug());
    let layout = if options.packed { Layout::Packed } else { Layout::Split };
    let unsupported = |what: String| DeviceError::Unsupported { device: name.clone(), what };
    layout.check_size(options.size.into()).map_err(|error| unsupported(error.to_string()))?;
    let session = Session::open(&name, path, &options)?;
    Ok(match options.napi {
        Napi::On { anywhere } => cleaned(name, session, options.size, cleaning::Napi::new(anywhere)),
        Napi::Off => cleaned(name, session, options.size, cleaning::AtTransmit::default()),
        Napi::Timer => cleaned(name, session, options.size, cleaning::Ticking::new(HostClock)),
    })
}

fn cleaned<C: Cleaning>(name: String, session: Session, size: u16, cleaning: C) -> Box<dyn Device> {
    match session.layout() {
        Layout::Split => Box::new(VirtioUser::<SplitDriver, C>::new(name, session, size, cleaning)),
        Layout::Packed => Box::new(VirtioUser::<PackedDriver, C>::new(name, session, size, cleaning)),
    }
}

/// A queue pair of a virtio-net driver; see [`open`].
///
/// A back end that goes, or that breaks the rules, is told once, as [`DeviceError::Lost`]: what was in its rings comes back as
/// failed, `peer-gone`, and so does all that is given to it afterwards.
#[derive(Debug)]
struct VirtioUser<R, C> {
    name: String,
    size: u16,
    features: u64,
    /// `None` when it is gone, or closed.
    session: Option<Session>,
    queues: Option<(Receiving<R>, Sending<R>)>,
    /// What comes back when there are no queues any more.
    refused: Refused,
    /// Memory that waited for frames to arrive.
    waiting: Refused,
    /// Polls until the next look at the connection.
    look_due: u32,
    lost: Option<DeviceError>,
    drops: Drops,
    cleaning: C,
    signals: Signals,
}

impl<R: DriverRing, C: Cleaning> VirtioUser<R, C> {
    fn new(name: String, session: Session, size: u16, cleaning: C) -> Self {
        let features = session.features;
        Self {
            name,
            size,
            features,
            session: Some(session),
            queues: None,
            refused: Refused::new("peer-gone"),
            waiting: Refused::new("closed"),
            look_due: LOOK_EVERY,
            lost: None,
            drops: Drops::default(),
            cleaning,
            signals: Signals::default(),
        }
    }

    /// Nothing has happened: looks whether the back end is still there.
    #[cold]
    fn look(&mut self) {
        self.look_due = LOOK_EVERY;
        if self.session.as_ref().is_some_and(|session| !session.is_alive()) {
            let what = "the back end is gone".to_string();
            self.lose(what, io::Error::from(io::ErrorKind::ConnectionReset));
        }
    }

    #[inline]
    fn idle(&mut self) {
        self.look_due = self.look_due.saturating_sub(1);
        if self.look_due == 0 {
            self.look();
        }
    }

    #[cold]
    fn broken(&mut self, error: RingError) {
        let what = "the back end breaks the rules of a virtqueue".to_string();
        self.lose(what, io::Error::new(io::ErrorKind::InvalidData, error));
    }

    fn lose(&mut self, what: String, source: io::Error) {
        self.lost = Some(DeviceError::Lost { device: self.name.clone(), what, source });
        self.let_go("peer-gone");
    }

    /// Counts the notifications that have come.
    fn count(&mut self) {
        self.signals.interrupts += self.session.as_ref().map_or(0, Session::take_calls);
    }

    /// Ends the connection; what was inside is to be reaped as failed.
    fn let_go(&mut self, reason: &'static str) {
        self.count();
        self.session = None;
        if let Some((receiving, sending)) = self.queues.take() {
            self.drops = receiving.drops();
            self.signals.kicks = receiving.kicks() + sending.kicks();
            self.waiting.hold(receiving.into_held(), reason);
            self.refused.hold_failed(sending.into_held(reason));
        }
    }
}

impl<R: DriverRing, C: Cleaning> Device for VirtioUser<R, C> {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn capabilities(&self) -> Capabilities {
        let has = |bits: u64| self.features & bits == bits;
        Capabilities {
            ring_frames: Some(self.size.into()),
            real_completions: !C::ORPHANS,
            orphans: C::ORPHANS,
            segments_max: SEGMENTS_MAX.min(self.size.into()) as u16,
            segmentation: has(feature::CSUM | feature::HOST_TSO4 | feature::HOST_TSO6 | feature::HOST_USO),
            checksum: has(feature::CSUM),
        }
    }

    fn mode(&self) -> Option<&'static str> {
        let has = |bit: u64| self.features & bit != 0;
        Some(match (has(feature::PACKED), has(feature::IN_ORDER)) {
            (false, false) => "split",
            (false, true) => "split, in order",
            (true, false) => "packed",
            (true, true) => "packed, in order",
        })
    }

    fn attach(&mut self, region: Arc<Region>) -> Result<(), DeviceError> {
        let Some(session) = &self.session else { return Ok(()) };
        let headroom_bytes = region.spec().headroom_bytes;
        if (headroom_bytes as usize) < HEADER_BYTES {
            let what =
                format!("the pool's frames have {headroom_bytes} bytes of headroom: it takes {HEADER_BYTES}");
            return Err(DeviceError::Unsupported { device: self.name.clone(), what });
        }
        let [receive, transmit] = session.start(&region, self.size)?;
        const { assert!(RECEIVE == 0 && TRANSMIT == 1) };
        let receiving = Receiving::new(receive, region.clone(), self.features);
        self.queues = Some((receiving, Sending::new(transmit, region, self.features)));
        self.disarm();
        Ok(())
    }

    #[inline]
    fn transmit(&mut self, batch: &mut Batch, more: bool) -> Transmitted {
        match &mut self.queues {
            Some((_, sending)) => {
                self.cleaning.transmitted();
                sending.transmit(batch, more)
            }
            None => self.refused.transmit(batch),
        }
    }

    #[inline]
    fn flush(&mut self) -> bool {
        self.queues.as_mut().is_some_and(|(_, sending)| sending.flush())
    }

    #[inline]
    fn reap(&mut self, budget: usize, into: &mut Completions) -> Result<(), DeviceError> {
        if let Some((_, sending)) = &mut self.queues {
            let before = into.len();
            sending.give_failed(budget, into);
            let is_due = self.cleaning.is_due(sending.is_full());
            let result = if is_due { sending.reap(budget - (into.len() - before), into) } else { Ok(()) };
            if is_due && into.len() - before < budget {
                self.cleaning.cleaned();
            }
            if into.len() == before {
                self.idle();
            }
            result.unwrap_or_else(|error| self.broken(error));
        }
        if self.queues.is_none() {
            self.refused.reap(budget, into);
        }
        self.lost.take().map_or(Ok(()), Err)
    }

    fn outstanding(&self) -> usize {
        let inside = self.queues.as_ref().map_or(0, |(receiving, sending)| receiving.held() + sending.held());
        inside + self.refused.len() + self.waiting.len()
    }

    fn visit(&self, see: &mut dyn FnMut(&Frame)) {
        if let Some((receiving, sending)) = &self.queues {
            receiving.visit(see);
            sending.visit(see);
        }
        self.refused.visit(see);
        self.waiting.visit(see);
    }

    #[inline]
    fn receive(&mut self, cache: &mut Cache, to: &mut Batch, budget: usize) -> Result<usize, DeviceError> {
        let Some((receiving, _)) = &mut self.queues else { return self.lost.take().map_or(Ok(0), Err) };
        match receiving.receive(cache, to, budget.min(to.room())) {
            Ok(Ok(0)) if budget > 0 => self.idle(),
            Ok(Ok(received)) => return Ok(received),
            Ok(Err(PoolError::Memory(source))) => {
                return Err(DeviceError::Memory { device: self.name.clone(), source });
            }
            Ok(Err(error)) => {
                return Err(DeviceError::Unsupported { device: self.name.clone(), what: error.to_string() });
            }
            Err(error) => self.broken(error),
        }
        self.lost.take().map_or(Ok(0), Err)
    }

    fn receive_ended(&self) -> bool {
        self.queues.is_none()
    }

    fn take_waiting(&mut self, to: &mut Batch) -> usize {
        self.waiting.take(to)
    }

    fn receive_drops(&mut self, see: &mut dyn FnMut(&'static str, u64)) {
        let drops = self.queues.as_ref().map_or(self.drops, |(receiving, _)| receiving.drops());
        see("malformed", drops.malformed);
        see("too-long", drops.too_long);
    }

    /// The next look that finds nothing looks at the connection, too.
    fn arm(&mut self) -> bool {
        self.look_due = 1;
        self.count();
        let Some((receiving, sending)) = &mut self.queues else { return true };
        if let Some(session) = &self.session {
            session.clear();
        }
        let is_quiet = !self.cleaning.asks(sending.is_full()) || sending.arm();
        if !is_quiet {
            self.cleaning.told();
        }
        receiving.arm() && is_quiet
    }

    fn disarm(&mut self) {
        self.cleaning.told();
        if let Some((receiving, sending)) = &mut self.queues {
            receiving.disarm();
            sending.disarm();
        }
    }

    fn hurry(&mut self) {
        self.cleaning.hurry();
    }

    fn signals(&mut self) -> Option<Signals> {
        self.count();
        if let Some((receiving, sending)) = &self.queues {
            self.signals.kicks = receiving.kicks() + sending.kicks();
        }
        Some(self.signals)
    }

    fn next_completion_ns(&self) -> Option<u64> {
        let holds = self.queues.as_ref().is_some_and(|(_, sending)| sending.held() > 0);
        if holds { self.cleaning.next_ns() } else { None }
    }

    fn wait_fd(&self) -> Option<RawFd> {
        self.session.as_ref().map(Session::wait_fd)
    }

    fn close(&mut self) -> Result<(), DeviceError> {
        if let Some(session) = &self.session {
            // One that does not answer is cut off.
            session.stop();
        }
        self.let_go("closed");
        Ok(())
    }
}

/// As the back end reads it (virtio 1.2, section 5.1.6); of a frame to be sent the number of buffers is 0.
fn header_bytes(header: &VnetHeader) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    bytes[..VNET_HEADER_BYTES].copy_from_slice(&header.bytes());
    bytes
}
