//! Sockets of `rtnetlink(7)`.

use crate::wire::{DONE, DUMP, DUMP_INTERRUPTED, ERROR, Message, Request, messages, u32_at};
use netlink_sys::{Socket as Netlink, SocketAddr, protocols::NETLINK_ROUTE};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

/// The most that the kernel puts into a datagram of a dump is 32 KiB; an event of a large group may take
/// more.
const DATAGRAM_BYTES: usize = 256 << 10;
/// Memory for events that nobody has read: a burst of 100,000 routes.
const EVENT_BYTES: usize = 64 << 20;
/// For how long a dump may say nothing.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// Groups of events (`RTNLGRP_*`): links, neighbours, addresses, routes, rules, IPv6's settings of
/// interfaces, nexthop objects.
const GROUPS: [u32; 11] = [1, 3, 5, 7, 8, 9, 11, 19, 12, 25, 32];

#[derive(Debug)]
pub(crate) struct Socket(Netlink);

/// How a dump ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dumped {
    Whole,
    /// Something changed meanwhile: it may lack some, or have some twice.
    Interrupted,
}

impl Socket {
    /// Opens a socket for questions. `is_strict`: the kernel regards what a dump asks for.
    pub(crate) fn open(is_strict: bool) -> io::Result<Self> {
        let mut socket = Netlink::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        socket.set_non_blocking(true)?;
        if is_strict {
            socket.set_netlink_get_strict_chk(true)?;
        }
        Ok(Self(socket))
    }

    /// Opens a socket for events.
    pub(crate) fn subscribe() -> io::Result<Self> {
        let socket = Self::open(false)?;
        // Needs CAP_NET_ADMIN; without it the system's bound holds.
        if rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket.0, EVENT_BYTES).is_err() {
            rustix::net::sockopt::set_socket_recv_buffer_size(&socket.0, EVENT_BYTES)?;
        }
        for group in GROUPS {
            // A kernel before 5.3 has no nexthop objects.
            match socket.0.add_membership(group) {
                Err(error) if group != 32 => return Err(error),
                _ => {}
            }
        }
        Ok(socket)
    }

    pub(crate) fn send(&self, request: Request) -> io::Result<()> {
        self.0.send_to(&request.bytes(), &SocketAddr::new(0, 0), 0).map(drop)
    }

    /// Receives a datagram into `buffer`. False if none has come.
    pub(crate) fn receive(&self, buffer: &mut Vec<u8>) -> io::Result<bool> {
        buffer.clear();
        buffer.reserve(DATAGRAM_BYTES);
        match self.0.recv_from(buffer, 0) {
            // Only the kernel, which is port 0, may tell us anything.
            Ok((_, from)) if from.port_number() != 0 => buffer.clear(),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        Ok(true)
    }

    /// Dumps all of a kind. `each` gets every message, `between` is called after each datagram.
    pub(crate) fn dump(
        &self, request: Request, sequence: u32, each: &mut dyn FnMut(&Message<'_>),
        between: &mut dyn FnMut() -> io::Result<()>,
    ) -> io::Result<Dumped> {
        self.send(request)?;
        let (mut buffer, mut dump) = (Vec::new(), Dump::new(sequence));
        loop {
            while !self.receive(&mut buffer)? {
                if !wait(&[self.as_fd()], Some(ANSWER_WITHIN))? {
                    return Err(io::ErrorKind::TimedOut.into());
                }
            }
            if let Some(ended) = dump.read(&buffer, each)? {
                return Ok(ended);
            }
            between()?;
        }
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Reads the datagrams of one dump.
pub(crate) struct Dump {
    sequence: u32,
    ended: Dumped,
}

impl Dump {
    pub(crate) fn new(sequence: u32) -> Self {
        Self { sequence, ended: Dumped::Whole }
    }

    /// Reads a datagram. Returns how the dump ended, if this was the last: its end may stand behind data
    /// (Linux 6.9).
    pub(crate) fn read(
        &mut self, datagram: &[u8], each: &mut dyn FnMut(&Message<'_>),
    ) -> io::Result<Option<Dumped>> {
        for message in messages(datagram).filter(|message| message.sequence == self.sequence) {
            if message.flags & DUMP_INTERRUPTED != 0 {
                self.ended = Dumped::Interrupted;
            }
            match message.kind {
                DONE | ERROR => {
                    refusal(message.body)?;
                    return Ok(Some(self.ended));
                }
                _ => each(&message),
            }
        }
        Ok(None)
    }
}

/// Reads the error that ends a dump. A family or an object that the kernel does not have is no error: there
/// are none of them.
fn refusal(body: &[u8]) -> io::Result<()> {
    let number = u32_at(body, 0).map_or(0, |error| (error as i32).wrapping_neg());
    let error = io::Error::from_raw_os_error(number);
    let absent = [Errno::OPNOTSUPP, Errno::AFNOSUPPORT, Errno::PROTONOSUPPORT, Errno::NOENT];
    let is_absent = absent.iter().any(|absent| absent.raw_os_error() == number);
    if number == 0 || is_absent { Ok(()) } else { Err(error) }
}

/// Makes the request of a dump: `fixed` begins with the family.
pub(crate) fn dump_of(kind: u16, sequence: u32, fixed: &[u8]) -> Request {
    Request::new(kind, DUMP, sequence, fixed)
}

/// Waits until one of several can be read. False if the time is over.
pub(crate) fn wait(fds: &[BorrowedFd<'_>], within: Option<Duration>) -> io::Result<bool> {
    let mut fds: Vec<_> = fds.iter().map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
    let within = within
        .map(|time| Timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) });
    match poll(&mut fds, within.as_ref()) {
        Err(Errno::INTR) => Ok(false),
        found => Ok(found? > 0),
    }
}
