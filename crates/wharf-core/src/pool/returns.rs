//! `Returns`: gives frames back to a pool, batch by batch, for a thread without a cache.
//!
//! It keeps the list of mailboxes and its buffers from one batch to the next, and allocates nothing per batch.

use super::mailbox::Directory;
use super::{PageCounters, PagePool, PoolError};
use wharf_mem::{Batch, FreeFrame};

/// A thread's way to give frames back to one pool. It holds no frames between two calls.
#[derive(Debug)]
pub(crate) struct Returns {
    pool: PagePool,
    free: Vec<FreeFrame>,
    directory: Directory,
    counters: PageCounters,
}

impl Returns {
    pub(crate) fn new(pool: &PagePool) -> Self {
        let (free, directory, counters) = (Vec::new(), Directory::default(), PageCounters::default());
        Self { pool: pool.clone(), free, directory, counters }
    }

    /// Gives back the first `count` frames of a batch, whichever cache they came from.
    ///
    /// # Errors
    /// [`PoolError::Memory`] when one is another pool's; it and those behind it stay in the batch.
    pub(crate) fn give_first(&mut self, batch: &mut Batch, count: usize) -> Result<(), PoolError> {
        let given = self.pool.shared.region.give(batch, &mut self.free, count);
        self.pool.settle_with(&mut self.free, &mut self.directory, &mut self.counters);
        Ok(given?)
    }
}
