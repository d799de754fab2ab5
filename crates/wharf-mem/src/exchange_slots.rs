//! `ExchangeSlots`: numbered slots for one free buffer each, in which one thread leaves a buffer for another.
//!
//! A slot is open (empty), full, or closed. A buffer that is put into a closed slot stays with its thread.
//! That counts references without a counter: putting a buffer means that its last user is done, closing a
//! slot means that its waiter is gone, and the second of the two learns of the first.
#![forbid(unsafe_code)]

use crate::frame::FreeFrame;
use crate::sync::{AtomicU32, Ordering};

/// Empty, and a thread will look. Pools count from 1, so that no buffer's bits are 0 or 1.
const OPEN: u32 = 0;
/// No thread will look.
const CLOSED: u32 = 1;

/// Slots for free buffers, shared between threads.
pub struct ExchangeSlots(Box<[AtomicU32]>);

impl std::fmt::Debug for ExchangeSlots {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ExchangeSlots({} places)", self.0.len())
    }
}

impl ExchangeSlots {
    /// Makes `places` slots, all closed.
    pub fn new(places: usize) -> Self {
        Self((0..places).map(|_| AtomicU32::new(CLOSED)).collect())
    }

    /// Returns the number of slots.
    pub fn places(&self) -> usize {
        self.0.len()
    }

    /// Opens slot `at`, if it is closed.
    #[inline]
    pub fn open(&self, at: usize) {
        if let Some(place) = self.0.get(at) {
            // Fails only if the slot is open or full.
            let _ = place.compare_exchange(CLOSED, OPEN, Ordering::Relaxed, Ordering::Relaxed);
        }
    }

    /// Leaves a buffer in slot `at`.
    ///
    /// # Errors
    /// The buffer, if the slot is full or closed, or there is none.
    #[inline]
    pub fn lay(&self, at: usize, free: FreeFrame) -> Result<(), FreeFrame> {
        // A read first: a locked instruction that fails also takes the cache line away from its last writer.
        let Some(place) = self.0.get(at).filter(|place| place.load(Ordering::Relaxed) == OPEN) else {
            return Err(free);
        };
        match place.compare_exchange(OPEN, free.bits(), Ordering::Release, Ordering::Relaxed) {
            Ok(_) => Ok(()),
            Err(_) => Err(free),
        }
    }

    /// Takes the buffer from slot `at`, which is open then; `None` if it has none.
    #[inline]
    pub fn pick(&self, at: usize) -> Option<FreeFrame> {
        self.take(at, OPEN)
    }

    /// Takes the buffer from slot `at`, which is closed then; `None`, and no change, if it has none.
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
        // One of several threads that see the buffer takes it.
        let taken = place.compare_exchange(bits, then, Ordering::Acquire, Ordering::Relaxed);
        taken.ok().map(FreeFrame::from_bits)
    }

    /// Closes slot `at`, and returns the buffer that was there.
    #[inline]
    pub fn close(&self, at: usize) -> Option<FreeFrame> {
        let bits = self.0.get(at)?.swap(CLOSED, Ordering::Acquire);
        (bits > CLOSED).then(|| FreeFrame::from_bits(bits))
    }
}
