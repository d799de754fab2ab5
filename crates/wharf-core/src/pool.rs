//! `PagePool`: the memory of frames, with an account of every frame (the kernel's `page_pool`).
//!
//! Free buffers lie in a [`Cache`] per thread (not shared), in return rings on their way to one, in the *depot* (from
//! which caches refill in bulk), and in a *mailbox* per cache (buffers that other threads freed, in bulk). A cache
//! takes from its return ring and mailbox before it asks the depot. One that finds no buffer may join the wait list
//! (`pool/waiting.rs`).
//!
//! The ledger has a row per buffer: 0 while it is free, else the cache that took it and the time.
//!
//! ```
//! use wharf_core::pool::PagePool;
//!
//! let pool = PagePool::builder().frames(256).huge_pages(false).build()?;
//! let mut cache = pool.cache("example")?;
//! let mut burst = pool.burst(32);
//! assert_eq!(cache.fill(&mut burst, 32, 64)?, 32);
//! burst.iter_mut().for_each(|bytes| bytes.fill(0));
//! assert_eq!(pool.audit().out(), 32);
//! burst.clear();
//! assert_eq!(pool.audit().out(), 0);
//! # Ok::<(), wharf_core::pool::PoolError>(())
//! ```

mod burst;
mod cache;
mod counters;
mod depot;
mod ledger;
mod lock;
mod mailbox;
mod packet;
mod packet_mut;
mod peer_queues;
mod places;
mod reservation;
mod returns;
mod segments;
mod times;
mod waiting;
mod waitlist;
mod whole;

#[cfg(feature = "model")]
#[path = "model/allocator.rs"]
mod allocator;

pub use burst::Burst;
pub use cache::Cache;
pub(crate) use cache::RETURN_RING_FRAMES;
pub use counters::PageCounters;
pub use ledger::{Audit, Held, Holder};
pub use lock::LockCounts;
pub use packet::Packet;
pub use packet_mut::PacketMut;
pub(crate) use peer_queues::{Inside, PeerQueue, PeerQueues};
pub(crate) use reservation::{QuotaKind, Reservation};
pub(crate) use returns::Returns;
#[doc(no_inline)]
pub use wharf_packet::NoRoom;

use crate::host::{Clock, HostClock};
use depot::Depot;
use ledger::Ledger;
use mailbox::{Directory, Mailbox};

use reservation::Quota;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use waiting::WaitListStatus;
pub(crate) use waiting::WaitPlace;
use wharf_mem::{Batch, FreeFrame, MemError, Region, RegionSpec, lock};

/// Buffers that move between a cache and the depot at a time.
pub(crate) const BULK: usize = 64;

/// An error of taking or returning frames.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PoolError {
    /// All frames are in use: wait for completions, or use a larger pool.
    #[error("the pool is empty: all {frames} frames are in use")]
    Exhausted {
        /// Frames of the pool.
        frames: u32,
    },
    /// The pool has as many caches as a ledger row can name.
    #[error("a pool serves at most {} threads", ledger::CACHES_MAX)]
    Caches,
    /// See [`MemError`].
    #[error(transparent)]
    Memory(#[from] MemError),
}

/// A pool of frames. A clone is another handle to the same pool, which several ports may share.
///
/// ```
/// # use wharf_core::pool::PagePool;
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let pool = PagePool::builder().frames(64).frame_bytes(2048).build()?;
/// assert_eq!(pool.packet_bytes_max(), 1536);
/// let packet = pool.packet(100)?;
/// assert_eq!(pool.audit().out(), 1, "the packet's frame");
/// drop(packet);
/// assert_eq!(pool.audit().out(), 0);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct PagePool {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    region: Arc<Region>,
    clock: Arc<dyn Clock>,
    depot: Mutex<Depot>,
    mailboxes: Mutex<Vec<Arc<Mailbox>>>,
    ledger: Ledger,
    /// Living caches.
    caches: AtomicUsize,
    /// Living caches that have taken a frame.
    users: AtomicUsize,
    /// Summary of the wait list.
    wait_status: WaitListStatus,
    /// True if a cache gathers: see [`Cache::gather`].
    gathering: AtomicBool,
    /// Buffers in mailboxes that waiters may call in.
    mailed: AtomicUsize,
    /// Quota of the stacks of caches.
    on_stacks: Quota,
    /// Quota of return rings.
    in_return_rings: Quota,
    /// Queues that send the pool's frames.
    peers: PeerQueues,
}

/// The settings of a new pool. See [`PagePool::builder`].
#[derive(Debug, Clone)]
pub struct PoolBuilder {
    spec: RegionSpec,
    clock: Arc<dyn Clock>,
}

