//! `Receiver`: receiving by calls, in place of a handler: on the caller's thread, from a poller's thread, or as a task.

mod select;

pub use select::select;

use super::inbox::Inbox;
use super::{Handler, RxQueue};
use crate::device::DeviceError;
use crate::host::{Clock, Park, PollerWait, Wake};
use crate::poller::{ActivePoller, Poller, PollerCounters, Settings};
use crate::pool::{Burst, PagePool};
use crate::tx::queue::QueueError;
use crate::wait::Wait;
use crate::wakeup::TaskWake;
use std::any::Any;
use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use wharf_mem::lock;

/// Steps of a call that does not wait: unmasked notifications are looked at, then the device is polled.
const STEPS_MAX: u32 = 4;

/// The reason that a receiver has no packet.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecvError {
    /// No packet will come any more: the device has ended, or the queue was closed.
    #[error("the queue is shut down")]
    Closed,
    /// See [`DeviceError`].
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The burst belongs to another pool than the queue's.
    #[error("this queue receives frames of pool {ours}, not of pool {theirs}")]
    ForeignPool {
        /// The queue's pool.
        ours: u8,
        /// The burst's.
        theirs: u8,
    },
}

impl RecvError {
    /// True if each later call ends like this one. After an error of the device ([`RecvError::Device`]) a
    /// loop goes on: the device may be back, or a last packet waits.
    pub fn is_end(&self) -> bool {
        !matches!(self, Self::Device(_))
    }
}

/// Receives packets in bursts, in order.
///
/// A receiver polls its device in its own calls, or takes what a poller's thread has received. It holds up to 256 packets, or
/// as many as its port was built for; while these are not taken, nothing more is received, so that the device's ring fills and its peer feels it. One of
/// several receivers drops its surplus instead, and holds up only itself.
///
/// ```
/// # use std::time::Duration;
/// # use wharf_core::{pool::Burst, rx::{Receiver, RecvError}};
/// # fn receive(mut receiver: Receiver, mut burst: Burst) -> Result<(), RecvError> {
/// while receiver.recv(&mut burst, Duration::from_secs(1))? > 0 {
///     while let Some(packet) = burst.pop() {
///         println!("{} bytes", packet.len());
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Receiver {
    queue: RxQueue,
    inbox: Arc<Mutex<Inbox>>,
    way: Way,
    /// Wakes the task that waits.
    task: Arc<TaskWake>,
    /// The greatest among several is that of the one that [`select`] has served last.
    turn: u64,
    /// Dropped after all else: see [`Receiver::keep`].
    kept: Option<Box<dyn Any + Send + Sync>>,
}

/// The thread that polls the device.
#[derive(Debug)]
enum Way {
    /// The caller's. It waits only in calls that may.
    Caller(Box<ActivePoller>),
    /// A poller's.
    Poller { park: Arc<dyn Park>, clock: Arc<dyn Clock> },
}

impl Receiver {
    /// Makes a receiver that polls in its own calls and waits by `wait`. `open` makes its queue with the handler that
    /// it is given. Frames are of `pool`, the queue's.
    ///
    /// # Errors
    /// Those of `open`.
    #[doc(hidden)]
    pub fn on_caller(
        pool: &PagePool, wait: Box<dyn PollerWait>, settings: Settings,
        open: impl FnOnce(Handler) -> Result<RxQueue, QueueError>,
    ) -> Result<Self, QueueError> {
        let (inboxes, handler) = Inbox::one(pool);
        let queue = open(handler)?;
        let mut poller = Poller::new(wait, settings);
        poller.add_pulled(&queue);
        let inbox = queue.fill(inboxes)[0].clone();
        Ok(Self {
            queue,
            inbox,
            way: Way::Caller(Box::new(poller.begin())),
            task: Arc::default(),
            turn: 0,
            kept: None,
        })
    }

    /// Makes a receiver whose queue, made by `open`, is to be given to a poller; its calls wait by `park`.
    ///
    /// # Errors
    /// Those of `open`.
    pub fn behind_poller(
        pool: &PagePool, clock: Arc<dyn Clock>, park: Arc<dyn Park>,
        open: impl FnOnce(Handler) -> Result<RxQueue, QueueError>,
    ) -> Result<Self, QueueError> {
        let (inboxes, handler) = Inbox::one(pool);
        Ok(Self::served(&open(handler)?, inboxes, &clock, &park).remove(0))
    }

