//! A network interface, for every device on one: its errors, and the lengths of its frames.

mod health;

pub use health::Health;

use crate::iface::{ETHERNET_BYTES, VLAN_BYTES, io_fault};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use wharf_core::device::DeviceError;
use wharf_sys::errno::{EAGAIN, ENETDOWN, ENODEV, EPERM};
use wharf_sys::ethtool::Ethtool;
use wharf_sys::interface::{Interface, InterfaceSocket, InterfaceState};
use wharf_sys::netlink::Netlink;

/// Explains why `socket` cannot be opened: without the privilege the text names the remedy.
pub(crate) fn no_socket(socket: &str, error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(EPERM) => format!("{socket} needs CAP_NET_RAW (`wharf devices` says how to get it)"),
        _ => format!("cannot open {socket}"),
    }
}

/// A usable interface.
#[derive(Debug, Clone)]
pub struct Link {
    /// The device's name, for messages.
    pub name: String,
    pub interface_name: String,
    pub interface: Interface,
    /// Its state when it was looked up.
    pub state: InterfaceState,
}

impl Link {
    /// Looks for `interface_name`, which must be Ethernet and up, in the network namespace of `socket`.
    pub(crate) fn find(
        name: String, interface_name: &str, socket: BorrowedFd<'_>,
    ) -> Result<Self, DeviceError> {
        let fault = |what: &str| io_fault(&name.escape_debug().to_string(), what);
        let interface = Interface::find(socket, interface_name)
            .map_err(fault("no such interface in this network namespace (`ip link` lists them)"))?;
        if !interface.is_ethernet {
            let what = "its frames have no Ethernet header: only Ethernet interfaces can be used".into();
            return Err(DeviceError::Unsupported { device: name, what });
        }
        let state = interface.state(socket).map_err(fault("the interface has gone again"))?;
        if !state.is_up {
            return Err(fault(&down(interface_name))(io::Error::from_raw_os_error(ENETDOWN)));
        }
        Ok(Self { name, interface_name: interface_name.into(), interface, state })
    }

    /// Makes an error of the setup.
    pub(crate) fn fault(&self, what: &str) -> impl Fn(io::Error) -> DeviceError + use<> {
        io_fault(&self.name, what)
    }

    /// Returns the driver's name, if it has one.
    pub(crate) fn driver(&self) -> Option<String> {
        Ethtool::open().and_then(|tool| tool.driver(&self.interface_name)).ok().map(|(driver, _)| driver)
    }

    /// Makes an error for frames that could not leave: the other end is not there.
    pub(crate) fn check_carrier(&self) -> Result<(), DeviceError> {
        if self.state.is_running {
            return Ok(());
        }
        Err(self.fault(&no_carrier(&self.interface_name))(io::Error::from_raw_os_error(ENETDOWN)))
    }

    /// Returns the reason that nothing arrives in `state`, which `socket` was asked for: for good, or until the interface is up again.
    pub(crate) fn arrival_fault(
        &self, socket: BorrowedFd<'_>, state: io::Result<InterfaceState>,
    ) -> Option<DeviceError> {
        let device = self.name.clone();
        let (what, source) = match state {
            Ok(state) if state.is_up => return None,
            Ok(_) => return Some(self.down_error(socket, down)),
            // The interface is being renamed.
            Err(error) if error.raw_os_error() == Some(EAGAIN) => return None,
            Err(error) if error.raw_os_error() == Some(ENODEV) => ("the interface is gone".into(), error),
            Err(error) => ("cannot look at the interface".into(), error),
        };
        Some(DeviceError::Gone { device, what, source })
    }

    /// Returns what is wrong with the line in `state`, which `socket` was asked for: what [`Link::arrival_fault`] returns, or that the other
    /// end is not there.
    pub(crate) fn line_fault(
        &self, socket: BorrowedFd<'_>, state: io::Result<InterfaceState>,
    ) -> Option<DeviceError> {
        if !state.as_ref().is_ok_and(|state| state.is_up && !state.is_running) {
            return self.arrival_fault(socket, state);
        }
        Some(self.down_error(socket, no_carrier))
    }

    /// Makes the error of a line that is down, with the interface's present name in the text.
    fn down_error(&self, socket: BorrowedFd<'_>, what: fn(&str) -> String) -> DeviceError {
        let name = present_name(socket, &self.interface);
        let what = what(name.as_ref().unwrap_or(&self.interface_name));
        DeviceError::Down { device: self.name.clone(), what, source: io::Error::from_raw_os_error(ENETDOWN) }
    }

    /// Returns the longest frame that may arrive, bytes: with two VLAN tags.
    #[cfg(feature = "xdp")]
    pub(crate) fn longest_arrival_bytes(&self) -> u32 {
        self.longest_bytes().saturating_add(2 * VLAN_BYTES)
    }

    /// Returns the longest frame by the MTU, bytes, without a tag.
    pub(crate) fn longest_bytes(&self) -> u32 {
        self.state.mtu_bytes.saturating_add(ETHERNET_BYTES)
    }
}

/// True if two interfaces of this network namespace are linked to each other: the ends of a veth pair.
pub(crate) fn are_peers(a: &str, b: &str) -> bool {
    let linked = || -> io::Result<bool> {
        let (socket, netlink) = (InterfaceSocket::open()?, Netlink::open()?);
        let [a, b] = [Interface::find(socket.as_fd(), a)?, Interface::find(socket.as_fd(), b)?];
        Ok(netlink.link_of(&a)? == Some(b.index) && netlink.link_of(&b)? == Some(a.index))
    };
    linked().unwrap_or(false)
}

/// Returns the name that an interface has by now: it may have been renamed.
pub(crate) fn present_name(socket: BorrowedFd<'_>, interface: &Interface) -> Option<String> {
    Interface::name_of(socket, interface.index).ok()
}

pub(crate) fn down(interface: &str) -> String {
    format!("the interface is down: `ip link set {interface} up`")
}

pub(crate) fn no_carrier(interface: &str) -> String {
    format!("{interface} has no carrier: its other end is down or not plugged in")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn privilege_is_named_only_on_permission_errors() {
        let said = |errno| no_socket("a raw socket", &io::Error::from_raw_os_error(errno));
        assert!(said(EPERM).contains("needs CAP_NET_RAW"));
        assert_eq!(said(wharf_sys::errno::EMFILE), "cannot open a raw socket");
    }
}
