//! `Mailbox`: buffers for one cache: its own that other threads have freed, and those handed to it from the wait
//! list.

use super::{PageCounters, PagePool};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use wharf_mem::{FreeFrame, lock};

/// A cache's mailbox.
#[derive(Debug)]
pub(crate) struct Mailbox {
    pub(super) name: String,
    /// Frames in `contents`, so that the cache finds it empty without the lock.
    count: AtomicUsize,
    /// It is a sender's: while a cache waits it keeps only buffers handed to it.
    yields: AtomicBool,
    contents: Mutex<Contents>,
}

#[derive(Debug)]
struct Contents {
    /// Its own buffers that were freed: waiters may call them in.
    frames: Vec<FreeFrame>,
    /// Buffers handed from the wait list, reserved for `PATIENCE_NS`.
    handed: Vec<FreeFrame>,
    /// The ticket that it was last handed buffers for.
    ticket: u64,
    /// The cache is gone: its buffers go to the depot.
    closed: bool,
}

impl Mailbox {
    pub(super) fn new(name: &str) -> Self {
        let contents =
            Mutex::new(Contents { frames: Vec::new(), handed: Vec::new(), ticket: 0, closed: false });
        Self { name: name.to_string(), count: AtomicUsize::new(0), yields: AtomicBool::new(false), contents }
    }

    /// Makes it a sender's.
    pub(super) fn yield_to_waiters(&self) {
        self.yields.store(true, Ordering::Relaxed);
    }

    fn yields(&self) -> bool {
        self.yields.load(Ordering::Relaxed)
    }

    /// Returns the number of frames inside.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// True if its cache is gone.
    pub(super) fn is_closed(&self) -> bool {
        lock(&self.contents).closed
    }

    /// Moves all buffers onto `to`. Returns their number.
    pub(super) fn empty(
        &self, to: &mut Vec<FreeFrame>, pool: &PagePool, counters: &mut PageCounters,
    ) -> usize {
        let mut contents = counters.locks.lock(&self.contents, &*pool.shared.clock);
        contents.move_to(to, &self.count, pool)
    }

    /// Closes it, and moves all buffers onto `to`.
    pub(super) fn close(&self, to: &mut Vec<FreeFrame>, pool: &PagePool) {
        let mut contents = lock(&self.contents);
        contents.closed = true;
        contents.move_to(to, &self.count, pool);
    }

    /// Hands it buffers for `ticket`. Returns false, with none taken, if its cache is gone. Called under the depot's
    /// lock.
    pub(super) fn hand(&self, ticket: u64, frames: impl Iterator<Item = FreeFrame>) -> bool {
        let mut contents = lock(&self.contents);
        if contents.closed {
            return false;
        }
        contents.handed.extend(frames);
        contents.ticket = ticket;
        self.count.store(contents.frames.len() + contents.handed.len(), Ordering::Release);
        true
    }

    /// Gives back the buffers handed for `ticket`, unless more were handed since.
    pub(super) fn recall(&self, ticket: u64, give_back: impl FnOnce(std::vec::Drain<'_, FreeFrame>)) {
        let mut contents = lock(&self.contents);
        if contents.ticket != ticket {
            return;
        }
        give_back(contents.handed.drain(..));
        self.count.store(contents.frames.len(), Ordering::Release);
    }

    /// Moves all but the handed buffers onto `to`, if it is a sender's.
    pub(super) fn call_in(&self, to: &mut Vec<FreeFrame>, pool: &PagePool) {
        if !self.yields() {
            return;
        }
        let mut contents = lock(&self.contents);
        pool.shared.mailed.fetch_sub(contents.frames.len(), Ordering::SeqCst);
        to.append(&mut contents.frames);
        self.count.store(contents.handed.len(), Ordering::Release);
    }

    /// Takes the buffers of `from` from `start` on, unless it would then hold more than its share.
    fn post(
        &self, from: &mut Vec<FreeFrame>, start: usize, pool: &PagePool, counters: &mut PageCounters,
    ) -> PostOutcome {
        let mut contents = counters.locks.lock(&self.contents, &*pool.shared.clock);
        if contents.closed {
            return PostOutcome::Closed;
        }
        // Noted before the share is read, which depends on waiters. (B)
        let count = from.len() - start;
        pool.shared.mailed.fetch_add(count, Ordering::SeqCst);
        if contents.frames.len() + count > pool.share_in_mail(self.yields()) {
            pool.shared.mailed.fetch_sub(count, Ordering::SeqCst);
            return PostOutcome::Full;
        }
        counters.remote_returns += count as u64;
        contents.frames.extend(from.drain(start..));
        self.count.store(contents.frames.len() + contents.handed.len(), Ordering::Release);
        PostOutcome::Done
    }
}

impl Contents {
    /// Moves all buffers onto `to`. Returns their number.
    fn move_to(&mut self, to: &mut Vec<FreeFrame>, count: &AtomicUsize, pool: &PagePool) -> usize {
        let moved = self.frames.len() + self.handed.len();
        if !self.frames.is_empty() {
            pool.shared.mailed.fetch_sub(self.frames.len(), Ordering::SeqCst);
        }
        to.append(&mut self.frames);
        to.append(&mut self.handed);
        count.store(0, Ordering::Release);
        moved
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PostOutcome {
    Done,
    Full,
    Closed,
}

/// One thread's copy of the list of mailboxes: the pool's list is locked only after a cache has come or gone.
#[derive(Debug, Default)]
pub(super) struct Directory {
    known: Vec<Arc<Mailbox>>,
    /// It is used once: the list is not copied.
    passing: bool,
}

impl Directory {
    /// Makes one to be used once.
    pub(super) fn passing() -> Self {
        Self { known: Vec::new(), passing: true }
    }

    /// Moves the buffers of `from` from `start` on to cache number `cache`, or else to the depot.
    pub(super) fn post(
        &mut self, cache: usize, from: &mut Vec<FreeFrame>, start: usize, pool: &PagePool,
        counters: &mut PageCounters,
    ) {
        if !self.post_to_mailbox(cache, from, start, pool, counters) {
            pool.deposit(from.drain(start..), counters);
        }
    }

    fn post_to_mailbox(
        &mut self, cache: usize, from: &mut Vec<FreeFrame>, start: usize, pool: &PagePool,
        counters: &mut PageCounters,
    ) -> bool {
        if let Some(mailbox) = self.known.get(cache) {
            match mailbox.post(from, start, pool, counters) {
                PostOutcome::Closed => {} // another cache may have its number now
                posted => return posted == PostOutcome::Done,
            }
        }
        if cache == super::ledger::NO_CACHE {
            return false;
        }
        let mailboxes = counters.locks.lock(&pool.shared.mailboxes, &*pool.shared.clock);
        let mailbox = mailboxes.get(cache).cloned();
        if !self.passing {
            self.known.clone_from(&mailboxes);
        }
        drop(mailboxes);
        mailbox.is_some_and(|mailbox| mailbox.post(from, start, pool, counters) == PostOutcome::Done)
    }
}
