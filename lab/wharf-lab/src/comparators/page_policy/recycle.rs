//! `recycle-head` and `recycle-scan`: a thread waits in a FIFO for the pages it took, and takes them again
//! once free.
//!
//! This is mlx5's page cache until 2023. The driver kept a reference to each page it handed out and looked at
//! the head of its FIFO only. A page that a slow reader holds there blocks all others behind it. Variants
//! release a busy head, put it last, or look through the whole FIFO. Further pages come from the allocator.

use super::exchange_slots::ExchangeSlots;
use super::lists::{GlobalList, Lists, as_its_lists};
use super::{AnyCache, PageCache, Place, Policy, Wanted, taken_since};
use std::collections::VecDeque;
use std::sync::Arc;
use wharf_core::pool::{PageCounters, PagePool, PoolError};
use wharf_mem::{Batch, FreeFrame};

/// The treatment of a page in use at the head of the FIFO.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnBusy {
    /// None: no page comes from the FIFO until it is free.
    Stop,
    /// It is released when the FIFO is full, to the thread that frees it. The next is looked at, once for
    /// each page wanted.
    Release,
    /// It goes to the end. The next is looked at, once for each page wanted.
    Rotate,
    /// All others are looked at, in order.
    Scan,
}

/// The policy.
#[derive(Debug)]
pub struct Recycle {
    global: Arc<GlobalList>,
    /// A slot per page, open while its FIFO waits for it.
    slots: Arc<ExchangeSlots>,
    on_busy: OnBusy,
    fifo_pages: usize,
}

impl Recycle {
    /// Creates the policy for the pages of `pool`. A thread's FIFO holds up to `fifo_pages`.
    pub fn new(pool: &PagePool, on_busy: OnBusy, fifo_pages: usize) -> Self {
        let slots = Arc::new(ExchangeSlots::new(pool.frames() as usize, false));
        Self { global: GlobalList::new(pool), slots, on_busy, fifo_pages }
    }
}

impl Policy for Recycle {
    fn cache(&self, _: &str) -> Result<AnyCache, PoolError> {
        Ok(Box::new(RecycleCache {
            lists: Lists::new(&self.global, 1),
            slots: self.slots.clone(),
            on_busy: self.on_busy,
            fifo: VecDeque::with_capacity(self.fifo_pages),
            fifo_pages: self.fifo_pages,
            hand: Vec::new(),
        }))
    }
}

/// A thread's FIFO, and its list for the rest.
#[derive(Debug)]
struct RecycleCache {
    lists: Lists,
    slots: Arc<ExchangeSlots>,
    on_busy: OnBusy,
    /// Pages handed out from here, in order; their slots are open.
    fifo: VecDeque<u32>,
    fifo_pages: usize,
    /// Pages on their way from or to the slots.
    hand: Vec<FreeFrame>,
}

impl RecycleCache {
    /// Takes a page of the FIFO that has come back.
    fn recycled(&mut self) -> Option<FreeFrame> {
        if let Some(free) = self.look(0)? {
            self.fifo.pop_front();
            return Some(free);
        }
        self.lists.counters.head_blocked += 1;
        match self.on_busy {
            OnBusy::Stop => None,
            // Pages must have time to come back: one released at once never does.
            OnBusy::Release if self.fifo.len() < self.fifo_pages => None,
            OnBusy::Release => {
                let head = self.fifo.pop_front()?;
                // It may have come back since then.
                self.slots.close(head as usize).or_else(|| self.second())
            }
            OnBusy::Rotate => {
                self.fifo.rotate_left(1);
                self.second()
            }
            OnBusy::Scan => {
                let (at, free) = (1..self.fifo.len()).find_map(|at| Some((at, self.look(at)??)))?;
                self.fifo.remove(at);
                Some(free)
            }
        }
    }

    /// Takes the page that is at the head now.
    fn second(&mut self) -> Option<FreeFrame> {
        let free = self.look(0)??;
        self.fifo.pop_front();
        Some(free)
    }

    /// Looks at the slot of the FIFO's page `at`, if there is one.
    #[inline]
    fn look(&mut self, at: usize) -> Option<Option<FreeFrame>> {
        let page = *self.fifo.get(at)? as usize;
        let found = self.slots.collect(page);
        // A slot without a page was last written by this thread, when the page went out.
        self.lists.counters.look(found.is_some());
        Some(found)
    }

    /// Begins to wait for the frames of the batch from `old` on.
    fn expect(&mut self, batch: &Batch, old: usize) {
        let room = self.fifo_pages - self.fifo.len();
        for page in taken_since(batch, old).take(room) {
            self.slots.open(page);
            self.fifo.push_back(page as u32);
        }
    }
}

impl PageCache for RecycleCache {
    fn take_here(&mut self, to: &mut Batch, count: usize, wanted: Wanted) -> Result<usize, PoolError> {
        let (old, count) = (to.len(), count.min(to.room()));
        while self.hand.len() < count {
            let Some(free) = self.recycled() else { break };
            self.hand.push(free);
        }
        // A length that does not fit leaves them in hand.
        let recycled = self.lists.take_from(&mut self.hand, to, count, wanted)?;
        self.lists.counters.recycled += recycled as u64;
        let taken = recycled + self.lists.take(to, count - recycled, wanted)?;
        self.expect(to, old);
        Ok(taken)
    }

    fn give_here(&mut self, from: &mut Batch) -> Result<(), PoolError> {
        let kept = self.hand.len();
        let given = self.lists.retake(from, &mut self.hand, from.len());
        for free in self.hand.drain(kept..) {
            self.lists.counters.look(true);
            match self.slots.lay(free.index() as usize, free) {
                Ok(()) => self.lists.counters.remote_returns += 1,
                Err(free) => self.lists.push(free),
            }
        }
        given
    }

    as_its_lists!(lists);
}

impl Drop for RecycleCache {
    fn drop(&mut self) {
        self.lists.extend(self.hand.drain(..));
        self.lists.extend(self.fifo.drain(..).filter_map(|page| self.slots.close(page as usize)));
    }
}
