//! Events that were received and not applied.

use crate::socket::Socket;
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// Events that wait for the end of a dump; beyond, all is dumped anew.
const PENDING_BYTES_MAX: usize = 32 << 20;
/// Bytes of events between two snapshots, so that readers see the first ones while more arrive.
const BATCH_BYTES: usize = 64 << 10;

/// The socket of events, and those that it has given.
#[derive(Debug)]
pub(crate) struct Inbox {
    events: Socket,
    pending: Vec<u8>,
    buffer: Vec<u8>,
    /// How often events were lost since this was last asked for.
    losses: u64,
}

impl Inbox {
    pub(crate) fn open() -> io::Result<Self> {
        Ok(Self { events: Socket::subscribe()?, pending: Vec::new(), buffer: Vec::new(), losses: 0 })
    }

    /// Receives up to a batch of events.
    pub(crate) fn receive_batch(&mut self) -> io::Result<()> {
        while self.pending.len() < BATCH_BYTES && self.receive()? {}
        Ok(())
    }

    /// Receives all events that have arrived.
    pub(crate) fn receive_all(&mut self) -> io::Result<()> {
        while self.receive()? {}
        Ok(())
    }

    /// Receives a datagram of events. Returns false if none has arrived.
    fn receive(&mut self) -> io::Result<bool> {
        match self.events.receive(&mut self.buffer) {
            Ok(false) => return Ok(false),
            Ok(true) => {}
            Err(error) if is_overrun(&error) => return self.discard().map(|()| false),
            Err(error) => return Err(error),
        }
        if self.pending.len() + self.buffer.len() > PENDING_BYTES_MAX {
            self.losses += 1;
            self.pending.clear();
        }
        self.pending.extend_from_slice(&self.buffer);
        self.pending.resize(self.pending.len().next_multiple_of(4), 0);
        Ok(true)
    }

    /// Empties the socket after an overrun. What it holds is older than the dump that follows. Until it
    /// is empty the kernel drops all further events, and reports no second overrun (`NETLINK_S_CONGESTED`).
    fn discard(&mut self) -> io::Result<()> {
        self.losses += 1;
        self.pending.clear();
        loop {
            match self.events.receive(&mut self.buffer) {
                Ok(false) => return Ok(()),
                Err(error) if !is_overrun(&error) => return Err(error),
                _ => {}
            }
        }
    }

    /// Returns the events for whoever applies them, and gives back later.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.pending)
    }

    /// Takes the memory of events that were applied.
    pub(crate) fn give_back(&mut self, mut applied: Vec<u8>) {
        applied.clear();
        applied.shrink_to(BATCH_BYTES);
        self.pending = applied;
    }

    /// Returns how often events were lost since the last call.
    pub(crate) fn take_losses(&mut self) -> u64 {
        std::mem::take(&mut self.losses)
    }
}

impl AsFd for Inbox {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.events.as_fd()
    }
}

fn is_overrun(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::NOBUFS.raw_os_error())
}