    /// Makes `count` receivers of one queue, 1 to 256, that is to be given to a poller: a packet goes to the receiver of
    /// number `by(bytes) % count`; of a chain, the bytes are its first chunk.
    ///
    /// # Errors
    /// [`QueueError::Setting`], and those of `open`.
    pub fn several_behind_poller(
        pool: &PagePool, clock: Arc<dyn Clock>, park: Arc<dyn Park>, count: usize,
        by: impl FnMut(&[u8]) -> u64 + Send + 'static,
        open: impl FnOnce(Handler) -> Result<RxQueue, QueueError>,
    ) -> Result<Vec<Self>, QueueError> {
        if !(1..=256.min(pool.frames() as usize / 2)).contains(&count) {
            let (value, why) = (count as u64, "1 to 256, at most one for two frames of the pool");
            return Err(QueueError::Setting { setting: "receivers", value, why });
        }
        let (inboxes, handler) = Inbox::several(pool, count, by);
        let queue = open(handler)?;
        Ok(Self::served(&queue, inboxes, &clock, &park))
    }

    /// Makes the receivers that empty `inboxes`, which a poller's thread fills.
    fn served(
        queue: &RxQueue, inboxes: Vec<Arc<Mutex<Inbox>>>, clock: &Arc<dyn Clock>, park: &Arc<dyn Park>,
    ) -> Vec<Self> {
        let receiver = |inbox: &Arc<Mutex<Inbox>>| Self {
            queue: queue.clone(),
            inbox: inbox.clone(),
            way: Way::Poller { park: park.clone(), clock: clock.clone() },
            task: Arc::default(),
            turn: 0,
            kept: None,
        };
        queue.fill(inboxes).iter().map(receiver).collect()
    }

    /// Keeps `value` alive until the receiver and its poller are gone: the path that it belongs to.
    #[doc(hidden)]
    pub fn keep(&mut self, value: impl Any + Send + Sync) {
        self.kept = Some(Box::new(value));
    }

    /// Sets the packets that it holds until a call takes them, 256 before. All receivers of a queue together
    /// hold at most half of the pool.
    #[doc(hidden)]
    pub fn set_inbox_packets(&mut self, packets: usize) {
        lock(&self.inbox).set_packets_max(packets);
    }

    /// The queue that it receives from: counters, drops.
    pub fn queue(&self) -> &RxQueue {
        &self.queue
    }

    /// Returns the counters of its own poller, if it polls in its own calls.
    #[doc(hidden)]
    pub fn poller_counters(&self) -> Option<&Arc<PollerCounters>> {
        match &self.way {
            Way::Caller(poller) => Some(poller.counters()),
            Way::Poller { .. } => None,
        }
    }

    /// Moves packets that have arrived to the back of `into`, as many as there is room for, and waits for
    /// one while there is none. Returns their number: 0 if the time is over.
    ///
    /// **A burst without room gets 0 at once, with [`Wait::Forever`], too:** a loop clears it between two
    /// calls.
    ///
    /// # Errors
    /// [`RecvError::Device`], once for each error of the device, and the next call goes on
    /// ([`RecvError::is_end`]); [`RecvError::Closed`] if no packet will come any more;
    /// [`RecvError::ForeignPool`] for a burst of another pool.
    pub fn recv(&mut self, into: &mut Burst, wait: impl Into<Wait>) -> Result<usize, RecvError> {
        let count = self.recv_now(into)?;
        if count > 0 || into.batch_mut().room() == 0 {
            return Ok(count);
        }
        let mut left_ns = wait.into().left_ns();
        let end_ns = if left_ns > 0 { self.now_ns().saturating_add(left_ns) } else { 0 };
        while left_ns > 0 {
            self.wait(left_ns);
            let has_ended = self.queue.has_ended();
            let count = self.take(into)?;
            if count > 0 {
                return Ok(count);
            }
            self.check(has_ended)?;
            left_ns = end_ns.saturating_sub(self.now_ns());
        }
        Ok(0)
    }

