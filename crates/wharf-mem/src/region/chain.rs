//! Super-packets (GSO): frames linked into one, through the rows of their buffers.
#![forbid(unsafe_code)]

use super::Region;
use crate::frame::{Frame, LENGTH_BYTES_MAX};
use crate::spec::MemError;

impl Region {
    /// True if a frame is a chain: its packet lies in several buffers.
    #[inline]
    pub fn is_chain(&self, frame: &Frame) -> bool {
        frame.has_meta() && self.check(frame).is_ok() && self.row(frame).next().is_some()
    }

    /// Panics if the frame is a chain.
    #[cold]
    pub(super) fn refuse_chain(&self, frame: &Frame) {
        assert!(!self.is_chain(frame), "a chain has no bytes in one piece: see `is_chain()` and `chunks()`");
    }

    /// Links `piece` behind the last buffer of `head`, which becomes a super-packet. Walks the chain to find its end.
    ///
    /// # Errors
    /// [`MemError::Foreign`] for another pool's frame, [`MemError::TooLong`] beyond 262 143 B in all, [`MemError::Chain`] if
    /// the piece is a chain or empty; each with the piece.
    pub fn link(&self, head: &mut Frame, piece: Frame) -> Result<(), (MemError, Frame)> {
        let mut last = head.index();
        if self.check(head).is_ok() {
            while let Some(next) = self.rows[last as usize].next() {
                last = next.index();
            }
        }
        self.link_behind(head, last, piece)
    }

    /// Takes the pieces behind the first buffer off a chain, and returns them as a frame: the opposite of
    /// [`Region::link`]. `None` for a frame that is no chain, or another pool's.
    pub fn unlink(&self, head: &mut Frame) -> Option<Frame> {
        if !self.is_chain(head) {
            return None;
        }
        let row = self.row(head);
        let piece = row.next()?;
        let (first_bytes, piece_row) = (row.chunk_bytes(), &self.rows[piece.index() as usize]);
        let template =
            Frame::template(self.number(), head.sender(), head.len_bytes().saturating_sub(first_bytes));
        let mut rest = Frame::from_parts(piece, template);
        rest.set_has_meta(true);
        if piece_row.next().is_none() {
            piece_row.set_chunk_bytes(0);
        }
        row.set_next(None);
        row.set_chunk_bytes(0);
        head.set_len_bytes(first_bytes);
        Some(rest)
    }

    /// Begins to link many pieces behind `head`: only the first walks the chain.
    #[doc(hidden)]
    pub fn chain(&self, head: Frame) -> Chain<'_> {
        let last = head.index();
        Chain { region: self, head, last }
    }

    /// Links `piece` behind buffer `last`, the last one of the chain.
    fn link_behind(&self, head: &mut Frame, last: u32, piece: Frame) -> Result<(), (MemError, Frame)> {
        let total = head.len_bytes() + piece.len_bytes();
        let fault = match (self.check(head).and_then(|()| self.check(&piece)), piece.has_meta()) {
            (Err(foreign), _) => Some(foreign),
            (Ok(()), true) => Some(MemError::Chain { index: piece.index() }),
            _ if piece.len_bytes() == 0 || head.len_bytes() == 0 => {
                Some(MemError::Chain { index: piece.index() })
            }
            _ if total > LENGTH_BYTES_MAX => {
                Some(MemError::TooLong { len_bytes: total, max_bytes: LENGTH_BYTES_MAX })
            }
            _ => None,
        };
        if let Some(fault) = fault {
            return Err((fault, piece));
        }
        let row = self.row(head);
        if row.chunk_bytes() == 0 {
            row.set_chunk_bytes(head.len_bytes());
        }
        self.row(&piece).set_chunk_bytes(piece.len_bytes());
        self.rows[last as usize].set_next(Some(&piece.into_free()));
        head.set_has_meta(true);
        head.set_len_bytes(total);
        Ok(())
    }
}

/// A super-packet under construction: see [`Region::chain`].
#[derive(Debug)]
pub struct Chain<'a> {
    region: &'a Region,
    head: Frame,
    /// The index of the last buffer.
    last: u32,
}

impl Chain<'_> {
    /// Links `piece` behind the last buffer.
    ///
    /// # Errors
    /// Those of [`Region::link`], each with the piece.
    #[inline]
    pub fn push(&mut self, piece: Frame) -> Result<(), (MemError, Frame)> {
        let index = piece.index();
        // `head` may be a chain already: then the first piece walks it.
        let linked = if self.last == self.head.index() {
            self.region.link(&mut self.head, piece)
        } else {
            self.region.link_behind(&mut self.head, self.last, piece)
        };
        if linked.is_ok() {
            self.last = index;
        }
        linked
    }

    /// Returns the super-packet.
    pub fn done(self) -> Frame {
        self.head
    }
}
