//! `FrameList`: frames that many threads push without a lock, and that one takes all at once, in order.
//!
//! A stack linked through a table with a place per buffer: a frame is the only name of its buffer, so its place is its
//! pusher's until the head names it, and the taker's from then on. Nothing is ever popped one by one, so a head that
//! comes back (the same buffer pushed again) is no confusion: what lies below it is what it says.
//!
//! (L) Each push releases its place by the exchange of the head; since all that happens to the head are exchanges, whoever
//! takes the list by one that acquires sees the places of all that are on it.
#![forbid(unsafe_code)]

use crate::frame::Frame;
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use crossbeam_utils::CachePadded;

/// No frame: the end of the list. Other names are those of buffers, plus 1.
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
    /// An empty one for the `frames` frames of pool number `pool`.
    pub fn new(pool: u8, frames: u32) -> Self {
        let place = |_| Place { frame: AtomicU64::new(0), next: AtomicU32::new(END) };
        let head = CachePadded::new(AtomicU32::new(END));
        Self { head, places: (0..frames).map(place).collect(), pool }
    }

    /// Pushes a frame; whether the list was empty.
    ///
    /// # Errors
    /// The frame itself, which is of another pool.
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

    /// Takes all frames off and shows them to `take`, first pushed first.
    pub fn take(&self, mut take: impl FnMut(Frame)) {
        let mut first = self.reversed(self.head.swap(END, Ordering::Acquire)); // (L)
        while let Some(place) = self.place(first) {
            // Before the frame is given away, and with it the place.
            first = place.next.load(Ordering::Relaxed);
            take(Frame::from_bits(place.frame.load(Ordering::Relaxed)));
        }
    }

    /// Whether it is empty now.
    pub fn is_empty(&self) -> bool {
        self.head.load(Ordering::Relaxed) == END
    }

    /// Turns the links of a list that is ours alone; its new head.
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
