//! `ExchangeSlots`: numbered slots for one free buffer each, in which one thread leaves a buffer for another.
//!
//! A slot is open (empty), full, or closed. A buffer that is put into a closed slot stays with its thread.
//! That counts references without a counter: putting a buffer means that its last user is done, closing a
//! slot means that its waiter is gone, and the second of the two learns of the first.

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use wharf_mem::FreeFrame;

/// Empty, and a thread will look.
const OPEN: u8 = 0;
const FULL: u8 = 1;
/// No thread will look.
const CLOSED: u8 = 2;

#[derive(Debug)]
struct Slot {
    /// Changed under the lock only. A read first leaves the cache line with its last writer.
    state: AtomicU8,
    free: Mutex<Option<FreeFrame>>,
}

impl Slot {
    /// Takes the lock, if the slot is in `state`.
    #[inline]
    fn lock_in(&self, state: u8) -> Option<MutexGuard<'_, Option<FreeFrame>>> {
        if self.state.load(Relaxed) != state {
            return None;
        }
        let free = wharf_mem::lock(&self.free);
        (self.state.load(Relaxed) == state).then_some(free)
    }
}

/// Slots for free buffers, shared between threads.
#[derive(Debug)]
pub struct ExchangeSlots(Box<[Slot]>);

impl ExchangeSlots {
    /// Makes `places` slots, all open, or all closed.
    pub fn new(places: usize, open: bool) -> Self {
        let state = if open { OPEN } else { CLOSED };
        Self((0..places).map(|_| Slot { state: AtomicU8::new(state), free: Mutex::new(None) }).collect())
    }

    /// Opens slot `at`, if it is closed.
    #[inline]
    pub fn open(&self, at: usize) {
        if let Some(_locked) = self.0[at].lock_in(CLOSED) {
            self.0[at].state.store(OPEN, Relaxed);
        }
    }

    /// Leaves a buffer in slot `at`.
    ///
    /// # Errors
    /// The buffer, if the slot is full or closed, or there is none.
    #[inline]
    pub fn lay(&self, at: usize, free: FreeFrame) -> Result<(), FreeFrame> {
        let Some(slot) = self.0.get(at) else { return Err(free) };
        let Some(mut locked) = slot.lock_in(OPEN) else { return Err(free) };
        *locked = Some(free);
        slot.state.store(FULL, Relaxed);
        Ok(())
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
    fn take(&self, at: usize, then: u8) -> Option<FreeFrame> {
        let slot = self.0.get(at)?;
        let mut locked = slot.lock_in(FULL)?;
        slot.state.store(then, Relaxed);
        locked.take()
    }

    /// Closes slot `at`, and returns the buffer that was there.
    #[inline]
    pub fn close(&self, at: usize) -> Option<FreeFrame> {
        let mut locked = wharf_mem::lock(&self.0[at].free);
        self.0[at].state.store(CLOSED, Relaxed);
        locked.take()
    }

    /// Returns the buffers of all slots; none is shared any longer.
    pub fn drain(&mut self) -> impl Iterator<Item = FreeFrame> {
        self.0
            .iter_mut()
            .filter_map(|slot| slot.free.get_mut().unwrap_or_else(PoisonError::into_inner).take())
    }
}
