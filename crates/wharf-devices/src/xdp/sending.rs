//! `XdpSender`: the transmit side of an AF_XDP socket.

mod doorbell;
pub mod rings;
pub mod tx;

pub(super) use self::tx::Sending;

use self::tx::Kernel;
use super::{
    Refusal, Step, XdpOptions, ZERO_COPY, await_release, bind, fault, find, first_that_works, memory,
    registered,
};
use crate::link::{Health, Link};
use rings::{DESCRIPTORS_MAX, Rings};
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use wharf_core::device::{
    CompletionMode, Completions, Device, DeviceError, Notify, Transmitted, TxDevice, TxInfo,
};
use wharf_mem::{Batch, Frame, Region};
use wharf_sys::interface::InterfaceSocket;
use wharf_sys::xdp::{Bind, Consumer, Descriptor, Producer, XdpSocket};

/// Descriptors of the transmit ring, and of the completion ring, by default: DPDK's choice, too.
const ENTRIES: u32 = 2048;
/// Descriptors of the fill ring, which must exist; it stays empty, since nothing is received.
const FILL_ENTRIES: u32 = 64;
/// Bytes that the kernel charges for a frame on its way: a buffer of its own, of up to 4 KiB.
const CHARGED_BYTES: usize = 4096;

/// Sends frames by an AF_XDP socket.
///
/// A frame is complete when the kernel has released it: the driver has sent it, or, on a veth, the other end
/// has taken it. Frames that the kernel has no room for stay in the ring, and every reap asks again. So do
/// frames in the ring when the interface is switched off; they leave when it is up again. A frame that the
/// interface dropped comes back as failed (`refused`, `link-down`).
///
/// With zero-copy the driver takes over the queue's receive side, too, and drops what arrives there, since no
/// memory is posted.
#[derive(Debug)]
pub struct XdpSender {
    link: Link,
    options: XdpOptions,
    mode: Option<&'static str>,
    /// `None` until there is memory.
    pub(super) sending: Option<Sending<Socket>>,
}

/// The socket, a second one to query its interface, and the mode.
#[derive(Debug)]
pub(super) struct Socket {
    socket: Arc<XdpSocket>,
    asker: InterfaceSocket,
    zero_copy: bool,
}

/// Parts of a socket that sends.
#[derive(Debug)]
pub(super) struct Made {
    completion: Consumer<u64>,
    transmit: Producer<Descriptor>,
    asker: InterfaceSocket,
}

impl Made {
    /// Makes the rings of a socket that is not bound yet.
    pub(super) fn new(socket: &XdpSocket, options: &XdpOptions) -> Result<Self, Refusal> {
        let (entries, rings) = (options.entries(ENTRIES), Step::Rings.refused());
        let completion = socket.completion_ring(entries).map_err(&rings)?;
        let transmit = socket.transmit_ring(entries).map_err(&rings)?;
        // Older kernels take 32 frames a call: then the doorbell is rung again.
        socket.set_transmit_budget(entries);
        socket.set_send_buffer(entries as usize * CHARGED_BYTES);
        Ok(Self { completion, transmit, asker: InterfaceSocket::open().map_err(&rings)? })
    }

    /// Makes the transmit side of a socket that is bound.
    pub(super) fn sending(
        self, socket: Arc<XdpSocket>, how: Bind, link: &Link, region: Arc<Region>,
    ) -> Sending<Socket> {
        let Self { completion, transmit, asker } = self;
        let completions = transmit.entries();
        let rings = Rings::new(transmit, completion, region.clone(), how.multi_buffer, completions);
        let socket = Socket { socket, asker, zero_copy: how.zero_copy };
        Sending::new(socket, rings, Health::new(link.clone()), region)
    }
}

impl Kernel for Socket {
    fn kick(&self) -> io::Result<()> {
        self.socket.kick()
    }

    fn look(&self, health: &mut Health) {
        health.look(self.asker.as_fd());
    }

    fn takes_at_once(&self) -> bool {
        !self.zero_copy
    }
}

impl XdpSender {
    /// Opens interface `interface`. Its queue is taken when the device is attached to memory.
    ///
    /// # Errors
    /// [`DeviceError::Io`] if there is no such interface, it is down or without carrier, or CAP_NET_RAW is
    /// lacking; [`DeviceError::Unsupported`] if it is no Ethernet.
    pub fn open(interface: &str, options: XdpOptions) -> Result<Self, DeviceError> {
        let link = find(interface, options.queue)?;
        Self::over(link, options)
    }

    /// Makes the transmit side of `link`, which has a carrier.
    pub(super) fn over(link: Link, options: XdpOptions) -> Result<Self, DeviceError> {
        link.check_carrier()?;
        Ok(Self { link, options, mode: None, sending: None })
    }

    fn make(&self, region: &Arc<Region>, how: Bind) -> Result<(Arc<XdpSocket>, Made), Refusal> {
        let socket = registered(region, &memory::to_send(region))?;
        let _fill: Producer<u64> = socket.fill_ring(FILL_ENTRIES).map_err(Step::Rings.refused())?;
        let made = Made::new(&socket, &self.options)?;
        bind(&socket, self.link.interface.index, self.options.queue, how)?;
        if how.zero_copy {
            // Some drivers bind, but send only while a program is attached: the error comes at the call.
            socket.kick().map_err(|_| (Step::Bind, io::Error::from_raw_os_error(crate::link::EOPNOTSUPP)))?;
        }
        Ok((Arc::new(socket), made))
    }
}

impl Notify for XdpSender {}

impl Device for XdpSender {
    fn name(&self) -> String {
        self.link.name.clone()
    }

    fn mode(&self) -> Option<&'static str> {
        self.mode
    }

    fn link(&mut self) -> Option<Result<(), DeviceError>> {
        self.sending.as_mut()?.link()
    }

    fn attach(&mut self, region: Arc<Region>) -> Result<(), DeviceError> {
        let made = first_that_works(self.options.mode, |how| self.make(&region, how));
        let ((socket, made), how) =
            made.map_err(|refusal| fault(&self.link, self.options.queue, &region, refusal))?;
        self.mode = Some(if how.zero_copy { ZERO_COPY } else { "copy" });
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
            if self.mode == Some(ZERO_COPY) {
                await_release(&self.link, self.options.queue);
            }
        }
        Ok(())
    }
}

impl TxDevice for XdpSender {
    fn info(&self) -> TxInfo {
        let gathers = self.sending.as_ref().is_none_or(Sending::gathers);
        TxInfo {
            ring_frames: Some(self.options.entries(ENTRIES)),
            completions: CompletionMode::Real,
            segments_max: if gathers { DESCRIPTORS_MAX as u16 } else { 1 },
            segmentation: false,
            checksum: true,
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
