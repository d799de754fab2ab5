//! `Whole`: what is too long for a slot, and super-packets: each by a call of its own, on a second socket.
//!
//! It is copied by the kernel within the call, and so complete at once; but it is given back in its turn, when all that
//! was posted to the ring before it has left.

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
    /// Each with the number of frames that were posted to the ring before it.
    sent: VecDeque<(Frame, u64)>,
}

/// Why a frame was not sent.
#[derive(Debug)]
pub(super) enum Unsent {
    /// It cannot be, whatever the kernel says.
    Unfit(&'static str),
    Refused(io::Error),
}

impl Whole {
    pub(super) fn new(socket: PacketSocket, capacity: usize) -> Self {
        Self { socket, sent: VecDeque::with_capacity(capacity) }
    }

    pub(super) fn held(&self) -> usize {
        self.sent.len()
    }

    /// Sends a frame now; the caller then gives it to [`Whole::hold`].
    pub(super) fn send(&self, frame: &Frame, region: &Region) -> Result<(), Unsent> {
        let foreign = |_| Unsent::Unfit("foreign-pool");
        let meta = region.meta(frame).map_err(foreign)?;
        let header = header_to_send(frame.len_bytes(), &meta).bytes();
        let mut pieces = [IoSlice::new(&[]); CHUNKS_MAX + 1];
        let mut count = 1;
        pieces[0] = IoSlice::new(&header);
        for chunk in region.chunks(frame).map_err(foreign)? {
            *pieces.get_mut(count).ok_or(Unsent::Unfit("too-many-chunks"))? = IoSlice::new(chunk);
            count += 1;
        }
        self.socket.send(&pieces[..count]).map(drop).map_err(Unsent::Refused)
    }

    /// Keeps a frame that was sent after `posted` others, until it is its turn.
    pub(super) fn hold(&mut self, frame: Frame, posted: u64) {
        self.sent.push_back((frame, posted));
    }

    /// The first frame held, if `left` frames of the ring were before it.
    #[inline]
    pub(super) fn next_sent(&mut self, left: u64) -> Option<Frame> {
        self.sent.front().filter(|(_, posted)| *posted <= left)?;
        self.sent.pop_front().map(|(frame, _)| frame)
    }

    pub(super) fn visit(&self, see: &mut dyn FnMut(&Frame)) {
        self.sent.iter().for_each(|(frame, _)| see(frame));
    }
}
