//! `Table`: the frames that the kernel has, by their buffers. A number from a ring becomes a frame only by
//! taking it out of this table, once.
//!
//! A row per buffer of the pool: 16 bytes, less than a hundredth of the buffer. A frame is in the row of its
//! first buffer; the rows of its further buffers point there. Each row knows the pieces of its buffer, of up
//! to [`PIECE_BYTES`] each, that the kernel still has.

use super::memory::PIECE_BYTES;
use crate::iface::GONE;
use wharf_mem::{Frame, Region};

/// Status of a frame that came back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TxStatus {
    Sent,
    /// The interface dropped it: the kernel reports that before the frame comes back.
    Refused,
    LinkDown,
    Gone,
}

impl TxStatus {
    /// Returns the reason of the failure, if it failed.
    pub(super) fn reason(self) -> Option<&'static str> {
        match self {
            TxStatus::Sent => None,
            TxStatus::Refused => Some("refused"),
            TxStatus::LinkDown => Some("link-down"),
            TxStatus::Gone => Some(GONE),
        }
    }
}

#[derive(Debug)]
enum Row {
    Free,
    Head {
        frame: Frame,
        /// Pieces of this buffer that are out, and buffers of the frame with such pieces.
        pieces: u16,
        buffers: u8,
        status: TxStatus,
    },
    Further {
        head: u32,
        pieces: u16,
    },
}

const _: () = assert!(size_of::<Row>() == 16);

/// A completion of a buffer that is not held; the number of its row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NotHeld(pub(super) u32);

#[derive(Debug)]
pub(super) struct Table {
    rows: Box<[Row]>,
    held: u32,
}

/// Returns a mask of the first `count` pieces of a buffer.
fn bits(count: usize) -> u16 {
    u16::try_from((1u32 << count.min(16)) - 1).unwrap_or(u16::MAX)
}

/// Returns the number of pieces of `len` bytes.
pub(super) fn pieces(len: usize) -> usize {
    len.div_ceil(PIECE_BYTES)
}

impl Table {
    pub(super) fn new(region: &Region) -> Self {
        Self { rows: (0..region.spec().frames).map(|_| Row::Free).collect(), held: 0 }
    }

    /// Returns the number of frames inside.
    #[inline]
    pub(super) fn held(&self) -> u32 {
        self.held
    }

    /// Keeps a frame of one buffer and one piece.
    #[inline(always)]
    pub(super) fn hold(&mut self, frame: Frame) {
        let at = frame.index() as usize;
        self.rows[at] = Row::Head { frame, pieces: 1, buffers: 1, status: TxStatus::Sent };
        self.held += 1;
    }

    /// Keeps a frame of several buffers, each with its number and length, the frame's own first.
    pub(super) fn hold_chain(&mut self, frame: Frame, buffers: impl Iterator<Item = (u32, usize)>) {
        let head = frame.index();
        let (mut count, mut first) = (0, 0);
        for (at, len) in buffers {
            count += 1;
            if at == head {
                first = bits(pieces(len));
            } else {
                self.rows[at as usize] = Row::Further { head, pieces: bits(pieces(len)) };
            }
        }
        self.rows[head as usize] = Row::Head { frame, pieces: first, buffers: count, status: TxStatus::Sent };
        self.held += 1;
    }

    /// Sets the status of the frame that has buffer `at`, if there is one.
    pub(super) fn mark_failed(&mut self, at: u32, to: TxStatus) {
        let head = match self.rows.get(at as usize) {
            Some(Row::Further { head, .. }) => *head,
            _ => at,
        };
        if let Some(Row::Head { status, .. }) = self.rows.get_mut(head as usize) {
            *status = to;
        }
    }

    /// Returns the frame whose first buffer is `at`.
    pub(super) fn head(&self, at: u32) -> Option<&Frame> {
        match self.rows.get(at as usize) {
            Some(Row::Head { frame, .. }) => Some(frame),
            _ => None,
        }
    }

    /// Completes the frame of one buffer and one piece that is buffer `at`; `None` if there is no such frame.
    #[inline(always)]
    pub(super) fn complete_single(&mut self, at: u32) -> Option<(Frame, TxStatus)> {
        match self.rows.get(at as usize) {
            Some(Row::Head { pieces: 1, buffers: 1, .. }) => self.take(at),
            _ => None,
        }
    }

    /// Completes piece `piece` of buffer `at`. Returns the frame if that was its last piece.
    #[inline(always)]
    pub(super) fn complete(&mut self, at: u32, piece: usize) -> Result<Option<(Frame, TxStatus)>, NotHeld> {
        let row = self.rows.get_mut(at as usize).ok_or(NotHeld(at))?;
        match row {
            Row::Head { pieces: 1, buffers: 1, .. } if piece == 0 => Ok(self.take(at)),
            Row::Free => Err(NotHeld(at)),
            _ => self.complete_part(at, piece),
        }
    }

    #[cold]
    fn complete_part(&mut self, at: u32, piece: usize) -> Result<Option<(Frame, TxStatus)>, NotHeld> {
        let bit = if piece < 16 { 1u16 << piece } else { 0 };
        let (head, is_done) = match &mut self.rows[at as usize] {
            Row::Head { pieces, .. } if *pieces & bit != 0 => {
                *pieces &= !bit;
                (at, *pieces == 0)
            }
            Row::Further { head, pieces } if *pieces & bit != 0 => {
                *pieces &= !bit;
                (*head, *pieces == 0)
            }
            _ => return Err(NotHeld(at)),
        };
        if !is_done {
            return Ok(None);
        }
        if head != at {
            self.rows[at as usize] = Row::Free;
        }
        match &mut self.rows[head as usize] {
            Row::Head { buffers: 1, .. } => Ok(self.take(head)),
            Row::Head { buffers, .. } => {
                *buffers -= 1;
                Ok(None)
            }
            _ => Err(NotHeld(head)),
        }
    }

    #[inline(always)]
    fn take(&mut self, at: u32) -> Option<(Frame, TxStatus)> {
        match std::mem::replace(&mut self.rows[at as usize], Row::Free) {
            Row::Head { frame, status, .. } => {
                self.held -= 1;
                Some((frame, status))
            }
            _ => None,
        }
    }

    pub(super) fn visit(&self, see: &mut dyn FnMut(&Frame)) {
        for row in self.rows.iter().filter(|_| self.held > 0) {
            if let Row::Head { frame, .. } = row {
                see(frame);
            }
        }
    }

    /// Returns all frames inside.
    pub(super) fn into_held(self) -> impl Iterator<Item = Frame> {
        self.rows.into_iter().filter_map(|row| match row {
            Row::Head { frame, .. } => Some(frame),
            _ => None,
        })
    }
}
