//! `XdpBoth`: both sides of one queue, by one socket and one registration of the pool's memory.

use super::receiving::ReceiveOptions;
use super::sending::Made;
use super::{XdpReceiver, XdpSender};
use std::sync::Arc;
use wharf_core::delegate;
use wharf_core::device::{Device, DeviceError, Notify, RxDevice, TxDevice};
use wharf_mem::{Frame, Region};

/// Sends and receives by one AF_XDP socket, as [`XdpSender`] and [`XdpReceiver`] do, on one queue.
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
    /// Opens interface `interface`. Its queue is taken when the device is attached to memory.
    ///
    /// # Errors
    /// The errors of [`XdpReceiver::open`], and [`DeviceError::Io`] without carrier.
    pub fn open(interface: &str, options: ReceiveOptions) -> Result<Self, DeviceError> {
        Self::new(XdpReceiver::open(interface, options)?, options)
    }

    /// Opens `count` queues of interface `interface`, from the one that `options` say on.
    ///
    /// # Errors
    /// The errors of [`XdpBoth::open`].
    pub fn open_queues(
        interface: &str, options: ReceiveOptions, count: u32,
    ) -> Result<Vec<Self>, DeviceError> {
        let receivers = XdpReceiver::open_queues(interface, options, count)?.into_iter();
        receivers.map(|receiver| Self::new(receiver, options)).collect()
    }

    fn new(receiver: XdpReceiver, options: ReceiveOptions) -> Result<Self, DeviceError> {
        let sender = XdpSender::over(receiver.link().clone(), options.common)?;
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

    fn attach(&mut self, region: Arc<Region>) -> Result<(), DeviceError> {
        let (made, socket, how) = self.receiver.attach_with(&region, Made::new)?;
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
    delegate!(sender: info, transmit, flush, reap, outstanding, next_completion_ns);
}

#[deny(clippy::missing_trait_methods)]
impl RxDevice for XdpBoth {
    delegate!(receiver: receive, ended, reclaim, drops, next_arrival_ns);
}
