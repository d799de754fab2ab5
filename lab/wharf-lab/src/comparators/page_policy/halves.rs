//! `halves`: two packets in a page, which is free when both are done. Half as many pages pass through the
//! allocator.
//!
//! A page is two neighbouring frames. The frame that comes back first waits in an exchange slot for the
//! other; the slot is the page's count of references. The cost: one packet that stays holds the memory of
//! two.

use super::lists::{ListAndSlots, Lists, as_its_lists};
use super::{AnyCache, PageCache, Place, Policy, Wanted};
use std::sync::Arc;
use wharf_core::pool::{PageCounters, PagePool, PoolError};
use wharf_mem::{Batch, FreeFrame};

/// The policy.
#[derive(Debug)]
pub struct Halves(Arc<ListAndSlots>);

impl Halves {
    /// Creates the policy for the pages of `pool`.
    pub fn new(pool: &PagePool) -> Self {
        // The last frame of an odd number has no other half and no slot: it is free by itself.
        Self(ListAndSlots::new(pool, pool.frames() as usize / 2))
    }
}

impl Policy for Halves {
    fn cache(&self, _: &str) -> Result<AnyCache, PoolError> {
        Ok(Box::new(HalvesCache {
            lists: Lists::new(&self.0.global, 2),
            meeting: self.0.clone(),
            second: Vec::with_capacity(1),
            hand: Vec::new(),
        }))
    }
}

/// A thread's list of whole pages, and the second half of the page last taken.
#[derive(Debug)]
struct HalvesCache {
    lists: Lists,
    /// A slot per page, in which its halves meet.
    meeting: Arc<ListAndSlots>,
    /// The other half of a page of which one was taken.
    second: Vec<FreeFrame>,
    /// Halves on their way back.
    hand: Vec<FreeFrame>,
}

impl PageCache for HalvesCache {
    fn take_here(&mut self, to: &mut Batch, count: usize, wanted: Wanted) -> Result<usize, PoolError> {
        let count = count.min(to.room());
        let halves = self.lists.take_from(&mut self.second, to, count, wanted)?;
        let whole = self.lists.take(to, (count - halves) & !1, wanted)?;
        let mut taken = halves + whole;
        if taken < count && self.lists.len() >= 2 {
            self.second.extend(self.lists.pop());
            taken += self.lists.take(to, 1, wanted)?;
        } else if taken < count {
            taken += self.lists.take(to, 1, wanted)?;
        }
        Ok(taken)
    }

    fn give_here(&mut self, from: &mut Batch) -> Result<(), PoolError> {
        let given = self.lists.retake(from, &mut self.hand, from.len());
        for free in self.hand.drain(..) {
            let page = free.index() as usize / 2;
            let laid = self.meeting.slots.lay(page, free);
            // The same thread frees both halves, as a rule: the second time the word is in its cache.
            self.lists.counters.look(laid.is_ok());
            if let Err(free) = laid {
                // The first half is there; no other thread can pick it, since this is the only other half.
                self.lists.extend(self.meeting.slots.pick(page));
                self.lists.push(free);
            }
        }
        given
    }

    as_its_lists!(lists);
}

impl Drop for HalvesCache {
    fn drop(&mut self) {
        self.lists.extend(self.second.drain(..));
    }
}
