//! `Spread`: one producer's end of a device with several transmit queues. Each flow keeps to one queue, in order.

use super::{SendNow, Sender};
use crate::pool::{Burst, PagePool, PoolError};
use crate::sg_writer::Memory;
use crate::tx::queue::QueueError;
use wharf_mem::{Batch, Frame};
use wharf_packet::QueueMap;

/// A sender for each queue, and the map of flows to queues. All queues send frames of one pool. Over senders that
/// never wait ([`super::DropTail`]), it sends by [`SendNow`] alone.
#[derive(Debug)]
pub struct Spread<S = Sender> {
    senders: Vec<S>,
    map: QueueMap,
    /// The next burst of each queue; empty between two calls.
    staged: Vec<Burst>,
    /// The sender whose cache memory is taken from first, in turn: frames return to the sender of the queue they left
    /// by.
    next: usize,
}

impl<S: SendNow> Spread<S> {
    /// Spreads over the queues of `senders`. The same order gives the same map.
    ///
    /// # Errors
    /// [`QueueError::Setting`] without a sender; [`QueueError::ForeignPool`] when they are of several pools.
    pub fn new(senders: Vec<S>) -> Result<Self, QueueError> {
        let Some(first) = senders.first() else {
            return Err(QueueError::Setting { setting: "queues", value: 0, why: "at least 1" });
        };
        let number = |sender: &S| sender.pool().region().number();
        let ours = number(first);
        if let Some(other) = senders.iter().find(|sender| number(sender) != ours) {
            return Err(QueueError::ForeignPool { ours, theirs: number(other) });
        }
        let burst = || first.pool().burst(wharf_mem::batch::BATCH_FRAMES_MAX);
        let staged = senders.iter().map(|_| burst()).collect();
        let map = QueueMap::new(senders.len() as u32);
        Ok(Self { senders, map, staged, next: 0 })
    }

    /// Sorts the packets by queue, in order within each.
    fn stage(&mut self, burst: &mut Burst) -> Result<(), QueueError> {
        let pool = self.senders[0].pool();
        let (ours, theirs) = (pool.region().number(), burst.number());
        if ours != theirs {
            return Err(QueueError::ForeignPool { ours, theirs });
        }
        let batch = burst.batch_mut();
        while let Some(frame) = batch.pop() {
            // A frame without bytes here is another pool's: the sender reports it.
            let at = pool.region().bytes(&frame).map_or(0, |bytes| self.map.queue_of(bytes));
            let pushed = self.staged[at].batch_mut().push(frame);
            debug_assert!(pushed.is_ok(), "there is room for a whole burst");
        }
        Ok(())
    }

    fn unstage(&mut self, burst: &mut Burst) {
        for staged in self.staged.iter_mut().filter(|staged| !staged.is_empty()) {
            burst.batch_mut().append(staged.batch_mut(), usize::MAX);
        }
    }
}

impl Spread {
    /// The senders, in order of queues.
    pub fn senders(&self) -> &[Sender] {
        &self.senders
    }

    /// The first sender; bursts of any of them will do.
    pub fn first(&mut self) -> &mut Sender {
        &mut self.senders[0]
    }

    /// Works like [`Sender::fill`], from the first sender whose cache has frames, in turn.
    ///
    /// # Errors
    /// The errors of [`Sender::fill`].
    pub fn fill(&mut self, burst: &mut Burst, count: usize, len_bytes: u32) -> Result<usize, PoolError> {
        let queues = self.senders.len();
        self.next = (self.next + 1) % queues;
        let mut filled = self.senders[self.next].fill(burst, count, len_bytes);
        for ahead in 1..queues {
            if !matches!(filled, Err(PoolError::Exhausted { .. })) {
                break;
            }
            filled = self.senders[(self.next + ahead) % queues].fill(burst, count, len_bytes);
        }
        filled
    }

    /// Sends all packets of `burst`, each by the queue of its flow; waits for space if there is none.
    ///
    /// # Errors
    /// The errors of [`Sender::send`]; unsent packets are still in the burst.
    pub fn send(&mut self, burst: &mut Burst) -> Result<(), QueueError> {
        self.stage(burst)?;
        let queues = self.staged.iter_mut().zip(&mut self.senders);
        let sent =
            queues.filter(|(staged, _)| !staged.is_empty()).try_for_each(|(staged, by)| by.send(staged));
        self.unstage(burst);
        sent
    }

    /// Sends the packets that fit now. Returns the number of packets sent; the others stay in the burst, each flow in order.
    ///
    /// # Errors
    /// The errors of [`Sender::send`].
    pub fn try_send(&mut self, burst: &mut Burst) -> Result<usize, QueueError> {
        self.stage(burst)?;
        let queues = self.staged.iter_mut().zip(&mut self.senders);
        let sent = queues
            .filter(|(staged, _)| !staged.is_empty())
            .try_fold(0, |sent, (staged, by)| Ok(sent + by.try_send(staged)?));
        self.unstage(burst);
        sent
    }

    /// Waits until there is a free frame, from any queue.
    ///
    /// # Errors
    /// The errors of [`Sender::wait_for_memory`].
    pub fn wait_for_memory(&mut self) -> Result<(), QueueError> {
        if let [only] = &mut self.senders[..] {
            return only.wait_for_memory();
        }
        let park = self.senders[0].shared.park.clone();
        let mut watches: Vec<_> =
            self.senders.iter_mut().map(|sender| sender.watch_memory(park.waker())).collect();
        loop {
            for (sender, watch) in self.senders.iter_mut().zip(&mut watches) {
                if let Some(seen) = sender.look(watch) {
                    return seen;
                }
            }
            let naps_ns = self.senders.iter().zip(&watches).map(|(sender, watch)| sender.nap_ns(watch));
            park.park(naps_ns.min().unwrap_or(0));
        }
    }

    /// Returns the number of packets sent by all queues.
    pub fn packets(&self) -> u64 {
        self.senders.iter().map(|sender| sender.counters().packets.get()).sum()
    }
}

/// Packets that do not fit stay in the burst, each flow in order.
impl<S: SendNow> SendNow for Spread<S> {
    fn send_now(&mut self, burst: &mut Burst) -> Result<(), QueueError> {
        self.stage(burst)?;
        let queues = self.staged.iter_mut().zip(&mut self.senders);
        let sent =
            queues.filter(|(staged, _)| !staged.is_empty()).try_for_each(|(staged, by)| by.send_now(staged));
        self.unstage(burst);
        sent
    }
}

/// The memory of the first queue's sender.
impl<S: SendNow> Memory for Spread<S> {
    fn pool(&self) -> &PagePool {
        self.senders[0].pool()
    }

    fn take(&mut self, to: &mut Batch, count: usize, len_bytes: u32) -> Result<usize, PoolError> {
        self.senders[0].take(to, count, len_bytes)
    }

    fn give_one(&mut self, frame: Frame) -> Result<(), (PoolError, Frame)> {
        self.senders[0].give_one(frame)
    }
}
