//! `Sending`: frames to the kernel, one call each. The kernel has the frame when the call returns.

use super::PACKET_BYTES_MAX;
use super::end::End;
use crate::iface::{LookTimer, State, StuckTimer, TxBook};
use crate::vnet::{START_BYTES, VNET_HEADER_BYTES, VnetHeader};
use std::io::{self, IoSlice};
use wharf_core::device::Transmitted;
use wharf_mem::{Batch, Frame, Meta, Region};
use wharf_sys::errno::{EAGAIN, EINTR, ENOBUFS, ENOMEM};

/// Frames that may wait here to be reaped.
pub(super) const HELD_FRAMES_MAX: usize = wharf_mem::batch::BATCH_FRAMES_MAX;
/// Pieces that are written in place; longer chains are gathered first.
const CHUNKS_MAX: usize = 63;
/// Time that the kernel may have no room for the first frame.
const STUCK_NS: u64 = 5_000_000_000;

#[derive(Debug)]
pub(super) struct Sending {
    pub(super) book: TxBook,
    look: LookTimer,
    stuck: StuckTimer,
    /// Buffer for long chains; empty until there is one.
    joined: Vec<u8>,
}

/// Reason that a frame was not sent.
enum TxReject {
    /// The kernel has no room: the frame stays first.
    Full,
    Failed(&'static str),
}

impl Default for Sending {
    fn default() -> Self {
        Self {
            book: TxBook::new(HELD_FRAMES_MAX),
            look: LookTimer::new(1),
            stuck: StuckTimer::default(),
            joined: Vec::new(),
        }
    }
}

impl Sending {
    pub(super) fn transmit(
        &mut self, end: &mut End, region: Option<&Region>, batch: &mut Batch,
    ) -> Transmitted {
        self.look_after_a_while(end, batch);
        let (mut taken, mut no_room) = (false, false);
        while self.book.len() < HELD_FRAMES_MAX && !no_room {
            let Some(frame) = batch.frames().first() else { break };
            match self.send(end, region, frame) {
                Ok(()) => {
                    batch.pop().into_iter().for_each(|frame| self.book.sent(frame));
                    taken = true;
                }
                Err(TxReject::Failed(reason)) => {
                    self.book.fail(batch.pop(), reason);
                    taken = true;
                }
                Err(TxReject::Full) => no_room = true,
            }
        }
        self.look_now_and_then(end, taken);
        Transmitted { doorbell: taken, stopped: no_room || self.book.len() >= HELD_FRAMES_MAX }
    }

    /// Looks at the interface before a few frames: the MTU may have changed.
    #[inline]
    fn look_after_a_while(&mut self, end: &mut End, batch: &Batch) {
        if !batch.is_empty() && !end.is_elsewhere() && self.look.is_late() {
            end.look();
        }
    }

    #[inline]
    fn look_now_and_then(&mut self, end: &mut End, taken: bool) {
        if taken && self.look.is_due() {
            // The MTU may have changed.
            self.look.restart(end.look_every());
            end.look();
        }
    }

    #[inline]
    fn send(&mut self, end: &mut End, region: Option<&Region>, frame: &Frame) -> Result<(), TxReject> {
        let Some(region) = region else { return Err(TxReject::Failed("not-attached")) };
        let first = region.bytes(frame).map_err(|_| TxReject::Failed("foreign-pool"))?;
        if end.health.is_usual(frame) {
            let header = [0; VNET_HEADER_BYTES];
            return self.write(end, &[IoSlice::new(&header), IoSlice::new(first)]);
        }
        self.send_unusual(end, region, frame)
    }

