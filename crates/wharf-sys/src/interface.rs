//! State and settings of a network interface: `netdevice(7)`. Almost any socket can be asked (one of `AF_XDP`
//! cannot). It knows the interfaces of the network namespace that it was opened in.

use crate::call;
use crate::ethtool;
use crate::ifreq::{Operation, Request};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// An interface, by its number, which a rename does not change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interface {
    /// Number of the interface in the socket's network namespace.
    pub index: i32,
    /// True if its frames begin with an Ethernet header.
    pub is_ethernet: bool,
}

/// The state of an interface, which may change while it is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InterfaceState {
    /// Length of the longest payload of a frame, bytes, without Ethernet header and VLAN tag.
    pub mtu_bytes: u32,
    /// True if the interface is switched on (`IFF_UP`).
    pub is_up: bool,
    /// True if it has a carrier, too (`IFF_RUNNING`): the other end is there.
    pub is_running: bool,
}

/// A socket for questions about interfaces; needs no privilege.
#[derive(Debug)]
pub struct InterfaceSocket(OwnedFd);

impl InterfaceSocket {
    /// Opens a socket.
    ///
    /// # Errors
    /// `EMFILE`, `ENFILE`: out of descriptors.
    pub fn open() -> io::Result<Self> {
        call::socket(libc::AF_UNIX, libc::SOCK_DGRAM, 0).map(Self)
    }
}

impl AsFd for InterfaceSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Interface {
    /// Looks up the interface `name` in the network namespace of `socket`.
    ///
    /// # Errors
    /// `ENODEV` if there is none; a name of more than 15 bytes names none.
    pub fn find(socket: BorrowedFd<'_>, name: &str) -> io::Result<Self> {
        let mut request = Request::named(name)?;
        request.ask(socket, Operation::GET_INDEX)?;
        let index = request.index();
        request.ask(socket, Operation::GET_HARDWARE_ADDRESS)?;
        let kind = request.hardware_kind();
        Ok(Self { index, is_ethernet: matches!(kind, libc::ARPHRD_ETHER | libc::ARPHRD_LOOPBACK) })
    }

    /// Returns the name of the interface number `index` in the network namespace of `socket`.
    ///
    /// # Errors
    /// `ENODEV` if there is none.
    pub fn name_of(socket: BorrowedFd<'_>, index: i32) -> io::Result<String> {
        Ok(Request::of_index(socket, index)?.name())
    }

    /// Returns the interface's state.
    ///
    /// # Errors
    /// `ENODEV` if it is gone, `EAGAIN` while it is being renamed.
    pub fn state(&self, socket: BorrowedFd<'_>) -> io::Result<InterfaceState> {
        self.state_by_name(socket).map_err(|error| {
            // For milliseconds it has its new name, and is not found by it (`dev_change_name` in
            // net/core/dev.c).
            let is_there =
                error.raw_os_error() == Some(libc::ENODEV) && Request::of_index(socket, self.index).is_ok();
            if is_there { io::Error::from_raw_os_error(libc::EAGAIN) } else { error }
        })
    }

    fn state_by_name(&self, socket: BorrowedFd<'_>) -> io::Result<InterfaceState> {
        let mut request = Request::of_index(socket, self.index)?;
        request.ask(socket, Operation::GET_MTU)?;
        let mtu_bytes = request.mtu().max(0) as u32;
        let (is_up, mut is_running) = flags(socket, &mut request)?;
        // The kernel reports a new carrier up to a second late, and until then drops what is sent.
        if is_up && !is_running && ethtool::sync_carrier(socket, &mut request).is_ok() {
            is_running = flags(socket, &mut request)?.1;
        }
        Ok(InterfaceState { mtu_bytes, is_up, is_running: is_up && is_running })
    }

    /// Switches the interface on.
    ///
    /// # Errors
    /// `EPERM` without `CAP_NET_ADMIN`, `ENODEV` if it is gone.
    pub fn bring_up(&self, socket: BorrowedFd<'_>) -> io::Result<()> {
        let mut request = Request::of_index(socket, self.index)?;
        request.ask(socket, Operation::GET_FLAGS)?;
        request.set_flags(request.flags() | libc::IFF_UP);
        request.ask(socket, Operation::SET_FLAGS)
    }

    /// Sets the MTU: the length of the longest payload of a frame, bytes.
    ///
    /// # Errors
    /// `EINVAL` if the interface does not allow it; those of [`Interface::bring_up`].
    pub fn set_mtu(&self, socket: BorrowedFd<'_>, mtu_bytes: i32) -> io::Result<()> {
        let mut request = Request::of_index(socket, self.index)?;
        request.set_mtu(mtu_bytes);
        request.ask(socket, Operation::SET_MTU)
    }

    /// Sets `tx_queue_len`, in frames: of a TAP, the number of frames that wait in each queue to be read.
    ///
    /// # Errors
    /// Those of [`Interface::bring_up`].
    pub fn set_queue_frames(&self, socket: BorrowedFd<'_>, frames: i32) -> io::Result<()> {
        let mut request = Request::of_index(socket, self.index)?;
        request.set_queue_length(frames);
        request.ask(socket, Operation::SET_QUEUE_LENGTH)
    }
}

/// Returns whether the interface of `request` is up, and whether it is running.
fn flags(socket: BorrowedFd<'_>, request: &mut Request) -> io::Result<(bool, bool)> {
    request.ask(socket, Operation::GET_FLAGS)?;
    Ok((request.flags() & libc::IFF_UP != 0, request.flags() & libc::IFF_RUNNING != 0))
}
