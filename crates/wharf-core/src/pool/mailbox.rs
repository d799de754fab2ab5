//! Mailboxes: where buffers of one cache wait that others have freed, in bulk, and those it was handed when it waited.

use super::lock::lock;
use super::{PageCounters, PagePool};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use wharf_mem::FreeFrame;

/// A cache's mailbox.
#[derive(Debug)]
pub(crate) struct Mailbox {
    pub(super) name: String,
    /// Frames in `mail`, so that the cache need not lock to find it empty.
    count: AtomicUsize,
    /// It keeps nothing while somebody waits, but what it was handed.
    yields: AtomicBool,
    contents: Mutex<Contents>,
}

#[derive(Debug)]
struct Contents {
    /// Its own that came back: whoever waits may call them in.
    frames: Vec<FreeFrame>,
    /// What it was handed in its turn: nobody else's, for as long as the line's patience lasts.
    handed: Vec<FreeFrame>,
    /// The place in the line that it was handed them for last.
    ticket: u64,
    /// The cache is gone: what would come here goes to the depot.
    closed: bool,
}

impl Mailbox {
    pub(super) fn new(name: &str) -> Self {
        let contents =
            Mutex::new(Contents { frames: Vec::new(), handed: Vec::new(), ticket: 0, closed: false });
        Self { name: name.to_string(), count: AtomicUsize::new(0), yields: AtomicBool::new(false), contents }
    }

    /// It is a sender's.
    pub(super) fn yield_to_waiters(&self) {
        self.yields.store(true, Ordering::Relaxed);
    }

    fn yields(&self) -> bool {
        self.yields.load(Ordering::Relaxed)
    }

    /// Frames that wait in it.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// Whether its cache is gone.
    pub(super) fn is_closed(&self) -> bool {
        lock(&self.contents).closed
    }

    /// Moves all that wait onto `to`; how many.
    pub(super) fn empty(
        &self, to: &mut Vec<FreeFrame>, pool: &PagePool, counters: &mut PageCounters,
    ) -> usize {
        let mut contents = counters.locks.lock(&self.contents, &*pool.shared.clock);
        contents.move_to(to, &self.count, pool)
    }

    /// Takes no more; moves what waits onto `to`.
    pub(super) fn close(&self, to: &mut Vec<FreeFrame>, pool: &PagePool) {
        let mut contents = lock(&self.contents);
        contents.closed = true;
        contents.move_to(to, &self.count, pool);
    }

    /// What its cache has waited for; false, and none of it, where that is gone. Under the depot's lock.
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

    /// Gives back what it was handed for `ticket`, unless it has been handed more since.
    pub(super) fn recall(&self, ticket: u64, give_back: impl FnOnce(std::vec::Drain<'_, FreeFrame>)) {
        let mut contents = lock(&self.contents);
        if contents.ticket != ticket {
            return;
        }
        give_back(contents.handed.drain(..));
        self.count.store(contents.frames.len(), Ordering::Release);
    }

    /// Moves all but what it was handed onto `to`, unless it is for one who receives.
    pub(super) fn call_in(&self, to: &mut Vec<FreeFrame>, pool: &PagePool) {
        if !self.yields() {
            return;
        }
        let mut contents = lock(&self.contents);
        pool.shared.mailed.fetch_sub(contents.frames.len(), Ordering::SeqCst);
        to.append(&mut contents.frames);
        self.count.store(contents.handed.len(), Ordering::Release);
    }

    /// Takes the buffers of `from` from `start` on, unless that would be more than `share` in all: nobody may hoard what
    /// others wait for.
    fn post(
        &self, from: &mut Vec<FreeFrame>, start: usize, pool: &PagePool, counters: &mut PageCounters,
    ) -> PostOutcome {
        let mut contents = counters.locks.lock(&self.contents, &*pool.shared.clock);
        if contents.closed {
            return PostOutcome::Closed;
        }
        // Noted before it looks whether anybody waits. (B)
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
    /// Everything onto `to`; how many.
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

/// One thread's own list of mailboxes: that of the pool is locked only when somebody has come or gone.
#[derive(Debug, Default)]
pub(super) struct Directory {
    known: Vec<Arc<Mailbox>>,
    /// Used once: a list of thousands is not copied for that.
    passing: bool,
}

impl Directory {
    /// One that is used once.
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
                PostOutcome::Closed => {} // its number may be another's now
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
