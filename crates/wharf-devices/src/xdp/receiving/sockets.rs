//! `Sockets`: the sockets of a receiver, one for each queue, and the descriptor that stands for them.

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use wharf_sys::epoll::Epoll;
use wharf_sys::xdp::{BusyPoll, Statistics, XdpSocket};

/// The bound sockets of a receiver, in the order of its rings.
#[derive(Debug)]
pub(super) struct Sockets {
    bound: Vec<Bound>,
    /// Stands for several sockets. One stands for itself.
    set: Option<Epoll>,
    /// The first socket sends as well: it is in the set only while notifications are wanted, since each frame that leaves would
    /// take the set's lock.
    sends: bool,
}

/// A socket that is bound to a queue.
#[derive(Debug)]
pub(super) struct Bound {
    pub(super) queue: u32,
    pub(super) socket: Arc<XdpSocket>,
}

impl Sockets {
    /// Keeps the sockets `bound`, of which there is at least one.
    pub(super) fn new(bound: Vec<Bound>, sends: bool) -> io::Result<Self> {
        let set = if bound.len() > 1 { Some(Epoll::new()?) } else { None };
        if let Some(set) = &set {
            for Bound { queue, socket } in bound.iter().skip(usize::from(sends)) {
                set.add(socket.fd().as_raw_fd(), u64::from(*queue), true)?;
            }
        }
        Ok(Self { bound, set, sends })
    }

    /// Returns the socket of the first queue.
    pub(super) fn first(&self) -> &Arc<XdpSocket> {
        &self.bound[0].socket
    }

    /// Returns the sockets, in the order of the rings.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Bound> {
        self.bound.iter()
    }

    /// Returns the numbers of the queues.
    pub(super) fn queues(&self) -> impl Iterator<Item = u32> {
        self.bound.iter().map(|bound| bound.queue)
    }

    /// Returns the descriptor that becomes readable when a frame arrives, and, if a socket sends, with completions.
    pub(super) fn wait_fd(&self) -> RawFd {
        self.set.as_ref().map_or_else(|| self.first().fd().as_raw_fd(), AsRawFd::as_raw_fd)
    }

    /// Clears the notifications so far, so that the next one is told. Returns false if the system lacks the resources to tell it.
    pub(super) fn arm(&self) -> bool {
        let Some(set) = &self.set else { return true };
        let (fd, queue) = (self.first().fd().as_raw_fd(), u64::from(self.bound[0].queue));
        let is_told = !self.sends || set.add(fd, queue, true).or_else(|_| set.set(fd, queue, true)).is_ok();
        set.take_events(|_| {});
        is_told
    }

    /// Takes the socket that sends out of the set.
    pub(super) fn disarm(&self) {
        if let (Some(set), true) = (&self.set, self.sends) {
            // It is not in the set if it was not armed.
            let _ = set.remove(self.first().fd().as_raw_fd());
        }
    }

    /// Makes the adapter look at the fill ring of socket `at`. A look at the interface finds the error.
    pub(super) fn wake_fill(&self, at: usize) {
        let _ = self.bound[at].socket.wake_fill();
    }

    /// Lets [`Sockets::busy_poll`] poll the queues.
    pub(super) fn set_busy_poll(&self, how: BusyPoll) -> io::Result<()> {
        self.bound.iter().try_for_each(|bound| bound.socket.set_busy_poll(how))
    }

    /// Makes the kernel poll the queue of each socket. A look at the interface finds the errors.
    pub(super) fn busy_poll(&self) {
        for bound in &self.bound {
            let _ = bound.socket.wake_fill();
        }
    }

    /// Returns the sums of the kernel's counts.
    pub(super) fn statistics(&self) -> io::Result<Statistics> {
        let mut sum = Statistics::default();
        for bound in &self.bound {
            let one = bound.socket.statistics()?;
            sum.received_dropped += one.received_dropped;
            sum.receive_ring_full += one.receive_ring_full;
        }
        Ok(sum)
    }
}
