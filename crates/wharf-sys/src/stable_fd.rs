//! `StableFd`: a descriptor whose number stays while the file behind it changes.

use crate::call::{check, descriptor};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// A descriptor of the same file as another one, until it is pointed to a third.
#[derive(Debug)]
pub struct StableFd(OwnedFd);

impl StableFd {
    /// Makes one for the file of `fd`.
    ///
    /// # Errors
    /// `EBADF` if `fd` is no descriptor, `EMFILE` if the process is out of them.
    pub fn of(fd: RawFd) -> io::Result<Self> {
        // SAFETY: the kernel refuses a number that is no descriptor; the one that comes back is new.
        unsafe { descriptor(libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 0)) }.map(Self)
    }

    /// Has it stand for the file of `fd` from now on. A set of epoll(7) forgets the file before once it is closed.
    ///
    /// # Errors
    /// `EBADF` if `fd` is no descriptor.
    pub fn point_to(&self, fd: RawFd) -> io::Result<()> {
        // SAFETY: numbers only. The target is this value's own: its owner knows that the file behind it changes.
        check(unsafe { libc::dup3(fd, self.0.as_raw_fd(), libc::O_CLOEXEC) }).map(drop)
    }
}

impl AsRawFd for StableFd {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::has;
    use crate::event::EventFd;
    use rustix::event::PollFlags;
    use std::os::fd::AsFd;

    fn is_readable(fd: &StableFd) -> bool {
        has(fd.0.as_fd(), PollFlags::IN).unwrap()
    }

    #[test]
    fn number_stays_and_file_changes() {
        let (first, second) = (EventFd::new().unwrap(), EventFd::new().unwrap());
        let stable = StableFd::of(first.as_fd().as_raw_fd()).unwrap();
        let number = stable.as_raw_fd();
        first.signal();
        assert!(is_readable(&stable));
        stable.point_to(second.as_fd().as_raw_fd()).unwrap();
        assert_eq!((stable.as_raw_fd(), is_readable(&stable)), (number, false));
        second.signal();
        assert!(is_readable(&stable));
        assert_eq!(stable.point_to(-1).unwrap_err().raw_os_error(), Some(libc::EBADF));
    }
}
