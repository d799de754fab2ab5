//! Pool policies, to be compared: what becomes of a page freed on another processor than it was taken on.
//!
//! | policy | a page freed elsewhere |
//! |---|---|
//! | [`Allocator`] | joins the list of whoever freed it; lists trade with the depot in batches, under its lock |
//! | [`Recycle`] | is waited for by who took it, in a FIFO of which the head is looked at, or all; else as above |
//! | [`Origin`] | goes back to who took it, in bulk: the default, a [`Cache`](super::Cache) as it is |
//! | [`Halves`] | joins a list when both packets in it are done; else as [`Allocator`] |
//! | [`SenderCache`] | is kept for its sender's next packet, one per sender; else as [`Allocator`] |
//!
//! A policy is a type, and what a thread has of it another ([`PageCache`]), so that the default knows nothing of the
//! others. Each is a state machine of quick steps, which touch only what is the thread's own and at most a word per
//! page, and of *visits* to a [`Place`] with a lock. The provided [`PageCache::take`] and [`PageCache::give`] drive it on
//! real threads; a modelled processor does it step by step, and says what each takes.
//!
//! All of them hand out real frames of a [`PagePool`], have its depot for the global list, and write its ledger.

mod allocator;
mod halves;
mod lists;
mod origin;
mod recycle;
mod sender_cache;

pub use allocator::{Allocator, AllocatorCache};
pub use halves::{Halves, HalvesCache};
pub use origin::{Origin, OriginCache};
pub use recycle::{OnBusy, Recycle, RecycleCache};
pub use sender_cache::{SenderCache, SenderCacheCache};

use super::{PageCounters, PagePool, PoolError};
use std::fmt::Debug;
use wharf_mem::{Batch, Frame};

/// What is wanted of frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// The sender that they are charged to.
    pub sender: u16,
    /// Their length.
    pub len_bytes: u32,
}

/// What a lock guards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The pool's depot: the global list.
    Depot,
    /// The mailbox of the cache of this number.
    Mailbox(usize),
}

/// A policy for the pages of a pool. Caches of several policies may live on one pool; each page goes by the rules of
/// whoever frees it.
pub trait Policy: Debug + Send + Sync {
    /// What a thread has of it.
    type Cache: PageCache + 'static;

    /// A thread's own.
    ///
    /// # Errors
    /// [`PoolError::Caches`].
    fn cache(&self, name: &str) -> Result<Self::Cache, PoolError>;

    /// The pool whose pages they are.
    fn pool(&self) -> &PagePool;
}

/// What one thread has of a pool under some policy. What lies here goes to the depot when it is dropped.
pub trait PageCache: Debug + Send {
    /// Takes up to `count` frames from what lies here; how many. None: [`PageCache::fetch`] first.
    ///
    /// # Errors
    /// [`PoolError::Memory`] for a length too long.
    fn take_here(&mut self, to: &mut Batch, count: usize, wanted: Wanted) -> Result<usize, PoolError>;

    /// The place that [`PageCache::fetch`] would visit now.
    fn source(&self) -> Place;

    /// Visits the source for pages, `count` of them where that is more than it usually takes; how many came. None:
    /// there is none to be had.
    fn fetch(&mut self, count: usize) -> usize;

    /// Takes back all frames of a batch, whoever took them. [`PageCache::surplus`] may want to be seen to then.
    ///
    /// # Errors
    /// [`PoolError::Memory`] when one is another pool's; it and those behind it stay in the batch.
    fn give_here(&mut self, from: &mut Batch) -> Result<(), PoolError>;

    /// The place to which more lies here than should.
    fn surplus(&self) -> Option<Place>;

    /// Visits that place with what is too much, or a part of it; how many pages went there.
    fn bring(&mut self) -> usize;

    /// What has been done here.
    fn counters(&self) -> PageCounters;

    /// Takes `count` frames, at most as many as the batch has room for; how many: fewer when the pool is empty.
    ///
    /// # Errors
    /// [`PoolError::Exhausted`] when not one is to be had; [`PoolError::Memory`] for a length too long.
    fn take(&mut self, to: &mut Batch, count: usize, wanted: Wanted) -> Result<usize, PoolError> {
        let count = count.min(to.room());
        let mut taken = 0;
        loop {
            taken += self.take_here(to, count - taken, wanted)?;
            if taken == count {
                return Ok(taken);
            }
            if self.fetch(count - taken) == 0 {
                return if taken > 0 { Ok(taken) } else { Err(self.exhausted()) };
            }
        }
    }

    /// Takes back all frames of a batch, and brings away what is too much here.
    ///
    /// # Errors
    /// As [`PageCache::give_here`].
    fn give(&mut self, from: &mut Batch) -> Result<(), PoolError> {
        let given = self.give_here(from);
        while self.surplus().is_some() {
            self.bring();
        }
        given
    }

    /// The error for a pool without a frame.
    fn exhausted(&self) -> PoolError;
}

/// Index of each frame in the batch from `old` on: those just taken.
fn taken_since(batch: &Batch, old: usize) -> impl Iterator<Item = usize> {
    batch.frames()[old..].iter().map(|frame: &Frame| frame.index() as usize)
}
