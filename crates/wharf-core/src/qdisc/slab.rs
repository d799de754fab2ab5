//! `Slab`: any number of first-in first-out lists of frames in one array, each frame with the time of its
//! arrival.
//!
//! For disciplines with a queue per flow: a packet in any queue takes one entry, and after set-up nothing is
//! allocated.

use super::buffers::Buffers;
use wharf_mem::Frame;

/// Ends a list.
pub(super) const NONE: u32 = u32::MAX;

/// A frame with what was known when it came.
#[derive(Debug)]
pub(super) struct Timed {
    pub(super) frame: Frame,
    pub(super) enqueued_ns: u64,
    /// Its bytes on a wire, each segment of a super-packet counted with its headers.
    pub(super) wire_bytes: u64,
}

#[derive(Debug)]
struct Entry {
    timed: Option<Timed>,
    /// The next of its list, or of the free list.
    next: u32,
}

/// A list of frames in a [`Slab`].
#[derive(Debug, Clone, Copy)]
pub(super) struct FrameList {
    head: u32,
    tail: u32,
    /// Buffers beyond the first of each packet.
    further: u32,
    bytes: u64,
}

impl FrameList {
    pub(super) const EMPTY: Self = Self { head: NONE, tail: NONE, further: 0, bytes: 0 };

    pub(super) fn is_empty(&self) -> bool {
        self.head == NONE
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the buffers of its packets beyond the first of each.
    pub(super) fn further(&self) -> u32 {
        self.further
    }
}

/// The entries of all lists.
#[derive(Debug)]
pub(super) struct Slab {
    entries: Vec<Entry>,
    free: u32,
    len: usize,
    bytes: u64,
    pub(super) buffers: Buffers,
}

impl Slab {
    pub(super) fn with_capacity(frames: usize) -> Self {
        let mut slab =
            Self { entries: Vec::new(), free: NONE, len: 0, bytes: 0, buffers: Buffers::default() };
        slab.reserve(frames);
        slab
    }

    pub(super) fn reserve(&mut self, frames: usize) {
        self.entries.reserve_exact(frames);
        for _ in 0..frames {
            let slot = self.entries.len() as u32;
            self.entries.push(Entry { timed: None, next: std::mem::replace(&mut self.free, slot) });
        }
    }

    /// Returns the number of entries that are free.
    pub(super) fn storage(&self) -> usize {
        self.entries.len() - self.len
    }

    /// Returns the number of frames in all lists.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns their bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Adds to the end of `list`; there is storage.
    pub(super) fn push(&mut self, list: &mut FrameList, timed: Timed) {
        let slot = self.free;
        let Some(entry) = self.entries.get_mut(slot as usize) else {
            unreachable!("callers ask for storage")
        };
        self.free = std::mem::replace(&mut entry.next, NONE);
        list.bytes += timed.wire_bytes;
        self.bytes += timed.wire_bytes;
        self.len += 1;
        list.further += self.buffers.enter(timed.frame.len_bytes()) as u32;
        entry.timed = Some(timed);
        match std::mem::replace(&mut list.tail, slot) {
            NONE => list.head = slot,
            tail => self.entries[tail as usize].next = slot,
        }
    }

    /// Takes the first frame of `list`.
    pub(super) fn pop(&mut self, list: &mut FrameList) -> Option<Timed> {
        let slot = list.head;
        let entry = self.entries.get_mut(slot as usize)?;
        let timed = entry.timed.take()?;
        list.head = std::mem::replace(&mut entry.next, std::mem::replace(&mut self.free, slot));
        if list.head == NONE {
            list.tail = NONE;
        }
        list.bytes -= timed.wire_bytes;
        self.bytes -= timed.wire_bytes;
        self.len -= 1;
        list.further -= self.buffers.leave(timed.frame.len_bytes()) as u32;
        Some(timed)
    }

    pub(super) fn visit(&self, see: &mut dyn FnMut(&Frame)) {
        self.entries.iter().filter_map(|entry| entry.timed.as_ref()).for_each(|timed| see(&timed.frame));
    }
}
