//! An event counter behind a file descriptor: poll loops wait for it, and other threads signal it.

use crate::call::has;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::{Errno, ReadWriteFlags};
use std::io::{self, IoSliceMut};
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
        let fd = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
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
        fcntl_setfl(&fd, fcntl_getfl(&fd)? | OFlags::NONBLOCK)?;
        Ok(Self { fd, is_shared: true })
    }

    /// Makes the counter readable.
    pub fn signal(&self) {
        if self.is_shared {
            return signal_shared(self.fd.as_raw_fd());
        }
        add_one(self.fd.as_fd());
    }

    /// Waits until the counter is readable.
    ///
    /// # Errors
    /// `EINTR` if a signal came first.
    pub fn wait(&self) -> io::Result<()> {
        poll(&mut [PollFd::new(&self.fd, PollFlags::IN)], None)?;
        Ok(())
    }

    /// Makes the counter unreadable, and returns true if it was readable.
    pub fn clear(&self) -> bool {
        rustix::io::read(&self.fd, &mut [0; 8]) == Ok(8)
    }
}

/// Makes a counter readable that a peer has, too. The peer may have made it blocking and filled it: then it
/// is readable already. (A peer that fills it between the two calls can still hold the caller up, until it is
/// read.)
pub fn signal_shared(fd: RawFd) {
    let Some(fd) = borrowed(fd) else { return };
    // A call that fails, as it does without memory or with a limit of no descriptors, says nothing of the counter: a signal left
    // out would leave the peer asleep.
    if has(fd, PollFlags::OUT) != Ok(false) {
        add_one(fd);
    }
}

/// Makes a counter unreadable that a peer has, too, and may have made blocking. Returns its value: 0 if it
/// was not readable.
pub fn take_shared(fd: RawFd) -> u64 {
    let Some(fd) = borrowed(fd) else { return 0 };
    let mut count = [0; 8];
    let parts = &mut [IoSliceMut::new(&mut count)];
    let read = match rustix::io::preadv2(fd, parts, u64::MAX, ReadWriteFlags::NOWAIT) {
        // Linux before 5.8 has no `RWF_NOWAIT` here.
        Err(Errno::OPNOTSUPP) if has(fd, PollFlags::IN) == Ok(true) => rustix::io::readv(fd, parts),
        read => read,
    };
    if read == Ok(8) { u64::from_ne_bytes(count) } else { 0 }
}

fn add_one(fd: BorrowedFd<'_>) {
    // Fails only if the counter is full, and then it is readable.
    let _ = rustix::io::write(fd, &1u64.to_ne_bytes());
}

/// Borrows the descriptor `fd` for one call; `None` if the number is negative.
fn borrowed<'a>(fd: RawFd) -> Option<BorrowedFd<'a>> {
    // SAFETY: callers hold it open meanwhile; the kernel refuses another number. It is not -1.
    (fd >= 0).then(|| unsafe { BorrowedFd::borrow_raw(fd) })
}

impl AsFd for EventFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
