//! `XdpSender`: the transmit side of an AF_XDP socket.

mod attach;
mod doorbell;
pub mod rings;
pub mod tx;

pub(super) use self::tx::Sending;

use self::tx::Kernel;
use super::ZERO_COPY;
use super::program::Programs;
use super::steering::Steering;
use super::{
    Refusal, Step, Way, WaysTried, XdpOptions, await_release, driver_rings, find, metadata, numa, ways,
};
use crate::link::{Health, Link};
use attach::{Beside, Opening};
use rings::{DESCRIPTORS_MAX, Rings};
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use wharf_core::device::{
    CompletionMode, Completions, Device, DeviceError, LimitUnit, ModeReason, Notify, Transmitted, TxDevice,
    TxInfo,
};
use wharf_mem::{Batch, Frame, Region};
use wharf_sys::interface::InterfaceSocket;
use wharf_sys::xdp::{Bind, Consumer, Descriptor, Producer, TxMetadataRoom, XdpSocket};

/// Descriptors of the transmit ring, and of the completion ring, by default: DPDK's choice, too.
const ENTRIES: u32 = 2048;
/// The mode without copies in which the adapter computes checksums.
const ZERO_COPY_OFFLOAD: &str = "zero-copy, checksum offload";
/// Bytes that the kernel charges for a frame on its way: a buffer of its own, of up to 4 KiB.
const CHARGED_BYTES: usize = 4096;

/// Sends frames by an AF_XDP socket.
///
/// A frame is complete when the kernel has released it: the driver has sent it, or, on a veth, the other end
/// has taken it. Frames that the kernel has no room for stay in the ring, and every reap asks again. So do
/// frames in the ring when the interface is switched off; they leave when it is up again. A frame that the
/// interface dropped comes back as failed (`refused`, `link-down`).
///
/// With zero-copy the driver takes over the queue's receive side, too. What arrives there is the host's as before: it lies in
/// 512 buffers of 4 KiB that the device has beside the pool (2 MiB, which count as locked memory), is copied for the host, and its
/// buffer is used again. Drivers that send so only while an XDP program is attached get one that passes everything to the host; it
/// goes with the device. Such a driver resets the adapter when a program comes or goes: the link is down for a second or three.
#[derive(Debug)]
pub struct XdpSender {
    link: Link,
    options: XdpOptions,
    limit_unit: LimitUnit,
    /// Descriptors of the transmit ring.
    entries: u32,
    /// The program of all queues that were opened together.
    programs: Programs,
    mode: Option<&'static str>,
    tried: WaysTried,
    /// The reason that checksums are not left to driver or kernel, or frames not stamped, though that is wanted.
    pub(super) metadata_refused: Option<String>,
    /// `None` until there is memory.
    pub(super) sending: Option<Sending<Socket>>,
    /// A socket by which closing waits until adapter and kernel have left the memory, where they reach it later.
    spare: Option<XdpSocket>,
}

/// The socket, a second one to query its interface, and the mode. Dropped in this order: the program goes first, then the queue.
#[derive(Debug)]
pub(super) struct Socket {
    _beside: Beside,
    socket: Arc<XdpSocket>,
    asker: InterfaceSocket,
    zero_copy: bool,
    busy_polls: bool,
}

/// Parts of a socket that sends.
#[derive(Debug)]
pub(super) struct Made {
    completion: Consumer<u64>,
    transmit: Producer<Descriptor>,
    asker: InterfaceSocket,
    beside: Beside,
    busy_polls: bool,
}

impl Made {
    /// Makes the rings of a socket that is not bound yet and receives as well.
    pub(super) fn of_both(socket: &XdpSocket, entries: u32) -> Result<Self, Refusal> {
        Self::new(socket, entries, Beside::default())
    }

    /// Notes the room for metadata that its memory was registered with.
    pub(super) fn with_metadata(mut self, metadata: Option<TxMetadataRoom>) -> Self {
        self.beside.metadata = metadata;
        self
    }

