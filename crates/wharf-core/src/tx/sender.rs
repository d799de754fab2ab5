//! `Sender`: one producer's end of a queue. It owns a lane and a cache of frames; it can move to another thread, but
//! not be shared.
//!
//! Every send publishes before it returns. On a full path `send` waits for as long as its caller says, and
//! leaves the rest in the burst; `send_async` waits as a task, and `send_or_drop` drops the rest. Read this
//! file first, then `sender/transmit.rs` (how frames go in) and `sender/waiting.rs` (how a sender waits).

mod balance;
mod biased_owner;
mod cancel;
mod drops;
mod error;
mod new;
mod permit;
mod ready;
mod spread;
mod transmit;
mod wait;
mod waiting;
mod watch;

#[cfg(feature = "model")]
#[path = "../model/sender.rs"]
pub(crate) mod model;

pub use crate::counters::DROP_TAIL;
pub use cancel::Canceller;
pub use error::{SendError, Sent};
pub use permit::Permit;
pub use ready::Ready;
pub use spread::Spread;
pub use watch::Watch;

use self::balance::Balance;
use self::wait::{Fill, TaskWait};
use crate::counters::SenderCounters;
use crate::dscp;
use crate::host::Wake;
use crate::pool::{Burst, Cache, Packet, PagePool, PoolError};
use crate::sg_writer::Memory;
use crate::tx::engine::BULK_PACKETS_MAX;
use crate::tx::feeding::Drops;
use crate::tx::queue::{ControlMessage, Shared};
use crate::tx::sender::biased_owner::BiasedOwner;
use crate::tx::sender::ready::Readiness;
use crate::tx::small_queue::Credit;
use crate::wait::{Deadline, Wait};
use std::slice::from_mut;
use std::sync::Arc;
use wharf_mem::lane::LaneProducer;
use wharf_mem::{Batch, Frame};

/// The longest burst that skips the lane of an idle queue: a whole burst moves into the owner's batch by a swap,
/// whatever its length (measured: 1.3 times as fast at 8 and 32 frames, 1.15 at 64).
const BYPASS_FRAMES: usize = BULK_PACKETS_MAX;

