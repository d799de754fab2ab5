//! `origin`: a page returns in bulk to the cache that took it. It is Wharf's own [`Cache`], with counts, and
//! with its slow path in steps for modelled processors.

use super::{AnyCache, PageCache, Place, Policy, Wanted};
use wharf_core::pool::{Cache, PageCounters, PagePool, PoolError};
use wharf_mem::Batch;

/// The policy.
#[derive(Debug)]
pub struct Origin(PagePool);

impl Origin {
    /// Creates the policy for the pages of `pool`.
    pub fn new(pool: &PagePool) -> Self {
        Self(pool.clone())
    }
}

impl Policy for Origin {
    fn cache(&self, name: &str) -> Result<AnyCache, PoolError> {
        let mut cache = self.0.cache(name)?;
        cache.keep_a_share();
        Ok(Box::new(OriginCache { cache, allocations: 0, frees: 0, returning: false }))
    }
}

/// A [`Cache`] with counts.
#[derive(Debug)]
struct OriginCache {
    cache: Cache,
    allocations: u64,
    frees: u64,
    /// Pages of other caches are being returned, a mailbox at a time.
    returning: bool,
}

impl OriginCache {
    fn next_home(&self) -> Option<Place> {
        self.cache.next_home().map(|cache| cache.map_or(Place::Depot, Place::Mailbox))
    }
}

impl PageCache for OriginCache {
    fn take_here(&mut self, to: &mut Batch, count: usize, wanted: Wanted) -> Result<usize, PoolError> {
        let taken = self.cache.take_here(to, count, wanted.sender, wanted.len_bytes)?;
        self.allocations += taken as u64;
        Ok(taken)
    }

    fn source(&self) -> Place {
        if self.cache.has_mail() { Place::Mailbox(self.cache.number()) } else { Place::Depot }
    }

    fn fetch(&mut self, count: usize) -> usize {
        self.cache.fetch(count)
    }

    fn give_here(&mut self, from: &mut Batch) -> Result<(), PoolError> {
        let before = from.len();
        let given = self.cache.give_here(from);
        self.frees += (before - from.len()) as u64;
        if !self.returning && self.cache.has_bulk_for_others() {
            self.returning = self.cache.group_stash();
        }
        given
    }

    fn surplus(&self) -> Option<Place> {
        let others = if self.returning { self.next_home() } else { None };
        others.or_else(|| self.cache.has_surplus().then_some(Place::Depot))
    }

    fn bring(&mut self) -> usize {
        if !self.returning {
            return self.cache.give_surplus(0);
        }
        let brought = self.cache.return_run();
        self.returning = self.cache.next_home().is_some();
        brought
    }

    fn counters(&self) -> PageCounters {
        PageCounters { allocations: self.allocations, frees: self.frees, ..self.cache.counters() }
    }

    #[inline]
    fn take(&mut self, to: &mut Batch, count: usize, wanted: Wanted) -> Result<usize, PoolError> {
        self.cache.charge_to(wanted.sender);
        let taken = self.cache.take(to, count, wanted.len_bytes)?;
        self.allocations += taken as u64;
        Ok(taken)
    }

    #[inline]
    fn give(&mut self, from: &mut Batch) -> Result<(), PoolError> {
        let before = from.len();
        let given = self.cache.give(from);
        self.frees += (before - from.len()) as u64;
        given
    }

    fn exhausted(&self) -> PoolError {
        self.cache.pool().exhausted()
    }
}
