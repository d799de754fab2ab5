//! `allocator`: the kernel's page allocator: a list per processor, one locked list behind them.
//!
//! Where one processor takes and another frees, every page passes through the global list: its lock is taken twice
//! per batch, by everybody, and held while the line of each page of the batch comes over from who freed it.

use super::lists::{Lists, as_its_lists};
use super::{PageCache, Place, Policy, Wanted};
use crate::pool::{PageCounters, PagePool, PoolError};
use wharf_mem::Batch;

/// The policy.
#[derive(Debug)]
pub struct Allocator(PagePool);

impl Allocator {
    /// For the pages of `pool`.
    pub fn new(pool: &PagePool) -> Self {
        Self(pool.clone())
    }
}

impl Policy for Allocator {
    type Cache = AllocatorCache;

    fn cache(&self, _: &str) -> Result<AllocatorCache, PoolError> {
        Ok(AllocatorCache(Lists::new(&self.0, 1)))
    }

    fn pool(&self) -> &PagePool {
        &self.0
    }
}

/// A processor's list.
#[derive(Debug)]
pub struct AllocatorCache(Lists);

impl PageCache for AllocatorCache {
    #[inline]
    fn take_here(&mut self, to: &mut Batch, count: usize, wanted: Wanted) -> Result<usize, PoolError> {
        self.0.take(to, count, wanted)
    }

    #[inline]
    fn give_here(&mut self, from: &mut Batch) -> Result<(), PoolError> {
        self.0.give(from, from.len())
    }

    as_its_lists!(0);
}