/// One producer's end of a queue. It may move to another thread; threads that send at once have one each.
///
/// ```
/// # use std::time::Duration;
/// # use wharf_core::sender::{SendError, Sender};
/// # fn send(mut sender: Sender) -> Result<(), SendError> {
/// let mut burst = sender.burst(32);
/// sender.fill(&mut burst, 32, 64, Duration::from_secs(1))?; // 32 packets of 64 bytes
/// burst.iter_mut().for_each(|bytes| bytes.fill(0));
/// let sent = sender.send(&mut burst, Duration::from_millis(5))?;
/// println!("{} handed over, {} left in the burst", sent.accepted, sent.left);
/// # Ok(())
/// # }
/// ```
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
    /// What its handles ([`Sender::ready`]) know, and the wait of which they hear.
    readiness: Arc<Readiness>,
    ready_watch: Option<Watch>,
    /// See [`TxQueue::set_drop_tail`](crate::queue::TxQueue::set_drop_tail).
    is_drop_tail: bool,
    uses_bands: bool,
    /// The last change of the queue's settings that this sender has put into force.
    settings_version: u32,
    /// The flood that its queue knows to come by it.
    flood: Option<Arc<Drops>>,
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

    /// Adds up to `count` packets of `len_bytes` to a burst, and waits for memory while there is none.
    /// Returns their number: fewer if the pool has no more now, 0 if the burst is full or the time is over.
    /// Their bytes are those that the last user left. With [`Wait::Never`], a queue without a poller is run
    /// for frames that have been completed.
    ///
    /// # Errors
    /// [`SendError::TooLong`]; if it waits, [`SendError::Closed`], [`SendError::Ended`],
    /// [`SendError::Cancelled`].
    #[inline(always)]
    pub fn fill(
        &mut self, burst: &mut Burst, count: usize, len_bytes: u32, wait: impl Into<Wait>,
    ) -> Result<usize, SendError> {
        match self.cache.fill(burst, count, len_bytes) {
            Ok(filled) => Ok(filled),
            Err(PoolError::Exhausted { .. }) => {
                let what = Fill { first: 0, count, len_bytes };
                wait::fill_by(from_mut(self), burst, what, Deadline::Of(wait.into()))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Works like [`Sender::fill`], and waits for memory as a task, as long as it takes.
    ///
    /// # Cancel safety
    /// The future may be dropped at any time: no packet is lost, and its turn for memory goes to the next
    /// one that waits.
    ///
    /// # Errors
    /// The errors of [`Sender::fill`].
    pub async fn fill_async(
        &mut self, burst: &mut Burst, count: usize, len_bytes: u32,
    ) -> Result<usize, SendError> {
        wait::fill_async(from_mut(self), burst, Fill { first: 0, count, len_bytes }).await
    }

    /// Waits until there is a free frame. False if the time is over. Where a take from the pool is made to
    /// fail.
    ///
    /// # Errors
    /// [`SendError::Closed`], [`SendError::Ended`], [`SendError::Cancelled`].
    #[doc(hidden)]
    pub fn wait_for_memory(&mut self, wait: impl Into<Wait>) -> Result<bool, SendError> {
        wait::wait_for_memory(from_mut(self), Deadline::Of(wait.into()))
    }

    /// Takes one packet of `len_bytes`, and waits for memory while there is none.
    ///
    /// # Errors
    /// [`SendError::NoMemory`] if the time is over, and the errors of [`Sender::fill`].
    pub fn packet(&mut self, len_bytes: u32, wait: impl Into<Wait>) -> Result<Packet, SendError> {
        let mut burst = self.burst(1);
        self.fill(&mut burst, 1, len_bytes, wait)?;
        Ok(burst.pop().ok_or_else(|| self.cache.pool().exhausted())?)
    }

    /// Sends the packets of `burst`, and waits for room. The time counts for the whole burst; the clock is
    /// read only if it waits. With [`Wait::Never`] it sends what fits now; if none fits and the queue has
    /// no poller, it runs the queue and tries once more.
    ///
    /// # Errors
    /// [`SendError::ForeignPool`], [`SendError::Closed`], [`SendError::Ended`], [`SendError::Cancelled`];
    /// unsent packets are still in the burst.
    #[inline(always)]
    pub fn send(&mut self, burst: &mut Burst, wait: impl Into<Wait>) -> Result<Sent, SendError> {
        self.send_by(burst, || Deadline::Of(wait.into()))
    }

    /// Works like [`Sender::send`], and waits as a task until all packets are sent.
    ///
    /// # Cancel safety
    /// The future may be dropped at any time: packets not sent stay in the burst, and the place among the
    /// waiters goes to the next one.
    ///
    /// # Errors
    /// The errors of [`Sender::send`].
    pub async fn send_async(&mut self, burst: &mut Burst) -> Result<Sent, SendError> {
        let accepted = burst.len();
        self.send_what_fits(burst)?;
        while let Some(need) = self.need(burst.batch_mut()) {
            wait::wait_async(from_mut(self), need).await?;
            self.transmit_served(burst.batch_mut())?;
        }
        Ok(Sent { accepted, ..Sent::default() })
    }

    /// Asks for the deadline only if it waits: a burst that does not costs no store of it.
    #[inline(always)]
    fn send_by(&mut self, burst: &mut Burst, deadline: impl FnOnce() -> Deadline) -> Result<Sent, SendError> {
        self.admit(burst)?;
        let batch = burst.batch_mut();
        let offered = batch.len();
        self.transmit(batch)?;
        if batch.is_empty() {
            return Ok(Sent { accepted: offered, ..Sent::default() });
        }
        self.send_rest(batch, offered, deadline())
    }

    /// Sends what there is room for, and has no handle woken.
    fn send_what_fits(&mut self, burst: &mut Burst) -> Result<(), SendError> {
        self.admit(burst)?;
        let batch = burst.batch_mut();
        if !self.transmit_some(batch)? && !batch.is_empty() {
            self.transmit_driven(batch)?;
        }
        Ok(())
    }

    /// Sends one packet, and waits for room. One that finds none in that time is dropped, and counted as
    /// [`Sender::send_or_drop`] does. `&mut Burst::from(packet)` sends it by any other call.
    ///
    /// # Errors
    /// The errors of [`Sender::send`]; the packet then goes back to its pool, and counts as no drop.
    pub fn send_packet(&mut self, packet: Packet, wait: impl Into<Wait>) -> Result<Sent, SendError> {
        self.send_whole(&mut packet.into(), Deadline::Of(wait.into()))
    }

    /// The sender's counters.
    pub fn counters(&self) -> &Arc<SenderCounters> {
        &self.counters
    }

    /// Checks that the queue is open and the frames are of its pool, charges them to this sender, and gives each a
    /// band if the discipline has bands.
    #[inline]
    fn admit(&mut self, burst: &mut Burst) -> Result<(), SendError> {
        if !self.shared.sender_settings().is_at(self.settings_version) {
            self.renew_settings()?;
        }
        if !burst.batch_mut().is_of(self.cache.charge()) {
            self.charge(burst)?;
        }
        if self.uses_bands {
            self.classify(burst.batch_mut());
        }
        Ok(())
    }

    /// Puts changed settings into force, unless the queue has ended, and looks after the wait of [`Ready`]s.
    #[cold]
    fn renew_settings(&mut self) -> Result<(), SendError> {
        let settings = self.shared.sender_settings();
        let version = settings.version();
        if self.shared.is_closed() {
            return Err(self.shared.closed_error());
        }
        self.credit.set_max_bytes(settings.small_queue_bytes());
        self.is_drop_tail = settings.is_drop_tail();
        self.uses_bands = settings.uses_bands();
        if !self.goes_on_blocking() {
            self.settings_version = version;
        }
        Ok(())
    }

    /// Charges frames that another cache took to this sender.
    #[cold]
    fn charge(&self, burst: &mut Burst) -> Result<(), SendError> {
        let (ours, theirs) = (self.cache.pool_number(), burst.number());
        let batch = burst.batch_mut();
        if ours != theirs || !(batch.is_of_pool(ours) || all_of_pool(batch, ours)) {
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
    /// Sends the packets that fit now. The others stay in the burst, or are dropped if that is the queue's
    /// policy.
    ///
    /// # Errors
    /// The errors of [`Sender::send`]; unsent packets are still in the burst.
    fn send_now(&mut self, burst: &mut Burst) -> Result<(), SendError>;
}

impl SendNow for Sender {
    fn send_now(&mut self, burst: &mut Burst) -> Result<(), SendError> {
        self.submit(burst, Wait::Never).map(drop)
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
pub(crate) fn foreign_pool(ours: u8, theirs: u8, batch: &Batch) -> SendError {
    let stranger = batch.frames().iter().map(|frame| frame.pool()).find(|&pool| pool != ours);
    SendError::ForeignPool { ours, theirs: stranger.unwrap_or(theirs) }
}

impl Drop for Sender {
    fn drop(&mut self) {
        (self.ready_wait, self.ready_watch) = (None, None);
        self.readiness.wake();
        self.biased.retire(self.shared.cell());
        self.lane.abandon();
        self.shared.count_sender(-1);
        if let Some(ring) = self.cache.take_return_ring() {
            // A panic may end this sender: one of the device on top of it would end the process.
            crate::host::outlive(|| self.shared.control(ControlMessage::Orphan(self.place.into(), ring)));
        }
    }
}
