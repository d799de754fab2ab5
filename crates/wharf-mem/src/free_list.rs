//! `FreeList`: free buffers in a doubly linked list, whose links are a table with a cache line per buffer, as
//! in the kernel's page allocator (`struct page`, 64 bytes, with `lru`).
//!
//! A stack of numbers is cheaper. A thread that takes a buffer which another thread has freed waits for that
//! buffer's line, and cannot read the next index before it has come. The lab measures that price.
//!
//! A list hands out only buffers that were put into it, and only the list that owns a buffer writes its
//! links. Any number of lists may therefore share the links. The hand-over of a list between threads is the
//! only order needed.
#![forbid(unsafe_code)]

use crate::batch::Batch;
use crate::frame::{Frame, FreeFrame};
use crate::sync::{AtomicU32, Ordering::Relaxed};
use std::sync::Arc;

/// No index: either end of a list.
const END: u32 = u32::MAX;

/// The links of a pool's buffers, shared by its lists.
pub struct Links {
    places: Box<[Place]>,
    pool: u8,
}

/// The neighbours of one buffer.
#[repr(align(64))]
struct Place {
    next: AtomicU32,
    previous: AtomicU32,
}

impl Links {
    /// Makes links for the `frames` buffers of pool number `pool`, 64 bytes each.
    pub fn new(pool: u8, frames: u32) -> Self {
        let place = |_| Place { next: AtomicU32::new(END), previous: AtomicU32::new(END) };
        Self { places: (0..frames).map(place).collect(), pool }
    }

    #[inline(always)]
    fn of(&self, index: u32) -> Option<&Place> {
        self.places.get(index as usize)
    }
}

impl std::fmt::Debug for Links {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Links(pool {}, {} places)", self.pool, self.places.len())
    }
}

/// A list of free buffers of one pool. A list that is dropped with buffers loses them.
#[derive(Debug)]
#[must_use = "free frames dropped are buffers lost: give them back to their pool"]
pub struct FreeList {
    links: Arc<Links>,
    first: u32,
    last: u32,
    len: usize,
}

impl FreeList {
    /// Makes an empty list.
    pub fn new(links: Arc<Links>) -> Self {
        Self { links, first: END, last: END, len: 0 }
    }

    /// Returns the links of the list's buffers.
    pub fn links(&self) -> &Arc<Links> {
        &self.links
    }

    /// Returns the number of buffers.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if the list has no buffer.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Puts a buffer at the front.
    ///
    /// # Errors
    /// The buffer itself, if it is another pool's.
    #[inline]
    pub fn push_front(&mut self, free: FreeFrame) -> Result<(), FreeFrame> {
        let index = free.index();
        let Some(place) = self.links.of(index).filter(|_| free.pool() == self.links.pool) else {
            return Err(free);
        };
        place.next.store(self.first, Relaxed);
        place.previous.store(END, Relaxed);
        match self.links.of(self.first) {
            Some(second) => second.previous.store(index, Relaxed),
            None => self.last = index,
        }
        (self.first, self.len) = (index, self.len + 1);
        Ok(())
    }

    /// Takes the buffer at the front: the last one put there.
    #[inline]
    pub fn pop_front(&mut self) -> Option<FreeFrame> {
        let index = self.first;
        self.first = self.links.of(index)?.next.load(Relaxed);
        match self.links.of(self.first) {
            Some(second) => second.previous.store(END, Relaxed),
            None => self.last = END,
        }
        Some(self.popped(index))
    }

    /// Takes the buffer at the back: the first one put at the front.
    #[inline]
    pub fn pop_back(&mut self) -> Option<FreeFrame> {
        let index = self.last;
        self.last = self.links.of(index)?.previous.load(Relaxed);
        match self.links.of(self.last) {
            Some(second) => second.next.store(END, Relaxed),
            None => self.first = END,
        }
        Some(self.popped(index))
    }

    /// Returns the index of the buffer at the front.
    #[inline(always)]
    pub(crate) fn first(&self) -> Option<u32> {
        (self.first != END).then_some(self.first)
    }

    /// Returns the pool's number.
    #[inline(always)]
    pub(crate) fn pool(&self) -> u8 {
        self.links.pool
    }

    /// Takes buffers at the front into the slots of `to`, as frames made by `each`, and returns their number.
    #[inline]
    pub(crate) fn pop_to(&mut self, to: &mut [Frame], mut each: impl FnMut(FreeFrame) -> Frame) -> usize {
        let (links, mut first, mut count) = (&*self.links, self.first, 0);
        for to in to {
            let Some(place) = links.of(first) else { break };
            *to = each(FreeFrame::new(links.pool, first));
            (first, count) = (place.next.load(Relaxed), count + 1);
        }
        match links.of(first) {
            Some(first) => first.previous.store(END, Relaxed),
            None => self.last = END,
        }
        // Last: a panic in `each` leaves all buffers here.
        (self.first, self.len) = (first, self.len - count);
        count
    }

    /// Puts the first `count` frames of `from`, plain ones of the list's pool, at the front one by one, as
    /// many as have links.
    #[inline]
    pub(crate) fn push_from(&mut self, from: &mut Batch, count: usize) {
        let links = &*self.links;
        let (mut first, mut second, mut pushed) = (self.first, links.of(self.first), 0);
        for frame in &from.frames()[..count.min(from.len())] {
            let index = frame.index();
            let Some(place) = links.of(index) else { break };
            place.next.store(first, Relaxed);
            match second {
                Some(second) => second.previous.store(index, Relaxed),
                None => self.last = index,
            }
            (first, second, pushed) = (index, Some(place), pushed + 1);
        }
        if let Some(place) = second {
            place.previous.store(END, Relaxed);
        }
        (self.first, self.len) = (first, self.len + pushed);
        from.advance(pushed);
    }

    #[inline(always)]
    fn popped(&mut self, index: u32) -> FreeFrame {
        self.len -= 1;
        FreeFrame::new(self.links.pool, index)
    }
}

impl Drop for FreeList {
    fn drop(&mut self) {
        debug_assert!(self.is_empty() || std::thread::panicking(), "{self:?} is dropped with buffers in it");
    }
}
