//! The NIC's side of a send queue: reads entries, and trusts no byte of them.

use super::segment::{
    BLOCK_SEGMENTS, Control, Ethernet, HEAD_SEGMENTS, INLINE_BYTES_MAX, INLINE_HEADER_BYTES, Kind, Pointer,
    SEGMENT_BYTES, SEGMENTS_MAX, Segment, inline_len_bytes, inline_segments,
};

/// An invalid entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EntryError {
    /// It continues beyond the bytes read.
    #[error("an entry of {blocks} blocks, not all of which were read")]
    Short {
        /// Blocks to be read.
        blocks: u32,
    },
    /// An unknown opcode.
    #[error("opcode {0:#04x} means nothing")]
    Opcode(u8),
    /// It was written for another place in the ring.
    #[error("an entry for block {found}, at block {wanted}")]
    Index {
        /// The block in the entry.
        found: u16,
        /// The block at which it lies.
        wanted: u16,
    },
    /// An invalid number of segments.
    #[error("an entry of {0} segments: 1 for an empty one, 3 to {SEGMENTS_MAX} else")]
    Segments(u32),
    /// A packet inside that reaches beyond the entry, is too long, or is empty.
    #[error("a packet of {0} bytes inside an entry: 1 to {INLINE_BYTES_MAX}, all within it")]
    Inline(usize),
    /// A pointer to no bytes.
    #[error("a pointer to a packet of 0 bytes")]
    Empty,
}

/// The head of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// Its control segment.
    pub control: Control,
    /// Its Ethernet segment; all zero in an empty one.
    pub ethernet: Ethernet,
    /// Blocks that it takes.
    pub blocks: u32,
}

/// A packet, or a piece of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content<'a> {
    /// Bytes elsewhere.
    Pointer(Pointer),
    /// Bytes inside the entry.
    Bytes(&'a [u8]),
}

fn segment(bytes: &[u8], nth: u32) -> Option<&Segment> {
    let at = nth as usize * SEGMENT_BYTES;
    bytes.get(at..at + SEGMENT_BYTES)?.try_into().ok()
}

impl Entry {
    /// Reads the entry at the start of `bytes`, which lie at block `index`.
    ///
    /// # Errors
    /// [`EntryError`]; on [`EntryError::Short`], read more bytes first.
    pub fn parse(bytes: &[u8], index: u16) -> Result<Self, EntryError> {
        let short = |blocks| EntryError::Short { blocks };
        let control =
            Control::from_segment(segment(bytes, 0).ok_or(short(1))?).map_err(EntryError::Opcode)?;
        if control.index != index {
            return Err(EntryError::Index { found: control.index, wanted: index });
        }
        let segments = control.segments;
        let allowed = match control.kind {
            Kind::Nop => 1..=1,
            Kind::Send | Kind::Multi => HEAD_SEGMENTS + 1..=SEGMENTS_MAX,
        };
        if !allowed.contains(&segments) {
            return Err(EntryError::Segments(segments));
        }
        let blocks = segments.div_ceil(BLOCK_SEGMENTS);
        if segment(bytes, segments - 1).is_none() {
            return Err(short(blocks));
        }
        let ethernet = match control.kind {
            Kind::Nop => Ethernet::default(),
            _ => Ethernet::from_segment(segment(bytes, 1).ok_or(short(blocks))?),
        };
        Ok(Self { control, ethernet, blocks })
    }

    /// Returns the packets in it, or the pieces of its one packet, in order; `bytes` as for [`Entry::parse`].
    /// Ends with the first error.
    pub fn contents<'a>(&self, bytes: &'a [u8]) -> Contents<'a> {
        let segments = if self.control.kind == Kind::Nop { 0 } else { self.control.segments };
        let end = bytes.len().min(segments as usize * SEGMENT_BYTES);
        Contents { bytes: &bytes[..end], next: HEAD_SEGMENTS }
    }
}

/// See [`Entry::contents`].
#[derive(Debug)]
pub struct Contents<'a> {
    bytes: &'a [u8],
    next: u32,
}

impl<'a> Contents<'a> {
    fn read(&self, first: &Segment) -> Result<(Content<'a>, u32), EntryError> {
        match Pointer::from_segment(first) {
            Some(Pointer { len_bytes: 0, .. }) => Err(EntryError::Empty),
            Some(pointer) => Ok((Content::Pointer(pointer), 1)),
            None => {
                let len_bytes = inline_len_bytes(first);
                let at = self.next as usize * SEGMENT_BYTES + INLINE_HEADER_BYTES;
                let fits = (1..=INLINE_BYTES_MAX).contains(&len_bytes);
                let inside = if fits { self.bytes.get(at..at + len_bytes) } else { None };
                let bytes = inside.ok_or(EntryError::Inline(len_bytes))?;
                Ok((Content::Bytes(bytes), inline_segments(len_bytes)))
            }
        }
    }
}

impl<'a> Iterator for Contents<'a> {
    type Item = Result<Content<'a>, EntryError>;

    fn next(&mut self) -> Option<Self::Item> {
        let first = segment(self.bytes, self.next)?;
        match self.read(first) {
            Ok((content, segments)) => {
                self.next += segments;
                Some(Ok(content))
            }
            Err(error) => {
                self.next = u32::MAX / 32;
                Some(Err(error))
            }
        }
    }
}
