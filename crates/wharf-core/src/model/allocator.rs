//! Access for allocators outside this crate, which the lab compares: free frames and the ledger.

use super::ledger::{Ledger, NO_CACHE};
use super::{PageCounters, PagePool};
use crate::host::Clock;
use wharf_mem::{FreeFrame, lock};

#[doc(hidden)]
impl PagePool {
    /// Takes all frames out of the depot.
    pub fn take_free(&self) -> Vec<FreeFrame> {
        lock(&self.shared.depot).empty()
    }

    /// Puts free frames into the depot.
    pub fn give_free(&self, free: impl Iterator<Item = FreeFrame>) {
        self.deposit(free, &mut PageCounters::default());
    }

    /// Returns the pool's clock.
    pub fn clock(&self) -> &dyn Clock {
        &*self.shared.clock
    }

    /// Returns the ledger's row for frames taken now, by no cache.
    pub fn ledger_stamp(&self) -> u64 {
        Ledger::stamp(NO_CACHE, self.now_ns())
    }

    /// Notes a frame as taken.
    #[inline(always)]
    pub fn note_taken(&self, index: u32, stamp: u64) {
        self.shared.ledger.write(index, stamp);
    }

    /// Notes a frame as free.
    #[inline(always)]
    pub fn note_free(&self, index: u32) {
        self.shared.ledger.freed(index);
    }
}
