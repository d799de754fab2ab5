//! `Sender`: one producer's end of a queue. It owns a lane and a cache of frames; it can move to another thread, but
//! not be shared.
//!
//! Every send publishes before it returns. On a full path `send` waits, `send_within` waits for a time, `send_async` waits as a
//! task, `try_send` leaves the rest in the burst, and `send_or_drop` drops it. Read this file first, then `sender/transmit.rs`
//! (how frames go in) and `sender/waiting.rs` (how a sender waits).

mod balance;
mod biased_owner;
mod cancel;
mod drops;
mod new;
mod permit;
mod spread;
mod transmit;
mod until;
mod wait;
mod waiting;
mod watch;

#[cfg(feature = "model")]
#[path = "../model/sender.rs"]
mod model;

pub use crate::counters::DROP_TAIL;
pub use cancel::Canceller;
pub use permit::Permit;
pub use spread::Spread;
pub use watch::Watch;

use self::balance::Balance;
use self::wait::{Deadline, Fill, TaskWait};
use crate::counters::SenderCounters;
use crate::dscp;
use crate::pool::{Burst, Cache, Packet, PagePool, PoolError};
use crate::sg_writer::Memory;
use crate::tx::engine::BULK_PACKETS_MAX;
use crate::tx::queue::waiters::Need;
use crate::tx::queue::{ControlMessage, QueueError, Shared};
use crate::tx::sender::biased_owner::BiasedOwner;
use crate::tx::small_queue::Credit;
use std::slice::from_mut;
use std::sync::Arc;
use std::time::Duration;
use wharf_mem::lane::LaneProducer;
use wharf_mem::{Batch, Frame};

/// The longest burst that skips the lane of an idle queue: a whole burst moves into the owner's batch by a swap,
/// whatever its length (measured: 1.3 times as fast at 8 and 32 frames, 1.15 at 64).
const BYPASS_FRAMES: usize = BULK_PACKETS_MAX;

/// One producer's end of a queue.
pub struct Sender {
    shared: Arc<Shared>,
    lane: LaneProducer,
    cache: Cache,
    place: u16,
    bit: u64,
    biased: BiasedOwner,
    credit: Credit,
    balance: Balance,
    /// Looks of the next spin, at most.
    looks_max: u32,
    /// True if a sleep on a full lane has lasted longer than the queue needed to make room.
    is_queue_fast: bool,
    /// `None` until a canceller is asked for.
    cancel: Option<Canceller>,
    /// Sum of packets up to which this sender may send past a band that is marked full: its turn after a wait.
    turn_end: u64,
    /// The wait that [`Sender::poll_ready`] began.
    ready_wait: Option<TaskWait>,
    /// See [`Sender::set_drop_tail`].
    is_drop_tail: bool,
    /// The last change of the queue's settings that this sender has put into force.
    settings_version: u32,
    counters: Arc<SenderCounters>,
}

impl std::fmt::Debug for Sender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Sender({} of {})", self.place, self.shared.setup().device.name)
    }
}

impl Sender {
    /// Makes an empty burst of the queue's pool, for up to `capacity` packets.
    pub fn burst(&self, capacity: usize) -> Burst {
        self.shared.setup().pool.burst(capacity)
    }

    /// Adds up to `count` packets of `len_bytes` to a burst. Returns their number: fewer if the pool runs empty, 0 if the
    /// burst is full. Their bytes are those that the last user left.
    ///
    /// # Errors
    /// [`PoolError::Exhausted`] when all frames are in use: send, or [`Sender::wait_for_memory`].
    #[inline(always)]
    pub fn fill(&mut self, burst: &mut Burst, count: usize, len_bytes: u32) -> Result<usize, PoolError> {
        self.cache.fill(burst, count, len_bytes)
    }

    /// Works like [`Sender::fill`], but waits up to `time` for memory. Returns the number of packets: 0 only if the burst
    /// is full.
    ///
    /// # Errors
    /// A length too long ([`QueueError::Pool`]), and the errors of [`Sender::wait_for_memory_within`].
    pub fn fill_within(
        &mut self, burst: &mut Burst, count: usize, len_bytes: u32, time: Duration,
    ) -> Result<usize, QueueError> {
        wait::fill_by(from_mut(self), burst, Fill { first: 0, count, len_bytes }, Deadline::Within(time))
    }

    /// Works like [`Sender::fill`], but waits for memory as a task. The future may be dropped at any time.
    ///
    /// # Errors
    /// A length too long ([`QueueError::Pool`]), and the errors of [`Sender::wait_for_memory`].
    pub async fn fill_async(
        &mut self, burst: &mut Burst, count: usize, len_bytes: u32,
    ) -> Result<usize, QueueError> {
        wait::fill_async(from_mut(self), burst, Fill { first: 0, count, len_bytes }).await
    }

    /// Waits until there is a free frame.
    ///
    /// # Errors
    /// [`QueueError::Closed`], [`QueueError::Dead`], [`QueueError::Cancelled`].
    pub fn wait_for_memory(&mut self) -> Result<(), QueueError> {
        wait::wait(from_mut(self), Need::Memory, Deadline::Never)
    }

    /// Works like [`Sender::wait_for_memory`], for at most `time`.
    ///
    /// # Errors
    /// [`QueueError::TimedOut`] besides.
    pub fn wait_for_memory_within(&mut self, time: Duration) -> Result<(), QueueError> {
        wait::wait(from_mut(self), Need::Memory, Deadline::Within(time))
    }

