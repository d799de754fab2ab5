//! `Health`: how the interface stands, as far as it has been noticed, and what is told about it.

use super::{ENETDOWN, ENODEV, ETHERNET_BYTES, VLAN_BYTES, down, is_tagged, no_carrier};
use std::io;
use wharf_core::device::DeviceError;
use wharf_sys::packet::{Interface, PacketSocket};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Up,
    /// Switched off, or without carrier: frames fail until it is back.
    Down,
    /// Frames fail for good.
    Gone,
}

#[derive(Debug)]
pub(super) struct Health {
    device: String,
    interface_name: String,
    interface: Interface,
    state: State,
    /// Longest frame by the MTU, bytes, without a tag.
    longest_bytes: u32,
    /// A frame beyond that was told of.
    told_too_long: bool,
    /// For the next reap.
    error: Option<DeviceError>,
}

impl Health {
    pub(super) fn new(
        device: String, interface_name: String, interface: Interface, longest_bytes: u32,
    ) -> Self {
        let (state, told_too_long, error) = (State::Up, false, None);
        Self { device, interface_name, interface, state, longest_bytes, told_too_long, error }
    }

    #[inline]
    pub(super) fn state(&self) -> State {
        self.state
    }

    #[inline]
    pub(super) fn longest_bytes(&self) -> u32 {
        self.longest_bytes
    }

    /// What is to be reported, once.
    #[inline]
    pub(super) fn take_error(&mut self) -> Result<(), DeviceError> {
        if self.error.is_none() { Ok(()) } else { self.error.take().map_or(Ok(()), Err) }
    }

    /// Looks at the interface.
    #[cold]
    pub(super) fn look(&mut self, socket: &PacketSocket) {
        let down_error = || io::Error::from_raw_os_error(ENETDOWN);
        match socket.interface_state(self.interface.index) {
            Err(error) if error.raw_os_error() == Some(ENODEV) => {
                self.change(State::Gone, "the interface is gone", error);
            }
            Err(error) => self.note("cannot look at the interface", error),
            Ok(state) if !state.is_up => self.change(State::Down, &down(&self.interface_name), down_error()),
            Ok(state) if !state.is_running => {
                self.change(State::Down, &no_carrier(&self.interface_name), down_error());
            }
            Ok(state) => {
                self.state = State::Up;
                self.longest_bytes = state.mtu_bytes.saturating_add(ETHERNET_BYTES);
            }
        }
    }

    fn change(&mut self, to: State, what: &str, source: io::Error) {
        if self.state != to && self.state != State::Gone {
            self.state = to;
            self.error = Some(DeviceError::Lost { device: self.device.clone(), what: what.into(), source });
        }
    }

    /// Whether the MTU allows a frame of these first bytes, and `len_bytes` in all: a tag is not counted.
    #[inline]
    pub(super) fn fits(&self, first: &[u8], len_bytes: u32) -> bool {
        len_bytes <= self.longest_with(first)
    }

    fn longest_with(&self, first: &[u8]) -> u32 {
        self.longest_bytes.saturating_add(if is_tagged(first) { VLAN_BYTES } else { 0 })
    }

    /// Why a frame of these first bytes, and `len_bytes` in all, cannot be sent now.
    #[cold]
    pub(super) fn fault_of(&mut self, first: &[u8], len_bytes: u32) -> Option<&'static str> {
        let longest_bytes = self.longest_with(first);
        match self.state {
            State::Gone => Some("gone"),
            State::Down => Some("link-down"),
            State::Up if len_bytes <= ETHERNET_BYTES => Some("too-short"),
            State::Up if len_bytes > longest_bytes => {
                self.tell_too_long(len_bytes, longest_bytes);
                Some("too-long")
            }
            State::Up => None,
        }
    }

    fn tell_too_long(&mut self, len_bytes: u32, longest_bytes: u32) {
        if std::mem::replace(&mut self.told_too_long, true) {
            return;
        }
        let (name, mtu) = (&self.interface_name, self.longest_bytes - ETHERNET_BYTES);
        let enough = len_bytes - ETHERNET_BYTES;
        let what = format!(
            "a frame of {len_bytes} bytes is too long: {name}'s MTU of {mtu} allows {longest_bytes}; `ip link set {name} mtu {enough}`"
        );
        self.error = Some(DeviceError::Unsupported { device: self.device.clone(), what });
    }

    /// The interface stands as it should, and yet nothing leaves.
    #[cold]
    pub(super) fn lose(&mut self, what: &str, source: io::Error) {
        self.error = Some(DeviceError::Lost { device: self.device.clone(), what: what.into(), source });
    }

    /// An answer of the kernel that is no usual one.
    #[cold]
    pub(super) fn note(&mut self, what: &str, source: io::Error) {
        self.error = Some(DeviceError::Io { device: self.device.clone(), what: what.into(), source });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_not_counted_to_the_mtu() {
        let health =
            Health::new("packet:x".into(), "x".into(), Interface { index: 1, is_ethernet: true }, 1514);
        let frame = |protocol: [u8; 2]| [[0; 12].as_slice(), &protocol].concat();
        for (protocol, longest) in
            [([8, 0], 1514), ([0x81, 0], 1518), ([0x88, 0xa8], 1518), ([0x91, 0], 1514)]
        {
            let frame = frame(protocol);
            assert!(health.fits(&frame, longest) && !health.fits(&frame, longest + 1), "{protocol:x?}");
        }
        assert!(health.fits(&[], 1514) && !health.fits(&[0x81], 1515));
    }
}
