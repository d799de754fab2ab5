//! `FrameList`: many threads push frames without a lock; one takes all of them at once, in order.
//!
//! It is a stack, linked through a table with a place per buffer. A frame is the only name of its buffer: its
//! place belongs to the pusher until the head names it, and to the taker from then on. Frames are never
//! popped one by one, so a head that comes back (the same buffer pushed again, ABA) does no harm.
//!
//! (L) Each push releases its place by the exchange of the head. All changes of the head are exchanges: a
//! taker whose exchange acquires sees the places of all frames on the list.
#![forbid(unsafe_code)]

use crate::frame::Frame;
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use crossbeam_utils::CachePadded;

/// The end of the list. Other values are a buffer's index plus 1.
const END: u32 = 0;

/// A list for the frames of one pool.
pub struct FrameList {
    head: CachePadded<AtomicU32>,
    places: Box<[Place]>,
    pool: u8,
}

struct Place {
    frame: AtomicU64,
    next: AtomicU32,
}

impl std::fmt::Debug for FrameList {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FrameList(pool {}, {} places)", self.pool, self.places.len())
    }
}

impl FrameList {
    /// Makes an empty list for the `frames` frames of pool number `pool`.
    pub fn new(pool: u8, frames: u32) -> Self {
        let place = |_| Place { frame: AtomicU64::new(0), next: AtomicU32::new(END) };
        let head = CachePadded::new(AtomicU32::new(END));
        Self { head, places: (0..frames).map(place).collect(), pool }
    }

    /// Pushes a frame, and returns true if the list was empty.
    ///
    /// # Errors
    /// The frame itself, if it is another pool's.
    pub fn push(&self, frame: Frame) -> Result<bool, Frame> {
        let index = frame.index();
        let Some(place) = self.places.get(index as usize).filter(|_| frame.pool() == self.pool) else {
            return Err(frame);
        };
        place.frame.store(frame.bits(), Ordering::Relaxed);
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            place.next.store(head, Ordering::Relaxed);
            // (L)
            match self.head.compare_exchange_weak(head, index + 1, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return Ok(head == END),
                Err(now) => head = now,
            }
        }
    }

    /// Takes all frames, and hands them to `take`, first pushed first.
    pub fn take(&self, mut take: impl FnMut(Frame)) {
        let mut first = self.reversed(self.head.swap(END, Ordering::Acquire)); // (L)
        while let Some(place) = self.place(first) {
            // Before the frame is given away, and its place with it.
            first = place.next.load(Ordering::Relaxed);
            take(Frame::from_bits(place.frame.load(Ordering::Relaxed)));
        }
    }

    /// True if the list is empty now.
    pub fn is_empty(&self) -> bool {
        self.head.load(Ordering::Relaxed) == END
    }

    /// Reverses the links of a list that this thread owns, and returns its new head.
    fn reversed(&self, mut from: u32) -> u32 {
        let mut to = END;
        while let Some(place) = self.place(from) {
            let next = place.next.load(Ordering::Relaxed);
            place.next.store(to, Ordering::Relaxed);
            (to, from) = (from, next);
        }
        to
    }

    fn place(&self, name: u32) -> Option<&Place> {
        name.checked_sub(1).and_then(|index| self.places.get(index as usize))
    }
}
