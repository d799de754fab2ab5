//! `epoll(7)`, edge-triggered: a set of file descriptors to wait for, each of which can be masked.

use crate::call::check;
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// Events fetched in one call.
const EVENTS: usize = 32;

/// A set of file descriptors, each with a number of the caller's.
#[derive(Debug)]
pub struct Epoll(OwnedFd);

impl Epoll {
    /// Makes an empty set.
    ///
    /// # Errors
    /// `EMFILE`, `ENFILE`: out of descriptors.
    pub fn new() -> io::Result<Self> {
        Ok(Self(epoll::create(epoll::CreateFlags::CLOEXEC)?))
    }

    /// Adds `fd` under `number`, masked or `unmasked`. Each event of an unmasked descriptor is reported once;
    /// those of a masked one are not.
    ///
    /// # Errors
    /// `EBADF` for no descriptor, `EPERM` if it cannot be waited for, `EEXIST` if it is in the set.
    pub fn add(&self, fd: RawFd, number: u64, unmasked: bool) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, number, unmasked)
    }

    /// Masks or unmasks `fd`, which keeps its number. A descriptor that is readable or writable when it is
    /// unmasked is reported at once.
    ///
    /// # Errors
    /// `ENOENT` if it is not in the set.
    pub fn set(&self, fd: RawFd, number: u64, unmasked: bool) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd, number, unmasked)
    }

    /// Removes `fd` from the set. A descriptor that a peer has, too, stays in the set even when it is closed
    /// here.
    ///
    /// # Errors
    /// `ENOENT` if it is not in the set.
    pub fn remove(&self, fd: RawFd) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_DEL, fd, 0, false)
    }

    fn control(&self, what: libc::c_int, fd: RawFd, number: u64, unmasked: bool) -> io::Result<()> {
        let wanted = if unmasked { libc::EPOLLIN | libc::EPOLLOUT } else { 0 };
        let mut event = libc::epoll_event { events: (libc::EPOLLET | wanted) as u32, u64: number };
        // SAFETY: one event, which the kernel reads during the call. It refuses a number that is no
        // descriptor.
        check(unsafe { libc::epoll_ctl(self.0.as_raw_fd(), what, fd, &raw mut event) }).map(drop)
    }

    /// Waits for an event, at most `timeout_ns` nanoseconds; `u64::MAX` waits without bound. A signal ends
    /// the wait early.
    pub fn wait(&self, timeout_ns: u64) {
        let timeout = Timespec::try_from(Duration::from_nanos(timeout_ns));
        let timeout = timeout.ok().filter(|_| timeout_ns != u64::MAX);
        // The result is ignored: `take_events` finds the events, and an error is a signal, after which there
        // need be none.
        let _ = poll(&mut [PollFd::new(&self.0, PollFlags::IN)], timeout.as_ref());
    }

    /// Calls `see` with the number of each descriptor that has an event, once, and clears the events.
    pub fn take_events(&self, mut see: impl FnMut(u64)) {
        loop {
            let mut room = [MaybeUninit::uninit(); EVENTS];
            let (events, _) = epoll::wait(&self.0, &mut room, Some(&Timespec::default())).unwrap_or_default();
            events.iter().for_each(|event| see(event.data.u64()));
            if events.len() < EVENTS {
                return;
            }
        }
    }
}

impl AsRawFd for Epoll {
    /// Returns the set's own descriptor, which is readable while there are events: a set can be in a set.
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}
