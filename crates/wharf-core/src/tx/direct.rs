//! `Direct`: a queue with one sender that owns its `TxEngine` alone: no lane, no owner word, no other thread.

use crate::counters::QueueCounters;
use crate::dscp::{self, DscpBands};
use crate::host::{Clock, Park};
use crate::pool::{Audit, Burst, Cache, PoolError};
use crate::tx::engine::{BULK_PACKETS_MAX, Batching, Pause, Sink, TxEngine};
use crate::tx::queue::{QueueBuilder, QueueError};
use crate::tx::sender::{self, SendError, Sent};
use crate::wait::{Deadline, Wait};
use std::sync::Arc;
use wharf_mem::Batch;

/// Nap on a full path between two looks.
const NAP_NS: u64 = 20_000;

/// A queue and its only sender in one. Completions are taken at the next call: call [`Direct::poll`] now and then on
/// an idle path, and at [`Direct::next_event_ns`] where the discipline holds packets back.
pub struct Direct {
    engine: TxEngine,
    cache: Cache,
    counters: Arc<QueueCounters>,
    park: Arc<dyn Park>,
    clock: Arc<dyn Clock>,
    quota: u32,
    /// The band of each DSCP, if the discipline looks at bands.
    bands: Option<DscpBands>,
    closed: bool,
}

impl std::fmt::Debug for Direct {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Direct({:?})", self.engine)
    }
}

impl QueueBuilder {
    /// Builds a [`Direct`] in place of a [`crate::tx::queue::TxQueue`].
    ///
    /// # Errors
    /// The errors of [`QueueBuilder::build`].
    pub fn build_direct(self) -> Result<Direct, QueueError> {
        let (mut engine, counters, setup) = self.into_engine()?;
        engine.reserve(BULK_PACKETS_MAX);
        let mut cache = setup.pool.cache("direct")?;
        cache.serve_a_sender();
        let bands = setup.uses_bands.then(|| engine.qdisc().dscp_bands().into());
        let quota = setup.policy.quota_packets;
        let (park, clock) = (setup.park, setup.clock);
        Ok(Direct { engine, cache, counters, park, clock, quota, bands, closed: false })
    }
}

