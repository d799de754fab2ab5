//! `Spread`: one producer's end of a device with several transmit queues. Each flow keeps to one queue, in order.

use super::cancel::Canceller;
use super::wait::{self, Fill};
use super::{Ready, SendError, SendNow, Sender, Sent, ready};
use crate::pool::{Burst, Packet, PagePool, PoolError};
use crate::sg_writer::Memory;
use crate::tx::queue::QueueError;
use crate::wait::{Deadline, Wait};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};
use wharf_mem::{Batch, Frame};
use wharf_packet::QueueMap;

/// A sender for each queue, and the map of flows to queues. All queues send frames of one pool.
#[derive(Debug)]
pub struct Spread {
    senders: Vec<Sender>,
    map: QueueMap,
    /// The next burst of each queue; empty between two calls.
    staged: Vec<Burst>,
    /// The sender whose cache memory is taken from first, in turn: frames return to the sender of the queue they left
    /// by.
    next: usize,
}

/// A burst's packets, sorted by queue. Those that are not sent go back to the burst, each flow in order.
struct Sorted<'a> {
    spread: &'a mut Spread,
    burst: &'a mut Burst,
}

impl Sorted<'_> {
    /// The senders that have packets, with these.
    fn queues(&mut self) -> impl Iterator<Item = (&mut Sender, &mut Burst)> {
        let Spread { senders, staged, .. } = &mut *self.spread;
        senders.iter_mut().zip(staged).filter(|(_, packets)| !packets.is_empty())
    }
}

impl Drop for Sorted<'_> {
    fn drop(&mut self) {
        for packets in self.spread.staged.iter_mut().filter(|packets| !packets.is_empty()) {
            self.burst.batch_mut().append(packets.batch_mut(), usize::MAX);
        }
    }
}

/// The places of a spread among the waiters of its queues. Dropping it gives them up.
struct Places<'a>(&'a mut Spread);

impl Drop for Places<'_> {
    fn drop(&mut self) {
        self.0.senders.iter_mut().for_each(|sender| sender.ready_wait = None);
    }
}

impl Spread {
    /// Spreads over the queues of `senders`. The same order gives the same map. Handles of theirs
    /// ([`Sender::ready`]) hear no more: [`Spread::ready`] makes others.
    ///
    /// # Errors
    /// [`QueueError::Setting`] without a sender; [`QueueError::ForeignPool`] when they are of several pools.
    pub fn new(mut senders: Vec<Sender>) -> Result<Self, QueueError> {
        let Some(first) = senders.first() else {
            return Err(QueueError::Setting { setting: "queues", value: 0, why: "at least 1" });
        };
        let number = |sender: &Sender| sender.pool().region().number();
        let ours = number(first);
        if let Some(other) = senders.iter().find(|sender| number(sender) != ours) {
            return Err(QueueError::ForeignPool { ours, theirs: number(other) });
        }
        let burst = || first.pool().burst(wharf_mem::batch::BATCH_FRAMES_MAX);
        let staged = senders.iter().map(|_| burst()).collect();
        let (map, readiness) = (QueueMap::new(senders.len() as u32), Arc::default());
        senders.iter_mut().for_each(|sender| sender.share(&readiness));
        Ok(Self { senders, map, staged, next: 0 })
    }

    /// The senders, in order of queues.
    pub fn senders(&self) -> &[Sender] {
        &self.senders
    }

    /// The first sender; bursts of any of them will do.
    pub fn first(&mut self) -> &mut Sender {
        &mut self.senders[0]
    }

    /// Works like [`Sender::canceller`], for the wait of whichever sender it comes upon.
    pub fn canceller(&mut self) -> Canceller {
        let canceller = self.senders[0].canceller();
        self.senders.iter_mut().for_each(|sender| sender.cancel = Some(canceller.clone()));
        canceller
    }

    /// Makes an empty burst of the queues' pool, for up to `capacity` packets.
    pub fn burst(&self, capacity: usize) -> Burst {
        self.senders[0].burst(capacity)
    }

    /// Works like [`Sender::packet`], from the first sender whose cache has a frame, in turn.
    ///
    /// # Errors
    /// The errors of [`Sender::packet`].
    pub fn packet(&mut self, len_bytes: u32, wait: impl Into<Wait>) -> Result<Packet, SendError> {
        let what = self.what(1, len_bytes);
        wait::packet_by(&mut self.senders, what, Deadline::Of(wait.into()))
    }

    /// Works like [`Sender::send_packet`], by the queue of the packet's flow.
    ///
    /// # Errors
    /// The errors of [`Sender::send_packet`].
    pub fn send_packet(&mut self, packet: Packet, wait: impl Into<Wait>) -> Result<Sent, SendError> {
        let deadline = Deadline::Of(wait.into());
        self.each(&mut packet.into(), |by, packets| by.send_whole(packets, deadline))
    }

