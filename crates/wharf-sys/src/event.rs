//! An event counter behind a file descriptor: poll loops wait for it, and other threads signal it.

use crate::call::{check, descriptor, has};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

/// An `eventfd(2)`: non-blocking, closed on exec.
#[derive(Debug)]
pub struct EventFd {
    fd: OwnedFd,
    /// True if a peer has the descriptor, too.
    is_shared: bool,
}

impl EventFd {
    /// Makes a counter at 0, not readable.
    ///
    /// # Errors
    /// `EMFILE`, `ENFILE`: out of descriptors.
    pub fn new() -> io::Result<Self> {
        // SAFETY: eventfd takes numbers only; the descriptor is new.
        let fd = unsafe { descriptor(libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC)) }?;
        Ok(Self { fd, is_shared: false })
    }

    /// Takes a peer's counter, and makes it non-blocking: a counter that the peer has filled must not stop a
    /// signalling thread.
    ///
    /// # Errors
    /// `InvalidInput` if `fd` is no eventfd; those of `fcntl(2)`.
    pub fn of_peer(fd: OwnedFd) -> io::Result<Self> {
        let link = std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd()))?;
        if link.as_os_str() != "anon_inode:[eventfd]" {
            let what = format!("{} is no eventfd", link.display().to_string().escape_debug());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        // SAFETY: plain calls on a descriptor that is owned here.
        unsafe {
            let flags = check(libc::fcntl(fd.as_raw_fd(), libc::F_GETFL))? as libc::c_int;
            check(libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, flags | libc::O_NONBLOCK))?;
        }
        Ok(Self { fd, is_shared: true })
    }

    /// Makes the counter readable.
    pub fn signal(&self) {
        if self.is_shared {
            return signal_shared(self.fd.as_raw_fd());
        }
        add_one(self.fd.as_raw_fd());
    }

    /// Waits until the counter is readable.
    ///
    /// # Errors
    /// `EINTR` if a signal came first.
    pub fn wait(&self) -> io::Result<()> {
        let mut fds = libc::pollfd { fd: self.fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one entry, which lives as long as the call.
        check(unsafe { libc::poll(&raw mut fds, 1, -1) }).map(drop)
    }

    /// Makes the counter unreadable, and returns true if it was readable.
    pub fn clear(&self) -> bool {
        let mut count = [0u8; 8];
        // SAFETY: eight writable bytes.
        let read = unsafe { libc::read(self.fd.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
        read == count.len() as isize
    }
}

/// Makes a counter readable that a peer has, too. The peer may have made it blocking and filled it: then it
/// is readable already. (A peer that fills it between the two calls can still hold the caller up, until it is
/// read.)
pub fn signal_shared(fd: RawFd) {
    let mut fds = libc::pollfd { fd, events: libc::POLLOUT, revents: 0 };
    // SAFETY: one entry, which lives as long as the call.
    let count = unsafe { libc::poll(&raw mut fds, 1, 0) };
    // A call that fails, as it does without memory or with a limit of no descriptors, says nothing of the counter: a signal left
    // out would leave the peer asleep.
    if count != 0 {
        add_one(fd);
    }
}

/// Makes a counter unreadable that a peer has, too, and may have made blocking. Returns its value: 0 if it
/// was not readable.
pub fn take_shared(fd: RawFd) -> u64 {
    let mut count = 0u64;
    let part = libc::iovec { iov_base: (&raw mut count).cast(), iov_len: size_of::<u64>() };
    // SAFETY: one part of eight writable bytes, which live as long as the call.
    let read = unsafe { libc::preadv2(fd, &raw const part, 1, -1, libc::RWF_NOWAIT) };
    let read = match read {
        // Linux before 5.8 has no `RWF_NOWAIT` here.
        -1 if is_unsupported() && has(fd, libc::POLLIN) => {
            // SAFETY: as above.
            unsafe { libc::readv(fd, &raw const part, 1) }
        }
        read => read,
    };
    if read == size_of::<u64>() as isize { count } else { 0 }
}

fn add_one(fd: RawFd) {
    let one = 1u64.to_ne_bytes();
    // SAFETY: eight readable bytes. The call fails only if the counter is full, and then it is readable.
    unsafe { libc::write(fd, one.as_ptr().cast(), one.len()) };
}

fn is_unsupported() -> bool {
    io::Error::last_os_error().raw_os_error() == Some(libc::EOPNOTSUPP)
}

impl AsFd for EventFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
