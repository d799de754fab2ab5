//! A thread's end of a locked queue.

use super::discipline::{Discipline, EnqueueResult};
use super::runner::Runner;
use super::shared::{LockedCounters, Shared, spin};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use wharf_core::pool::{Burst, Cache, PoolError};
use wharf_core::queue::QueueError;
use wharf_mem::Batch;

/// One producer of a [`super::LockedQueue`].
pub struct LockedSender<D: Discipline> {
    shared: Arc<Shared<D>>,
    cache: Cache,
    place: u16,
    runner: Runner,
    back: Batch,
    counters: Arc<LockedCounters>,
}

impl<D: Discipline> std::fmt::Debug for LockedSender<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LockedSender({} of {})", self.place, D::NAME)
    }
}

impl<D: Discipline> LockedSender<D> {
    pub(super) fn new(
        shared: Arc<Shared<D>>, cache: Cache, place: usize, counters: Arc<LockedCounters>,
    ) -> Self {
        let place = place as u16;
        let runner = Runner::new(Some(place));
        Self { shared, cache, place, runner, back: Batch::new(1), counters }
    }

    /// Returns an empty burst of the queue's pool, for up to `capacity` packets.
    pub fn burst(&self, capacity: usize) -> Burst {
        self.shared.pool.burst(capacity)
    }

    /// Adds up to `count` packets of `len_bytes` to a burst. Returns their number.
    ///
    /// # Errors
    /// [`PoolError::Exhausted`] if all frames are in use.
    #[inline]
    pub fn fill(&mut self, burst: &mut Burst, count: usize, len_bytes: u32) -> Result<usize, PoolError> {
        self.cache.fill(burst, count, len_bytes)
    }

    /// Sends the packets of `burst`, one by one. Packets without room are dropped and counted by
    /// [`LockedCounters::dropped`]; with the list, perhaps later and by another thread.
    ///
    /// # Errors
    /// [`QueueError::ForeignPool`]: the burst is unchanged.
    pub fn send(&mut self, burst: &mut Burst) -> Result<(), QueueError> {
        let ours = self.shared.pool.region().number();
        if let Some(foreign) = burst.frames().iter().find(|frame| frame.pool() != ours) {
            return Err(QueueError::ForeignPool { ours, theirs: foreign.pool() });
        }
        self.counters.offered.add(burst.len() as u64);
        while let Some(mut frame) = burst.pop_frame() {
            frame.set_sender(self.place);
            let shared = &*self.shared;
            match shared.discipline.enter(shared, frame) {
                EnqueueResult::Left => {}
                EnqueueResult::First(root) if shared.is_served.load(Relaxed) => drop(root),
                EnqueueResult::First(root) => {
                    let packets = self.runner.run(shared, root);
                    self.counters.drained_packets.add(packets);
                }
                EnqueueResult::Refused(frame) => {
                    self.counters.refused.add(1);
                    let pushed = self.back.push(frame);
                    debug_assert!(pushed.is_ok(), "it was empty");
                    let given = self.cache.give(&mut self.back);
                    debug_assert!(given.is_ok(), "the pool was checked above");
                }
            }
        }
        Ok(())
    }

    /// Returns its counts.
    pub fn counters(&self) -> &Arc<LockedCounters> {
        &self.counters
    }
}

impl<D: Discipline> Drop for LockedSender<D> {
    fn drop(&mut self) {
        if let Some(ring) = self.cache.take_return_ring() {
            spin(&self.shared.back).rings.remove(self.place.into(), ring);
        }
    }
}
