//! `Cache`: one thread's stack of free buffers, without sharing; it takes locks only to exchange bulks with the pool.
//!
//! This file takes and gives; `cache/refill.rs` is the slow half.

mod refill;

#[cfg(feature = "model")]
#[path = "../model/cache.rs"]
mod model;

use super::ledger::{CACHES_MAX, Ledger};
use super::mailbox::{Directory, Mailbox};
use super::{BULK, Burst, Packet, PageCounters, PagePool, PoolError, QuotaKind, Reservation, Shared};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use wharf_mem::return_ring::ReturnConsumer;
use wharf_mem::{Batch, Charge, Frame, FreeFrame, lock};

/// Most buffers that a cache keeps before it gives a part to the depot.
pub(super) const KEEP: usize = 8 * BULK;
/// Buffers of a return ring: as many as a cache keeps, so that fetching them never reallocates.
pub(crate) const RETURN_RING_FRAMES: u32 = KEEP as u32;

/// Takes between two looks at the clock: a frame's age in the ledger starts at one of the last eight takes.
const CLOCK_EVERY: u32 = 8;

/// Fewer frames than this are taken from the stack, more from the return ring.
const STRAIGHT_FROM: usize = 4;

/// A thread's own stock of free frames.
#[derive(Debug)]
pub struct Cache {
    pool: PagePool,
    stack: Vec<FreeFrame>,
    /// Frames of other caches that were freed here, gathered to a bulk.
    stash: Vec<FreeFrame>,
    /// The pool, and the sender that new frames are charged to.
    charge: Charge,
    number: usize,
    /// Buffers that it may keep on its stack, as of the last refill; in the stash, fewer than that.
    keep: Reservation,
    /// Buffers to ask the depot for beyond the need: twice as many each time, as in the kernel's page allocator
    /// (`mm/page_alloc.c`, `nr_pcp_alloc`), so that a cache that uses few has few.
    bulk: usize,
    /// Size of the last request.
    wanted: usize,
    /// It gathers: see [`Cache::gather`].
    gathers: bool,
    /// It has taken a frame, and counts among those that share the pool.
    has_taken: bool,
    /// A request has failed: see [`Cache::ran_out`].
    ran_out: bool,
    pool_number: u8,
    /// The ledger's row for frames taken now.
    stamp: u64,
    /// Takes until the clock is read again.
    clock_due: u32,
    mailbox: Arc<Mailbox>,
    return_ring: ReturnRing,
    /// It is a sender's: it keeps no free buffer while a cache waits.
    yields: bool,
    /// Mailboxes of the other caches.
    directory: Directory,
    /// Written on the slow paths only.
    counters: PageCounters,
}

/// A cache's return ring, once it has one.
struct ReturnRing(Option<ReturnConsumer>);

impl std::fmt::Debug for ReturnRing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ReturnRing({})", self.0.is_some())
    }
}

impl Cache {
    pub(super) fn new(pool: &PagePool, name: &str) -> Result<Self, PoolError> {
        let mailbox = Arc::new(Mailbox::new(name));
        let mut mailboxes = lock(&pool.shared.mailboxes);
        // The number of a cache that is gone is used again. Frames still out under it then return to the new cache.
        let number = mailboxes.iter().position(|other| other.is_closed()).unwrap_or(mailboxes.len());
        if number >= CACHES_MAX {
            return Err(PoolError::Caches);
        }
        if number == mailboxes.len() {
            mailboxes.push(mailbox.clone());
        } else {
            mailboxes[number] = mailbox.clone();
        }
        drop(mailboxes);
        pool.shared.caches.fetch_add(1, Ordering::Relaxed);
        Ok(Self {
            pool: pool.clone(),
            stack: Vec::with_capacity(2 * KEEP + 4 * BULK),
            stash: Vec::with_capacity(2 * BULK),
            charge: Charge::new(pool.region().number(), 0),
            number,
            keep: Reservation::new(pool, QuotaKind::CacheStacks),
            bulk: 1,
            wanted: 1,
            gathers: false,
            has_taken: false,
            ran_out: false,
            pool_number: pool.region().number(),
            stamp: 0,
            clock_due: 0,
            mailbox,
            return_ring: ReturnRing(None),
            yields: false,
            directory: Directory::default(),
            counters: PageCounters::default(),
        })
    }

    /// Sets the return ring, and the sender that frames are charged to from now on.
    #[doc(hidden)]
    pub fn set_return_ring(&mut self, ring: ReturnConsumer, sender: u16) {
        self.return_ring = ReturnRing(Some(ring));
        self.charge_to(sender);
        self.serve_a_sender();
    }

    /// Charges the frames taken from now on to `sender`.
    #[doc(hidden)]
    #[inline]
    pub fn charge_to(&mut self, sender: u16) {
        self.charge = Charge::new(self.pool_number, sender);
    }

