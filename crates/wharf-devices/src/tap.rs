//! `tap:NAME`: the user-space end of a virtual Ethernet interface: tun(4).
//!
//! The kernel receives by the interface the frames sent here; frames that it sends by the interface are received here. One file
//! carries both directions, so it is one device: [`Tap`]. Super-packets and unfinished checksums pass whole
//! in both directions; the virtio-net header before each frame describes them.
//!
//! The kernel has a frame when the call returns, and reports nothing afterwards. So there are no completions
//! to learn from, and no byte queue limit.
//!
//! Needs CAP_NET_ADMIN, or an interface that was made for the user beforehand (`ip tuntap add NAME mode tap
//! user USER`). The interface is made, or looked for, in the network namespace of the thread that opens it,
//! and may be moved to another one afterwards.

mod doctor;
mod end;
mod receiving;
mod sending;
mod spec;

use crate::thinning::{PacketBegin, Thinning};
use end::End;
use receiving::Receiving;
use sending::Sending;
pub(crate) use spec::KIND;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use wharf_core::device::{
    CompletionMode, Completions, Device, DeviceError, Notify, Passes, RxDevice, Transmitted, TxDevice, TxInfo,
};
use wharf_core::pool::Cache;
use wharf_mem::{Batch, Frame, Region};
use wharf_sys::tap::Offloads;
use wharf_sys::xdp::assembler::SKB_LOAD_BYTES;

/// Longest packet that the kernel delivers, bytes.
const PACKET_BYTES_MAX: usize = crate::spec::SUPER_PACKET_BYTES_MAX as usize;

/// Settings of a [`Tap`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TapOptions {
    /// True if the interface has several queues, each a device that is opened by its name. The kernel sends a
    /// flow by the queue that the flow's frames come from, else by its hash. Off by default: the interface
    /// can then be opened once.
    pub multi_queue: bool,
    /// True if the kernel delivers super-packets whole and leaves checksums to be filled in: on by default.
    /// It applies to all queues. If off, frames arrive as on a wire; sending is the same.
    pub offload: bool,
    /// True if the interface stays when it is closed; `None` leaves that as it was. An interface that is made
    /// here goes.
    pub persist: Option<bool>,
    /// The interface's MTU; `None` leaves it as it was: 1500 for a new interface.
    pub mtu_bytes: Option<u32>,
    /// Frames that the kernel keeps until they are received, per queue; it drops the rest. `None` leaves that
    /// as it was: 500 for a new interface.
    pub ring_frames: Option<u32>,
    /// Bytes, by the kernel's account, that may be on their way through the kernel. Sending waits at this
    /// bound for the kernel's shaping, and nothing is dropped behind the interface for lack of room. `None`
    /// leaves it as it was: no bound for a new interface.
    pub send_buffer_bytes: Option<u32>,
}

/// A queue of a TAP interface; it sends and receives.
///
/// Received frames may be super-packets, as chains if they are longer than one frame, with a checksum still
/// to be filled in, as their row of the side table says ([`Region::meta`]). The same may be sent. While the
/// interface is down, sent frames fail (`link-down`) and nothing arrives; both go on when it is up again. A
/// removed interface is [`DeviceError::Gone`]. Frames that the kernel dropped because they were not received
/// in time are shown as `ring-full`. The kernel counts them for all queues together, so only the first of queues
/// opened together shows them ([`Tap::open_queues`]).
#[derive(Debug)]
pub struct Tap {
    end: End,
    sending: Sending,
    receiving: Receiving,
    thinning: Thinning,
    region: Option<Arc<Region>>,
    mode: &'static str,
    /// True if the kernel delivers super-packets whole.
    leaves_uncut: bool,
}

impl Tap {
    /// Makes interface `name`, or takes an existing one, and switches it on. Opens `count` queues of it. Of
    /// several, the first shows the kernel's drops in all of them.
    ///
    /// # Errors
    /// [`DeviceError::Refused`] for an invalid interface name; [`DeviceError::Io`] if the interface is no
    /// TAP, is in use, or CAP_NET_ADMIN is lacking.
    pub fn open_queues(name: &str, options: TapOptions, count: usize) -> Result<Vec<Self>, DeviceError> {
        let options = TapOptions { multi_queue: options.multi_queue || count > 1, ..options };
        (0..count).map(|at| Self::open_one(name, options, count > 1 && at == 0)).collect()
    }

