//! What a thread has done with the pages of a pool.

use super::LockCounts;

/// What one thread's end of a pool has done; plain numbers, added up when somebody asks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PageCounters {
    /// Frames taken.
    pub allocations: u64,
    /// Frames given back.
    pub frees: u64,
    /// Times that what lay here was not enough for those who took.
    pub slow_paths: u64,
    /// Locks taken on the slow paths of both.
    pub locks: LockCounts,
    /// Frames that went back towards where they had come from when they were freed elsewhere.
    pub remote_returns: u64,
    /// Frames taken that such a return had brought.
    pub recycled: u64,
    /// Looks at the head of a FIFO that found it in use.
    pub head_blocked: u64,
    /// Looks at words that threads share: places of a shelf.
    pub looks: u64,
    /// Of those, at words that another thread wrote last, as a rule: a cache line came over.
    pub misses: u64,
}

impl PageCounters {
    /// Notes a look.
    #[inline]
    #[doc(hidden)]
    pub fn look(&mut self, is_miss: bool) {
        self.looks += 1;
        self.misses += u64::from(is_miss);
    }

    /// Adds another thread's.
    pub fn add(&mut self, other: &Self) {
        self.allocations += other.allocations;
        self.frees += other.frees;
        self.slow_paths += other.slow_paths;
        self.locks.add(&other.locks);
        self.remote_returns += other.remote_returns;
        self.recycled += other.recycled;
        self.head_blocked += other.head_blocked;
        self.looks += other.looks;
        self.misses += other.misses;
    }
}
