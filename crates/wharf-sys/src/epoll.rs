//! epoll(7), edge by edge: many file descriptors to wait on, each of which can be masked.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Events fetched in one call.
const EVENTS: usize = 32;

/// A set of file descriptors, each under a number of its own.
#[derive(Debug)]
pub struct Epoll(OwnedFd);

impl Epoll {
    /// An empty one.
    ///
    /// # Errors
    /// The system is out of descriptors.
    pub fn new() -> io::Result<Self> {
        // SAFETY: epoll_create1 takes a number only.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just given us this descriptor, and nobody else knows of it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Adds `fd` under `number`: each time that something happens to it, it is told of once, or not at all while it is
    /// masked, as it is at first unless `unmasked`.
    ///
    /// # Errors
    /// There is no such descriptor, it cannot be waited on, or it is in the set already.
    pub fn add(&self, fd: RawFd, number: u64, unmasked: bool) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_ADD, fd, number, unmasked)
    }

    /// Masks or unmasks `fd`, of the same number as before. Unmasked, it is told of if it is readable or writable at
    /// that moment, and each time that something happens.
    ///
    /// # Errors
    /// It is not in the set.
    pub fn set(&self, fd: RawFd, number: u64, unmasked: bool) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_MOD, fd, number, unmasked)
    }

    /// Takes `fd` out of the set. One that a peer has, too, stays in it even when it is closed here.
    ///
    /// # Errors
    /// It is not in the set.
    pub fn remove(&self, fd: RawFd) -> io::Result<()> {
        self.control(libc::EPOLL_CTL_DEL, fd, 0, false)
    }

    fn control(&self, what: libc::c_int, fd: RawFd, number: u64, unmasked: bool) -> io::Result<()> {
        let wanted = if unmasked { libc::EPOLLIN | libc::EPOLLOUT } else { 0 };
        let mut event = libc::epoll_event { events: (libc::EPOLLET | wanted) as u32, u64: number };
        // SAFETY: one event, which the kernel reads within the call. A number that is no descriptor is refused.
        let done = unsafe { libc::epoll_ctl(self.0.as_raw_fd(), what, fd, &raw mut event) };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Waits until something is to be told, or for `timeout_ns`: `u64::MAX` for no bound. A signal ends it early.
    pub fn wait(&self, timeout_ns: u64) {
        let mut fds = libc::pollfd { fd: self.0.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        let seconds = i64::try_from(timeout_ns / 1_000_000_000).unwrap_or(i64::MAX);
        let timeout =
            libc::timespec { tv_sec: seconds, tv_nsec: (timeout_ns % 1_000_000_000) as libc::c_long };
        let timeout = if timeout_ns == u64::MAX { std::ptr::null() } else { &raw const timeout };
        // SAFETY: one entry and one time, or none, which live as long as the call; no signal mask. What it returns is
        // found by `told`: an error is a signal, after which nothing need be ready.
        unsafe { libc::ppoll(&raw mut fds, 1, timeout, std::ptr::null()) };
    }

    /// Shows the numbers of those to which something has happened, each once.
    pub fn told(&self, mut see: impl FnMut(u64)) {
        loop {
            let mut events = [libc::epoll_event { events: 0, u64: 0 }; EVENTS];
            let (fd, room) = (self.0.as_raw_fd(), EVENTS as libc::c_int);
            // SAFETY: room for as many events as are asked for; a timeout of 0 does not wait.
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
    /// Readable while something is to be told: a set can be in a set.
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::EventFd;
    use std::os::fd::AsFd;

    fn told(epoll: &Epoll) -> Vec<u64> {
        let mut numbers = Vec::new();
        epoll.told(|number| numbers.push(number));
        numbers
    }

    #[test]
    fn an_event_is_told_once_and_a_masked_one_never() {
        let (epoll, event) = (Epoll::new().unwrap(), EventFd::new().unwrap());
        let fd = event.as_fd().as_raw_fd();
        epoll.add(fd, 7, false).unwrap();
        event.signal();
        assert_eq!(told(&epoll), []);
        epoll.set(fd, 7, true).unwrap();
        assert_eq!((told(&epoll), told(&epoll)), (vec![7], vec![]), "what is so when it is unmasked, once");
        event.signal();
        epoll.wait(u64::MAX);
        assert_eq!((told(&epoll), told(&epoll)), (vec![7], vec![]));
        epoll.set(fd, 7, false).unwrap();
        event.signal();
        epoll.wait(1);
        assert_eq!(told(&epoll), []);
        assert!(epoll.add(-1, 0, true).is_err() && epoll.add(fd, 8, true).is_err());
    }

    #[test]
    fn a_set_in_a_set_tells_of_each_event_again() {
        let (outer, inner, event) = (Epoll::new().unwrap(), Epoll::new().unwrap(), EventFd::new().unwrap());
        inner.add(event.as_fd().as_raw_fd(), 1, true).unwrap();
        outer.add(inner.as_raw_fd(), 2, true).unwrap();
        for _ in 0..3 {
            // Nobody makes it unreadable: each signal counts all the same.
            event.signal();
            assert_eq!((told(&outer), told(&inner)), (vec![2], vec![1]));
            assert_eq!((told(&outer), told(&inner)), (vec![], vec![]));
        }
        event.signal();
        event.signal();
        assert_eq!(told(&outer), [2], "told of nothing twice, whatever the inner one still has to tell");
        event.signal();
        assert_eq!(told(&outer), [2]);
        inner.remove(event.as_fd().as_raw_fd()).unwrap();
        event.signal();
        assert_eq!(told(&inner), []);
    }
}
