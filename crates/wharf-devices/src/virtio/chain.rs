//! `Chain`: one buffer as the device sees it, all of its addresses looked up.

use super::{Memory, Part, RingError, Window};

/// By which a buffer is given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Token {
    /// What the driver calls it: of a split ring, its first descriptor.
    pub(super) id: u16,
    /// Descriptors that it takes of the ring.
    pub(super) descriptors: u16,
}

impl Token {
    /// What the driver calls it.
    pub fn id(&self) -> u16 {
        self.id
    }
}

/// A buffer: parts that the device reads, then parts that it writes. To be made once per queue and used again: it grows to the
/// longest chain.
#[derive(Debug, Default)]
pub struct Chain {
    token: Token,
    count: usize,
    /// Its only part; where there are several, they are in `parts`.
    first: Part,
    parts: Vec<Part>,
    /// How many of the parts are to be read.
    readable: usize,
    readable_bytes: u32,
    writable_bytes: u32,
    /// The region in which something was found last.
    pub(super) hint: u32,
}

impl Chain {
    /// Nothing.
    pub fn new() -> Self {
        Self { parts: Vec::with_capacity(32), ..Self::default() }
    }

    #[inline(always)]
    pub(super) fn start(&mut self, token: Token) {
        self.count = 0;
        (self.token, self.readable, self.readable_bytes, self.writable_bytes) = (token, 0, 0, 0);
    }

    /// What one descriptor says, and nothing else: `part`, which is all of it.
    #[inline(always)]
    pub(super) fn set_only(&mut self, token: Token, part: Part, is_writable: bool) {
        (self.token, self.first, self.count) = (token, part, 1);
        self.readable = usize::from(!is_writable);
        self.readable_bytes = if is_writable { 0 } else { part.len_bytes };
        self.writable_bytes = if is_writable { part.len_bytes } else { 0 };
    }

    #[inline(always)]
    pub(super) fn name(&mut self, token: Token) {
        self.token = token;
    }

    /// Adds what a descriptor says.
    pub(super) fn push(
        &mut self, memory: &Memory, address: u64, len_bytes: u32, is_writable: bool,
    ) -> Result<(), RingError> {
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
            Some(part) if part.len_bytes == len_bytes => self.push_part(part),
            _ => self.push_across(memory, address, len_bytes)?,
        }
        if !is_writable {
            self.readable = self.count;
        }
        Ok(())
    }

    fn push_part(&mut self, part: Part) {
        if self.count == 0 {
            self.parts.clear();
            self.first = part;
        }
        self.parts.push(part);
        self.count += 1;
    }

    /// All of its parts, in order.
    #[inline(always)]
    fn all(&self) -> &[Part] {
        if self.count == 1 { std::slice::from_ref(&self.first) } else { &self.parts[..self.count] }
    }

    /// As [`Chain::push`], for what does not lie in one region.
    #[cold]
    fn push_across(&mut self, memory: &Memory, address: u64, len_bytes: u32) -> Result<(), RingError> {
        let fault = RingError::Outside { address, len_bytes };
        let mut done = 0;
        while done < len_bytes {
            let at = address.checked_add(done.into()).ok_or(fault)?;
            let part = memory.find(at, len_bytes - done, &mut self.hint).ok_or(fault)?;
            done += part.len_bytes;
            self.push_part(part);
        }
        // Nothing, at an address that there is not: nothing of it is ever touched.
        Ok(())
    }

    /// By which it is given back.
    #[inline]
    pub fn token(&self) -> Token {
        self.token
    }

    /// Bytes that are to be read.
    #[inline]
    pub fn readable_bytes(&self) -> u32 {
        self.readable_bytes
    }

    /// Bytes that may be written.
    #[inline]
    pub fn writable_bytes(&self) -> u32 {
        self.writable_bytes
    }

    /// Its parts to be read, in order.
    #[inline]
    pub fn readable(&self) -> &[Part] {
        &self.all()[..self.readable]
    }

    /// Its parts to be written, in order.
    #[inline]
    pub fn writable(&self) -> &[Part] {
        &self.all()[self.readable..]
    }

    /// The part that is to be read, where it is one only.
    #[inline(always)]
    pub fn only_readable<'a>(&self, memory: &'a Memory) -> Option<Window<'a>> {
        if self.count == 1 && self.readable == 1 { memory.window(&self.first) } else { None }
    }

    /// The part that may be written, where it is one only.
    #[inline(always)]
    pub fn only_writable<'a>(&self, memory: &'a Memory) -> Option<Window<'a>> {
        if self.count == self.readable + 1 { memory.window(self.writable().first()?) } else { None }
    }

    /// Has the beginning of its first part brought here, if it is not.
    #[inline(always)]
    pub fn prefetch(&self, memory: &Memory) {
        if let Some(window) = self.all().first().and_then(|part| memory.window(part)) {
            window.prefetch();
        }
    }

    /// Copies bytes that are to be read, from byte `skip` of them on, to `to`; how many: fewer where there are no more.
    #[inline]
    pub fn copy_out(&self, memory: &Memory, skip: u32, to: &mut [u8]) -> usize {
        let mut done = 0;
        each(self.readable(), skip, to.len(), |part, skip, count| {
            let copied = memory.copy_out(part, skip, &mut to[done..done + count]);
            done += if copied { count } else { 0 };
            copied
        });
        done
    }

    /// Copies `from` to the bytes that may be written, from byte `skip` of them on; how many: fewer where there is no more room.
    #[inline]
    pub fn copy_in(&self, memory: &Memory, skip: u32, from: &[u8]) -> usize {
        let mut done = 0;
        each(self.writable(), skip, from.len(), |part, skip, count| {
            let copied = memory.copy_in(part, skip, &from[done..done + count]);
            done += if copied { count } else { 0 };
            copied
        });
        done
    }
}

/// Calls `see` with each part, where in it to begin, and how many bytes, for `len` bytes from byte `skip` on; until it answers false.
fn each(parts: &[Part], mut skip: u32, mut len: usize, mut see: impl FnMut(&Part, u32, usize) -> bool) {
    for part in parts {
        if len == 0 {
            return;
        }
        let Some(left) = part.len_bytes.checked_sub(skip).filter(|&left| left > 0) else {
            skip -= part.len_bytes;
            continue;
        };
        let count = len.min(left as usize);
        if !see(part, skip, count) {
            return;
        }
        (skip, len) = (0, len - count);
    }
}
