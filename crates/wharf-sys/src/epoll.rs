//! `epoll(7)`, edge-triggered: a set of file descriptors to wait for, each of which can be masked.

use crate::call::{check, descriptor};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

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
        // SAFETY: epoll_create1 takes a number only; the descriptor is new.
        unsafe { descriptor(libc::epoll_create1(libc::EPOLL_CLOEXEC)) }.map(Self)
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
        let mut fds = libc::pollfd { fd: self.0.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        let seconds = i64::try_from(timeout_ns / 1_000_000_000).unwrap_or(i64::MAX);
        let timeout =
            libc::timespec { tv_sec: seconds, tv_nsec: (timeout_ns % 1_000_000_000) as libc::c_long };
        let timeout = if timeout_ns == u64::MAX { std::ptr::null() } else { &raw const timeout };
        // SAFETY: one entry and one time, or none, which live as long as the call; no signal mask. The result
        // is ignored: `take_events` finds the events, and an error is a signal, after which there need be
        // none.
        unsafe { libc::ppoll(&raw mut fds, 1, timeout, std::ptr::null()) };
    }

    /// Calls `see` with the number of each descriptor that has an event, once, and clears the events.
    pub fn take_events(&self, mut see: impl FnMut(u64)) {
        loop {
            let mut events = [libc::epoll_event { events: 0, u64: 0 }; EVENTS];
            let (fd, room) = (self.0.as_raw_fd(), EVENTS as libc::c_int);
            // SAFETY: room for as many events as are asked for. A timeout of 0 does not wait.
            let count = unsafe { libc::epoll_wait(fd, events.as_mut_ptr(), room, 0) };
            let count = usize::try_from(count).unwrap_or(0);
            events[..count].iter().for_each(|event| see(event.u64));
            if count < EVENTS {
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
