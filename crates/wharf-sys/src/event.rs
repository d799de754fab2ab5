//! An event counter behind a file descriptor: what a poll loop waits on, and another thread makes readable.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// eventfd(2), non-blocking, closed on exec.
#[derive(Debug)]
pub struct EventFd(OwnedFd);

impl EventFd {
    /// A new one, not readable.
    ///
    /// # Errors
    /// The system is out of descriptors.
    pub fn new() -> io::Result<Self> {
        // SAFETY: eventfd takes numbers only.
        let fd = unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just given us this descriptor, and nobody else knows of it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Makes it readable.
    pub fn signal(&self) {
        let one = 1u64.to_ne_bytes();
        // SAFETY: eight readable bytes. It fails only where the counter is full, and then it is readable.
        unsafe { libc::write(self.0.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    }

    /// Waits until it is readable.
    ///
    /// # Errors
    /// A signal came first.
    pub fn wait(&self) -> io::Result<()> {
        let mut fds = libc::pollfd { fd: self.0.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one entry, which lives as long as the call.
        if unsafe { libc::poll(&raw mut fds, 1, -1) } < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Makes it unreadable; whether it was readable.
    pub fn clear(&self) -> bool {
        let mut count = [0u8; 8];
        // SAFETY: eight writable bytes.
        let read = unsafe { libc::read(self.0.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
        read == count.len() as isize
    }
}

impl AsFd for EventFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readable_from_signal_to_clear() {
        let event = EventFd::new().unwrap();
        assert!(!event.clear());
        event.signal();
        event.signal();
        event.wait().unwrap();
        assert_eq!((event.clear(), event.clear()), (true, false));
    }
}
