//! Page allocators, to be compared: the ways of a page that is freed on another processor than it was taken on.
//!
//! | policy | a page freed elsewhere |
//! |---|---|
//! | [`Allocator`] | joins the list of the thread that freed it; lists trade with a global list in batches, under its lock |
//! | [`Recycle`] | is awaited by the thread that took it, in a FIFO whose head (or all) is looked at; else as above |
//! | [`Origin`] | returns in bulk to the cache that took it: Wharf's own [`Cache`](wharf_core::pool::Cache) |
//! | [`Halves`] | joins a list when both packets in it are done; else as [`Allocator`] |
//! | [`SenderCache`] | is kept for its sender's next packet, one per sender; else as [`Allocator`] |
//!
//! A policy is a type, and a thread's part of it a [`PageCache`], a state machine of quick steps and
//! *visits*. A step touches the thread's own memory and at most a word per page; a visit goes to a [`Place`] with a lock.
//! The provided [`PageCache::take`] and [`PageCache::give`] drive it on real threads. A modelled processor drives it step
//! by step and decides how long each takes.
//!
//! All hand out real frames of a [`PagePool`](wharf_core::pool::PagePool) and write its ledger. All but `Origin` hold the
//! pool's free frames in a global list of their own: a pool has one such policy at a time.

mod allocator;
mod exchange_slots;
mod halves;
mod lists;
mod origin;
mod recycle;
mod sender_cache;

pub use allocator::Allocator;
pub use exchange_slots::ExchangeSlots;
pub use halves::Halves;
pub use origin::Origin;
pub use recycle::{OnBusy, Recycle};
pub use sender_cache::SenderCache;

use std::fmt::Debug;
use wharf_core::pool::{PageCounters, PoolError};
use wharf_mem::{Batch, Frame};

/// The frames that a thread wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// The sender that they are charged to.
    pub sender: u16,
    /// Their length.
    pub len_bytes: u32,
}

/// A list with a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The global list.
    Depot,
    /// The mailbox of the cache of this number.
    Mailbox(usize),
}

/// A policy for the pages of a pool.
pub trait Policy: Debug + Send + Sync {
    /// Creates a thread's part.
    ///
    /// # Errors
    /// [`PoolError::Caches`].
    fn cache(&self, name: &str) -> Result<AnyCache, PoolError>;
}

/// A thread's part of any policy.
pub type AnyCache = Box<dyn PageCache>;

/// A thread's part of a policy. Pages that lie here go to the global list when it is dropped.
pub trait PageCache: Debug + Send {
    /// Takes up to `count` frames that lie here. Returns their number; if 0, call [`PageCache::fetch`] first.
    ///
    /// # Errors
    /// [`PoolError::Memory`] for a length too long.
    fn take_here(&mut self, to: &mut Batch, count: usize, wanted: Wanted) -> Result<usize, PoolError>;

    /// Returns the place that [`PageCache::fetch`] would visit now.
    fn source(&self) -> Place;

    /// Visits the source for a batch of pages, or for `count` if that is more. Returns the number of pages
    /// fetched; 0 if the pool is empty.
    fn fetch(&mut self, count: usize) -> usize;

    /// Takes back all frames of a batch, from any thread. [`PageCache::surplus`] tells if a visit is due
    /// then.
    ///
    /// # Errors
    /// [`PoolError::Memory`] when one is another pool's; it and those behind it stay in the batch.
    fn give_here(&mut self, from: &mut Batch) -> Result<(), PoolError>;

    /// Returns the place whose pages exceed what is kept here.
    fn surplus(&self) -> Option<Place>;

    /// Visits that place with some of the surplus. Returns the number of pages brought.
    fn bring(&mut self) -> usize;

    /// Returns the counts.
    fn counters(&self) -> PageCounters;

    /// Takes `count` frames, at most as many as the batch has room for. Returns their number, less if the
    /// pool is empty.
    ///
    /// # Errors
    /// [`PoolError::Exhausted`] if there is none; [`PoolError::Memory`] for a length too long.
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

    /// Takes back all frames of a batch, and brings the surplus away.
    ///
    /// # Errors
    /// The errors of [`PageCache::give_here`].
    fn give(&mut self, from: &mut Batch) -> Result<(), PoolError> {
        let given = self.give_here(from);
        while self.surplus().is_some() {
            self.bring();
        }
        given
    }

    /// Returns the error for a pool without a frame.
    fn exhausted(&self) -> PoolError;
}

/// Returns the index of each frame in the batch from `old` on: those just taken.
fn taken_since(batch: &Batch, old: usize) -> impl Iterator<Item = usize> {
    batch.frames()[old..].iter().map(|frame: &Frame| frame.index() as usize)
}
