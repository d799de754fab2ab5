//! An event counter behind a file descriptor: what a poll loop waits on, and another thread makes readable.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// eventfd(2), non-blocking, closed on exec.
#[derive(Debug)]
pub struct EventFd {
    fd: OwnedFd,
    /// Whether a peer has it, too.
    is_shared: bool,
}

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
        Ok(Self { fd: unsafe { OwnedFd::from_raw_fd(fd) }, is_shared: false })
    }

    /// A peer's, which is made non-blocking: a counter that it has filled must not stop who signals.
    ///
    /// # Errors
    /// InvalidInput for anything that is no such counter; those of fcntl(2).
    pub fn of_peer(fd: OwnedFd) -> io::Result<Self> {
        let link = std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd()))?;
        if link.as_os_str() != "anon_inode:[eventfd]" {
            let what = format!("{} is no eventfd", link.display().to_string().escape_debug());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, what));
        }
        // SAFETY: plain calls on a descriptor that we own.
        let done = unsafe {
            let flags = libc::fcntl(fd.as_raw_fd(), libc::F_GETFL);
            flags != -1 && libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, flags | libc::O_NONBLOCK) != -1
        };
        if done { Ok(Self { fd, is_shared: true }) } else { Err(io::Error::last_os_error()) }
    }

    /// Makes it readable.
    pub fn signal(&self) {
        if self.is_shared {
            return signal_shared(self.fd.as_raw_fd());
        }
        add_one(self.fd.as_raw_fd());
    }

    /// Waits until it is readable.
    ///
    /// # Errors
    /// A signal came first.
    pub fn wait(&self) -> io::Result<()> {
        let mut fds = libc::pollfd { fd: self.fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one entry, which lives as long as the call.
        if unsafe { libc::poll(&raw mut fds, 1, -1) } < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Makes it unreadable; whether it was readable.
    pub fn clear(&self) -> bool {
        let mut count = [0u8; 8];
        // SAFETY: eight writable bytes.
        let read = unsafe { libc::read(self.fd.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
        read == count.len() as isize
    }
}

/// Makes a counter readable that a peer has, too, and may have made blocking, and filled: then it is readable already. (A peer
/// that fills it in the moment between the two calls could still hold up who signals, until it is read.)
pub fn signal_shared(fd: RawFd) {
    if has(fd, libc::POLLOUT) {
        add_one(fd);
    }
}

/// Makes a counter unreadable that a peer has, too, and may have made blocking; what it was at, 0 where it was not readable.
pub fn take_shared(fd: RawFd) -> u64 {
    let mut count = 0u64;
    let part = libc::iovec { iov_base: (&raw mut count).cast(), iov_len: size_of::<u64>() };
    // SAFETY: one part of eight writable bytes, which live as long as the call.
    let read = unsafe { libc::preadv2(fd, &raw const part, 1, -1, libc::RWF_NOWAIT) };
    let read = match read {
        // A kernel before 5.8, which knows of no reading without waiting here.
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
    // SAFETY: eight readable bytes. It fails only where the counter is full, and then it is readable.
    unsafe { libc::write(fd, one.as_ptr().cast(), one.len()) };
}

fn is_unsupported() -> bool {
    io::Error::last_os_error().raw_os_error() == Some(libc::EOPNOTSUPP)
}

fn has(fd: RawFd, events: libc::c_short) -> bool {
    let mut fds = libc::pollfd { fd, events, revents: 0 };
    // SAFETY: one entry, which lives as long as the call, which does not wait.
    unsafe { libc::poll(&raw mut fds, 1, 0) > 0 }
}

impl AsFd for EventFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
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

    #[test]
    fn a_peers_counter_that_is_full_does_not_block_and_anything_else_is_refused() {
        // SAFETY: a number in, a descriptor out, which is ours.
        let blocking = unsafe { OwnedFd::from_raw_fd(libc::eventfd(0, 0)) };
        let event = EventFd::of_peer(blocking.try_clone().unwrap()).unwrap();
        let full = (u64::MAX - 1).to_ne_bytes();
        // SAFETY: eight readable bytes.
        let written = unsafe { libc::write(blocking.as_raw_fd(), full.as_ptr().cast(), full.len()) };
        assert_eq!(written, 8);
        event.signal();
        assert!(event.clear());
        // One that the peer has made blocking again, and filled; then one that it has emptied.
        // SAFETY: plain calls on a descriptor that is open, and eight readable bytes.
        unsafe {
            libc::fcntl(blocking.as_raw_fd(), libc::F_SETFL, 0);
            libc::write(blocking.as_raw_fd(), full.as_ptr().cast(), full.len());
        }
        event.signal();
        assert_eq!(take_shared(blocking.as_raw_fd()), u64::MAX - 1);
        assert_eq!(take_shared(blocking.as_raw_fd()), 0);
        event.signal();
        assert_eq!(take_shared(blocking.as_raw_fd()), 1);
        let file = std::fs::File::open("/dev/null").unwrap();
        let error = EventFd::of_peer(file.into()).unwrap_err();
        assert_eq!(error.to_string(), "/dev/null is no eventfd");
    }
}
