//! What two threads share, and one at a time may touch: the slots of a ring, and the inside of a queue.
//!
//! Whose turn it is the protocols say (`ring.rs`, `owner_cell.rs`, safe code both, under loom's eyes); what is here asks for
//! the proof of it, a type that they alone can make.

use crate::owner_cell::{Entered, Ownership};
use crate::ring::{FilledSlot, FreeSlot};
use crate::sync::UnsafeCell;

/// A place in a ring.
pub(crate) struct Slot<T>(UnsafeCell<T>);

// SAFETY: a slot is accessed through `FreeSlot` and `FilledSlot` alone, which one side at a time has, and each side has
// acquired what the other released ((A) to (D) in `ring.rs`); `T` is `Copy` data that may move between threads.
unsafe impl<T: Copy + Send> Sync for Slot<T> {}

impl<T> Slot<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }
}

impl<T: Copy> FreeSlot<'_, T> {
    #[inline(always)]
    pub(crate) fn put(self, value: T) {
        // SAFETY: the slot is the producer's alone, as this says that is given up for it: nobody reads or writes it meanwhile.
        self.slot().0.with_mut(|slot| unsafe { *slot = value });
    }
}

impl<T: Copy> FilledSlot<'_, T> {
    #[inline(always)]
    pub(crate) fn get(self) -> T {
        // SAFETY: the slot is the consumer's alone, as this says that is given up for it: nobody writes it meanwhile.
        self.slot().0.with(|slot| unsafe { *slot })
    }
}

/// The value in an owner's cell.
pub(crate) struct Inside<T>(UnsafeCell<T>);

// SAFETY: the value is reached only through `Ownership`, of which RUNNING admits one at a time, and `Entered`, of
// which there is one at most, and none beside an `Ownership` ((F) in `owner_cell.rs`); whoever gets it next has acquired
// what the last one released.
unsafe impl<T: Send> Sync for Inside<T> {}

impl<T> Inside<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }

    #[cfg(not(loom))]
    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.0.get_mut()
    }
}

impl<T> Ownership<'_, T> {
    /// Works on the value.
    #[inline(always)]
    pub fn with<R>(&mut self, work: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: this `Ownership` is the only one (RUNNING), and `&mut self` the only use of it.
        self.inside().0.with_mut(|value| work(unsafe { &mut *value }))
    }
}

impl<T> Entered<'_, T> {
    /// Works on the value.
    #[inline(always)]
    pub fn with<R>(&mut self, work: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: there is one bias to a cell, borrowed for as long as this lives; an `Ownership` waits until
        // `entered` is down (F), and `&mut self` is the only use of this.
        self.inside().0.with_mut(|value| work(unsafe { &mut *value }))
    }
}
