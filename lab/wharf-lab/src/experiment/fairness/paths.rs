//! One interface for the queues that are compared, and for a thread's end of them.

use super::super::host;
use crate::comparators::locked_queue::{Discipline, LockedQueue, LockedSender};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use wharf_core::pool::{Audit, Burst, PoolError};
use wharf_core::queue::TxQueue;
use wharf_core::sender::Sender;

/// A queue that threads share.
pub(super) trait Shared: Sync + Sized {
    type Sender: FastSender;

    fn sender(&self, name: &str) -> Result<Self::Sender, String>;

    /// Drains for all until `stop`.
    fn serve(&self, stop: &AtomicBool) -> Result<(), String>;

    /// Sends the remaining frames by `deadline_ns`, once all senders are gone. Returns the audit, the frames
    /// that entered, and the frames that left.
    fn finish(self, deadline_ns: u64) -> (Audit, u64, u64);
}

/// A thread's end, which sends as fast as it can.
pub(super) trait FastSender: Send {
    fn burst(&self, capacity: usize) -> Burst;

    /// Makes up to `count` packets and sends them: one round.
    fn send(&mut self, burst: &mut Burst, count: usize, len_bytes: u32) -> Result<(), String>;

    fn seen(&self) -> Seen;
}

/// Returns a sender's frames sent, dropped, and drained, while it sends.
pub(super) type Seen = Box<dyn Fn() -> [u64; 3]>;

impl Shared for TxQueue {
    type Sender = Sender;

    fn sender(&self, name: &str) -> Result<Sender, String> {
        TxQueue::sender(self, name).map_err(|error| error.to_string())
    }

    fn serve(&self, stop: &AtomicBool) -> Result<(), String> {
        let mut dedicated = self.dedicate().map_err(|error| error.to_string())?;
        while !stop.load(Relaxed) {
            dedicated.poll();
        }
        Ok(())
    }

    fn finish(self, deadline_ns: u64) -> (Audit, u64, u64) {
        let audit = self.shutdown_until(deadline_ns);
        let (counters, entered) = (self.counters(), self.senders());
        let entered = entered.iter().map(|sender| sender.packets.get()).sum();
        (audit, entered, counters.sent.get())
    }
}

impl FastSender for Sender {
    fn burst(&self, capacity: usize) -> Burst {
        Sender::burst(self, capacity)
    }

    fn send(&mut self, burst: &mut Burst, count: usize, len_bytes: u32) -> Result<(), String> {
        host::send(self, burst, count, len_bytes, &|_| {})
    }

    fn seen(&self) -> Seen {
        let seen = self.counters().clone();
        Box::new(move || [seen.packets.get(), seen.drops.get(), seen.drained_packets.get()])
    }
}

impl<D: Discipline> Shared for LockedQueue<D> {
    type Sender = LockedSender<D>;

    fn sender(&self, name: &str) -> Result<LockedSender<D>, String> {
        LockedQueue::sender(self, name).map_err(|error| error.to_string())
    }

    fn serve(&self, stop: &AtomicBool) -> Result<(), String> {
        LockedQueue::serve(self, stop);
        Ok(())
    }

    fn finish(self, deadline_ns: u64) -> (Audit, u64, u64) {
        self.drain(deadline_ns);
        let taken = self.senders().iter().map(|sender| sender.taken()).sum();
        let sent = self.counters().sent.get();
        (self.close(), taken, sent)
    }
}

impl<D: Discipline> FastSender for LockedSender<D> {
    fn burst(&self, capacity: usize) -> Burst {
        LockedSender::burst(self, capacity)
    }

    fn send(&mut self, burst: &mut Burst, count: usize, len_bytes: u32) -> Result<(), String> {
        let before = self.counters().dropped();
        match self.fill(burst, count, len_bytes) {
            Ok(_) => {}
            Err(PoolError::Exhausted { .. }) => std::thread::yield_now(),
            Err(error) => return Err(error.to_string()),
        }
        LockedSender::send(self, burst).map_err(|error| error.to_string())?;
        if self.counters().dropped() != before {
            // ENOBUFS: it yields, and tries the next one.
            std::thread::yield_now();
        }
        Ok(())
    }

    fn seen(&self) -> Seen {
        let seen = self.counters().clone();
        Box::new(move || [seen.taken(), seen.dropped(), seen.drained_packets.get()])
    }
}