    /// Works like [`Receiver::recv`], and waits as a task for a packet. A receiver that polls in its own
    /// calls asks to be polled again at once: give the queue to a poller's thread.
    ///
    /// # Cancel safety
    /// The future may be dropped at any time: packets stay with the receiver until a call returns them.
    ///
    /// # Errors
    /// The errors of [`Receiver::recv`].
    pub async fn recv_async(&mut self, into: &mut Burst) -> Result<usize, RecvError> {
        poll_fn(|context| self.poll_recv(context, into)).await
    }

    /// Works like [`Receiver::recv_async`], for a type that is polled: pending, it wakes the task once there
    /// is a packet.
    ///
    /// # Cancel safety
    /// It may be polled no more at any time: packets stay with the receiver until a call returns them.
    ///
    /// # Errors
    /// The errors of [`Receiver::recv`].
    pub fn poll_recv(
        &mut self, context: &mut Context<'_>, into: &mut Burst,
    ) -> Poll<Result<usize, RecvError>> {
        self.task.set(context.waker());
        self.announce(self.task.clone());
        match self.recv_now(into) {
            Ok(0) if into.batch_mut().room() > 0 => {
                if matches!(self.way, Way::Caller(_)) {
                    context.waker().wake_by_ref();
                }
                Poll::Pending
            }
            received => Poll::Ready(received),
        }
    }

    /// Takes what has arrived, and polls the device if that is nothing.
    fn recv_now(&mut self, into: &mut Burst) -> Result<usize, RecvError> {
        // In this order: packets that came before the end are taken first.
        let mut has_ended = self.queue.has_ended();
        let mut count = self.take(into)?;
        if let Way::Caller(poller) = &mut self.way
            && count == 0
        {
            for _ in 0..STEPS_MAX {
                if poller.step(0) {
                    break;
                }
            }
            has_ended = self.queue.has_ended();
            count = self.take(into)?;
        }
        if count == 0 { self.check(has_ended) } else { Ok(count) }
    }

    /// Takes packets out of the inbox, and calls a poller that has more.
    fn take(&mut self, into: &mut Burst) -> Result<usize, RecvError> {
        let mut inbox = lock(&self.inbox);
        let (ours, theirs) = (inbox.pool_number(), into.number());
        if ours != theirs {
            return Err(RecvError::ForeignPool { ours, theirs });
        }
        let (count, was_full) = inbox.take(into);
        drop(inbox);
        if was_full {
            self.queue.resume();
        }
        Ok(count)
    }

    /// Returns 0, or the error that explains why there is no packet.
    fn check(&self, has_ended: bool) -> Result<usize, RecvError> {
        match self.queue.take_error() {
            Some(error) => Err(error.into()),
            None if has_ended => Err(RecvError::Closed),
            None => Ok(0),
        }
    }

    /// Has `wake` called when there is news.
    fn announce(&self, wake: Arc<dyn Wake>) {
        // The one before is dropped outside the lock.
        let _before = lock(&self.inbox).waiting.replace(wake);
    }

    /// Waits for a packet, for at most `left_ns`; may return early.
    fn wait(&mut self, left_ns: u64) {
        match &mut self.way {
            Way::Caller(poller) => _ = poller.step(left_ns),
            Way::Poller { park, .. } => {
                let park = park.clone();
                self.announce(park.waker());
                if lock(&self.inbox).is_empty() && !self.queue.shared.concerns_all() {
                    park.park(left_ns);
                }
            }
        }
    }

    fn now_ns(&self) -> u64 {
        match &self.way {
            Way::Caller(poller) => poller.now_ns(),
            Way::Poller { clock, .. } => clock.exact_ns(),
        }
    }
}

impl Drop for Receiver {
    /// Frees the packets that were not taken. What arrives from now on is freed by the poller, if there is one.
    fn drop(&mut self) {
        let mut inbox = lock(&self.inbox);
        inbox.close();
        let waker = inbox.waiting.take();
        drop((inbox, waker));
        self.queue.resume();
    }
}
