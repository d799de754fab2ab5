//! `Plan`: the frames of a batch as the messages of one call.

use super::addressing::{Addressing, Place};
use super::datagram::Datagram;
use super::joining::{Joining, Run};
use wharf_mem::{Frame, MemError, Region};
use wharf_sys::udp::{Message, Writer};

/// Frames in one call, and thereby messages: as many as an owner hands over at once.
pub(super) const FRAMES_MAX: usize = wharf_core::run::BULK_PACKETS_MAX;
/// Pieces in one call: of one message, the kernel takes 1024 (UIO_MAXIOV).
pub(super) const PIECES_MAX: usize = 1024;

/// Which frames went into which messages.
#[derive(Debug)]
pub(super) struct Plan {
    /// The first frame of each message.
    firsts: Vec<usize>,
    /// Frames that go into none, in order, and why.
    unfit: Vec<(usize, &'static str)>,
    /// Frames that were looked at.
    frames: usize,
}

impl Plan {
    pub(super) fn new() -> Self {
        let (firsts, unfit) = (Vec::with_capacity(FRAMES_MAX), Vec::with_capacity(FRAMES_MAX));
        Self { firsts, unfit, frames: 0 }
    }

    /// Writes the datagrams of `frames`, from the first on, as messages; the first `apart` of them each on its own.
    #[inline]
    pub(super) fn fill<'b>(
        &mut self, writer: &mut Writer<'_, 'b>, frames: &'b [Frame], region: &'b Region,
        addressing: &mut Addressing, joining: &Joining, apart: usize,
    ) {
        self.firsts.clear();
        self.unfit.clear();
        self.frames = 0;
        let mut run: Option<Run<Place>> = None;
        for (at, frame) in frames.iter().take(FRAMES_MAX).enumerate() {
            match Look::at(frame, region, addressing) {
                Ok(look) if look.pieces > writer.room_pieces() => break,
                Ok(look) => {
                    let bytes = look.datagram.payload_bytes;
                    if !run.as_mut().is_some_and(|run| run.add(&look.place, bytes)) {
                        let next = Run::new(look.place, bytes, joining, at < apart);
                        run.replace(next).iter().for_each(|run| end(writer, run));
                        self.firsts.push(at);
                    }
                    look.write(writer, frame, region);
                }
                Err(reason) => self.unfit.push((at, reason)),
            }
            self.frames = at + 1;
        }
        run.iter().for_each(|run| end(writer, run));
    }

    /// Frames before message `at`: those that are done with once the messages before it are.
    pub(super) fn frames_before(&self, at: usize) -> usize {
        self.firsts.get(at).copied().unwrap_or(self.frames)
    }

    /// Among the first `frames` frames, those that went into no message.
    pub(super) fn unfit_of_first(&self, frames: usize) -> &[(usize, &'static str)] {
        let count = self.unfit.iter().take_while(|(at, _)| *at < frames).count();
        &self.unfit[..count]
    }
}

#[inline]
fn end(writer: &mut Writer<'_, '_>, run: &Run<Place>) {
    let (to, from) = run.to;
    let written = writer.message(&Message { to, from, segment_bytes: run.segment_bytes() });
    debug_assert!(written, "as many messages as frames");
}

/// A frame, looked at.
struct Look {
    datagram: Datagram,
    place: Place,
    pieces: usize,
}

impl Look {
    #[inline]
    fn at(frame: &Frame, region: &Region, addressing: &mut Addressing) -> Result<Self, &'static str> {
        let first = region.bytes(frame).map_err(foreign)?;
        let datagram = Datagram::find(first, frame.len_bytes() as usize)?;
        let place = addressing.place(&datagram, first)?;
        let pieces = if frame.has_meta() { pieces_of(frame, region)? } else { 1 };
        Ok(Self { datagram, place, pieces })
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
        let (mut skip, mut left) = (payload_at, payload_bytes);
        for chunk in region.chunks(frame).into_iter().flatten() {
            let chunk = chunk.get(skip..).unwrap_or_default();
            let chunk = &chunk[..chunk.len().min(left)];
            (skip, left) = (0, left - chunk.len());
            writer.piece(chunk);
        }
    }
}

/// Pieces of a frame with a row in the side table.
#[cold]
fn pieces_of(frame: &Frame, region: &Region) -> Result<usize, &'static str> {
    let meta = region.meta(frame).map_err(foreign)?;
    match region.chunks(frame).map_err(foreign)?.count() {
        // The path cuts those first, since the device says that it does not.
        _ if meta.gso_bytes > 0 => Err("super-packet"),
        count if count > PIECES_MAX => Err("too-many-chunks"),
        count => Ok(count),
    }
}

fn foreign(_: MemError) -> &'static str {
    "foreign-pool"
}
