//! `Sender`: one producer's end of a queue. It owns a lane and a cache of frames; it can move to another
//! thread, but not be shared.
//!
//! Every send publishes before it returns. By default a full path makes it wait; `try_send` takes what fits, and
//! [`DropTail`] drops the rest.

mod balance;
mod biased_owner;
mod drop_tail;
mod offer;
mod spread;
mod task;
mod waiting;

pub use drop_tail::{DROP_TAIL, DropTail};
pub use spread::Spread;
pub use task::AsyncSender;
pub use waiting::Watch;

use self::balance::Balance;
use crate::counters::SenderCounters;
use crate::pool::{Burst, Cache, Packet, PagePool, PoolError, RETURN_RING_FRAMES};
use crate::qdisc::classify;
use crate::sg_writer::Memory;
use crate::tx::engine::BULK_PACKETS_MAX;
use crate::tx::queue::lanes::{Lane, LaneReturnRing};
use crate::tx::queue::{ControlMessage, QueueError, Shared};
use crate::tx::sender::biased_owner::BiasedOwner;
use crate::tx::small_queue::Credit;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use wharf_mem::lane::{LaneProducer, lane};
use wharf_mem::return_ring::return_ring;
use wharf_mem::word::ready_bit;
use wharf_mem::{Batch, Frame};

/// Bursts of at most so many frames skip the lane when nobody owns the queue: a whole one moves into the owner's
/// batch by a swap, whatever its length (measured: 1.3 times as fast at 8 and 32, 1.15 at 64).
const BYPASS_FRAMES: usize = BULK_PACKETS_MAX;

/// One producer's end.
pub struct Sender {
    shared: Arc<Shared>,
    lane: LaneProducer,
    cache: Cache,
    place: u16,
    bit: u64,
    biased: BiasedOwner,
    credit: Credit,
    balance: Balance,
    /// Its turn has come: it may send past a mark that keeps others waiting, once, if by then it has sent no more packets than
    /// these.
    served_at: Option<u64>,
    counters: Arc<SenderCounters>,
}

impl std::fmt::Debug for Sender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Sender({} of {})", self.place, self.shared.name)
    }
}

impl Sender {
    pub(crate) fn new(
        shared: &Arc<Shared>, at: usize, name: &str, counters: Arc<SenderCounters>,
    ) -> Result<(Self, Lane), QueueError> {
        let (lane_in, lane_out) = lane(shared.lane_frames, shared.index_start);
        let (ring_in, ring_out) = return_ring(RETURN_RING_FRAMES, shared.index_start);
        let place = at as u16;
        let mut cache = shared.pool.cache(name)?;
        cache.set_return_ring(ring_out, place);
        let theirs = Lane { frames: lane_out, return_ring: Some(LaneReturnRing::new(ring_in, &shared.pool)) };
        let credit = Credit::new(shared.small_queue_bytes, shared.index_start, shared.clock.now_ns());
        let biased = if shared.run_observer.is_some() { BiasedOwner::never() } else { BiasedOwner::new() };
        let (shared, bit) = (shared.clone(), ready_bit(at));
        let (balance, served_at) = (Balance::default(), None);
        let sender =
            Self { shared, lane: lane_in, cache, place, bit, biased, credit, balance, served_at, counters };
        Ok((sender, theirs))
    }

    /// An empty burst of the queue's pool, for up to `capacity` packets.
    pub fn burst(&self, capacity: usize) -> Burst {
        self.shared.pool.burst(capacity)
    }

    /// Adds up to `count` packets of `len_bytes` to a burst; how many. Their bytes are whatever the last
    /// user left.
    ///
    /// # Errors
    /// [`PoolError::Exhausted`] when all frames are under way: send, or [`Sender::wait_for_memory`].
    #[inline(always)]
    pub fn fill(&mut self, burst: &mut Burst, count: usize, len_bytes: u32) -> Result<usize, PoolError> {
        self.cache.fill(burst, count, len_bytes)
    }

    /// One packet of `len_bytes`.
    ///
    /// # Errors
    /// As [`Sender::fill`].
    pub fn packet(&mut self, len_bytes: u32) -> Result<Packet, PoolError> {
        self.cache.packet(len_bytes)
    }

    /// Sends all packets of `burst`, waiting for space where need be.
    ///
    /// # Errors
    /// [`QueueError::ForeignPool`], [`QueueError::Closed`], [`QueueError::Dead`]; what was not sent is still
    /// in the burst.
    #[inline]
    pub fn send(&mut self, burst: &mut Burst) -> Result<(), QueueError> {
        self.admit(burst)?;
        let batch = burst.batch_mut();
        self.offer(batch)?;
        if batch.is_empty() { Ok(()) } else { self.send_rest(batch) }
    }

