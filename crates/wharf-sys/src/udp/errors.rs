//! The error queue of a socket (`MSG_ERRQUEUE`, `ip(7)`).

use super::UdpSocket;
use super::control::{Control, ErrorReport};
use crate::call::check;
use std::os::fd::AsRawFd;

impl UdpSocket {
    /// Takes the next report off the error queue; `None` once it is empty. While it is not, the socket has an error that
    /// wakes threads which wait for it.
    pub fn next_report(&self) -> Option<ErrorReport> {
        loop {
            let mut control = Control::EMPTY;
            // SAFETY: `msghdr` is plain numbers and pointers, for which zero is valid.
            let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
            header.msg_control = control.0.as_mut_ptr().cast();
            header.msg_controllen = size_of::<Control>() as _;
            let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
            // SAFETY: no address, no room for data, and so many bytes of control messages, which live as long as the
            // call.
            check(unsafe { libc::recvmsg(self.fd().as_raw_fd(), &raw mut header, flags) }).ok()?;
            if let Some(report) = control.read(header.msg_controllen as _).report {
                return Some(report);
            }
        }
    }
}
