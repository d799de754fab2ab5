//! `Health`: the state of the interface as far as it has been noticed, and the errors to be reported.

use super::{EAGAIN, ENETDOWN, ENODEV, Link, down, no_carrier, present_name};
use crate::iface::{ETHERNET_BYTES, State, VLAN_BYTES, io_fault, is_tagged, take_error};
use std::io;
use std::os::fd::BorrowedFd;
use wharf_core::device::DeviceError;
use wharf_mem::Frame;
use wharf_sys::interface::Interface;

#[derive(Debug)]
pub struct Health {
    device: String,
    interface_name: String,
    /// It was moved to another network namespace.
    is_elsewhere: bool,
    interface: Interface,
    state: State,
    /// Longest frame by the MTU, bytes, without a tag.
    longest_bytes: u32,
    /// True once a frame beyond that has been reported.
    told_too_long: bool,
    /// Error for the next reap.
    error: Option<DeviceError>,
    /// What is the matter, and the system's answer, unless it is up.
    why: (String, i32),
}

impl Health {
    pub fn new(link: Link) -> Self {
        let (state, told_too_long, error, longest_bytes) = (State::Up, false, None, link.longest_bytes());
        let Link { name: device, interface_name, interface, .. } = link;
        Self {
            device,
            interface_name,
            is_elsewhere: false,
            interface,
            state,
            longest_bytes,
            told_too_long,
            error,
            why: Default::default(),
        }
    }

    /// The device's name.
    pub(crate) fn device(&self) -> &str {
        &self.device
    }

    #[inline]
    pub(crate) fn state(&self) -> State {
        self.state
    }

    #[inline]
    pub(crate) fn longest_bytes(&self) -> u32 {
        self.longest_bytes
    }

    /// Returns the error to be reported, once.
    #[inline]
    pub(crate) fn take_error(&mut self) -> Result<(), DeviceError> {
        take_error(&mut self.error)
    }

    /// Looks at the interface by any socket of its network namespace.
    #[cold]
    pub(crate) fn look(&mut self, socket: BorrowedFd<'_>) {
        let down_error = || io::Error::from_raw_os_error(ENETDOWN);
        match self.interface.state(socket) {
            Err(error) if error.raw_os_error() == Some(ENODEV) => {
                self.change(State::Gone, "the interface is gone", error);
            }
            // The interface is being renamed: the last known state holds until the next look.
            Err(error) if error.raw_os_error() == Some(EAGAIN) => {}
            Err(error) => self.note("cannot look at the interface", error),
            Ok(state) if !state.is_running => {
                if let Some(name) = present_name(socket, &self.interface) {
                    self.interface_name = name;
                }
                let name = &self.interface_name;
                let what = match state.is_up {
                    true => no_carrier(name),
                    false if self.is_elsewhere => {
                        format!("{name} is down in another network namespace, where it was moved")
                    }
                    false => down(name),
                };
                self.change(State::Down, &what, down_error());
            }
            Ok(state) => {
                self.come_back();
                self.longest_bytes = state.mtu_bytes.saturating_add(ETHERNET_BYTES);
            }
        }
    }

    /// Reports a changed number or name: the interface was moved to another network namespace.
    pub(crate) fn follow(&mut self, interface: Interface, name: &str) {
        (self.interface, self.interface_name, self.is_elsewhere) = (interface, name.into(), true);
    }

    /// Notes that the interface is up. The error of a state before is dropped; that of [`Health::lose`] stays.
    pub fn come_back(&mut self) {
        if std::mem::replace(&mut self.state, State::Up) != State::Up {
            self.error.take_if(|error| matches!(error, DeviceError::Down { .. }));
        }
    }

    pub fn change(&mut self, to: State, what: &str, source: io::Error) {
        if self.state != to && self.state != State::Gone {
            self.state = to;
            self.why = (what.into(), source.raw_os_error().unwrap_or(0));
            self.error = self.state_error();
        }
    }

    fn state_error(&self) -> Option<DeviceError> {
        self.state.error(&self.device, &self.why.0, self.why.1)
    }

    /// Returns the state as of the last look: see [`Device::link`](wharf_core::device::Device::link).
    #[cold]
    pub(crate) fn link(&self) -> Option<Result<(), DeviceError>> {
        Some(self.state_error().map_or(Ok(()), Err))
    }

    /// Returns true if a frame needs no special treatment: it is as on a wire, of a length that any frame may
    /// have, and the interface is up.
    #[inline(always)]
    pub(crate) fn is_usual(&self, frame: &Frame) -> bool {
        let len_bytes = frame.len_bytes();
        len_bytes <= self.longest_bytes
            && len_bytes > ETHERNET_BYTES
            && !frame.has_meta()
            && self.state == State::Up
    }

    /// Returns true if the MTU allows a frame with these first bytes, of `len_bytes` in all: a tag is not
    /// counted.
    #[inline]
    pub(crate) fn fits(&self, first: &[u8], len_bytes: u32) -> bool {
        len_bytes <= self.longest_with(first)
    }

    fn longest_with(&self, first: &[u8]) -> u32 {
        self.longest_bytes.saturating_add(if is_tagged(first) { VLAN_BYTES } else { 0 })
    }

    /// Returns the reason that a frame with these first bytes, of `len_bytes` in all, cannot be sent now.
    #[cold]
    pub(crate) fn fault_of(&mut self, first: &[u8], len_bytes: u32) -> Option<&'static str> {
        self.state.reason().or_else(|| self.length_fault(first, len_bytes))
    }

    /// Works like [`Health::fault_of`], in any state of the interface.
    pub(crate) fn length_fault(&mut self, first: &[u8], len_bytes: u32) -> Option<&'static str> {
        let longest_bytes = self.longest_with(first);
        if len_bytes > longest_bytes {
            self.tell_too_long(len_bytes, longest_bytes);
            return Some("too-long");
        }
        (len_bytes <= ETHERNET_BYTES).then_some("too-short")
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

    /// Reports that nothing leaves although the interface is up.
    #[cold]
    pub(crate) fn lose(&mut self, what: &str, source: io::Error) {
        self.error = Some(DeviceError::Down { device: self.device.clone(), what: what.into(), source });
    }

    /// Reports an unusual error of the kernel.
    #[cold]
    pub(crate) fn note(&mut self, what: &str, source: io::Error) {
        self.error = Some(io_fault(&self.device, what)(source));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wharf_sys::interface::InterfaceState;

    #[test]
    fn a_tag_is_not_counted_to_the_mtu() {
        let link = Link {
            name: "packet:x".into(),
            interface_name: "x".into(),
            interface: Interface { index: 1, is_ethernet: true },
            state: InterfaceState { mtu_bytes: 1500, is_up: true, is_running: true },
        };
        let health = Health::new(link);
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