    /// Sends what fits now; how many packets. The others are still in the burst. Where nothing fits, and nobody looks after the
    /// queue, this runs it, and looks again.
    ///
    /// # Errors
    /// As [`Sender::send`].
    #[inline]
    pub fn try_send(&mut self, burst: &mut Burst) -> Result<usize, QueueError> {
        self.admit(burst)?;
        let batch = burst.batch_mut();
        match self.offer(batch)? {
            0 if !batch.is_empty() => self.offer_driven(batch),
            sent => Ok(sent),
        }
    }

    /// Puts what fits into the lane without announcing it, and returns the bit of the owner word that would:
    /// for whoever models processors and lets one of them [`crate::tx::queue::TxQueue::claim`] it. Everybody else
    /// sends.
    ///
    /// # Errors
    /// As [`Sender::send`].
    pub fn stage(&mut self, burst: &mut Burst) -> Result<u64, QueueError> {
        self.admit(burst)?;
        self.biased.release(&self.shared.cell);
        self.push(burst.batch_mut(), usize::MAX);
        Ok(self.bit)
    }

    /// Sends one packet, waiting for space where need be.
    ///
    /// # Errors
    /// As [`Sender::send`]; the packet then goes back to its pool.
    pub fn send_packet(&mut self, packet: Packet) -> Result<(), QueueError> {
        let mut burst = Burst::new(packet.pool(), 1);
        let pushed = burst.push(packet);
        debug_assert!(pushed.is_ok(), "an empty burst of the packet's own pool takes it");
        self.send(&mut burst)
    }

    /// What it has done.
    pub fn counters(&self) -> &Arc<SenderCounters> {
        &self.counters
    }

    /// Checks what only an outsider could get wrong, charges the frames to this sender, and gives each a band
    /// where the queue looks at bands.
    #[inline]
    fn admit(&mut self, burst: &mut Burst) -> Result<(), QueueError> {
        if self.shared.closed.load(Ordering::Relaxed) {
            return Err(self.closed());
        }
        let (ours, theirs) = (self.cache.pool_number(), burst.number());
        if ours != theirs || !burst.batch_mut().is_of(ours, self.place) {
            self.charge(burst)?;
        }
        if self.shared.uses_bands {
            self.classify(burst.batch_mut());
        }
        Ok(())
    }

    /// Charges frames to this sender that its own cache did not take.
    #[cold]
    fn charge(&self, burst: &mut Burst) -> Result<(), QueueError> {
        let (ours, theirs) = (self.cache.pool_number(), burst.number());
        let batch = burst.batch_mut();
        if ours != theirs || !all_of_pool(batch, ours) {
            return Err(foreign_pool(ours, theirs, batch));
        }
        batch.frames_mut().iter_mut().for_each(|frame| frame.set_sender(self.place));
        batch.refresh();
        Ok(())
    }

    #[inline(never)]
    fn classify(&self, batch: &mut Batch) {
        let region = self.shared.pool.region();
        batch.frames_mut().iter_mut().for_each(|frame| classify::classify(frame, region));
        batch.refresh();
    }

    #[cold]
    fn closed(&self) -> QueueError {
        if self.shared.cell.word() & wharf_mem::word::DEAD != 0 {
            self.shared.dead()
        } else {
            QueueError::Closed
        }
    }
}

/// What never waits, and has memory: a [`Sender`] leaves what does not fit in the burst, a [`DropTail`] drops it.
pub trait SendNow: Memory {
    /// Sends what fits now.
    ///
    /// # Errors
    /// As [`Sender::send`]; what was not sent is still in the burst.
    fn send_now(&mut self, burst: &mut Burst) -> Result<(), QueueError>;
}

impl SendNow for Sender {
    fn send_now(&mut self, burst: &mut Burst) -> Result<(), QueueError> {
        self.try_send(burst).map(drop)
    }
}

/// Its own, which comes home to it.
impl Memory for Sender {
    fn pool(&self) -> &PagePool {
        self.cache.pool()
    }

    fn take(&mut self, to: &mut Batch, count: usize, len_bytes: u32) -> Result<usize, PoolError> {
        self.cache.take(to, count, len_bytes)
    }

    fn give_one(&mut self, frame: Frame) -> Result<(), (PoolError, Frame)> {
        self.cache.give_one(frame)
    }
}

/// Frame by frame: what a batch knows of them is a bound only.
#[cold]
pub(crate) fn all_of_pool(batch: &Batch, ours: u8) -> bool {
    batch.frames().iter().all(|frame| frame.pool() == ours)
}

#[cold]
pub(crate) fn foreign_pool(ours: u8, theirs: u8, batch: &Batch) -> QueueError {
    let stranger = batch.frames().iter().map(|frame| frame.pool()).find(|&pool| pool != ours);
    QueueError::ForeignPool { ours, theirs: stranger.unwrap_or(theirs) }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.biased.retire(&self.shared.cell);
        self.lane.abandon();
        if let Some(ring) = self.cache.take_return_ring() {
            // It may be a panic that ends this sender: one of the device's on top of it would end the process.
            crate::host::outlive(|| self.shared.control(ControlMessage::Orphan(self.place.into(), ring)));
        }
    }
}