    /// Notes that the socket's calls poll the queue.
    pub(super) fn that_busy_polls(self, busy_polls: bool) -> Self {
        Self { busy_polls, ..self }
    }

    /// Makes the rings of a socket that is not bound yet.
    fn new(socket: &XdpSocket, entries: u32, beside: Beside) -> Result<Self, Refusal> {
        let rings = Step::Rings.refused();
        let completion = socket.completion_ring(entries).map_err(&rings)?;
        let transmit = socket.transmit_ring(entries).map_err(&rings)?;
        // Older kernels take 32 frames a call: then the doorbell is rung again.
        socket.set_transmit_budget(entries);
        socket.set_send_buffer(entries as usize * CHARGED_BYTES);
        let asker = InterfaceSocket::open().map_err(&rings)?;
        Ok(Self { completion, transmit, asker, beside, busy_polls: false })
    }

    /// Makes the transmit side of a socket that is bound.
    pub(super) fn sending(
        self, socket: Arc<XdpSocket>, how: Bind, link: &Link, region: Arc<Region>,
    ) -> Sending<Socket> {
        let Self { completion, transmit, asker, beside, busy_polls } = self;
        let completions = transmit.entries();
        let rings = Rings::new(transmit, completion, region.clone(), how.multi_buffer, completions)
            .with_metadata(beside.metadata);
        let socket = Socket { _beside: beside, socket, asker, zero_copy: how.zero_copy, busy_polls };
        Sending::new(socket, rings, Health::new(link.clone()), region)
    }
}

impl Kernel for Socket {
    fn kick(&self) -> io::Result<()> {
        self.socket.kick()
    }

    fn wake(&self) {
        if self.busy_polls {
            self.socket.wake_transmit();
        }
    }

    fn look(&self, health: &mut Health) {
        health.look(self.asker.as_fd());
    }

    fn takes_at_once(&self) -> bool {
        !self.zero_copy
    }
}

impl XdpSender {
    /// Opens `queues` of interface `interface`. They share the interface's one program, where the driver wants
    /// one. Each is taken when its device is attached to memory.
    ///
    /// # Errors
    /// [`DeviceError::Io`] if there is no such interface, it is down or without carrier, or CAP_NET_RAW is
    /// lacking; [`DeviceError::Unsupported`] if it is no Ethernet.
    pub fn open_queues(
        interface: &str, options: &XdpOptions, queues: impl IntoIterator<Item = u32>,
    ) -> Result<Vec<Self>, DeviceError> {
        let queues: Vec<u32> = queues.into_iter().collect();
        let last = queues.iter().copied().max().unwrap_or_default();
        let programs = Programs::new(options.access.source(interface, &Steering::All)?, last);
        let one = |queue| {
            let link = find(interface, queue, &options.access)?;
            Self::over(link, XdpOptions { queue, ..options.clone() }, programs.clone())
        };
        queues.into_iter().map(one).collect()
    }

    /// Returns the descriptors of its transmit ring.
    pub(super) fn entries(&self) -> u32 {
        self.entries
    }

    /// Makes the transmit side of `link`, which has a carrier.
    pub(super) fn over(link: Link, options: XdpOptions, programs: Programs) -> Result<Self, DeviceError> {
        link.check_carrier()?;
        let entries = options.entries(ENTRIES, driver_rings(&link).map(|rings| rings.tx));
        Ok(Self {
            limit_unit: options.limit_unit.unwrap_or_default(),
            link,
            options,
            entries,
            programs,
            mode: None,
            tried: WaysTried::default(),
            metadata_refused: None,
            sending: None,
            spare: None,
        })
    }
}

