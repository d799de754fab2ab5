//! `Orphans`: frames whose senders are charged for them only until the device has them.
//!
//! A driver that frees sent frames when it next transmits cannot keep their senders charged: one that waits for its
//! last frames would wait for ever. So it *orphans* them (`skb_orphan` in Linux's `drivers/net/virtio_net.c`, while
//! `napi_tx` is off): what a sender may have inside no longer bounds what it has in the ring.

use super::{BULK_PACKETS_MAX, Sink};
use wharf_mem::Batch;

/// Who is charged for the frames that were handed over last, until they are released.
#[derive(Debug, Default)]
pub(super) struct Orphans {
    /// Sender and bytes of each frame in the batch on offer.
    offered: Vec<(u16, u32)>,
    /// Of those that the device took.
    taken: Vec<(u16, u32)>,
}

impl Orphans {
    /// Before `batch` is handed over.
    pub(super) fn offer(&mut self, batch: &Batch) {
        self.offered.clear();
        self.offered.extend(batch.frames().iter().map(|frame| (frame.sender(), frame.len_bytes())));
    }

    /// The device has taken the first `count` of them.
    pub(super) fn taken(&mut self, count: usize) {
        self.taken.reserve(BULK_PACKETS_MAX);
        self.taken.extend(self.offered.drain(..count.min(self.offered.len())));
    }

    /// Tells `sink` whose they are.
    pub(super) fn release(&mut self, sink: &mut impl Sink) {
        self.taken.drain(..).for_each(|(sender, bytes)| sink.release(sender, bytes));
    }
}

/// A sink of frames that were released before.
pub(super) struct ReleasedSink<'a, S>(pub(super) &'a mut S);

impl<S: Sink> Sink for ReleasedSink<'_, S> {
    fn recycle(&mut self, done: &mut Batch) {
        self.0.recycle_released(done);
    }
}
