//! The receive side of a port: the receiver or handler that has it, and how it is given back.

use super::{Parts, Port, Serving};
use std::any::Any;
use std::sync::Arc;
use wharf_core::device::RxDevice;
use wharf_core::pool::{Burst, PagePool};
use wharf_core::queue::{Claimants, QueueError};
use wharf_core::rx::{Handler, Receiver, Rest, RxQueue};

/// A receive side in use.
pub(super) struct Receiving {
    pub(super) queue: RxQueue,
    user: User,
    /// It belongs to the transmit queue's device.
    pub(super) is_of_queue: bool,
}

/// The user of a receive side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum User {
    /// A receiver that polls on its caller's thread. It gives the side back when it goes.
    Caller,
    /// Receivers that the poller's thread serves. They give it back as well.
    Served,
    /// A handler that the poller's thread calls. The side is taken back once the handler has ended.
    Handler,
}

impl Receiving {
    /// True if the poller's thread polls it.
    pub(super) fn is_served(&self) -> bool {
        self.user != User::Caller
    }
}

/// What a receiver keeps: it gives the receive side back when it goes.
struct Lease(Port);

impl Drop for Lease {
    fn drop(&mut self) {
        self.0.take_back(|receiving| receiving.user != User::Handler);
    }
}

/// The receive side of a port.
pub(super) enum Source {
    /// There is none, or a receiver has it: the error of the port's name.
    Gone(fn(String) -> QueueError),
    /// The port is closed.
    Closed,
    /// The queue's device.
    OfQueue,
    /// A device of its own.
    Apart(Box<dyn RxDevice>),
    /// The same, which has its memory already: a receiver has given it back.
    Kept(Box<dyn RxDevice>),
}

impl Port {
    /// Makes the receiver that polls on its caller's thread, only in its own calls. When it is dropped,
    /// the port gives another one: the device keeps what arrives meanwhile, as far as it has room.
    ///
    /// Where one device sends and receives, the port has no other poller until the receiver is dropped:
    /// senders that wait run the queue themselves.
    ///
    /// # Errors
    /// [`QueueError::OnlySends`], [`QueueError::InUse`], [`QueueError::ReceiveEnded`],
    /// [`QueueError::PollerReceives`]; [`QueueError::Closed`], [`QueueError::Pool`], [`QueueError::Device`],
    /// [`QueueError::System`].
    pub fn receiver(&self) -> Result<Receiver, QueueError> {
        let wait = self.inner.host.wait().map_err(|source| self.system_fault("no descriptor", source))?;
        if matches!(self.parts().source, Source::OfQueue)
            && self.inner.owners.claimants() == Claimants::Pollers
        {
            return Err(QueueError::PollerReceives { device: self.name().into() });
        }
        let (pool, settings) = (&self.inner.receiving_pool, self.inner.settings);
        self.receive(User::Caller, |open| {
            let mut receiver = Receiver::on_caller(pool, wait, settings, open)?;
            self.equip(&mut receiver, Lease(self.clone()));
            receiver.poller_counters().into_iter().for_each(|poller| self.inner.measured.add(poller));
            Ok((receiver.queue().clone(), receiver))
        })
    }

    /// Makes the receiver that the port's poller thread serves: for tasks, and for threads that do other
    /// work.
    ///
    /// # Errors
    /// The errors of [`Port::receiver`].
    pub fn served_receiver(&self) -> Result<Receiver, QueueError> {
        let (clock, park) = (self.inner.host.clock(), self.inner.host.park());
        self.receive(User::Served, |open| {
            let mut receiver = Receiver::behind_poller(&self.inner.receiving_pool, clock, park, open)?;
            self.equip(&mut receiver, Lease(self.clone()));
            Ok((receiver.queue().clone(), receiver))
        })
    }

