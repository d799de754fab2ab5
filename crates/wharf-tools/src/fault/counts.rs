//! Counts of injected faults.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The kinds of faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Error,
    Short,
    Stall,
    Lost,
    Late,
    Reorder,
    Alloc,
}

impl Kind {
    const ALL: [Kind; 7] =
        [Kind::Error, Kind::Short, Kind::Stall, Kind::Lost, Kind::Late, Kind::Reorder, Kind::Alloc];

    /// Returns its key in a specification.
    fn name(self) -> &'static str {
        match self {
            Kind::Error => "error",
            Kind::Short => "short",
            Kind::Stall => "stall",
            Kind::Lost => "lost",
            Kind::Late => "late",
            Kind::Reorder => "reorder",
            Kind::Alloc => "alloc",
        }
    }
}

/// Faults injected so far, by their keys in a specification. Any thread may read them at any time.
#[derive(Debug, Default)]
pub struct FaultCounts([AtomicU64; Kind::ALL.len()]);

impl FaultCounts {
    pub(super) fn add(&self, kind: Kind, count: u64) {
        // Several senders count failed allocations; every other kind has one writer. Faults are rare.
        self.0[kind as usize].fetch_add(count, Relaxed);
    }

    /// Returns each key with its count, in the order of the specification.
    pub fn by_kind(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        Kind::ALL.iter().map(|&kind| (kind.name(), self.0[kind as usize].load(Relaxed)))
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
