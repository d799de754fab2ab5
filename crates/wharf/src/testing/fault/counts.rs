//! Counts of injected faults.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The kinds of faults, in the order of [`NAMES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Error,
    Short,
    Stall,
    Lost,
    Late,
    Reorder,
    Alloc,
    Never,
    Freeze,
    Half,
}

/// The key of each kind in a specification.
const NAMES: [&str; 10] =
    ["error", "short", "stall", "lost", "late", "reorder", "alloc", "never", "freeze", "half"];

/// Faults injected so far, by their keys in a specification. Any thread may read them at any time.
#[derive(Debug, Default)]
pub struct FaultCounts([AtomicU64; NAMES.len()]);

impl FaultCounts {
    pub(super) fn add(&self, kind: Kind, count: u64) {
        // Several senders count failed allocations; every other kind has one writer. Faults are rare.
        self.0[kind as usize].fetch_add(count, Relaxed);
    }

    /// Returns each key with its count, in the order of the specification.
    pub fn by_kind(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        NAMES.into_iter().zip(self.0.iter().map(|count| count.load(Relaxed)))
    }

    /// Returns the count of `key`, or 0 for an unknown key.
    pub fn of(&self, key: &str) -> u64 {
        self.by_kind().find(|kind| kind.0 == key).map_or(0, |kind| kind.1)
    }

    /// Returns the count of all kinds.
    pub fn total(&self) -> u64 {
        self.by_kind().map(|kind| kind.1).sum()
    }
}