    /// Makes `count` receivers, 1 to 256, that the port's poller thread serves: a packet goes to the one of
    /// number `by(bytes) % count`, in order; of a chain, the bytes are its first chunk. By
    /// [`flow_hash`](crate::net::flow_hash), a flow keeps to one receiver.
    ///
    /// A receiver that is slow holds up only itself: each holds up to 256 packets
    /// ([`PortBuilder::inbox_packets`](crate::PortBuilder::inbox_packets)), all of them together half of the
    /// pool (20 packets for each of 100 receivers of the default pool of 4096), and drops what it has no room
    /// for, also a super-packet longer than its share. Metrics count the drops by receiver and reason,
    /// `inbox-full` or `receiver-gone`. An error of the device, or a panic of `by`, is reported to one of the
    /// receivers; the end, to all.
    ///
    /// ```
    /// use std::time::Duration;
    /// use wharf::{Direction, Port, net};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let near = Port::open("wire", Direction::Send)?;
    /// # let port = near.far_end()?;
    /// let second = Duration::from_secs(1);
    /// let threads = port.receivers(4, net::flow_hash)?.into_iter().map(|mut receiver| {
    ///     let mut received = port.burst(64);
    ///     std::thread::spawn(move || {
    ///         while receiver.recv(&mut received, second).is_ok() {
    ///             received.clear(); // of this receiver's flows alone, in order
    ///         }
    ///     })
    /// });
    /// let threads: Vec<_> = threads.collect();
    /// port.close(second); // ends each wait
    /// threads.into_iter().for_each(|thread| thread.join().unwrap());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The errors of [`Port::receiver`]; [`QueueError::Setting`] for another count.
    pub fn receivers(
        &self, count: usize, by: impl FnMut(&[u8]) -> u64 + Send + 'static,
    ) -> Result<Vec<Receiver>, QueueError> {
        let (clock, park) = (self.inner.host.clock(), self.inner.host.park());
        self.receive(User::Served, |open| {
            let pool = &self.inner.receiving_pool;
            let mut receivers = Receiver::several_behind_poller(pool, clock, park, count, by, open)?;
            let lease = Arc::new(Lease(self.clone()));
            receivers.iter_mut().for_each(|receiver| self.equip(receiver, lease.clone()));
            Ok((receivers[0].queue().clone(), receivers))
        })
    }

    /// Has the port's poller thread call `handler` with the packets that arrive, until the port is closed or
    /// its last handle is dropped. A handler that panics ends receiving, and [`RxQueue::take_error`] tells
    /// so. It must not close the port, which would wait for the handler's own end; it may drop its handle. A
    /// handler that keeps a handle of its own port keeps that open: nothing but [`Port::close`] ends the two.
    /// Once it has ended, by [`RxQueue::close`] too, another handler or receiver may take its place, where
    /// one device sends and receives.
    ///
    /// A handler that has no room for all packets leaves the others and returns
    /// [`Rest::Again`](wharf_core::rx::Rest): nothing more is received. Any thread or task that has made room
    /// calls [`RxQueue::resume`], and the handler runs again, also if it ran during the call. Without a call
    /// the poller asks it again after a millisecond at most. It is called only while packets are left in the
    /// burst: what it has moved elsewhere is its own to send.
    ///
    /// ```
    /// use std::collections::VecDeque;
    /// use std::sync::{Arc, Mutex};
    /// use wharf::{Direction, Packet, Port};
    /// use wharf::queue::Rest;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let near = Port::open("wire", Direction::Send)?;
    /// # let port = near.far_end()?;
    /// # let mut sender = near.sender("example")?;
    /// # let mut burst = sender.burst(100);
    /// # sender.fill(&mut burst, 100, 64, wharf::Wait::Never)?;
    /// # _ = sender.send(&mut burst, wharf::Wait::Forever)?;
    /// let room: Arc<Mutex<VecDeque<Packet>>> = Arc::default(); // for 8 packets
    /// let task = room.clone();
    /// let queue = port.on_receive(move |burst| {
    ///     let mut room = room.lock().unwrap();
    ///     while room.len() < 8
    ///         && let Some(packet) = burst.pop()
    ///     {
    ///         room.push_back(packet);
    ///     }
    ///     Rest::Again
    /// })?;
    /// let mut packets = 0;
    /// while packets < 100 {
    ///     packets += std::mem::take(&mut *task.lock().unwrap()).len();
    ///     queue.resume();
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The errors of [`Port::receiver`].
    pub fn on_receive(
        &self, handler: impl FnMut(&mut Burst) -> Rest + Send + 'static,
    ) -> Result<RxQueue, QueueError> {
        self.receive(User::Handler, |open| open(Box::new(handler)).map(|queue| (queue.clone(), queue)))
    }

