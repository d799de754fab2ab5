//! `End`: one end of a forwarder: the settings of its ports, and what its device can do.

use super::ForwardError;
use crate::port::PortBuilder;
use wharf_core::device::AnyDevice;
use wharf_devices::spec::Opened;

/// See the module.
pub(super) struct End {
    pub(super) builder: PortBuilder,
    pub(super) name: String,
    /// What options call it: the name of its specification.
    pub(super) called: String,
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
        let called = builder.spec_name().unwrap_or_else(|| name.clone());
        Ok(Self { builder, name, called, receives, sends, is_one, super_packets: *super_packets })
    }

    /// True if options call it so.
    pub(super) fn is_called(&self, name: &str) -> bool {
        [&self.called, &self.name].into_iter().any(|own| own == name)
    }

    /// Returns true if super-packets may arrive.
    pub(super) fn receives_super_packets(&self) -> bool {
        self.receives && self.super_packets
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Direction, Port};
    use wharf_devices::null::Null;
    use wharf_devices::registry::Registry;

    #[test]
    fn options_call_an_end_by_its_specification_whichever_queue_its_device_has() {
        let spec = Registry::default().parse_for("xdp:eth0,queue=1", Direction::Send).unwrap();
        let end = End::of(Port::builder_of(&spec, Direction::Send), &Opened::tx(Null::default())).unwrap();
        assert!(end.is_called("xdp:eth0") && end.is_called(&end.name) && !end.is_called("xdp:eth1"));
    }
}
