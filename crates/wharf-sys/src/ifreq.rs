//! `struct ifreq`: a request about one network interface (`netdevice(7)`), by name.

use crate::call::{check, text};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

const _: () = assert!(size_of::<libc::ifreq>() == 40);

/// An `ioctl(2)` that reads and writes one `ifreq`, and no other memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Operation(libc::Ioctl);

impl Operation {
    pub(crate) const GET_NAME: Self = Self(libc::SIOCGIFNAME as _);
    pub(crate) const GET_INDEX: Self = Self(libc::SIOCGIFINDEX as _);
    pub(crate) const GET_HARDWARE_ADDRESS: Self = Self(libc::SIOCGIFHWADDR as _);
    pub(crate) const GET_MTU: Self = Self(libc::SIOCGIFMTU as _);
    pub(crate) const SET_MTU: Self = Self(libc::SIOCSIFMTU as _);
    pub(crate) const GET_FLAGS: Self = Self(libc::SIOCGIFFLAGS as _);
    pub(crate) const SET_FLAGS: Self = Self(libc::SIOCSIFFLAGS as _);
    pub(crate) const SET_QUEUE_LENGTH: Self = Self(libc::SIOCSIFTXQLEN as _);
    pub(crate) const SET_TUN: Self = Self(libc::TUNSETIFF as _);
    pub(crate) const GET_TUN: Self = Self(libc::TUNGETIFF as _);
}

/// An `ifreq`: all of its bytes are initialised.
pub(crate) struct Request(libc::ifreq);

impl Request {
    /// Makes a request without a name.
    pub(crate) fn empty() -> Self {
        // SAFETY: `ifreq` is plain numbers, for which zero is valid.
        Self(unsafe { std::mem::zeroed() })
    }

    /// Makes a request about the interface `name`.
    ///
    /// # Errors
    /// `ENODEV` for a name that no interface can have: empty, longer than 15 bytes, or with a zero in it.
    pub(crate) fn named(name: &str) -> io::Result<Self> {
        let mut request = Self::empty();
        // One byte stays zero: the name ends there.
        if name.is_empty() || name.len() >= request.0.ifr_name.len() || name.contains('\0') {
            return Err(io::Error::from_raw_os_error(libc::ENODEV));
        }
        for (to, from) in request.0.ifr_name.iter_mut().zip(name.bytes()) {
            *to = from as libc::c_char;
        }
        Ok(request)
    }

    /// Makes a request about the interface number `index` in the network namespace of `socket`.
    ///
    /// # Errors
    /// `ENODEV` if there is none.
    pub(crate) fn of_index(socket: BorrowedFd<'_>, index: i32) -> io::Result<Self> {
        let mut request = Self::empty();
        request.set_index(index);
        request.ask(socket, Operation::GET_NAME)?;
        Ok(request)
    }

    /// Hands the request to the kernel, which writes its answer into it.
    pub(crate) fn ask(&mut self, fd: BorrowedFd<'_>, operation: Operation) -> io::Result<()> {
        // SAFETY: each `Operation` reads and writes one `ifreq`, whose size is asserted above.
        check(unsafe { libc::ioctl(fd.as_raw_fd(), operation.0 as _, &raw mut self.0) }).map(drop)
    }

    /// Hands `words`, which begin with a command, to the kernel by `SIOCETHTOOL`.
    ///
    /// # Safety
    /// They have room for all that the kernel writes for that command.
    pub(crate) unsafe fn ask_ethtool(&mut self, socket: BorrowedFd<'_>, words: &mut [u32]) -> io::Result<()> {
        self.0.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
        // SAFETY: the request and the words that it points to live through the call. The words are as many as the
        // command wants: the caller's.
        check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCETHTOOL as _, &raw mut self.0) }).map(drop)
    }

    pub(crate) fn name(&self) -> String {
        text(&self.0.ifr_name.map(|byte| byte as u8))
    }

    pub(crate) fn index(&self) -> i32 {
        // SAFETY: a member of plain numbers, whose bytes are initialised. So in all methods below.
        unsafe { self.0.ifr_ifru.ifru_ifindex }
    }

    pub(crate) fn set_index(&mut self, index: i32) {
        self.0.ifr_ifru.ifru_ifindex = index;
    }

    /// Sets `ifr_qlen`, which is the index's place by another name.
    pub(crate) fn set_queue_length(&mut self, frames: i32) {
        self.set_index(frames);
    }

    /// Returns the hardware address's kind, `ARPHRD_*`.
    pub(crate) fn hardware_kind(&self) -> u16 {
        // SAFETY: as in `index`.
        unsafe { self.0.ifr_ifru.ifru_hwaddr.sa_family }
    }

    pub(crate) fn mtu(&self) -> i32 {
        // SAFETY: as in `index`.
        unsafe { self.0.ifr_ifru.ifru_mtu }
    }

    pub(crate) fn set_mtu(&mut self, bytes: i32) {
        self.0.ifr_ifru.ifru_mtu = bytes;
    }

    /// Returns the flags, `IFF_*`: 16 of them.
    pub(crate) fn flags(&self) -> libc::c_int {
        // SAFETY: as in `index`.
        libc::c_int::from(unsafe { self.0.ifr_ifru.ifru_flags })
    }

    pub(crate) fn set_flags(&mut self, flags: libc::c_int) {
        self.0.ifr_ifru.ifru_flags = flags as libc::c_short;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_no_interface_can_have_is_refused() {
        for name in ["", "sixteen-bytes-xx", "a\0b"] {
            let error = Request::named(name).err().and_then(|error| error.raw_os_error());
            assert_eq!(error, Some(libc::ENODEV), "{name:?}");
        }
        assert_eq!(Request::named("fifteen-bytes-x").unwrap().name(), "fifteen-bytes-x");
    }
}
