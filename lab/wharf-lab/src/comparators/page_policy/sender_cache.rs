//! `sender-cache`: one buffer kept per sender, for its next packet.
//!
//! TCP sockets did this from 2019 to 2021. The buffer that the reader freed last stayed with the socket, and
//! the processor that received the socket's next packet took it. Every path must know of it, and each idle
//! sender keeps a buffer.

use super::lists::{ListAndSlots, Lists, as_its_lists};
use super::{AnyCache, PageCache, Place, Policy, Wanted};
use std::sync::Arc;
use wharf_core::pool::{PageCounters, PagePool, PoolError};
use wharf_mem::frame::SENDERS_MAX;
use wharf_mem::{Batch, FreeFrame};

/// The policy.
#[derive(Debug)]
pub struct SenderCache(Arc<ListAndSlots>);

impl SenderCache {
    /// Creates the policy for the pages of `pool`.
    pub fn new(pool: &PagePool) -> Self {
        Self(ListAndSlots::new(pool, usize::from(SENDERS_MAX)))
    }
}

impl Policy for SenderCache {
    fn cache(&self, _: &str) -> Result<AnyCache, PoolError> {
        let (lists, kept) = (Lists::new(&self.0.global, 1), self.0.clone());
        Ok(Box::new(SenderCacheCache { lists, kept, hand: Vec::with_capacity(1) }))
    }
}

/// A thread's list. Kept buffers belong to the senders.
#[derive(Debug)]
struct SenderCacheCache {
    lists: Lists,
    /// A slot per sender.
    kept: Arc<ListAndSlots>,
    /// The kept buffer, on its way out.
    hand: Vec<FreeFrame>,
}

impl PageCache for SenderCacheCache {
    fn take_here(&mut self, to: &mut Batch, count: usize, wanted: Wanted) -> Result<usize, PoolError> {
        let count = count.min(to.room());
        if self.hand.is_empty() && count > 0 {
            let kept = self.kept.slots.pick(usize::from(wanted.sender));
            self.lists.counters.look(kept.is_some());
            self.hand.extend(kept);
        }
        // A length that does not fit leaves it in hand.
        let kept = self.lists.take_from(&mut self.hand, to, count, wanted)?;
        self.lists.counters.recycled += kept as u64;
        Ok(kept + self.lists.take(to, count - kept, wanted)?)
    }

    fn give_here(&mut self, from: &mut Batch) -> Result<(), PoolError> {
        while let Some(sender) = from.frames().first().map(|frame| usize::from(frame.sender())) {
            let (run, _) = from.run_of_sender();
            self.lists.give(from, run)?;
            let Some(last) = self.lists.pop() else { continue };
            let laid = self.kept.slots.lay(sender, last);
            // This thread filled a full slot, as a rule: a sender's packets end on one processor.
            self.lists.counters.look(laid.is_ok());
            match laid {
                Ok(()) => self.lists.counters.remote_returns += 1,
                Err(last) => self.lists.push(last),
            }
        }
        Ok(())
    }

    as_its_lists!(lists);
}

impl Drop for SenderCacheCache {
    fn drop(&mut self) {
        self.lists.extend(self.hand.drain(..));
    }
}