    /// Makes it a sender's cache: it keeps no free buffer while a cache waits for memory.
    pub(crate) fn serve_a_sender(&mut self) {
        self.yields = true;
        self.mailbox.yield_to_waiters();
    }

    /// Takes the return ring off: the caller fetches the frames that still come by it.
    #[doc(hidden)]
    pub fn take_return_ring(&mut self) -> Option<ReturnConsumer> {
        self.return_ring.0.take()
    }

    /// The pool, and the sender that new frames are charged to.
    #[inline]
    pub(crate) fn charge(&self) -> Charge {
        self.charge
    }

    /// The pool's number.
    #[inline]
    pub(crate) fn pool_number(&self) -> u8 {
        self.pool_number
    }

    /// The cache's pool.
    pub fn pool(&self) -> &PagePool {
        &self.pool
    }

    /// Adds up to `count` frames of `len_bytes` to a batch. Returns their number, less than `count` if the pool runs
    /// empty or the batch full. Their bytes are those that the last user left.
    ///
    /// # Errors
    /// [`PoolError::Exhausted`] if no frame is free; [`PoolError::Memory`] for a length too long.
    #[inline(always)]
    pub fn take(&mut self, to: &mut Batch, count: usize, len_bytes: u32) -> Result<usize, PoolError> {
        self.date();
        // The common case of a quiet path: one frame, and the stack has some.
        if count == 1 {
            let Shared { region, ledger, .. } = &*self.pool.shared;
            let note = |index| ledger.write(index, self.stamp);
            if let Ok(1) = region.take_one(&mut self.stack, to, self.charge, len_bytes, note) {
                return Ok(1);
            }
        }
        self.take_slowly(to, count, len_bytes)
    }

    #[inline(never)]
    fn take_slowly(&mut self, to: &mut Batch, count: usize, len_bytes: u32) -> Result<usize, PoolError> {
        let count = count.min(to.room());
        // Taking straight from the return ring spares the stack and a store to the ledger.
        if let (Some(ring), true) = (&mut self.return_ring.0, count >= STRAIGHT_FROM) {
            let Shared { region, ledger, .. } = &*self.pool.shared;
            let note = |index| ledger.write(index, self.stamp);
            let taken = region.take_returned(ring, to, count, self.charge.sender(), len_bytes, note)?;
            if taken > 0 {
                return Ok(taken);
            }
        }
        if self.stack.len() < count {
            self.refill(count);
        }
        match self.take_stacked(to, count, len_bytes)? {
            0 => {
                // Without room in `to` the pool may still have frames.
                self.ran_out |= count > 0;
                Err(self.pool.exhausted())
            }
            count => Ok(count),
        }
    }

    /// Reads the clock every few takes, and gives buffers to waiters then.
    #[inline(always)]
    fn date(&mut self) {
        if self.clock_due == 0 {
            self.renew_stamp();
        }
        self.clock_due -= 1;
    }

    #[inline(never)]
    fn renew_stamp(&mut self) {
        self.clock_due = CLOCK_EVERY;
        self.stamp = Ledger::stamp(self.number, self.pool.now_ns());
        self.release_cached_if_wanted();
    }

    #[inline]
    fn take_stacked(&mut self, to: &mut Batch, count: usize, len_bytes: u32) -> Result<usize, PoolError> {
        let Shared { region, ledger, .. } = &*self.pool.shared;
        let note = |index| ledger.write(index, self.stamp);
        Ok(region.take(&mut self.stack, to, count, self.charge.sender(), len_bytes, note)?)
    }

    /// Works like [`Cache::take`], into a burst, whose bytes are uninitialised then ([`Packet`]); a full
    /// burst gets 0, and no error.
    ///
    /// # Errors
    /// The errors of [`Cache::take`].
    #[inline(always)]
    pub fn fill(&mut self, burst: &mut Burst, count: usize, len_bytes: u32) -> Result<usize, PoolError> {
        if burst.number() != self.pool_number {
            burst.rebind(&self.pool);
        }
        match self.take(burst.batch_mut(), count, len_bytes) {
            Err(PoolError::Exhausted { .. }) if count == 0 || burst.batch_mut().room() == 0 => Ok(0),
            filled => filled,
        }
    }

    /// Takes one packet of `len_bytes`, uninitialised ([`Packet`]).
    ///
    /// # Errors
    /// The errors of [`Cache::take`].
    pub fn packet(&mut self, len_bytes: u32) -> Result<Packet, PoolError> {
        let mut burst = Burst::new(&self.pool, 1);
        self.take(burst.batch_mut(), 1, len_bytes)?;
        burst.pop().ok_or_else(|| self.pool.exhausted())
    }