impl PoolBuilder {
    /// Sets the number of frames, 1 to 2^24; 4096 by default.
    #[must_use]
    pub fn frames(mut self, frames: u32) -> Self {
        self.spec.frames = frames;
        self
    }

    /// Sets the bytes of one frame: a multiple of 64, from 128 to 262656
    /// ([`FRAME_BYTES_MAX`](wharf_mem::FRAME_BYTES_MAX)); 2048 by default. Headroom, and 448 B of colour from
    /// 2 KiB on, are a part of them: [`PagePool::packet_bytes_max`] is what is left, 1536 by default.
    #[must_use]
    pub fn frame_bytes(mut self, bytes: u32) -> Self {
        self.spec.frame_bytes = bytes;
        self
    }

    /// Sets the bytes left free before the data: a multiple of 64, at most half a frame; 64 by default.
    #[must_use]
    pub fn headroom_bytes(mut self, bytes: u32) -> Self {
        self.spec.headroom_bytes = bytes;
        self
    }

    /// Uses 2 MiB pages if enough are free; true by default.
    #[must_use]
    pub fn huge_pages(mut self, take: bool) -> Self {
        self.spec.huge_pages = take;
        self
    }

    /// Sets the clock by which the ledger counts the ages of frames; the host's by default.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Maps the memory.
    ///
    /// # Errors
    /// [`PoolError::Memory`]: a setting out of bounds, no memory, or 63 living pools.
    pub fn build(self) -> Result<PagePool, PoolError> {
        let (region, free) = Region::new(self.spec)?;
        let shared = Shared {
            region: Arc::new(region),
            clock: self.clock,
            depot: Mutex::new(Depot::new(free)),
            mailboxes: Mutex::new(Vec::new()),
            ledger: Ledger::new(self.spec.frames),
            caches: AtomicUsize::new(0),
            users: AtomicUsize::new(0),
            wait_status: WaitListStatus::default(),
            gathering: AtomicBool::new(false),
            mailed: AtomicUsize::new(0),
            on_stacks: Quota::new(self.spec.frames),
            in_return_rings: Quota::new(self.spec.frames),
            peers: PeerQueues::default(),
        };
        Ok(PagePool { shared: Arc::new(shared) })
    }
}

impl PagePool {
    /// Starts with 4096 frames of 2 KiB, each for a packet of up to 1536 bytes.
    pub fn builder() -> PoolBuilder {
        let spec = RegionSpec { frames: 4096, frame_bytes: 2048, headroom_bytes: 64, huge_pages: true };
        PoolBuilder { spec, clock: Arc::new(HostClock) }
    }

    /// The pool's memory, for devices.
    pub fn region(&self) -> &Arc<Region> {
        &self.shared.region
    }

    /// Returns the number of frames.
    pub fn frames(&self) -> u32 {
        self.shared.region.spec().frames
    }

    /// Returns the length of the longest packet that fits one frame, bytes: 1536 of a default pool, with
    /// frames of 2048 bytes and a headroom of 64. A longer one is a chain: see [`Packet::is_chain`].
    pub fn packet_bytes_max(&self) -> u32 {
        self.shared.region.data_bytes_max()
    }

    /// Makes a cache for one thread; the ledger lists it under `name`.
    ///
    /// # Errors
    /// [`PoolError::Caches`].
    pub fn cache(&self, name: &str) -> Result<Cache, PoolError> {
        Cache::new(self, name)
    }

    /// Takes one packet of `len_bytes`, uninitialised ([`Packet`]), from the depot: convenient, but slow
    /// beside a [`Cache`].
    ///
    /// # Errors
    /// [`PoolError::Exhausted`], [`PoolError::Memory`].
    pub fn packet(&self, len_bytes: u32) -> Result<Packet, PoolError> {
        let mut batch = Batch::new(1);
        let mut free: Vec<FreeFrame> = lock(&self.shared.depot).pop().into_iter().collect();
        let taken = self.shared.region.take(&mut free, &mut batch, 1, 0, len_bytes, |_| {});
        self.deposit(free.into_iter(), &mut PageCounters::default());
        taken?;
        let frame = batch.pop().ok_or_else(|| self.exhausted())?;
        self.shared.ledger.taken(frame.index(), ledger::NO_CACHE, self.now_ns());
        Ok(Packet::new(frame, self.clone()))
    }

    /// Makes an empty burst for up to `capacity` packets of this pool.
    pub fn burst(&self, capacity: usize) -> Burst {
        Burst::new(self, capacity)
    }

    /// The queues that send this pool's frames.
    pub(crate) fn peers(&self) -> &PeerQueues {
        &self.shared.peers
    }

    /// Returns the number of free frames in the depot, for tests and displays.
    pub fn depot_len(&self) -> usize {
        lock(&self.shared.depot).len()
    }