    /// Works like [`Sender::fill`], from the first sender whose cache has frames, in turn.
    ///
    /// # Errors
    /// The errors of [`Sender::fill`].
    pub fn fill(
        &mut self, burst: &mut Burst, count: usize, len_bytes: u32, wait: impl Into<Wait>,
    ) -> Result<usize, SendError> {
        let what = self.what(count, len_bytes);
        wait::fill_by(&mut self.senders, burst, what, Deadline::Of(wait.into()))
    }

    /// Works like [`Spread::fill`], and waits for memory as a task.
    ///
    /// # Cancel safety
    /// That of [`Sender::fill_async`].
    ///
    /// # Errors
    /// The errors of [`Sender::fill`].
    pub async fn fill_async(
        &mut self, burst: &mut Burst, count: usize, len_bytes: u32,
    ) -> Result<usize, SendError> {
        let what = self.what(count, len_bytes);
        wait::fill_async(&mut self.senders, burst, what).await
    }

    /// Sends the packets of `burst`, each by the queue of its flow, and waits for room, for one time in
    /// all: a queue that has none holds up no packet of another. Packets that are left stay in the burst,
    /// each flow in order.
    ///
    /// # Errors
    /// The errors of [`Sender::send`].
    pub fn send(&mut self, burst: &mut Burst, wait: impl Into<Wait>) -> Result<Sent, SendError> {
        let deadline = self.started(wait);
        self.send_until(burst, deadline)
    }

    /// Works like [`Spread::send`], and waits as a task until all packets are sent.
    ///
    /// # Cancel safety
    /// That of [`Sender::send_async`].
    ///
    /// # Errors
    /// The errors of [`Sender::send`].
    pub async fn send_async(&mut self, burst: &mut Burst) -> Result<Sent, SendError> {
        let (places, accepted) = (Places(self), burst.len());
        while !burst.is_empty() {
            _ = poll_fn(|context| places.0.poll_send(context, burst)).await?;
        }
        Ok(Sent { accepted, ..Sent::default() })
    }

    /// Works like [`Sender::send_or_drop`], each packet by the queue of its flow, for one time in all.
    ///
    /// # Errors
    /// The errors of [`Sender::send_or_drop`].
    pub fn send_or_drop(&mut self, burst: &mut Burst, wait: impl Into<Wait>) -> Result<Sent, SendError> {
        let deadline = self.started(wait);
        let mut sum = Sent::default();
        if !deadline.is_never() {
            self.waive(true);
            let sent = self.send_until(burst, deadline);
            self.waive(false);
            sum.accepted = sent?.accepted;
        }
        if !burst.is_empty() {
            sum += self.each(burst, |by, packets| by.send_or_drop_by(packets, deadline))?;
        }
        Ok(sum)
    }

    /// True if every queue is ready: see [`Sender::is_ready`].
    pub fn is_ready(&mut self) -> bool {
        self.senders.iter_mut().all(Sender::is_ready)
    }

