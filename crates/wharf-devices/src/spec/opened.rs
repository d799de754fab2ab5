//! `Opened`: a device as its kind opens it, and the way that this is asked for.

use super::Direction;
use std::time::Duration;
use wharf_core::device::{AnyDevice, RxDevice, TxDevice};

/// The way to open a device. That of a [`Direction`] alone has one queue, with memory of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opening {
    /// Direction.
    pub direction: Direction,
    /// Queues of the device, from 1 on.
    pub queues: u32,
    /// Devices that are going to receive into one pool.
    pub pool_shared_by: u32,
}

impl From<Direction> for Opening {
    fn from(direction: Direction) -> Self {
        Self { direction, queues: 1, pool_shared_by: 1 }
    }
}

/// A device, opened.
pub struct Opened {
    /// The device.
    pub device: AnyDevice,
    /// The receive side of a device opened both ways, if that is a device of its own. Otherwise `device`
    /// receives as well.
    pub receiving: Option<Box<dyn RxDevice>>,
    /// The other end, where that is in this process: a wire's.
    pub far_end: Option<AnyDevice>,
    /// True if super-packets arrive whole, of tens of kilobytes each: large buffers are worth their memory
    /// then.
    pub super_packets: bool,
    /// Bytes of a pool's frame with which the device does its best, if that is more than the usual 2048: one
    /// that receives may copy otherwise.
    pub frame_bytes: Option<u32>,
    /// Stations that are at the device for good: no other port of a switch has them.
    pub own_macs: Vec<[u8; 6]>,
    /// Time that a frame takes to the other end: a wire's delay.
    pub delay: Duration,
}

impl std::fmt::Debug for Opened {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let far_end = self.far_end.as_ref().map(|far_end| far_end.name());
        f.debug_struct("Opened").field("device", &self.device.name()).field("far_end", &far_end).finish()
    }
}

impl Opened {
    /// Makes one of a device alone.
    pub fn new(device: AnyDevice) -> Self {
        let (receiving, far_end, frame_bytes) = (None, None, None);
        let (own_macs, delay) = (Vec::new(), Duration::ZERO);
        Self { device, receiving, far_end, super_packets: false, frame_bytes, own_macs, delay }
    }

    /// Makes one of a device that sends only.
    pub fn tx(device: impl TxDevice + 'static) -> Self {
        Self::new(AnyDevice::tx(device))
    }

    /// Makes one of a device that receives only.
    pub fn rx(device: impl RxDevice + 'static) -> Self {
        Self::new(AnyDevice::rx(device))
    }

    /// Makes one of a device that sends and receives.
    pub fn duplex(device: impl TxDevice + RxDevice + 'static) -> Self {
        Self::new(AnyDevice::duplex(device))
    }

    /// Adds its other end, which sends and receives: see [`Kind::far_end`](super::Kind::far_end).
    #[must_use]
    pub fn with_far_end(mut self, far_end: impl TxDevice + RxDevice + 'static) -> Self {
        self.far_end = Some(AnyDevice::duplex(far_end));
        self
    }
}