    /// Has a new receiver keep `lease`, and hold as many packets as the port's settings say.
    fn equip(&self, receiver: &mut Receiver, lease: impl Any + Send + Sync) {
        receiver.keep(lease);
        let packets = self.inner.inbox_packets;
        packets.into_iter().for_each(|packets| receiver.set_inbox_packets(packets as usize));
    }

    /// Gives the receive side to `user`. `make` opens its queue with a handler.
    fn receive<T>(
        &self, user: User,
        make: impl FnOnce(
            &mut dyn FnMut(Handler) -> Result<RxQueue, QueueError>,
        ) -> Result<(RxQueue, T), QueueError>,
    ) -> Result<T, QueueError> {
        self.take_back(|receiving| receiving.user == User::Handler && receiving.queue.has_ended());
        let mut parts = self.parts();
        let source = parts.take_source(self)?;
        let is_of_queue = matches!(source, Source::OfQueue);
        let mut source = Some(source);
        let made = make(&mut |handler| self.rx_queue(&mut source, handler));
        let (queue, made) = made.inspect_err(|_| {
            if let Some(unused) = source {
                parts.source = unused;
            }
        })?;
        parts.receiving = Some(Receiving { queue: queue.clone(), user, is_of_queue });
        let before = self.restart_poller(&parts);
        drop(parts);
        if before.is_err() {
            // Nothing would poll it. A receiver that is dropped gives it back itself.
            self.take_back(|one| user == User::Handler && one.queue.is_same(&queue));
        }
        // Joins the thread, whose handler may use the port.
        drop(before?);
        Ok(made)
    }

    /// Opens the queue of `source`, which stays where there is an error.
    fn rx_queue(&self, source: &mut Option<Source>, handler: Handler) -> Result<RxQueue, QueueError> {
        let (pool, queue) = (&self.inner.receiving_pool, &self.inner.queue);
        let over = |device, is_attached, handler| {
            RxQueue::over(device, is_attached, pool, queue.as_slice(), handler)
        };
        let opened = match (source.take(), queue) {
            (Some(Source::OfQueue), Some(queue)) => {
                RxQueue::of(queue, handler).map_err(|error| (error, Source::OfQueue))
            }
            (Some(Source::Apart(device)), _) => {
                over(device, false, handler).map_err(|(error, device)| (error, Source::Apart(device)))
            }
            (Some(Source::Kept(device)), _) => {
                over(device, true, handler).map_err(|(error, device)| (error, Source::Kept(device)))
            }
            _ => return Err(QueueError::InUse { device: self.name().into() }),
        };
        let queue = opened.map_err(|(error, unused)| {
            *source = Some(unused);
            error
        })?;
        let queue = queue.takes_chains(self.inner.takes_chains);
        self.inner.monitor.watch_receiver(&queue, self.inner.queue.is_none());
        // The device would drop what comes before the receiver's first call, or before the poller's thread
        // runs.
        queue.post_memory();
        Ok(queue)
    }