    fn open_one(name: &str, options: TapOptions, tells_all: bool) -> Result<Self, DeviceError> {
        let (end, offloads) = End::open(name, options, tells_all)?;
        let mode = match offloads {
            Offloads::None => "no offloads",
            Offloads::Checksum => "checksums",
            Offloads::Tcp => "tso",
            Offloads::TcpUdp => "tso, uso",
        };
        let leaves_uncut = matches!(offloads, Offloads::Tcp | Offloads::TcpUdp);
        let (sending, receiving, thinning) =
            (Sending::default(), Receiving::default(), Thinning::new(PacketBegin::Ethernet(SKB_LOAD_BYTES)));
        if let Some(tap) = end.tap().filter(|tap| !tap.is_multi_queue()) {
            // An interface that outlived a process that was killed has its filter.
            _ = tap.filter(None);
        }
        Ok(Self { end, sending, receiving, thinning, region: None, mode, leaves_uncut })
    }

    /// Returns true if super-packets arrive whole.
    pub fn receives_super_packets(&self) -> bool {
        self.leaves_uncut
    }
}

impl Notify for Tap {
    /// The file is notified of each frame that arrives, of the interface's removal, and of room in the
    /// kernel.
    fn wait_fd(&self) -> Option<RawFd> {
        self.end.tap().map(|tap| tap.fd().as_raw_fd())
    }
}

impl Device for Tap {
    fn name(&self) -> String {
        self.end.health.device().into()
    }

    /// Returns the offloads that the kernel leaves to the receiver.
    fn mode(&self) -> Option<&'static str> {
        Some(self.mode)
    }

    fn link(&mut self) -> Option<Result<(), DeviceError>> {
        self.end.look();
        self.end.health.link()
    }

    fn attach(&mut self, region: Arc<Region>) -> Result<(), DeviceError> {
        self.region = Some(region);
        Ok(())
    }

    fn visit(&self, see: &mut dyn FnMut(&Frame)) {
        self.sending.book.visit(see);
    }

    fn close(&mut self) -> Result<(), DeviceError> {
        // A filter would stay with a persistent interface.
        self.thin(None);
        self.end.close();
        Ok(())
    }
}

impl TxDevice for Tap {
    fn info(&self) -> TxInfo {
        TxInfo::of_any_frame(sending::HELD_FRAMES_MAX, CompletionMode::None)
    }

    #[inline]
    fn transmit(&mut self, batch: &mut Batch, _more: bool) -> Transmitted {
        self.sending.transmit(&mut self.end, self.region.as_deref(), batch)
    }

    /// No doorbell is left out: each frame is a call.
    #[inline]
    fn reap(&mut self, budget: usize, _urgent: bool, into: &mut Completions) -> Result<(), DeviceError> {
        self.sending.book.reap(budget, into);
        self.end.health.take_error()
    }

    fn outstanding(&self) -> usize {
        self.sending.book.len()
    }
}

impl RxDevice for Tap {
    #[inline]
    fn receive(&mut self, cache: &mut Cache, to: &mut Batch, budget: usize) -> Result<usize, DeviceError> {
        self.receiving.receive(&mut self.end, cache, to, budget)
    }

    fn ended(&self) -> bool {
        self.end.is_over()
    }

    fn drops(&mut self, see: &mut dyn FnMut(&'static str, u64)) {
        if let Some(drops) = self.end.kernel_drops() {
            // The kernel counts what the filter drops as well.
            see("ring-full", drops.saturating_sub(self.thinning.dropped()));
        }
        self.receiving.drops.show(see);
        self.thinning.show(see);
    }

    /// A filter holds for all queues.
    fn thin(&mut self, passes: Option<&Passes>) -> bool {
        let Some(tap) = self.end.tap().filter(|tap| !tap.is_multi_queue()) else { return false };
        self.thinning.thin(passes, |filter| tap.filter(filter))
    }
}
