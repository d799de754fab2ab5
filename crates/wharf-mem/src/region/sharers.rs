//! `Sharers`: how many queues may each hold frames of a region for long, so that all together leave some.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// The count of a region's [`Sharer`]s. A clone is another handle to the same count.
#[derive(Debug, Clone, Default)]
pub struct Sharers(Arc<AtomicU32>);

/// One queue that holds frames of a region, until this is dropped.
#[derive(Debug)]
pub struct Sharer(Sharers);

impl Sharers {
    /// Counts one more.
    pub fn join(&self) -> Sharer {
        self.0.fetch_add(1, Relaxed);
        Sharer(self.clone())
    }

    /// Returns their number.
    #[inline]
    pub fn count(&self) -> u32 {
        self.0.load(Relaxed)
    }
}

impl Drop for Sharer {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Relaxed);
    }
}