    /// Takes the receive side back from a receiver that goes, or from a handler that has ended, if `is_it` is
    /// true of it.
    fn take_back(&self, is_it: impl FnOnce(&Receiving) -> bool) {
        let mut parts = self.parts();
        // There is none if the port is closed.
        let Some(Receiving { is_of_queue, queue, .. }) = parts.receiving.take_if(|one| is_it(one)) else {
            return;
        };
        // A close that comes now waits for the end of this function.
        let _begun = self.inner.giving_back.begin();
        parts.source = match is_of_queue {
            true => Source::OfQueue,
            false => Source::Gone(|device| QueueError::ReceiveEnded { device }),
        };
        parts.leaving.push(queue.clone());
        // Without a thread, senders run the queue themselves.
        let before = self.restart_poller(&parts);
        drop(parts);
        // The other end of a wire is let go of in order: see Drop for Inner.
        let end = if self.inner.is_far_end { drop } else { Serving::detach };
        before.into_iter().flatten().for_each(end);
        let has_ended = queue.has_ended();
        let device = queue.release();
        let mut parts = self.parts();
        parts.count_last(&queue);
        match device {
            Some(device) if !has_ended && !matches!(parts.source, Source::Closed) => {
                parts.source = Source::Kept(device);
            }
            device => {
                drop(parts);
                device
                    .into_iter()
                    .for_each(|device| close_kept(&self.inner.receiving_pool, Source::Kept(device)));
            }
        }
    }
}

/// Closes the device of a receive side that no receiver has, if it has memory of `pool`. An error at its end
/// changes nothing for anyone.
pub(super) fn close_kept(pool: &PagePool, source: Source) {
    let Source::Kept(device) = source else { return };
    if let Ok(queue) = RxQueue::over(device, true, pool, &[], Box::new(|_| Rest::Free)) {
        _ = queue.close();
    }
}

impl Parts {
    /// Keeps what a receive queue that was closed has counted.
    pub(super) fn count_last(&mut self, queue: &RxQueue) {
        // Two close it at the same time, and the other has counted it.
        let Some(at) = self.leaving.iter().position(|one| one.is_same(queue)) else { return };
        self.emptying.push(self.leaving.swap_remove(at));
        self.count_emptied();
        self.note_device_drops(Some(queue));
    }

    /// Returns the receive sides that are not counted among those that are gone. The last one has the device.
    pub(super) fn receivers(&mut self) -> Vec<RxQueue> {
        self.count_emptied();
        let in_use = self.receiving.as_ref().map(|receiving| &receiving.queue);
        self.emptying.iter().chain(&self.leaving).chain(in_use).cloned().collect()
    }

    /// Counts the receive sides of which no receiver can take packets any more.
    fn count_emptied(&mut self) {
        let Self { emptying, received, gone, .. } = self;
        emptying.extract_if(.., |queue| queue.is_settled()).for_each(|queue| {
            received.add_receiver(&queue);
            gone.add(&queue);
        });
    }

    /// Notes the drops of the device that receives, if it is not in use just now.
    pub(super) fn note_device_drops(&mut self, queue: Option<&RxQueue>) {
        if let Source::Kept(device) = &mut self.source {
            self.device_drops.clear();
            device.drops(&mut |reason, count| self.device_drops.push((reason, count)));
        }
        if let Some(drops) = queue.and_then(RxQueue::try_device_drops) {
            self.device_drops = drops;
        }
    }

    /// Takes the receive side for a receiver.
    fn take_source(&mut self, port: &Port) -> Result<Source, QueueError> {
        self.check_open()?;
        match std::mem::replace(&mut self.source, Source::Gone(|device| QueueError::InUse { device })) {
            Source::Gone(why) => {
                self.source = Source::Gone(why);
                Err(why(port.name().into()))
            }
            source => Ok(source),
        }
    }

    /// Checks that the port is not closed.
    pub(super) fn check_open(&self) -> Result<(), QueueError> {
        if matches!(self.source, Source::Closed) { Err(QueueError::Closed) } else { Ok(()) }
    }
}
