//! `Returns`: what a thread keeps that gives frames back to a pool again and again without a cache: no list of mailboxes is
//! looked for and nothing allocated with every batch.

use super::mailbox::Directory;
use super::{PageCounters, PagePool, PoolError};
use wharf_mem::{Batch, FreeFrame};

/// Gives frames back to one pool. Between two calls it holds none.
#[derive(Debug)]
pub(crate) struct Returns {
    pool: PagePool,
    free: Vec<FreeFrame>,
    directory: Directory,
    counters: PageCounters,
}

impl PagePool {
    /// For a thread that gives back what others have taken.
    pub(crate) fn returns(&self) -> Returns {
        let (free, directory, counters) = (Vec::new(), Directory::default(), PageCounters::default());
        Returns { pool: self.clone(), free, directory, counters }
    }
}

impl Returns {
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
