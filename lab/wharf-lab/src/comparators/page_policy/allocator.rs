//! `allocator`: the kernel's page allocator: a list per processor, and one locked list behind them.
//!
//! When one processor takes and another frees, every page passes through the global list. All processors take
//! its lock twice per batch, and hold it while the cache line of each page comes over from the processor that
//! freed it.

use super::lists::{GlobalList, Lists, as_its_lists};
use super::{AnyCache, PageCache, Place, Policy, Wanted};
use std::sync::Arc;
use wharf_core::pool::{PageCounters, PagePool, PoolError};
use wharf_mem::Batch;

/// The policy.
#[derive(Debug)]
pub struct Allocator(Arc<GlobalList>);

impl Allocator {
    /// Creates the policy for the pages of `pool`.
    pub fn new(pool: &PagePool) -> Self {
        Self(GlobalList::new(pool))
    }
}

impl Policy for Allocator {
    fn cache(&self, _: &str) -> Result<AnyCache, PoolError> {
        Ok(Box::new(AllocatorCache(Lists::new(&self.0, 1))))
    }
}

/// A processor's list.
#[derive(Debug)]
struct AllocatorCache(Lists);

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
