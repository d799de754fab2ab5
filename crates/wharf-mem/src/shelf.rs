//! A shelf: numbered places for one free buffer each, where one thread lays a buffer for another to pick up.
//!
//! A place is open (empty), full, or closed: what is laid on a closed one stays with whoever came to lay it there. That
//! is a count of references without counting: a buffer laid down has lost its last user, a place closed has lost
//! whoever waited for it, and whichever comes second learns of the first.
#![forbid(unsafe_code)]

use crate::frame::FreeFrame;
use crate::sync::{AtomicU32, Ordering};

/// Empty, and somebody will look. Pools count from 1, so that no buffer's bits are 0 or 1.
const OPEN: u32 = 0;
/// Nobody will look.
const CLOSED: u32 = 1;

/// Places for free buffers, shared between threads.
pub struct Shelf(Box<[AtomicU32]>);

impl std::fmt::Debug for Shelf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Shelf({} places)", self.0.len())
    }
}

impl Shelf {
    /// `places` of them, all closed.
    pub fn new(places: usize) -> Self {
        Self((0..places).map(|_| AtomicU32::new(CLOSED)).collect())
    }

    /// Number of places.
    pub fn places(&self) -> usize {
        self.0.len()
    }

    /// Opens place `at`, if it is closed.
    #[inline]
    pub fn open(&self, at: usize) {
        if let Some(place) = self.0.get(at) {
            // Fails only where it is open or full already.
            let _ = place.compare_exchange(CLOSED, OPEN, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Lays a buffer down at place `at`.
    ///
    /// # Errors
    /// The buffer, where the place is full or closed, or there is none.
    #[inline]
    pub fn lay(&self, at: usize, free: FreeFrame) -> Result<(), FreeFrame> {
        // A look first: a locked instruction that fails takes the line away from its last writer, too.
        let Some(place) = self.0.get(at).filter(|place| place.load(Ordering::Relaxed) == OPEN) else {
            return Err(free);
        };
        match place.compare_exchange(OPEN, free.bits(), Ordering::Release, Ordering::Relaxed) {
            Ok(_) => Ok(()),
            Err(_) => Err(free),
        }
    }

    /// Takes the buffer from place `at`, which is open then; `None` where none lies.
    #[inline]
    pub fn pick(&self, at: usize) -> Option<FreeFrame> {
        self.take(at, OPEN)
    }

    /// As [`Shelf::pick`], and the place is closed if there was one.
    #[inline]
    pub fn collect(&self, at: usize) -> Option<FreeFrame> {
        self.take(at, CLOSED)
    }

    #[inline]
    fn take(&self, at: usize, then: u32) -> Option<FreeFrame> {
        let place = self.0.get(at)?;
        let bits = place.load(Ordering::Relaxed);
        if bits <= CLOSED {
            return None;
        }
        // Of several that see it, one has it.
        let taken = place.compare_exchange(bits, then, Ordering::Acquire, Ordering::Relaxed);
        taken.ok().map(FreeFrame::from_bits)
    }

    /// Closes place `at`; the buffer that lay there.
    #[inline]
    pub fn close(&self, at: usize) -> Option<FreeFrame> {
        let bits = self.0.get(at)?.swap(CLOSED, Ordering::Acquire);
        (bits > CLOSED).then(|| FreeFrame::from_bits(bits))
    }
}