    /// Takes one packet of `len_bytes`.
    ///
    /// # Errors
    /// The errors of [`Sender::fill`].
    pub fn packet(&mut self, len_bytes: u32) -> Result<Packet, PoolError> {
        self.cache.packet(len_bytes)
    }

    /// Sends all packets of `burst`; waits for space if there is none.
    ///
    /// # Errors
    /// [`QueueError::ForeignPool`], [`QueueError::Closed`], [`QueueError::Dead`], [`QueueError::Cancelled`]; unsent
    /// packets are still in the burst.
    #[inline]
    pub fn send(&mut self, burst: &mut Burst) -> Result<(), QueueError> {
        self.send_by(burst, Deadline::Never)
    }

    /// Works like [`Sender::send`], and waits for at most `time` in all. Reads no clock unless it has to wait.
    ///
    /// # Errors
    /// [`QueueError::TimedOut`] besides: packets sent by then have left the burst, the others are still in it.
    #[inline]
    pub fn send_within(&mut self, burst: &mut Burst, time: Duration) -> Result<(), QueueError> {
        self.send_by(burst, Deadline::Within(time))
    }

    /// Works like [`Sender::send`], but waits as a task. The future may be dropped at any time: packets not sent stay in the
    /// burst, and the place among the waiters goes to the next one.
    ///
    /// # Errors
    /// The errors of [`Sender::send`].
    pub async fn send_async(&mut self, burst: &mut Burst) -> Result<(), QueueError> {
        self.try_send(burst)?;
        while let Some(need) = self.need(burst.batch_mut()) {
            wait::wait_async(from_mut(self), need).await?;
            self.transmit_served(burst.batch_mut())?;
        }
        Ok(())
    }

    #[inline(always)]
    fn send_by(&mut self, burst: &mut Burst, deadline: Deadline) -> Result<(), QueueError> {
        self.admit(burst)?;
        let batch = burst.batch_mut();
        self.transmit(batch)?;
        if batch.is_empty() { Ok(()) } else { self.send_rest(batch, deadline) }
    }

    /// Sends the packets that fit now. Returns the number of packets sent; the others stay in the burst. If none fits and the
    /// queue has no poller, this runs the queue and tries once more.
    ///
    /// # Errors
    /// The errors of [`Sender::send`].
    #[inline]
    pub fn try_send(&mut self, burst: &mut Burst) -> Result<usize, QueueError> {
        self.admit(burst)?;
        let batch = burst.batch_mut();
        match self.transmit(batch)? {
            0 if !batch.is_empty() => self.transmit_driven(batch),
            sent => Ok(sent),
        }
    }

    /// Sends one packet; waits for space if there is none. `&mut Burst::from(packet)` sends it by any other call.
    ///
    /// # Errors
    /// The errors of [`Sender::send`]; the packet then goes back to its pool.
    pub fn send_packet(&mut self, packet: Packet) -> Result<(), QueueError> {
        self.send(&mut packet.into())
    }

    /// The sender's counters.
    pub fn counters(&self) -> &Arc<SenderCounters> {
        &self.counters
    }

    /// Checks that the queue is open and the frames are of its pool, charges them to this sender, and gives each a
    /// band if the discipline has bands.
    #[inline]
    fn admit(&mut self, burst: &mut Burst) -> Result<(), QueueError> {
        if !self.shared.sender_settings().is_at(self.settings_version) {
            self.renew_settings()?;
        }
        if !burst.batch_mut().is_of(self.cache.charge()) {
            self.charge(burst)?;
        }
        if self.shared.setup().uses_bands {
            self.classify(burst.batch_mut());
        }
        Ok(())
    }

    /// Puts changed settings into force, unless the queue has ended.
    #[cold]
    fn renew_settings(&mut self) -> Result<(), QueueError> {
        let settings = self.shared.sender_settings();
        let version = settings.version();
        if self.shared.is_closed() {
            return Err(self.shared.closed_error());
        }
        self.credit.set_max_bytes(settings.small_queue_bytes());
        self.is_drop_tail = settings.is_drop_tail().unwrap_or(self.is_drop_tail);
        self.settings_version = version;
        Ok(())
    }

    /// Charges frames that another cache took to this sender.
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
        let (region, bands) = (self.shared.setup().pool.region(), &**self.shared.dscp_bands());
        batch.frames_mut().iter_mut().for_each(|frame| dscp::classify(frame, region, bands));
        batch.refresh();
    }
}

/// A sender, or several, for code that never waits.
pub trait SendNow: Memory {
    /// Sends the packets that fit now. The others stay in the burst, or are dropped if that is the sender's policy.
    ///
    /// # Errors
    /// The errors of [`Sender::send`]; unsent packets are still in the burst.
    fn send_now(&mut self, burst: &mut Burst) -> Result<(), QueueError>;
}

impl SendNow for Sender {
    fn send_now(&mut self, burst: &mut Burst) -> Result<(), QueueError> {
        if self.is_drop_tail { self.send_or_drop(burst).map(drop) } else { self.try_send(burst).map(drop) }
    }
}

/// The sender's own memory: its frames return to it.
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

/// True if every frame is of pool `ours`. A batch itself knows only a bound.
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
        self.ready_wait = None;
        self.biased.retire(self.shared.cell());
        self.lane.abandon();
        self.shared.count_sender(-1);
        if let Some(ring) = self.cache.take_return_ring() {
            // A panic may end this sender: one of the device on top of it would end the process.
            crate::host::outlive(|| self.shared.control(ControlMessage::Orphan(self.place.into(), ring)));
        }
    }
}
