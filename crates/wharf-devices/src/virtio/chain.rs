//! `Chain`: one buffer as the device sees it, with all addresses looked up.

use super::descriptor::{Descriptor, WRITE};
use super::{CHAIN_MAX, Memory, Part, RingError, Window};
use std::ops::Range;

/// The token by which a buffer is given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Token {
    /// The driver's id of the buffer; its first descriptor in a split ring.
    pub(super) id: u16,
    /// Descriptors of the ring that it takes.
    pub(super) descriptors: u16,
}

impl Token {
    /// Returns the driver's id of the buffer.
    pub fn id(&self) -> u16 {
        self.id
    }

    /// Returns the number of entries that the buffer takes: 1 in the available ring of a split ring,
    /// descriptors of a packed one.
    pub fn descriptors(&self) -> u16 {
        self.descriptors
    }
}

/// A buffer: parts that the device reads, then parts that it writes. Made once per queue and used again: it
/// grows to the longest chain. As long as a cache line.
#[derive(Debug, Default)]
pub struct Chain {
    pub(super) token: Token,
    shape: Shape,
    /// Number of descriptors.
    descriptors: u16,
    /// The only part, if the shape says so; the other fields then mean nothing.
    only: Part,
    parts: Vec<Part>,
    /// Number of parts to be read.
    readable: u32,
    readable_bytes: u32,
    writable_bytes: u32,
    /// The region of the last lookup.
    pub(super) hint: u32,
}

const _: () = assert!(size_of::<Chain>() == 64);

/// The shape of a buffer. Most have one descriptor: for those, little is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Shape {
    /// One part, to be read.
    Readable,
    /// One part, to be written.
    Writable,
    #[default]
    Parts,
}

impl Chain {
    /// Nothing.
    pub fn new() -> Self {
        Self { parts: Vec::with_capacity(32), ..Self::default() }
    }

    #[inline(always)]
    pub(super) fn start(&mut self, token: Token) {
        self.parts.clear();
        (self.token, self.shape, self.descriptors) = (token, Shape::Parts, 0);
        (self.readable, self.readable_bytes, self.writable_bytes) = (0, 0, 0);
    }

    /// Sets the buffer to one descriptor: `part` is all of it.
    #[inline(always)]
    pub(super) fn set_only(&mut self, token: Token, part: Part, is_writable: bool) {
        let shape = if is_writable { Shape::Writable } else { Shape::Readable };
        (self.token, self.shape, self.only) = (token, shape, part);
    }

    /// Adds a descriptor.
    pub(super) fn push(&mut self, memory: &Memory, descriptor: &Descriptor) -> Result<(), RingError> {
        let Descriptor { address, len_bytes, flags, .. } = *descriptor;
        let is_writable = flags & WRITE != 0;
        if self.descriptors == CHAIN_MAX {
            return Err(RingError::Loop { max: CHAIN_MAX });
        }
        self.descriptors += 1;
        match is_writable {
            true => {
                self.writable_bytes = self.writable_bytes.checked_add(len_bytes).ok_or(RingError::TooLong)?
            }
            false if self.writable_bytes > 0 => return Err(RingError::Order),
            false => {
                self.readable_bytes = self.readable_bytes.checked_add(len_bytes).ok_or(RingError::TooLong)?
            }
        }
        match memory.find(address, len_bytes, &mut self.hint) {
            Some(part) if part.len_bytes == len_bytes => self.parts.push(part),
            _ => self.push_across(memory, address, len_bytes)?,
        }
        if !is_writable {
            self.readable = u32::try_from(self.parts.len()).map_err(|_| RingError::TooLong)?;
        }
        Ok(())
    }

    /// Returns the parts in order: those to be read, those to be written.
    #[inline(always)]
    fn split(&self) -> (&[Part], &[Part]) {
        match self.shape {
            Shape::Readable => (std::slice::from_ref(&self.only), &[]),
            Shape::Writable => (&[], std::slice::from_ref(&self.only)),
            Shape::Parts => self.parts.split_at(self.parts.len().min(self.readable as usize)),
        }
    }

    /// Works like [`Chain::push`], for bytes that span regions.
    #[cold]
    fn push_across(&mut self, memory: &Memory, address: u64, len_bytes: u32) -> Result<(), RingError> {
        let fault = RingError::Outside { address, len_bytes };
        let mut done = 0;
        while done < len_bytes {
            let at = address.checked_add(done.into()).ok_or(fault)?;
            let part = memory.find(at, len_bytes - done, &mut self.hint).ok_or(fault)?;
            done += part.len_bytes;
            // Bytes that span regions are few: a driver may announce hundreds of regions, of a page each.
            if self.parts.len() >= 2 * usize::from(CHAIN_MAX) {
                return Err(RingError::Loop { max: CHAIN_MAX });
            }
            self.parts.push(part);
        }
        // An empty part at an unmapped address: no byte of it is ever touched.
        Ok(())
    }

