//! `PageCounters`: counts of one thread's use of a pool.

use super::LockCounts;

/// Counts of one thread's use of a pool: plain numbers, added up on demand.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PageCounters {
    /// Frames taken.
    pub allocations: u64,
    /// Frames given back.
    pub frees: u64,
    /// Takes that the stack could not serve.
    pub slow_paths: u64,
    /// Locks taken on the slow paths.
    pub locks: LockCounts,
    /// Frames freed by this thread that went back to the cache that took them.
    pub remote_returns: u64,
    /// Frames taken that had come back so.
    pub recycled: u64,
    /// Looks at the head of a FIFO that found it in use.
    pub head_blocked: u64,
    /// Looks at words that threads share: places of a slots.
    pub looks: u64,
    /// Those of `looks` at words that another thread wrote last: nearly always a cache line transferred.
    pub misses: u64,
}

impl PageCounters {
    /// Counts a look.
    #[inline]
    #[doc(hidden)]
    pub fn look(&mut self, is_miss: bool) {
        self.looks += 1;
        self.misses += u64::from(is_miss);
    }

    /// Adds the counts of another thread.
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
