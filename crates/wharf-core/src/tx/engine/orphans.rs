//! `Orphans`: releases senders of their charge when the device takes a frame, not when it completes it.
//!
//! A driver that frees sent frames at its next transmit cannot keep their senders charged: a sender that waits for
//! its last completions would wait for ever. So it *orphans* them (`skb_orphan` in Linux's
//! `drivers/net/virtio_net.c`, while `napi_tx` is off): the small-queue limit of a sender no longer bounds its frames
//! in the ring.

use super::{BULK_PACKETS_MAX, Sink};
use wharf_mem::Batch;

/// The senders charged for the frames handed over last, until they are released.
#[derive(Debug, Default)]
pub(super) struct Orphans {
    /// Sender and bytes of each frame in the batch to be handed over.
    offered: Vec<(u16, u32)>,
    /// Sender and bytes of each frame that the device took.
    taken: Vec<(u16, u32)>,
}

impl Orphans {
    /// Notes the senders of `batch` before it is handed over.
    pub(super) fn offer(&mut self, batch: &Batch) {
        self.offered.clear();
        self.offered.extend(batch.frames().iter().map(|frame| (frame.sender(), frame.len_bytes())));
    }

    /// Notes that the device took the first `count` frames.
    pub(super) fn taken(&mut self, count: usize) {
        self.taken.reserve(BULK_PACKETS_MAX);
        self.taken.extend(self.offered.drain(..count.min(self.offered.len())));
    }

    /// Releases the senders of the frames taken.
    pub(super) fn release(&mut self, sink: &mut impl Sink) {
        self.taken.drain(..).for_each(|(sender, bytes)| sink.release(sender, bytes));
    }
}

/// A sink for frames whose senders were released before.
pub(super) struct ReleasedSink<'a, S>(pub(super) &'a mut S);

impl<S: Sink> Sink for ReleasedSink<'_, S> {
    fn recycle(&mut self, done: &mut Batch) {
        self.0.recycle_released(done);
    }
}
