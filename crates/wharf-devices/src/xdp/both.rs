//! `XdpBoth`: both sides of an interface, by one registration of the pool's memory.

use super::program::{Programs, Source};
use super::queues::QueueChoice;
use super::receiving::ReceiveOptions;
use super::sending::Made;
use super::steering::Steering;
use super::{XdpReceiver, XdpSender, metadata};
use std::sync::Arc;
use wharf_core::delegate;
use wharf_core::device::{Device, DeviceError, ModeReason, Notify, RxDevice, TxDevice};
use wharf_mem::{Frame, Region};

/// Sends and receives by AF_XDP sockets, as [`XdpSender`] and [`XdpReceiver`] do. It receives from one queue or several, and
/// sends by the socket of the first.
///
/// Received frames may be sent at once, by this device or by another one on the same pool: they stay where
/// the kernel put them, and nothing is copied on the way. A quarter of the pool, 8192 frames at most, is
/// posted for packets.
#[derive(Debug)]
pub struct XdpBoth {
    receiver: XdpReceiver,
    sender: XdpSender,
}

impl XdpBoth {
    /// Opens `count` devices that share out the queues `choice` of interface `interface` as [`XdpReceiver::open_queues`] does.
    /// Each sends by the first of its queues.
    ///
    /// # Errors
    /// The errors of [`XdpReceiver::open_queues`], and [`DeviceError::Io`] without carrier.
    pub fn open_queues(
        interface: &str, options: &ReceiveOptions, choice: QueueChoice, count: u32,
    ) -> Result<Vec<Self>, DeviceError> {
        let receivers = XdpReceiver::open_queues(interface, options, choice, count)?.into_iter();
        receivers.map(Self::new).collect()
    }

    pub(super) fn frame_bytes(&self) -> Option<u32> {
        self.receiver.frame_bytes()
    }

    fn new(receiver: XdpReceiver) -> Result<Self, DeviceError> {
        let options = receiver.options().common.clone();
        let programs = Programs::new(Source::Loaded(Steering::All), options.queue);
        let sender = XdpSender::over(receiver.link().clone(), options, programs)?;
        Ok(Self { receiver: receiver.that_sends(), sender })
    }
}

/// The kernel notifies of arrivals, and of frames that it releases.
#[deny(clippy::missing_trait_methods)]
impl Notify for XdpBoth {
    delegate!(receiver: arm, disarm, wait_fd, signals);
}

impl Device for XdpBoth {
    delegate!(receiver: name, mode);
    delegate!(sender: link);

    fn mode_reason(&self) -> Option<ModeReason> {
        metadata::mode_reason(self.receiver.mode_reason(), self.sender.metadata_refused.as_deref())
    }

    fn attach(&mut self, region: Arc<Region>) -> Result<(), DeviceError> {
        let entries = self.sender.entries();
        let (made, socket, how) =
            self.receiver.attach_with(&region, |socket| Made::of_both(socket, entries))?;
        let metadata = self.receiver.metadata(&region, how.zero_copy);
        let options = &self.receiver.options().common;
        self.sender.metadata_refused = metadata::refused(&metadata, options, how.zero_copy);
        let busy_polls = self.receiver.options().busy_poll.is_some();
        let made = made.with_metadata(metadata.unwrap_or_default()).that_busy_polls(busy_polls);
        self.sender.sending = Some(made.sending(socket, how, self.receiver.link(), region));
        Ok(())
    }

    fn visit(&self, see: &mut dyn FnMut(&Frame)) {
        self.sender.visit(see);
        self.receiver.visit(see);
    }

    /// Releases the queue before any frame is given back: neither half gives back a frame before the other is
    /// closed.
    fn close(&mut self) -> Result<(), DeviceError> {
        self.sender.close()?;
        self.receiver.close()
    }
}

/// Memory posted for packets is not outstanding.
#[deny(clippy::missing_trait_methods)]
impl TxDevice for XdpBoth {
    delegate!(sender: info, transmit, flush, reap, outstanding, next_completion_ns, set_patience);
}

#[deny(clippy::missing_trait_methods)]
impl RxDevice for XdpBoth {
    delegate!(receiver: receive, ended, reclaim, drops, queue_packets, next_arrival_ns, holds_back, thin);
}
