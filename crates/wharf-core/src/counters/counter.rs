//! `Counter`, of a part of the path, `Tally`, of a caller, and `BatchSizes`.

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

/// Counters of batches by size: of 2 frames, of up to 4, 8, and so on to 64, and of more.
#[derive(Debug, Default)]
pub(crate) struct BatchSizes([Counter; Self::CLASSES]);

impl BatchSizes {
    /// Classes, with the first: that of batches of one frame, which are not counted here.
    pub(crate) const CLASSES: usize = 8;

    /// Counts a batch of `frames`, which are several; for the writer.
    pub(crate) fn add(&self, frames: usize) {
        let class = frames.saturating_sub(1).checked_ilog2().map_or(0, |log| log as usize + 1);
        self.0[class.min(Self::CLASSES - 1)].add(1);
    }

    /// Adds those of another.
    pub(crate) fn absorb(&self, other: &Self) {
        self.0.iter().zip(other.get()).for_each(|(class, batches)| class.add(batches));
    }

    /// Returns the batches of each class.
    pub(crate) fn get(&self) -> [u64; Self::CLASSES] {
        self.0.each_ref().map(Counter::get)
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
