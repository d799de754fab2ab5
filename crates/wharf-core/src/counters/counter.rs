//! `Counter`, of a part of the path, and `Tally`, of a caller.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A counter, to be read. Its part of the path writes it, one thread at a time: by a plain load and store,
/// without a locked instruction.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds `n`; for the writer.
    #[inline(always)]
    pub(crate) fn add(&self, n: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }

    /// Sets the value; for the writer.
    #[inline(always)]
    pub(crate) fn set(&self, n: u64) {
        self.0.store(n, Relaxed);
    }

    /// Adds `n`; for counters that several threads write.
    pub(crate) fn add_shared(&self, n: u64) {
        self.0.fetch_add(n, Relaxed);
    }

    /// Returns the value.
    #[inline(always)]
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// A counter of a caller's own, which the caller writes.
#[derive(Debug, Default)]
pub struct Tally(Counter);

impl Tally {
    /// Adds `n`; for the writer.
    #[inline(always)]
    pub fn add(&self, n: u64) {
        self.0.add(n);
    }

    /// Sets the value; for the writer.
    #[inline(always)]
    pub fn set(&self, n: u64) {
        self.0.set(n);
    }

    /// Returns the value.
    #[inline(always)]
    pub fn get(&self) -> u64 {
        self.0.get()
    }
}