    /// Takes back all frames of a batch: its own onto the stack, others to their caches in bulk.
    ///
    /// # Errors
    /// [`PoolError::Memory`] when one is another pool's; it and those behind it stay in the batch.
    #[inline]
    pub fn give(&mut self, from: &mut Batch) -> Result<(), PoolError> {
        self.give_first(from, from.len())
    }

    /// Works like [`Cache::give`], but for frames of other pools, which it lets go: their ledgers list them
    /// as out. Returns the number of these.
    pub fn give_all(&mut self, from: &mut Batch) -> usize {
        let mut foreign = 0;
        while self.give(from).is_err() {
            let _lost = from.pop();
            foreign += 1;
        }
        foreign
    }

    /// Works like [`Cache::give`], for the first `count` frames.
    #[inline]
    pub(crate) fn give_first(&mut self, from: &mut Batch, count: usize) -> Result<(), PoolError> {
        let old = self.stash.len();
        let given = self.pool.shared.region.give(from, &mut self.stash, count);
        self.sort_stash(old);
        self.settle_stash();
        Ok(given?)
    }

    /// Works like [`Cache::give`], for frames known to be this cache's own, as on a path with one sender.
    #[inline(never)]
    pub(crate) fn give_own(&mut self, from: &mut Batch) -> Result<(), PoolError> {
        let old = self.stack.len();
        let given = self.pool.shared.region.give(from, &mut self.stack, from.len());
        let ledger = &self.pool.shared.ledger;
        self.stack[old..].iter().for_each(|free| ledger.freed(free.index()));
        self.trim(0);
        Ok(given?)
    }

    /// Takes back the only frame of a batch, known to be this cache's own. Returns its length, bytes. Returns `None`, with
    /// nothing done, if there are others, or it is not charged to this cache's sender, or has a row in the side table.
    #[inline(always)]
    pub(crate) fn give_only(&mut self, from: &mut Batch) -> Option<u32> {
        let (free, len_bytes) = from.free_only(self.charge)?;
        self.pool.shared.ledger.freed(free.index());
        self.stack.push(free);
        self.trim(0);
        Some(len_bytes)
    }

    /// Works like [`Cache::give`], for one frame.
    ///
    /// # Errors
    /// The frame itself, if it is another pool's.
    pub fn give_one(&mut self, frame: Frame) -> Result<(), (PoolError, Frame)> {
        let old = self.stash.len();
        let given = self.pool.shared.region.give_one(frame, &mut self.stash);
        self.sort_stash(old);
        self.settle_stash();
        given.map_err(|(error, frame)| (error.into(), frame))
    }

    /// Moves own frames from the part of the stash that begins at `old` to the stack.
    fn sort_stash(&mut self, old: usize) {
        let (ledger, number) = (&self.pool.shared.ledger, self.number);
        let given = &self.stash[old..];
        // Nearly always of one kind: a thread frees its own frames, or another's.
        match given.iter().filter(|free| ledger.is_of(free.index(), number)).count() {
            0 => {}
            own if own == given.len() => {
                given.iter().for_each(|free| ledger.freed(free.index()));
                self.stack.extend(self.stash.drain(old..));
            }
            _ => {
                let own = self.stash.extract_if(old.., |free| ledger.is_of(free.index(), number));
                self.stack.extend(own.inspect(|free| ledger.freed(free.index())));
            }
        }
    }

    /// Sends the stash to the other caches once it is a bulk.
    fn settle_stash(&mut self) {
        if self.has_bulk_for_others() {
            self.renew_keep(BULK);
            self.pool.settle_with(&mut self.stash, &mut self.directory, &mut self.counters);
        }
        self.trim(0);
    }

    #[doc(hidden)]
    pub fn has_bulk_for_others(&self) -> bool {
        self.stash.len() >= BULK.min(self.keep.frames()) || self.pool.is_waited_for()
    }

    /// True if a request has failed since the last call. There may be free frames again, too few for a long packet.
    pub(crate) fn ran_out(&mut self) -> bool {
        std::mem::take(&mut self.ran_out)
    }

    /// True if there are frames to take without the depot.
    pub(crate) fn has_frames(&mut self) -> bool {
        !self.stack.is_empty()
            || self.mailbox.len() > 0
            || self.return_ring.0.as_mut().is_some_and(|ring| !ring.is_empty())
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        self.gather(false);
        self.pool.settle_with(&mut self.stash, &mut self.directory, &mut self.counters);
        self.mailbox.close(&mut self.stack, &self.pool);
        self.pool.shared.caches.fetch_sub(1, Ordering::Relaxed);
        self.pool.shared.users.fetch_sub(usize::from(self.has_taken), Ordering::Relaxed);
        self.pool.deposit(self.stack.drain(..), &mut self.counters);
    }
}