    /// Returns the number of free frames in the depot and in mailboxes; caches hold more.
    pub fn free(&self) -> usize {
        let mailed: usize = lock(&self.shared.mailboxes).iter().map(|box_| box_.len()).sum();
        lock(&self.shared.depot).len() + mailed
    }

    /// Returns the frames in use, with holder and age.
    pub fn audit(&self) -> Audit {
        let mailboxes = lock(&self.shared.mailboxes);
        let name = |cache: usize| mailboxes.get(cache).map(|box_| box_.name.clone());
        self.shared.ledger.audit(self.now_ns(), name)
    }

    /// Gives back all frames of a batch, whichever cache they came from: for threads without a cache.
    ///
    /// # Errors
    /// [`PoolError::Memory`] when one is another pool's; it and those behind it stay in the batch.
    pub fn give_back(&self, batch: &mut Batch) -> Result<(), PoolError> {
        let mut free = Vec::with_capacity(batch.len());
        let given = self.shared.region.give(batch, &mut free, batch.len());
        self.settle(&mut free);
        Ok(given?)
    }

    /// Sends free buffers, which the ledger still lists as taken, to the mailboxes of their caches.
    #[doc(hidden)]
    pub fn settle(&self, free: &mut Vec<FreeFrame>) {
        self.settle_with(free, &mut Directory::passing(), &mut PageCounters::default());
    }

    /// Works like [`PagePool::settle`], for a thread that has a list of mailboxes.
    fn settle_with(&self, free: &mut Vec<FreeFrame>, directory: &mut Directory, counters: &mut PageCounters) {
        self.group(free);
        while !free.is_empty() {
            self.settle_run(free, directory, counters);
        }
    }

    /// Groups buffers by cache, so that each mailbox is locked once.
    fn group(&self, free: &mut [FreeFrame]) {
        if self.run_of(free) < free.len() {
            free.sort_unstable_by_key(|frame| self.shared.ledger.cache_of(frame.index()));
        }
    }

    /// Returns the number of buffers at the end of `free` that are of one cache.
    fn run_of(&self, free: &[FreeFrame]) -> usize {
        let cache_of = |frame: &FreeFrame| self.shared.ledger.cache_of(frame.index());
        let Some(cache) = free.last().map(cache_of) else { return 0 };
        free.iter().rev().take_while(|frame| cache_of(frame) == cache).count()
    }

    /// Sends the last run of buffers of one cache. Returns its length.
    fn settle_run(
        &self, free: &mut Vec<FreeFrame>, directory: &mut Directory, counters: &mut PageCounters,
    ) -> usize {
        let Some(cache) = free.last().map(|frame| self.shared.ledger.cache_of(frame.index())) else {
            return 0;
        };
        let run = self.run_of(free);
        let start = free.len() - run;
        free[start..].iter().for_each(|frame| self.shared.ledger.freed(frame.index()));
        directory.post(cache, free, start, self, counters);
        run
    }

    /// Returns the free buffers that one cache may keep in each of its places (stack, mailbox, return ring), as far
    /// as the quotas allow. All caches together leave at least a quarter of the pool to those that need it. The share
    /// is 0 if the pool has too few frames for one each: all buffers then go through the depot.
    pub(crate) fn share(&self) -> usize {
        self.share_of(&self.shared.caches)
    }

    /// Returns the [share](PagePool::share) on the stack of a cache. Only caches that have taken a frame count, so that thousands
    /// of unused ones take nothing from the others.
    fn share_on_stack(&self, yields: bool) -> usize {
        self.share_now(self.share_of(&self.shared.users), yields)
    }

    /// Returns the [share](PagePool::share) in the mailbox of a cache.
    fn share_in_mail(&self, yields: bool) -> usize {
        self.share_now(self.share(), yields).max(usize::from(!yields))
    }

    fn share_of(&self, caches: &AtomicUsize) -> usize {
        (self.frames() as usize / (4 * caches.load(Ordering::Relaxed).max(1))).min(cache::KEEP)
    }

    /// Returns `share`, or 0 for a sender's cache (`yields`) while a cache waits. A receiver's cache keeps its share:
    /// senders may wait for the receiver of their own frames.
    fn share_now(&self, share: usize, yields: bool) -> usize {
        if yields && self.is_waited_for() { 0 } else { share }
    }

    pub(crate) fn now_ns(&self) -> u64 {
        self.shared.clock.now_ns()
    }

    /// Returns the error for a pool without a free frame.
    #[doc(hidden)]
    pub fn exhausted(&self) -> PoolError {
        PoolError::Exhausted { frames: self.frames() }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let depot = self.depot.get_mut().unwrap_or_else(PoisonError::into_inner);
        self.region.retire(depot.empty());
    }
}