    /// Sends a frame with requests, a long or a short one, or one for an interface that is down.
    #[inline(never)]
    fn send_unusual(&mut self, end: &mut End, region: &Region, frame: &Frame) -> Result<(), TxReject> {
        let foreign = |_| TxReject::Failed("foreign-pool");
        let meta = region.meta(frame).map_err(foreign)?;
        let (mut start, len_bytes) = ([0; START_BYTES], frame.len_bytes());
        let start = start_of(region, frame, &mut start).ok_or(TxReject::Failed("foreign-pool"))?;
        let header = header_to_send(start, len_bytes, &meta).map_err(TxReject::Failed)?;
        // Each segment of a super-packet must fit.
        let wire_bytes = match meta.gso_bytes {
            0 => len_bytes,
            payload => len_bytes.min(u32::from(header.header_bytes) + u32::from(payload)),
        };
        if !end.health.fits(start, wire_bytes) {
            end.look_at_mtu();
        }
        match end.health.length_fault(start, wire_bytes) {
            Some(reason) => return Err(TxReject::Failed(reason)),
            None if len_bytes as usize > PACKET_BYTES_MAX => return Err(TxReject::Failed("too-long")),
            None => {}
        }
        let header = header.bytes();
        let mut pieces = [IoSlice::new(&[]); CHUNKS_MAX + 1];
        let mut count = 1;
        pieces[0] = IoSlice::new(&header);
        for chunk in region.chunks(frame).map_err(foreign)? {
            let Some(piece) = pieces.get_mut(count) else {
                return self.send_joined(end, region, frame, &header);
            };
            *piece = IoSlice::new(chunk);
            count += 1;
        }
        self.write(end, &pieces[..count])?;
        if end.health.state() == State::Down {
            // The kernel has taken the frame.
            end.health.come_back();
        }
        Ok(())
    }

    /// Sends a chain of more pieces than the kernel takes.
    #[cold]
    fn send_joined(
        &mut self, end: &mut End, region: &Region, frame: &Frame, header: &[u8],
    ) -> Result<(), TxReject> {
        let mut joined = std::mem::take(&mut self.joined);
        joined.clear();
        let chunks = region.chunks(frame).map_err(|_| TxReject::Failed("foreign-pool"));
        let written = chunks.and_then(|chunks| {
            chunks.for_each(|chunk| joined.extend_from_slice(chunk));
            self.write(end, &[IoSlice::new(header), IoSlice::new(&joined)])
        });
        self.joined = joined;
        written
    }

    #[inline]
    fn write(&mut self, end: &mut End, pieces: &[IoSlice<'_>]) -> Result<(), TxReject> {
        let Some(tap) = end.tap() else { return Err(TxReject::Failed("closed")) };
        match tap.write(pieces) {
            Ok(_) => {
                self.stuck.clear();
                Ok(())
            }
            Err(error) => self.refused(end, pieces, error),
        }
    }

    #[cold]
    fn refused(&mut self, end: &mut End, pieces: &[IoSlice<'_>], error: io::Error) -> Result<(), TxReject> {
        let error = match (error.raw_os_error(), end.tap()) {
            (Some(EINTR), Some(tap)) => match tap.write(pieces) {
                Ok(_) => return Ok(()),
                Err(error) => error,
            },
            _ => error,
        };
        if let Some(EAGAIN | EINTR | ENOBUFS | ENOMEM) = error.raw_os_error() {
            return Err(self.no_room(end, error));
        }
        Err(TxReject::Failed(end.state_after(&error).reason().unwrap_or_else(|| {
            end.health.note("the kernel refuses a frame", error);
            "refused"
        })))
    }

    /// Keeps the frame, unless the kernel has had no room for too long.
    fn no_room(&mut self, end: &mut End, error: io::Error) -> TxReject {
        if !self.stuck.is_stuck(0, STUCK_NS) {
            return TxReject::Full;
        }
        self.stuck.clear();
        end.health.lose("the kernel has had no room for a frame for 5 s", error);
        TxReject::Failed("refused")
    }
}

/// Returns the first bytes of a frame: in place, or gathered in `room` if the first piece is too short.
fn start_of<'a>(region: &'a Region, frame: &'a Frame, room: &'a mut [u8; START_BYTES]) -> Option<&'a [u8]> {
    let first = region.bytes(frame).ok()?;
    if first.len() >= START_BYTES || first.len() == frame.len_bytes() as usize {
        return Some(first);
    }
    let mut at = 0;
    for chunk in region.chunks(frame).ok()? {
        let count = chunk.len().min(START_BYTES - at);
        room[at..at + count].copy_from_slice(&chunk[..count]);
        at += count;
    }
    Some(&room[..at])
}

/// Makes the header that carries the requests of `meta`.
fn header_to_send(start: &[u8], len_bytes: u32, meta: &Meta) -> Result<VnetHeader, &'static str> {
    VnetHeader::to_send(start, len_bytes as usize, meta).map_err(|unfit| unfit.reason())
}
