//! `Whole`: frames too long for a slot, and super-packets: each by a call of its own, on a second socket.
//!
//! The kernel copies such a frame within the call. It is complete only when it has left, and all that was
//! posted to the ring before it. The kernel does not say which frame it has released, only the bytes charged
//! for all of them ([`PacketSocket::unsent_bytes`]). Since they leave in order, one has left when the charges
//! of those behind it account for all of that. A queueing discipline that segments a super-packet increases
//! its charge: some are then noticed a little late, the last one never.

use super::super::header_to_send;
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use wharf_mem::{Frame, Region};
use wharf_sys::packet::PacketSocket;

/// Most pieces of a chain: 64 KiB in frames of 2 KiB are 45.
pub(super) const CHUNKS_MAX: usize = 96;

#[derive(Debug)]
pub(super) struct Whole {
    socket: PacketSocket,
    sent: VecDeque<Held>,
    /// Bytes charged for all of them.
    charged_bytes: usize,
    /// Bytes that the kernel still held when it was last asked.
    unsent_bytes: usize,
}

#[derive(Debug)]
struct Held {
    frame: Frame,
    /// Frames that were posted to the ring before it.
    posted: u64,
    charge_bytes: usize,
}

/// Reason that a frame was not sent.
#[derive(Debug)]
pub(super) enum TxReject {
    /// The frame cannot be sent.
    Failed(&'static str),
    Refused(io::Error),
}

impl Whole {
    pub(super) fn new(socket: PacketSocket, capacity: usize) -> Self {
        Self { socket, sent: VecDeque::with_capacity(capacity), charged_bytes: 0, unsent_bytes: 0 }
    }

    pub(super) fn held(&self) -> usize {
        self.sent.len()
    }

    /// Sends a frame now. The caller then gives it to [`Whole::hold`], with the charge that is returned.
    pub(super) fn send(&mut self, frame: &Frame, region: &Region) -> Result<usize, TxReject> {
        let foreign = |_| TxReject::Failed("foreign-pool");
        let meta = region.meta(frame).map_err(foreign)?;
        let header = header_to_send(frame.len_bytes(), &meta).bytes();
        let mut pieces = [IoSlice::new(&[]); CHUNKS_MAX + 1];
        let mut count = 1;
        pieces[0] = IoSlice::new(&header);
        for chunk in region.chunks(frame).map_err(foreign)? {
            *pieces.get_mut(count).ok_or(TxReject::Failed("too-many-chunks"))? = IoSlice::new(chunk);
            count += 1;
        }
        let before_bytes = self.look();
        self.socket.send(&pieces[..count]).map_err(TxReject::Refused)?;
        // Other frames may have left meanwhile.
        Ok(self.look().saturating_sub(before_bytes).max(frame.len_bytes() as usize))
    }

    /// Asks the kernel for the bytes that it still holds. If it does not answer, none: then all frames are
    /// complete.
    pub(super) fn look(&mut self) -> usize {
        self.unsent_bytes = self.socket.unsent_bytes().unwrap_or(0);
        self.unsent_bytes
    }

    /// Keeps a frame that was sent after `posted` others, until it has left.
    pub(super) fn hold(&mut self, frame: Frame, posted: u64, charge_bytes: usize) {
        self.charged_bytes += charge_bytes;
        self.sent.push_back(Held { frame, posted, charge_bytes });
    }

    /// Returns the first frame held, if it had left at the last [`Whole::look`], and `left` frames of the
    /// ring were before it.
    #[inline]
    pub(super) fn next_sent(&mut self, left: u64) -> Option<Frame> {
        let first = self.sent.front().filter(|first| first.posted <= left)?;
        if self.unsent_bytes > self.charged_bytes - first.charge_bytes {
            return None;
        }
        self.take_oldest()
    }

    /// Returns the first frame held, wherever it is: the kernel has its copy.
    pub(super) fn take_oldest(&mut self) -> Option<Frame> {
        let first = self.sent.pop_front()?;
        self.charged_bytes -= first.charge_bytes;
        Some(first.frame)
    }

    pub(super) fn visit(&self, see: &mut dyn FnMut(&Frame)) {
        self.sent.iter().for_each(|held| see(&held.frame));
    }
}
