//! `Plan`: the frames of a batch as the messages of one call.
//!
//! A message is a run of datagrams of one frame each, a super-packet, or as much of a super-packet as the
//! kernel takes at once. So a frame may begin in one call and end in another, and a place among the frames is
//! a [`Position`].

use super::addressing::{Addressing, Place};
use super::datagram::Datagram;
use super::joining::{Joining, Run};
use std::ops::Range;
use wharf_mem::{Frame, MemError, Region};
use wharf_packet::gso::GSO_UDP;
use wharf_sys::udp::{Message, Writer};

/// Frames in one call, and thereby messages: as many as an owner hands over at once.
pub(super) const FRAMES_MAX: usize = wharf_core::engine::BULK_PACKETS_MAX;
/// Pieces in one call. The kernel takes 1024 of one message (`UIO_MAXIOV`).
pub(super) const PIECES_MAX: usize = 1024;

/// Bytes of a call that may be gathered before the kernel copies them: all messages of a bulk of usual
/// frames.
pub(super) const JOINED_BYTES: usize = 2 << 16;
/// Longest datagram that is gathered: the kernel copies shorter pieces more slowly than this does. Longer
/// ones gain nothing (`bench/udp.sh`).
const JOINED_BYTES_EACH_MAX: usize = 1500;

/// Frames before the position, and payload bytes of its frame that lie before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Position {
    pub(super) frames: usize,
    pub(super) bytes: usize,
}

/// The frames of each message.
#[derive(Debug)]
pub(super) struct Plan {
    /// Start of each message.
    firsts: Vec<Position>,
    /// Frames that belong to no message, in order, with the reason.
    unfit: Vec<(usize, &'static str)>,
    /// End of the last message, or of a frame without message behind it.
    end: Position,
}

impl Plan {
    pub(super) fn new() -> Self {
        let (firsts, unfit) = (Vec::with_capacity(FRAMES_MAX), Vec::with_capacity(FRAMES_MAX));
        Self { firsts, unfit, end: Position::default() }
    }

    /// Writes the datagrams of `frames` as messages, from the first on; the first `apart` datagrams each on
    /// its own. If the first frame is a super-packet, `begun_bytes` of it have been sent.
    #[inline]
    pub(super) fn fill<'b>(
        &mut self, writer: &mut Writer<'_, 'b>, frames: &'b [Frame], region: &'b Region,
        addressing: &mut Addressing, joining: &Joining, (apart, begun_bytes): (usize, usize),
    ) {
        self.firsts.clear();
        self.unfit.clear();
        self.end = Position { frames: 0, bytes: begun_bytes };
        let mut run: Option<Run<Place>> = None;
        for (at, frame) in frames.iter().take(FRAMES_MAX).enumerate() {
            match Look::at(frame, region, addressing) {
                Ok(look) if look.pieces > writer.room_pieces() => break,
                Ok(look) if look.is_super() => {
                    run.take().iter().for_each(|run| end(writer, run));
                    let each_bytes = joining.whole_bytes(look.segment_bytes, at < apart);
                    if !self.fill_super(writer, &look, (frame, region), each_bytes) {
                        break;
                    }
                }
                // Super-packets may have taken more messages than there are frames.
                Ok(_) if writer.room_messages() <= usize::from(run.is_some()) => break,
                Ok(look) => {
                    let bytes = look.datagram.payload_bytes;
                    if !run.as_mut().is_some_and(|run| run.add(&look.place, bytes)) {
                        let next = Run::new(look.place, bytes, joining, at < apart);
                        run.replace(next).iter().for_each(|run| end(writer, run));
                        self.firsts.push(Position { frames: at, bytes: 0 });
                    }
                    look.write(writer, frame, region);
                }
                Err(reason) => self.unfit.push((at, reason)),
            }
            self.end = Position { frames: at + 1, bytes: 0 };
        }
        run.iter().for_each(|run| end(writer, run));
    }

