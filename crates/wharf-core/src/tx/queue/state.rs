//! `QueueState`: the part of a queue that only its owner touches.

use crate::pool::Cache;
use crate::tx::engine::{Sink, Source, TxEngine};
use crate::tx::feeding::Slice;
use crate::tx::queue::lanes::{Lanes, WaiterSink};
use wharf_mem::Batch;

/// The engine, the lanes, and the owner's notes from one ownership to the next.
pub(crate) struct QueueState {
    pub(crate) engine: TxEngine,
    pub(crate) lanes: Lanes,
    /// A sender is, or may be, on the list of waiters.
    pub(crate) waiting: bool,
    /// The bands that waiters keep marked full, as of the last time that waiters were served.
    pub(crate) waited_bands: u32,
    pub(crate) poller: PollerState,
    /// What the poller transmits at a time while handlers of arrivals feed the queue.
    pub(crate) slice: Slice,
    /// Looks at an offered queue before its last owner takes it back.
    pub(crate) offer_looks: u32,
    /// The queue is shut down: frames that still arrive are given back.
    pub(crate) shut: bool,
}

/// The poller's state when it last left the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PollerState {
    /// The queue has no poller.
    None,
    /// The poller will look again soon, by itself.
    Awake,
    /// The poller will look again later, or when the device notifies it of a completion.
    Away,
    /// The poller sleeps until it is called.
    Asleep,
}

impl std::fmt::Debug for QueueState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "QueueState({:?}, {:?})", self.engine, self.poller)
    }
}

impl QueueState {
    /// True if frames are inside, so that a thread must come back for them.
    pub(crate) fn is_pending(&self) -> bool {
        self.engine.in_device() > 0 || self.engine.backlog() > 0 || !self.lanes.is_empty()
    }

    /// True if one sender alone uses the queue, however many are registered, and no sender waits.
    #[inline(always)]
    pub(crate) fn is_sole(&self) -> bool {
        let quiet = self.poller == PollerState::None && !self.waiting && !self.shut;
        quiet && self.lanes.is_empty()
    }

    /// Sends a whole burst of `bytes` past an idle queue and takes completions, for the holder of the bias and its `cache`.
    /// Returns `None`, with nothing done, if the burst must go by the lane.
    #[inline(always)]
    pub(crate) fn pass(
        &mut self, burst: &mut Batch, bytes: u64, quota: u32, cache: &mut Cache,
    ) -> Option<PassOutcome> {
        debug_assert!(self.is_sole(), "another thread that changes this revokes the bias first");
        let (packets, pause) = self.engine.pass(burst, bytes, quota)?;
        let mut sink = CacheOrLanes { cache, lanes: &mut self.lanes, returned_bytes: 0 };
        let goes_on = self.engine.reap_after(pause, &mut sink);
        Some(PassOutcome { packets, goes_on, returned_bytes: sink.returned_bytes })
    }

    /// Takes completions and recycles their frames. Returns the number of frames, and true if the byte limit is open.
    #[inline(always)]
    pub(crate) fn reap(&mut self) -> (u32, bool) {
        if self.waiting { self.reap_for_waiters() } else { self.engine.reap(&mut self.lanes) }
    }

    #[cold]
    fn reap_for_waiters(&mut self) -> (u32, bool) {
        self.engine.force_completion();
        self.engine.reap(&mut WaiterSink(&mut self.lanes))
    }

    /// Recycles what the discipline drops. Returns a word in which bit n is set while band n is full.
    #[inline(always)]
    pub(crate) fn settle_qdisc(&mut self) -> u32 {
        if self.engine.has_queued() { self.settle_queued() } else { 0 }
    }

    #[cold]
    fn settle_queued(&mut self) -> u32 {
        let Self { engine, lanes, waiting, .. } = self;
        match waiting {
            true => engine.settle_qdisc(&mut WaiterSink(lanes)),
            false => engine.settle_qdisc(lanes),
        }
    }
}

/// The result of a burst that passed an idle queue.
pub(crate) struct PassOutcome {
    /// Frames that the device took.
    pub(crate) packets: u32,
    /// An ordinary run would go on: there is more to send.
    pub(crate) goes_on: bool,
    /// Bytes of the sender's own frames that were completed in the same call.
    pub(crate) returned_bytes: u64,
}

/// A sink that gives the sender's own frames to its cache, and other frames to their lanes.
struct CacheOrLanes<'a> {
    cache: &'a mut Cache,
    lanes: &'a mut Lanes,
    returned_bytes: u64,
}

impl Sink for CacheOrLanes<'_> {
    #[inline(always)]
    fn recycle_only(&mut self, done: &mut Batch) -> Option<u32> {
        let bytes = self.cache.give_only(done)?;
        self.returned_bytes += u64::from(bytes);
        Some(bytes)
    }

    #[inline(always)]
    fn recycle(&mut self, done: &mut Batch) {
        if !done.is_of(self.cache.charge()) || done.any_meta() {
            return self.lanes.recycle_run_by_run(done);
        }
        self.returned_bytes += done.bytes();
        // Cannot fail: the sender has checked the pool of all that it sent.
        let given = self.cache.give_own(done);
        debug_assert!(given.is_ok());
    }

    fn release(&mut self, sender: u16, bytes: u32) {
        match sender == self.cache.charge().sender() {
            true => self.returned_bytes += u64::from(bytes),
            false => self.lanes.release(sender, bytes),
        }
    }

    fn recycle_released(&mut self, done: &mut Batch) {
        self.lanes.recycle_released(done);
    }
}
