//! `FreeList`: free buffers in a doubly linked list, of which the links lie with the buffers: a cache line each.
//!
//! What the kernel's page allocator has (`struct page`, 64 bytes, `lru` linking it into one list at a time). A stack of
//! numbers is cheaper; whoever takes a buffer here that another thread has freed waits for its line, and cannot
//! look for the next before it has come. That is the price which is to be shown.
//!
//! A list makes only such buffers out of numbers as were put into it, and a buffer's links are written by the list alone
//! that owns it. So links may be shared by any number of lists, and no order between threads is needed but what
//! brings the list itself from one to another.
#![forbid(unsafe_code)]

use crate::batch::Batch;
use crate::frame::{Frame, FreeFrame};
use crate::sync::{AtomicU32, Ordering::Relaxed};
use std::sync::Arc;

/// No buffer's index, nor ever a place: either end of a list.
const END: u32 = u32::MAX;

/// A place for each buffer of a pool, to be shared by lists.
pub struct Links {
    places: Box<[Place]>,
    pool: u8,
}

/// One buffer's neighbours.
#[repr(align(64))]
struct Place {
    next: AtomicU32,
    previous: AtomicU32,
}

impl Links {
    /// For the `frames` buffers of pool number `pool`, 64 bytes each.
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

/// A list of free buffers of one pool. Empty it before it is dropped: what lies in it is lost otherwise.
#[derive(Debug)]
#[must_use = "free frames dropped are buffers lost: give them back to their pool"]
pub struct FreeList {
    links: Arc<Links>,
    first: u32,
    last: u32,
    len: usize,
}

impl FreeList {
    /// An empty one.
    pub fn new(links: Arc<Links>) -> Self {
        Self { links, first: END, last: END, len: 0 }
    }

    /// The links that its buffers are put on.
    pub fn links(&self) -> &Arc<Links> {
        &self.links
    }

    /// Buffers in it.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Puts a buffer at the front.
    ///
    /// # Errors
    /// The buffer itself, which is of another pool.
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

    /// Takes the buffer at the front: the one put there last.
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

    /// Takes the buffer at the back: the one put there first.
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

    /// Index of the buffer at the front.
    #[inline(always)]
    pub(crate) fn first(&self) -> Option<u32> {
        (self.first != END).then_some(self.first)
    }

    /// Number of the pool.
    #[inline(always)]
    pub(crate) fn pool(&self) -> u8 {
        self.links.pool
    }

    /// Takes the buffers at the front into the places of `to`, as frames made by `each`; how many.
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
        // Only now: a panic in `each` leaves them all here.
        (self.first, self.len) = (first, self.len - count);
        count
    }

    /// Puts the first `count` frames of `from`, which are plain ones of the list's pool, at the front one after the other; as
    /// many as have a place.
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