impl Direct {
    /// Adds up to `count` packets of `len_bytes` to a burst, and waits for memory while there is none.
    /// Returns their number: fewer if the pool has no more now, 0 if the burst is full or the time is
    /// over. No other thread ends the wait: with [`Wait::Forever`] it lasts for as long as the device
    /// stands.
    ///
    /// # Errors
    /// [`SendError::TooLong`].
    #[inline(always)]
    pub fn fill(
        &mut self, burst: &mut Burst, count: usize, len_bytes: u32, wait: impl Into<Wait>,
    ) -> Result<usize, SendError> {
        match self.cache.fill(burst, count, len_bytes) {
            Ok(filled) => Ok(filled),
            Err(PoolError::Exhausted { .. }) => {
                self.fill_by(burst, count, len_bytes, Deadline::Of(wait.into()))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Makes an empty burst of the path's pool.
    pub fn burst(&self, capacity: usize) -> Burst {
        self.cache.pool().burst(capacity)
    }

    /// Sends the packets of `burst`, and waits for room; the clock is read only if it waits. No other
    /// thread ends the wait: with [`Wait::Forever`] it lasts for as long as the device stands.
    ///
    /// # Errors
    /// [`SendError::ForeignPool`].
    #[inline(always)]
    pub fn send(&mut self, burst: &mut Burst, wait: impl Into<Wait>) -> Result<Sent, SendError> {
        let offered = burst.len();
        self.send_now(burst)?;
        let mut deadline = Deadline::Of(wait.into());
        while !burst.is_empty() && self.naps(&mut deadline) {
            self.send_now(burst)?;
        }
        let left = burst.len();
        Ok(Sent { accepted: offered - left, dropped: 0, left })
    }

    #[cold]
    fn fill_by(
        &mut self, burst: &mut Burst, count: usize, len_bytes: u32, mut deadline: Deadline,
    ) -> Result<usize, SendError> {
        loop {
            self.poll();
            match self.cache.fill(burst, count, len_bytes) {
                Err(PoolError::Exhausted { .. }) if self.naps(&mut deadline) => {}
                Err(PoolError::Exhausted { .. }) => return Ok(0),
                filled => return Ok(filled?),
            }
        }
    }

    /// Naps, unless the time is over. Returns true if it did.
    #[cold]
    fn naps(&mut self, deadline: &mut Deadline) -> bool {
        *deadline = deadline.started(&*self.clock);
        let left_ns = deadline.left_ns(&*self.clock);
        if left_ns > 0 {
            self.cache.release_cached_if_wanted();
            self.park.park(NAP_NS.min(left_ns));
        }
        left_ns > 0
    }

    /// Sends what fits now.
    #[inline(always)]
    fn send_now(&mut self, burst: &mut Burst) -> Result<(), SendError> {
        let (ours, theirs) = (self.cache.pool_number(), burst.number());
        let batch = burst.batch_mut();
        if ours != theirs || !(batch.is_of_pool(ours) || sender::all_of_pool(batch, ours)) {
            return Err(sender::foreign_pool(ours, theirs, batch));
        }
        if let Some(bands) = &self.bands {
            let region = self.cache.pool().region().clone();
            burst.batch_mut().frames_mut().iter_mut().for_each(|frame| dscp::classify(frame, &region, bands));
            burst.batch_mut().refresh();
        }
        let batch = burst.batch_mut();
        if let Some((_, pause)) = self.engine.pass(batch, batch.bytes(), self.quota)
            && !self.engine.reap_after(pause, &mut CacheSink(&mut self.cache))
        {
            return Ok(());
        }
        self.drive(batch);
        Ok(())
    }

    /// Takes completions, and sends the frames that wait in the qdisc.
    pub fn poll(&mut self) {
        self.engine.force_completion();
        self.cache.release_cached_if_wanted();
        self.drive(&mut Batch::new(0));
    }

    /// Returns in how many nanoseconds a packet that the discipline holds back may leave (`Edt`, `Tbf`): no
    /// other thread calls [`Direct::poll`] then. `None` if it holds none back, or the device does so too.
    pub fn next_event_ns(&self) -> Option<u64> {
        self.engine.next_event_ns()
    }

    /// Transmits and reaps, again and again while that frees room.
    #[inline(never)]
    fn drive(&mut self, source: &mut Batch) {
        loop {
            let (_, pause) = self.engine.transmit(source, self.quota);
            let (reaped, open) = self.engine.reap(&mut CacheSink(&mut self.cache));
            if self.engine.has_queued() {
                self.engine.settle_qdisc(&mut CacheSink(&mut self.cache));
            }
            match pause {
                Pause::Empty => return,
                Pause::Stopped if reaped == 0 || !open => return,
                Pause::Stopped | Pause::Quota => {}
            }
        }
    }

    /// Sets the batching switch.
    #[doc(hidden)]
    pub fn set_batching(&mut self, batching: Batching) {
        self.engine.set_batching(batching);
    }

    /// The queue's counters.
    pub fn counters(&self) -> &QueueCounters {
        &self.counters
    }

    /// Returns the number of frames in the qdisc and the device.
    pub fn pending(&self) -> usize {
        self.engine.backlog() + self.engine.in_device()
    }

    /// Gives back the frames that the device has not taken, and closes the device. Returns the holders of frames of
    /// the pool.
    pub fn close(mut self) -> Audit {
        self.end();
        let mut audit = self.cache.pool().audit();
        self.engine.visit(&mut |frame, place| audit.found(frame.index(), place));
        audit
    }

    /// Gives the frames back, once.
    fn end(&mut self) {
        if !std::mem::replace(&mut self.closed, true) {
            self.engine.drain_unsent(&mut Batch::new(0), &mut CacheSink(&mut self.cache));
            self.engine.close(&mut CacheSink(&mut self.cache));
        }
    }
}

impl Drop for Direct {
    fn drop(&mut self) {
        self.end();
    }
}

/// The path's own cache as a sink.
struct CacheSink<'a>(&'a mut Cache);

impl Sink for CacheSink<'_> {
    #[inline(always)]
    fn recycle_only(&mut self, done: &mut Batch) -> Option<u32> {
        self.0.give_only(done)
    }

    #[inline(always)]
    fn recycle(&mut self, done: &mut Batch) {
        // Cannot fail: `send_now` has checked the pool.
        let given = self.0.give_own(done);
        debug_assert!(given.is_ok());
    }
}
