//! `tap:NAME`: a virtual Ethernet interface of the kernel, whose other end this is: tun(4).
//!
//! What is sent here the kernel receives by the interface, and what it sends there is received here. One file is both
//! ways, and so is one device: [`Tap`]. Super-packets and unfinished checksums pass whole in both directions, told of by the header
//! before each frame.
//!
//! The kernel has a frame when the call returns, and says nothing of it afterwards: there are no completions to learn
//! from, and no byte queue limit.
//!
//! Needs CAP_NET_ADMIN, or an interface that was made for the user beforehand (`ip tuntap add NAME mode tap user USER`). It
//! is made, or looked for, in the network namespace of the thread that opens it, and may be moved to another one
//! afterwards.

mod end;
mod receiving;
mod sending;
mod spec;

use end::End;
use receiving::Receiving;
use sending::Sending;
pub(crate) use spec::KIND;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use wharf_core::device::{
    CompletionMode, Completions, Device, DeviceError, Notify, RxDevice, Transmitted, TxDevice, TxInfo,
};
use wharf_core::pool::Cache;
use wharf_mem::{Batch, Frame, Region};
use wharf_sys::tap::Offloads;

/// Longest packet that the kernel hands over, bytes: what IPv6 can say the length of, its header, and Ethernet's with
/// two tags.
const PACKET_BYTES_MAX: usize = 65535 + 40 + 14 + 2 * 4;

/// How a [`Tap`] should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TapOptions {
    /// Whether the interface has several queues, each of them a device that is opened by its name. The kernel sends a flow
    /// by the queue that its frames come from, else by its hash. Off by default: then nobody else can open it.
    pub multi_queue: bool,
    /// Whether the kernel hands over super-packets uncut, and leaves checksums to be filled in: on by default. It goes for all
    /// queues. Off, frames arrive as on a wire; sending is the same.
    pub offload: bool,
    /// Whether the interface stays when nobody has it open any more; `None` for as it was. One that is made here
    /// goes.
    pub persist: Option<bool>,
    /// The interface's MTU; `None` for as it was: 1500 of one that is made here.
    pub mtu_bytes: Option<u32>,
    /// Frames that the kernel keeps until they are received, in each queue; beyond that it drops. `None` for as it
    /// was: 500 of one that is made here.
    pub ring_frames: Option<u32>,
    /// Bytes that may be on their way through the kernel, counted as it does, until it takes no more: sending then waits
    /// for what shapes them there, and nothing is dropped behind the interface for lack of room. `None` for as it was: no
    /// bound of one that is made here.
    pub send_buffer_bytes: Option<u32>,
}

impl Default for TapOptions {
    fn default() -> Self {
        Self {
            multi_queue: false,
            offload: true,
            persist: None,
            mtu_bytes: None,
            ring_frames: None,
            send_buffer_bytes: None,
        }
    }
}

/// A queue of a TAP interface, both ways.
///
/// Frames that are received may be super-packets, as chains where they are longer than one frame, and their checksum still
/// to be filled in, as their row of the side table says ([`Region::meta`]); the same may be sent. While the interface
/// is down, frames that are sent fail (`link-down`) and nothing arrives, and both go on when it is up again; when it is
/// removed, that is [`DeviceError::Lost`]. What the kernel dropped since nobody received it is shown as `kernel`; of several queues,
/// which it counts together, only by the first of those that are opened together ([`Tap::open_queues`]).
#[derive(Debug)]
pub struct Tap {
    end: End,
    sending: Sending,
    receiving: Receiving,
    region: Option<Arc<Region>>,
    mode: &'static str,
    /// The kernel hands over super-packets.
    leaves_uncut: bool,
}

impl Tap {
    /// Makes interface `name`, or takes the one that there is, and switches it on.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`] for a name that no interface may have; [`DeviceError::Io`] when it is no TAP, somebody has it,
    /// or CAP_NET_ADMIN is lacking.
    pub fn open(name: &str, options: TapOptions) -> Result<Self, DeviceError> {
        Self::open_one(name, options, false)
    }

    /// Opens `count` queues of interface `name`, which has several then. The first of them shows what the kernel dropped in all of them.
    ///
    /// # Errors
    /// As [`Tap::open`].
    pub fn open_queues(name: &str, options: TapOptions, count: usize) -> Result<Vec<Self>, DeviceError> {
        let options = TapOptions { multi_queue: true, ..options };
        (0..count).map(|at| Self::open_one(name, options, at == 0)).collect()
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
        let (sending, receiving) = (Sending::default(), Receiving::default());
        Ok(Self { end, sending, receiving, region: None, mode, leaves_uncut })
    }

    /// Returns true if super-packets arrive whole.
    pub fn receives_super_packets(&self) -> bool {
        self.leaves_uncut
    }
}

impl Notify for Tap {
    /// The file is told of for each frame that arrives, when the interface goes, and when the kernel has room again.
    fn wait_fd(&self) -> Option<RawFd> {
        self.end.tap().map(|tap| tap.fd().as_raw_fd())
    }
}

impl Device for Tap {
    fn name(&self) -> String {
        self.end.health.device().into()
    }

    /// What the kernel leaves to whoever receives.
    fn mode(&self) -> Option<&'static str> {
        Some(self.mode)
    }

    fn attach(&mut self, region: Arc<Region>) -> Result<(), DeviceError> {
        self.region = Some(region);
        Ok(())
    }

    fn visit(&self, see: &mut dyn FnMut(&Frame)) {
        self.sending.visit(see);
    }

    fn close(&mut self) -> Result<(), DeviceError> {
        self.end.close();
        Ok(())
    }
}

impl TxDevice for Tap {
    fn info(&self) -> TxInfo {
        TxInfo {
            ring_frames: Some(sending::HELD_FRAMES_MAX as u32),
            completions: CompletionMode::None,
            segments_max: u16::MAX,
            segmentation: true,
            checksum: true,
        }
    }

    #[inline]
    fn transmit(&mut self, batch: &mut Batch, _more: bool) -> Transmitted {
        self.sending.transmit(&mut self.end, self.region.as_deref(), batch)
    }

    /// There is none to be owed: each frame is a call.
    fn flush(&mut self) -> bool {
        false
    }

    #[inline]
    fn reap(&mut self, budget: usize, _urgent: bool, into: &mut Completions) -> Result<(), DeviceError> {
        self.sending.reap(budget, into);
        self.end.health.take_error()
    }

    fn outstanding(&self) -> usize {
        self.sending.held()
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
            see("kernel", drops);
        }
        self.receiving.drops().for_each(|(reason, count)| see(reason, count));
    }
}