    /// Writes the rest of a super-packet as messages of up to `each_bytes`. Returns true if there was room
    /// for all of it.
    fn fill_super<'b>(
        &mut self, writer: &mut Writer<'_, 'b>, look: &Look, (frame, region): (&'b Frame, &'b Region),
        each_bytes: usize,
    ) -> bool {
        let all_bytes = look.datagram.payload_bytes;
        while self.end.bytes < all_bytes {
            if writer.room_messages() == 0 || look.pieces > writer.room_pieces() {
                return false;
            }
            let bytes = each_bytes.min(all_bytes - self.end.bytes);
            self.firsts.push(self.end);
            look.write_part(writer, frame, region, self.end.bytes..self.end.bytes + bytes);
            let segment_bytes = (bytes > look.segment_bytes).then_some(look.segment_bytes as u16);
            let (to, from) = look.place;
            writer.message(&Message { to, from, segment_bytes });
            self.end.bytes += bytes;
        }
        true
    }

    /// Returns the start of message `at`: frames before it are done once the messages before it are.
    pub(super) fn before(&self, at: usize) -> Position {
        self.firsts.get(at).copied().unwrap_or(self.end)
    }

    /// Returns those of the first `frames` frames that belong to no message.
    pub(super) fn unfit_of_first(&self, frames: usize) -> &[(usize, &'static str)] {
        let count = self.unfit.iter().take_while(|(at, _)| *at < frames).count();
        &self.unfit[..count]
    }
}

#[inline]
fn end(writer: &mut Writer<'_, '_>, run: &Run<Place>) {
    let (to, from) = run.to;
    if run.segment_bytes().is_some_and(|bytes| usize::from(bytes) <= JOINED_BYTES_EACH_MAX) {
        writer.join();
    }
    let written = writer.message(&Message { to, from, segment_bytes: run.segment_bytes() });
    debug_assert!(written, "as many messages as frames");
}

/// A frame's datagram.
struct Look {
    datagram: Datagram,
    place: Place,
    pieces: usize,
    /// Bytes of each datagram of a super-packet but the last; else 0.
    segment_bytes: usize,
}

impl Look {
    #[inline]
    fn at(frame: &Frame, region: &Region, addressing: &mut Addressing) -> Result<Self, &'static str> {
        let first = region.bytes(frame).map_err(foreign)?;
        let datagram = Datagram::find(first, frame.len_bytes() as usize)?;
        let place = addressing.place(&datagram, first)?;
        let (pieces, segment_bytes) = if frame.has_meta() { asked(frame, region)? } else { (1, 0) };
        Ok(Self { datagram, place, pieces, segment_bytes })
    }

    #[inline]
    fn is_super(&self) -> bool {
        (1..self.datagram.payload_bytes).contains(&self.segment_bytes)
    }

    #[inline]
    fn write<'b>(&self, writer: &mut Writer<'_, 'b>, frame: &'b Frame, region: &'b Region) {
        let Datagram { payload_at, payload_bytes, .. } = self.datagram;
        if self.pieces == 1 {
            let payload =
                region.bytes(frame).ok().and_then(|bytes| bytes.get(payload_at..payload_at + payload_bytes));
            payload.into_iter().for_each(|bytes| _ = writer.piece(bytes));
            return;
        }
        self.write_part(writer, frame, region, 0..payload_bytes);
    }

    /// Returns those bytes of the payload.
    fn write_part<'b>(
        &self, writer: &mut Writer<'_, 'b>, frame: &'b Frame, region: &'b Region, part: Range<usize>,
    ) {
        let (mut skip, mut left) = (self.datagram.payload_at + part.start, part.len());
        for chunk in region.chunks(frame).into_iter().flatten() {
            let behind = chunk.get(skip..).unwrap_or_default();
            skip = skip.saturating_sub(chunk.len());
            let piece = &behind[..behind.len().min(left)];
            left -= piece.len();
            if !piece.is_empty() {
                writer.piece(piece);
            }
        }
    }
}

/// Returns the pieces of a frame with a row in the side table, and its segment length.
#[cold]
fn asked(frame: &Frame, region: &Region) -> Result<(usize, usize), &'static str> {
    let meta = region.meta(frame).map_err(foreign)?;
    match region.chunks(frame).map_err(foreign)?.count() {
        _ if meta.gso_bytes > 0 && meta.gso_kind != GSO_UDP => Err("gso-kind"),
        count if count > PIECES_MAX => Err("too-many-chunks"),
        count => Ok((count, meta.gso_bytes.into())),
    }
}

fn foreign(_: MemError) -> &'static str {
    "foreign-pool"
}