/// Returns the mode in words.
fn mode_of(zero_copy: bool, metadata: Option<TxMetadataRoom>) -> &'static str {
    match (zero_copy, metadata.filter(|room| room.checksums)) {
        (true, None) => ZERO_COPY,
        (true, Some(_)) => ZERO_COPY_OFFLOAD,
        (false, None) => "copy",
        (false, Some(TxMetadataRoom { software_checksums: true, .. })) => "copy, checksums by the kernel",
        (false, Some(_)) => "copy, checksum offload",
    }
}

/// True if the mode is one without copies.
fn is_zero_copy(mode: &str) -> bool {
    matches!(mode, ZERO_COPY | ZERO_COPY_OFFLOAD)
}

impl Notify for XdpSender {}

impl Device for XdpSender {
    fn name(&self) -> String {
        self.link.name.clone()
    }

    fn mode(&self) -> Option<&'static str> {
        self.mode
    }

    fn mode_reason(&self) -> Option<ModeReason> {
        let is_zero_copy = self.mode.is_none_or(is_zero_copy);
        let copied = self.tried.why_copied().filter(|_| !is_zero_copy);
        metadata::mode_reason(copied, self.metadata_refused.as_deref())
    }

    fn link(&mut self) -> Option<Result<(), DeviceError>> {
        self.sending.as_mut()?.link()
    }

    fn attach(&mut self, region: Arc<Region>) -> Result<(), DeviceError> {
        numa::place(&self.link, &region);
        let mut tried = WaysTried::default();
        let opening = Opening {
            link: &self.link,
            options: &self.options,
            entries: self.entries,
            programs: &self.programs,
            region: &region,
        };
        let best = opening.best(&mut tried);
        let of =
            |way: &Way| metadata::refused(&opening.metadata(way.zero_copy), &self.options, way.zero_copy);
        let refused = best.as_ref().ok().and_then(|(.., way)| of(way));
        (self.tried, self.metadata_refused) = (tried, refused);
        let (socket, made, way) = best.map_err(|refusal| {
            self.tried.fault(&self.link, &self.options, (self.options.queue, &region), refusal)
        })?;
        let how = way.bind();
        self.mode = Some(mode_of(how.zero_copy, made.beside.metadata));
        if how.zero_copy || ways::copies_late(&self.link, &self.options) {
            self.spare = self.options.access.socket(&self.link.interface_name).ok();
        }
        self.sending = Some(made.sending(socket, how, &self.link, region));
        Ok(())
    }

    fn visit(&self, see: &mut dyn FnMut(&Frame)) {
        if let Some(sending) = &self.sending {
            sending.visit(see);
        }
    }

    fn close(&mut self) -> Result<(), DeviceError> {
        if let Some(sending) = &mut self.sending {
            sending.close();
            if let Some(spare) = self.spare.take() {
                await_release(spare, &self.link, self.options.queue);
            }
        }
        Ok(())
    }
}

impl TxDevice for XdpSender {
    fn info(&self) -> TxInfo {
        let gathers = self.sending.as_ref().is_none_or(Sending::gathers);
        TxInfo {
            ring_frames: Some(self.entries),
            completions: CompletionMode::Real,
            limit_unit: self.limit_unit,
            segments_max: if gathers { DESCRIPTORS_MAX as u16 } else { 1 },
            segmentation: false,
            tcp_segmentation: false,
            checksum: true,
            timestamps: self.sending.as_ref().is_some_and(Sending::stamps),
        }
    }

    #[inline]
    fn transmit(&mut self, batch: &mut Batch, more: bool) -> Transmitted {
        self.sending.as_mut().map_or_else(Transmitted::default, |sending| sending.transmit(batch, more))
    }

    #[inline]
    fn flush(&mut self) -> bool {
        self.sending.as_mut().is_some_and(Sending::flush)
    }

    #[inline]
    fn reap(&mut self, budget: usize, _urgent: bool, into: &mut Completions) -> Result<(), DeviceError> {
        self.sending.as_mut().map_or(Ok(()), |sending| sending.reap(budget, into))
    }

    fn outstanding(&self) -> usize {
        self.sending.as_ref().map_or(0, Sending::held)
    }
}
