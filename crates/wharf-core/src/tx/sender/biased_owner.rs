//! `BiasedOwner`: how the only active sender of a queue keeps it at hand between two sends.
//!
//! Becoming the owner and leaving are two locked instructions, nearly half of what a burst of one costs. A sender
//! that is alone holds the queue's bias in place of leaving for good: then it goes in and out by plain stores.
//! Anybody else who wants the queue (another sender, a poller, a message) takes the bias away, at the price of a
//! system call and of waiting for one burst; so each time that happens, the sender waits twice as long before
//! it asks for the bias again. Its own frames come home to it at once, without the ring between threads.

use crate::pool::Cache;
use crate::tx::engine::{Sink, Source};
use crate::tx::queue::lanes::Lanes;
use crate::tx::queue::{PollerState, QueueState};
use wharf_mem::{Batch, Bias, Entered, OwnerCell};

/// Turns as an ordinary owner, alone on the queue, before it holds the bias; the most that may be asked.
const RUNS_FIRST: u32 = 16;
const RUNS_MAX: u32 = 1 << 16;

#[derive(Debug)]
pub(crate) struct BiasedOwner {
    /// `None` while another sender has it.
    bias: Option<Bias>,
    /// Turns to go.
    due: u32,
    /// Turns to go after the bias is lost the next time.
    runs: u32,
}

impl BiasedOwner {
    pub(crate) fn new() -> Self {
        Self { bias: None, due: RUNS_FIRST, runs: RUNS_FIRST }
    }

    /// Of a sender that keeps to the way that all take: for whom every run is to be seen.
    pub(crate) fn never() -> Self {
        Self { due: u32::MAX, ..Self::new() }
    }

    /// Enters the queue by the bias, if it is still held.
    #[inline(always)]
    pub(crate) fn try_enter<'a>(
        &'a mut self, cell: &'a OwnerCell<QueueState>,
    ) -> Option<Entered<'a, QueueState>> {
        let bias = self.bias.as_mut().filter(|bias| bias.is_held())?;
        let entered = cell.enter(bias);
        if entered.is_none() {
            (self.due, self.runs) = (self.runs, (2 * self.runs).min(RUNS_MAX));
        }
        entered
    }

    /// A turn as an ordinary owner is over, and nobody else uses the queue.
    #[inline]
    pub(crate) fn after_sole_run(&mut self, cell: &OwnerCell<QueueState>) {
        self.due -= 1;
        if self.due == 0 {
            self.due = self.runs;
            self.bias = self.bias.take().or_else(|| cell.bias());
            self.bias.iter_mut().for_each(|bias| cell.hold(bias));
        }
    }

    /// Goes back to being one sender among others, before it claims the queue as such.
    #[inline]
    pub(crate) fn release(&mut self, cell: &OwnerCell<QueueState>) {
        if let Some(bias) = self.bias.as_mut().filter(|bias| bias.is_held()) {
            cell.let_go(bias);
        }
    }

    /// The sender is gone: the bias is for another.
    pub(crate) fn retire(&mut self, cell: &OwnerCell<QueueState>) {
        if let Some(bias) = self.bias.take() {
            cell.give_back(bias);
        }
    }
}

impl QueueState {
    /// Sends a whole burst past an idle queue and takes completions, where nothing else is to be seen to (the only
    /// lane is the caller's, and empty). `None`: nothing was done.
    #[inline(always)]
    pub(crate) fn pass(&mut self, burst: &mut Batch, quota: u32, own: OwnCache<'_>) -> Option<PassOutcome> {
        if !self.is_sole() {
            return None;
        }
        let (packets, pause) = self.engine.pass(burst, quota)?;
        let (lanes, OwnCache { cache, place }) = (&mut self.lanes, own);
        let mut sink = CacheOrLanes { cache, place, lanes, home_bytes: 0 };
        let goes_on = self.engine.reap_after(pause, &mut sink);
        Some(PassOutcome { packets, goes_on, home_bytes: sink.home_bytes })
    }

    /// Whether one sender alone uses the queue, however many are registered, and nobody waits.
    #[inline(always)]
    pub(crate) fn is_sole(&self) -> bool {
        let quiet = self.poller == PollerState::None && !self.waiting && !self.shut;
        quiet && self.lanes.is_empty()
    }
}

/// The sender that is alone: where its frames are at home.
pub(crate) struct OwnCache<'a> {
    pub(crate) cache: &'a mut Cache,
    pub(crate) place: u16,
}

/// What came of a burst that passed an idle queue.
pub(crate) struct PassOutcome {
    /// Frames that the device took.
    pub(crate) packets: u32,
    /// Whether a turn would go on.
    pub(crate) goes_on: bool,
    /// Bytes of the sender's that came home at once.
    pub(crate) home_bytes: u64,
}

/// The sender's own frames to its cache, others by their lanes.
struct CacheOrLanes<'a> {
    cache: &'a mut Cache,
    place: u16,
    lanes: &'a mut Lanes,
    home_bytes: u64,
}

impl Sink for CacheOrLanes<'_> {
    #[inline(always)]
    fn recycle(&mut self, done: &mut Batch) {
        if !done.is_from(self.place) || done.any_meta() {
            return self.lanes.recycle_run_by_run(done);
        }
        self.home_bytes += done.bytes();
        // Cannot fail: the sender has checked the pool of all that it sent.
        let given = self.cache.give_own(done);
        debug_assert!(given.is_ok());
    }

    fn release(&mut self, sender: u16, bytes: u32) {
        match sender == self.place {
            true => self.home_bytes += u64::from(bytes),
            false => self.lanes.release(sender, bytes),
        }
    }

    fn recycle_released(&mut self, done: &mut Batch) {
        self.lanes.recycle_released(done);
    }
}
