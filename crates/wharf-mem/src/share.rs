//! Memory that threads share and one at a time accesses: the slots of a ring, and the value of an owner's cell.
//!
//! The protocols that decide the turn are safe code, checked under loom: `ring.rs` and `owner_cell.rs`. Access here takes
//! a proof of the turn: a type that only these two files make.

use crate::owner_cell::{BiasedOwnership, Ownership};
use crate::ring::{FilledSlot, FreeSlot};
use crate::sync::UnsafeCell;

/// A slot of a ring.
pub(crate) struct Slot<T>(UnsafeCell<T>);

// SAFETY: a slot is accessed through `FreeSlot` and `FilledSlot` alone. One side at a time has such a proof, after it has
// acquired what the other side released ((A) to (D) in `ring.rs`). `T` is `Copy` data that may move between threads.
unsafe impl<T: Copy + Send> Sync for Slot<T> {}

impl<T> Slot<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }
}

impl<T: Copy> FreeSlot<'_, T> {
    #[inline(always)]
    pub(crate) fn put(self, value: T) {
        // SAFETY: this proof, which is used up, says that the slot is the producer's alone.
        self.slot().0.with_mut(|slot| unsafe { *slot = value });
    }
}

impl<T: Copy> FilledSlot<'_, T> {
    #[inline(always)]
    pub(crate) fn get(self) -> T {
        // SAFETY: this proof, which is used up, says that the slot is the consumer's alone, and written.
        self.slot().0.with(|slot| unsafe { *slot })
    }
}

/// The value in an owner's cell.
pub(crate) struct CellValue<T>(UnsafeCell<T>);

// SAFETY: the value is accessed through `Ownership` and `BiasedOwnership` alone. RUNNING admits one `Ownership` at a time; there is at
// most one `BiasedOwnership`, and none beside an `Ownership` ((F) in `owner_cell.rs`). Each has acquired what the one before
// released.
unsafe impl<T: Send> Sync for CellValue<T> {}

impl<T> CellValue<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(UnsafeCell::new(value))
    }

    #[cfg(not(loom))]
    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.0.get_mut()
    }
}

impl<T> Ownership<'_, T> {
    /// Calls `work` with the value, and returns its result.
    #[inline(always)]
    pub fn with<R>(&mut self, work: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: this `Ownership` is the only one (RUNNING), and `&mut self` its only use.
        self.value().0.with_mut(|value| work(unsafe { &mut *value }))
    }
}

impl<T> BiasedOwnership<'_, T> {
    /// Calls `work` with the value, and returns its result.
    #[inline(always)]
    pub fn with<R>(&mut self, work: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: a cell has one bias, which is borrowed as long as this lives. An `Ownership` waits until `entered` is
        // cleared (F); `&mut self` is the only use of this.
        self.value().0.with_mut(|value| work(unsafe { &mut *value }))
    }
}