    /// Asks whether every queue is ready: see [`Sender::poll_ready`].
    ///
    /// # Cancel safety
    /// That of [`Sender::poll_ready`].
    ///
    /// # Errors
    /// The errors of [`Sender::poll_ready`].
    pub fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), SendError>> {
        ready::poll_ready(&mut self.senders, context)
    }

    /// Returns a handle that hears when one of its senders that found no room, or no memory, may go on.
    pub fn ready(&self) -> Ready {
        Ready::of(&self.senders)
    }

    /// Works like [`Sender::poll_send`], each packet by the queue of its flow: pending if none of these
    /// queues has room. A call gives up the places of queues for which it has no packet.
    ///
    /// # Cancel safety
    /// That of [`Sender::poll_send`].
    ///
    /// # Errors
    /// The errors of [`Sender::send`].
    pub fn poll_send(
        &mut self, context: &mut Context<'_>, burst: &mut Burst,
    ) -> Poll<Result<Sent, SendError>> {
        let (sorted, mut sum) = (self.sort(burst)?, Sent::default());
        let Spread { senders, staged, .. } = &mut *sorted.spread;
        for (by, packets) in senders.iter_mut().zip(staged) {
            // With no packets, it only gives its place up.
            match by.poll_send(context, packets)? {
                Poll::Ready(sent) => sum += sent,
                Poll::Pending => sum.left += packets.len(),
            }
        }
        if sum.accepted == 0 && sum.left > 0 { Poll::Pending } else { Poll::Ready(Ok(sum)) }
    }

    /// Works like [`Sender::poll_packet`], once every queue has room, from any whose cache has a frame.
    ///
    /// # Cancel safety
    /// That of [`Sender::poll_packet`].
    ///
    /// # Errors
    /// The errors of [`Sender::poll_packet`].
    pub fn poll_packet(
        &mut self, context: &mut Context<'_>, len_bytes: u32,
    ) -> Poll<Result<Packet, SendError>> {
        let what = self.what(1, len_bytes);
        ready::poll_packet(&mut self.senders, context, what)
    }

    /// Works like [`Sender::wait_for_memory`], from any queue.
    ///
    /// # Errors
    /// The errors of [`Sender::wait_for_memory`].
    #[doc(hidden)]
    pub fn wait_for_memory(&mut self, wait: impl Into<Wait>) -> Result<bool, SendError> {
        wait::wait_for_memory(&mut self.senders, Deadline::Of(wait.into()))
    }

    /// Returns the number of packets sent by all queues.
    pub fn packets(&self) -> u64 {
        self.senders.iter().map(|sender| sender.counters().packets.get()).sum()
    }

    /// Returns the number of times that it has waited for room or memory.
    pub fn waits(&self) -> u64 {
        self.senders.iter().map(|sender| sender.counters().waits.get()).sum()
    }

    /// Takes memory from the next queue's sender first.
    fn what(&mut self, count: usize, len_bytes: u32) -> Fill {
        self.next = (self.next + 1) % self.senders.len();
        Fill { first: self.next, count, len_bytes }
    }

    fn started(&self, wait: impl Into<Wait>) -> Deadline {
        Deadline::Of(wait.into()).started(&*self.senders[0].shared.setup().clock)
    }

    /// Sends what there is room for by all queues, then waits for room of any.
    fn send_until(&mut self, burst: &mut Burst, deadline: Deadline) -> Result<Sent, SendError> {
        let sent = self.each(burst, |by, packets| by.send_by(packets, || Deadline::Of(Wait::Never)))?;
        if sent.left > 0 && !deadline.is_never() { self.send_rest(burst, sent, deadline) } else { Ok(sent) }
    }

    #[cold]
    fn send_rest(&mut self, burst: &mut Burst, sent: Sent, deadline: Deadline) -> Result<Sent, SendError> {
        let mut sorted = self.sort(burst)?;
        loop {
            let mut needs = Vec::new();
            for (by, packets) in sorted.queues() {
                let batch = packets.batch_mut();
                while let Some(need) = by.need(batch) {
                    if !by.spin(need) || !by.transmit_some(batch)? {
                        needs.push((by, need));
                        break;
                    }
                }
            }
            if needs.is_empty() || !wait::wait(&mut needs, deadline)? {
                break;
            }
            for (by, packets) in sorted.queues() {
                by.transmit_served(packets.batch_mut())?;
            }
        }
        let left = sorted.queues().map(|(_, packets)| packets.len()).sum();
        Ok(Sent { accepted: sent.accepted + sent.left - left, left, ..sent })
    }

    /// Sets whether the small-queue limit of the senders does not count.
    fn waive(&mut self, is_waived: bool) {
        self.senders.iter_mut().for_each(|sender| sender.credit.waive(is_waived));
    }

    /// Sorts the packets by queue, in order within each.
    fn sort<'a>(&'a mut self, burst: &'a mut Burst) -> Result<Sorted<'a>, SendError> {
        let pool = self.senders[0].pool();
        let (ours, theirs) = (pool.region().number(), burst.number());
        if ours != theirs {
            return Err(SendError::ForeignPool { ours, theirs });
        }
        let batch = burst.batch_mut();
        if let [only] = &mut self.staged[..] {
            only.batch_mut().append(batch, usize::MAX);
        }
        while let Some(frame) = batch.pop() {
            // A frame without bytes here is another pool's: the sender reports it.
            let at = pool.region().bytes(&frame).map_or(0, |bytes| self.map.queue_of(bytes));
            self.staged[at].batch_mut().push_within(frame);
        }
        Ok(Sorted { spread: self, burst })
    }

    /// Sends the packets of each queue by `send`, and adds up what it returns.
    fn each(
        &mut self, burst: &mut Burst,
        mut send: impl FnMut(&mut Sender, &mut Burst) -> Result<Sent, SendError>,
    ) -> Result<Sent, SendError> {
        let mut sorted = self.sort(burst)?;
        let sum = sorted.queues().try_fold(Sent::default(), |mut sum, (by, packets)| {
            sum += send(by, packets)?;
            Ok(sum)
        });
        // One may have been served before the next marked all as blocked.
        if sorted.queues().any(|(by, _)| by.may_go_on()) {
            sorted.spread.senders[0].wake_handles();
        }
        sum
    }
}

impl SendNow for Spread {
    fn send_now(&mut self, burst: &mut Burst) -> Result<(), SendError> {
        self.each(burst, |by, packets| by.submit(packets, Wait::Never)).map(drop)
    }
}

/// The memory of the first queue's sender.
impl Memory for Spread {
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