    /// Returns the token by which it is given back.
    #[inline]
    pub fn token(&self) -> Token {
        self.token
    }

    /// Returns the number of descriptors, or of parts if they are more.
    #[inline]
    pub fn descriptors(&self) -> u32 {
        if self.shape == Shape::Parts { self.parts.len().max(self.descriptors.into()) as u32 } else { 1 }
    }

    /// Returns the number of bytes to be read.
    #[inline]
    pub fn readable_bytes(&self) -> u32 {
        match self.shape {
            Shape::Readable => self.only.len_bytes,
            Shape::Writable => 0,
            Shape::Parts => self.readable_bytes,
        }
    }

    /// Returns the number of bytes that may be written.
    #[inline]
    pub fn writable_bytes(&self) -> u32 {
        match self.shape {
            Shape::Readable => 0,
            Shape::Writable => self.only.len_bytes,
            Shape::Parts => self.writable_bytes,
        }
    }

    /// Returns the parts to be read, in order.
    #[inline]
    pub fn readable(&self) -> &[Part] {
        self.split().0
    }

    /// Returns the parts to be written, in order.
    #[inline]
    pub fn writable(&self) -> &[Part] {
        self.split().1
    }

    /// Returns the part to be read, if there is exactly one.
    #[inline(always)]
    pub fn only_readable<'a>(&self, memory: &'a Memory) -> Option<Window<'a>> {
        if let ([only], []) = self.split() { memory.window(only) } else { None }
    }

    /// Returns the part that may be written, if there is exactly one.
    #[inline(always)]
    pub fn only_writable<'a>(&self, memory: &'a Memory) -> Option<Window<'a>> {
        if let [only] = self.writable() { memory.window(only) } else { None }
    }

    /// Prefetches the beginning of the first part, from byte `skip` on.
    #[inline(always)]
    pub fn prefetch(&self, memory: &Memory, skip: usize) {
        let (readable, writable) = self.split();
        let first = readable.first().or(writable.first());
        if let Some(window) = first.and_then(|part| memory.window(part)) {
            window.prefetch(skip);
        }
    }

    /// Notes in the log of `memory` that the first `len_bytes` of the parts that may be written were.
    #[cold]
    pub fn note_written(&self, memory: &Memory, mut len_bytes: u32) {
        for part in self.writable() {
            memory.note_part(part, len_bytes);
            len_bytes = len_bytes.saturating_sub(part.len_bytes);
        }
    }

    /// Copies bytes to be read, from byte `skip` of them on, to `to`. Returns their number: fewer if there
    /// are no more.
    #[inline]
    pub fn copy_out(&self, memory: &Memory, skip: u32, to: &mut [u8]) -> usize {
        let len = to.len();
        let copy = |window: Window<'_>, skip, range| window.copy_out(skip, &mut to[range]);
        each(memory, self.readable(), skip, len, copy)
    }

    /// Copies `from` to the bytes that may be written, from byte `skip` of them on. Returns their number:
    /// fewer without room.
    #[inline]
    pub fn copy_in(&self, memory: &Memory, skip: u32, from: &[u8]) -> usize {
        let copy = |window: Window<'_>, skip, range| window.copy_in(skip, &from[range]);
        each(memory, self.writable(), skip, from.len(), copy)
    }
}

/// Calls `copy` with each part, the start in it and the range of bytes, for `len` bytes from byte `skip` on, until it
/// returns false. Returns the number of bytes copied.
fn each(
    memory: &Memory, parts: &[Part], mut skip: u32, len: usize,
    mut copy: impl FnMut(Window<'_>, usize, Range<usize>) -> bool,
) -> usize {
    let mut done = 0;
    for part in parts {
        if done == len {
            break;
        }
        let Some(left) = part.len_bytes.checked_sub(skip).filter(|&left| left > 0) else {
            skip -= part.len_bytes;
            continue;
        };
        let end = len.min(done + left as usize);
        if !memory.window(part).is_some_and(|window| copy(window, skip as usize, done..end)) {
            break;
        }
        (skip, done) = (0, end);
    }
    done
}
