//! `XdpBoth`: both sides of one queue, by one socket and one registration of the pool's memory.

use super::XdpReceiver;
use super::receiving::ReceiveOptions;
use super::sending::{Made, Sending, Socket, info};
use std::sync::Arc;
use wharf_core::delegate;
use wharf_core::device::{Completions, Device, DeviceError, Notify, RxDevice, Transmitted, TxDevice, TxInfo};
use wharf_mem::{Batch, Frame, Region};

/// Sends and receives by one AF_XDP socket, as [`XdpSender`](super::XdpSender) and [`XdpReceiver`] do, on one
/// queue.
///
/// Received frames may be sent at once, by this device or by another one on the same pool: they stay where
/// the kernel put them, and nothing is copied on the way. A quarter of the pool, 8192 frames at most, is
/// posted for packets.
#[derive(Debug)]
pub struct XdpBoth {
    receiver: XdpReceiver,
    /// `None` until there is memory.
    sending: Option<Sending<Socket>>,
}

impl XdpBoth {
    /// Opens interface `interface`. Its queue is taken when the device is attached to memory.
    ///
    /// # Errors
    /// The errors of [`XdpReceiver::open`], and [`DeviceError::Io`] without carrier.
    pub fn open(interface: &str, options: ReceiveOptions) -> Result<Self, DeviceError> {
        XdpReceiver::open(interface, options).and_then(Self::new)
    }

    /// Opens `count` queues of interface `interface`, from the one that `options` say on.
    ///
    /// # Errors
    /// The errors of [`XdpBoth::open`].
    pub fn open_queues(
        interface: &str, options: ReceiveOptions, count: u32,
    ) -> Result<Vec<Self>, DeviceError> {
        XdpReceiver::open_queues(interface, options, count)?.into_iter().map(Self::new).collect()
    }

    fn new(receiver: XdpReceiver) -> Result<Self, DeviceError> {
        receiver.link().check_carrier()?;
        Ok(Self { receiver: receiver.that_sends(), sending: None })
    }
}

/// The kernel notifies of arrivals, and of frames that it releases.
#[deny(clippy::missing_trait_methods)]
impl Notify for XdpBoth {
    delegate!(receiver: arm, disarm, wait_fd, signals);
}

impl Device for XdpBoth {
    delegate!(receiver: name, mode);

    fn attach(&mut self, region: Arc<Region>) -> Result<(), DeviceError> {
        let (made, socket, how) = self.receiver.attach_with(&region, Made::new)?;
        self.sending = Some(made.sending(socket, how, self.receiver.link(), region));
        Ok(())
    }

    fn visit(&self, see: &mut dyn FnMut(&Frame)) {
        if let Some(sending) = &self.sending {
            sending.visit(see);
        }
        self.receiver.visit(see);
    }

    /// Releases the queue before any frame is given back: neither half gives back a frame before the other is
    /// closed.
    fn close(&mut self) -> Result<(), DeviceError> {
        if let Some(sending) = &mut self.sending {
            sending.close();
        }
        self.receiver.close()
    }
}

impl TxDevice for XdpBoth {
    fn info(&self) -> TxInfo {
        info(self.sending.as_ref().is_none_or(Sending::gathers))
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

    /// Returns the number of frames being sent, without the memory posted for packets.
    fn outstanding(&self) -> usize {
        self.sending.as_ref().map_or(0, Sending::held)
    }
}

#[deny(clippy::missing_trait_methods)]
impl RxDevice for XdpBoth {
    delegate!(receiver: receive, ended, reclaim, drops, next_arrival_ns);
}
