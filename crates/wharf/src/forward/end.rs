//! `End`: one end of a forwarder: the settings of its ports, and what its device can do.

use super::ForwardError;
use crate::port::PortBuilder;
use wharf_core::device::AnyDevice;
use wharf_devices::spec::Opened;

/// See the module.
pub(super) struct End {
    pub(super) builder: PortBuilder,
    pub(super) name: String,
    pub(super) receives: bool,
    pub(super) sends: bool,
    /// One device does both.
    pub(super) is_one: bool,
    super_packets: bool,
}

impl End {
    /// Makes an end of `builder`, whose device is open; `opened` is its first queue.
    ///
    /// # Errors
    /// [`ForwardError::OtherEnd`].
    pub(super) fn of(builder: PortBuilder, opened: &Opened) -> Result<Self, ForwardError> {
        let Opened { device, receiving, far_end, super_packets, .. } = opened;
        let name = device.name();
        if far_end.is_some() {
            return Err(ForwardError::OtherEnd { device: name });
        }
        let is_one = matches!(device, AnyDevice::Duplex(_));
        let sends = !matches!(device, AnyDevice::Rx(_));
        let receives = is_one || !sends || receiving.is_some();
        Ok(Self { builder, name, receives, sends, is_one, super_packets: *super_packets })
    }

    /// Returns true if super-packets may arrive.
    pub(super) fn receives_super_packets(&self) -> bool {
        self.receives && self.super_packets
    }
}
