//! One direction, while it runs and when it is over.

use super::Leaving;
use super::pass::Counts;
use crate::link::GONE;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use wharf_core::device::DeviceError;
use wharf_core::pool::Audit;
use wharf_core::queue::TxQueue;
use wharf_core::receive::RxQueue;
use wharf_core::sender::DROP_TAIL;

/// One direction: what arrives at one end, and the queue that it leaves by at the other.
#[derive(Debug)]
pub struct Direction {
    from: String,
    to: String,
    leaving: Leaving,
    receiver: RxQueue,
    counts: Arc<Counts>,
    /// The device is that of the other direction's queue.
    pub(super) is_of_queue: bool,
}

/// What came of a direction. Every frame received is accounted for:
/// `received - cut + pieces = accepted by the queue + dropped before it + returned`.
#[derive(Debug)]
pub struct Summary {
    /// The end that frames came from.
    pub from: String,
    /// The end that they left by.
    pub to: String,
    /// Its queue: it is shut down, and its counters stand.
    pub queue: TxQueue,
    /// Whether that has a byte queue limit.
    pub has_bql: bool,
    /// Frames received.
    pub received: u64,
    /// Super-packets that were cut before the queue, and their pieces that went on.
    pub cut: u64,
    /// See `cut`.
    pub pieces: u64,
    /// Frames that were received and came back unsent at the end: from before the queue, and from within.
    pub returned: u64,
    /// Frames lost, by reason: where they arrive, before the queue, within, and where they leave.
    pub drops: BTreeMap<String, u64>,
    /// From the first frames received to the last, or to when frames were last seen to have left: see
    /// [`Direction::note_departures`].
    pub span_ns: u64,
    /// The same without pauses: a second and more in which nothing moved, and nothing was inside. What rates are over.
    pub active_ns: u64,
    /// What the devices said as they closed.
    pub errors: Vec<DeviceError>,
    /// The memory at the end.
    pub audit: Audit,
    counts: Arc<Counts>,
    /// Where it arrives.
    receive_drops: BTreeMap<String, u64>,
}

impl Direction {
    pub(super) fn new(
        [from, to]: [String; 2], leaving: Leaving, receiver: RxQueue, counts: Arc<Counts>, is_of_queue: bool,
    ) -> Self {
        Self { from, to, leaving, receiver, counts, is_of_queue }
    }

    /// The end that frames come from.
    pub fn from(&self) -> &str {
        &self.from
    }

    /// The end that they leave by.
    pub fn to(&self) -> &str {
        &self.to
    }

    /// Its queue.
    pub fn queue(&self) -> &TxQueue {
        &self.leaving.queue
    }

    /// Whether that has a byte queue limit.
    pub fn has_bql(&self) -> bool {
        self.leaving.has_bql
    }

    /// Where they arrive.
    pub fn receiver(&self) -> &RxQueue {
        &self.receiver
    }

    /// Frames lost so far, by reason. Asks the devices: not for every packet.
    pub fn drops(&self) -> BTreeMap<String, u64> {
        all_drops(receive_drops(&self.receiver), self.queue(), &self.counts)
    }

    /// Why nothing can leave by it for good, where that is so: what it leaves by has been found to be gone.
    pub fn gone(&self) -> Option<String> {
        let counters = self.queue().counters();
        let is_gone =
            counters.lost.get() > 0 && counters.failures().iter().any(|&(reason, _)| reason == GONE);
        is_gone.then(|| counters.last_error().unwrap_or_else(|| format!("{}: gone", self.to)))
    }

    /// Notes that frames have left since it was called last, if any have: what a discipline keeps back leaves long after it came,
    /// and belongs to the time that a rate is over. To be called now and then by whoever supervises.
    pub fn note_departures(&self) {
        let counters = self.queue().counters();
        let gone = counters.sent.get() + counters.failed.get() + counters.returned.get();
        self.counts.departed(counters.packets.get(), counters.accepted.get() > gone);
    }

    /// Whether nothing will arrive any more, and all that has was taken over.
    pub(super) fn is_over(&self) -> bool {
        self.receiver.has_ended() && self.counts.waiting.load(Relaxed) == 0
    }

    /// Sends what is inside until `deadline_ns` of the host's clock; what has not left by then comes back.
    pub(super) fn drain(&self, deadline_ns: u64) {
        self.note_departures();
        let _ = self.queue().drain(deadline_ns);
        self.note_departures();
    }

    /// Closes the receive side. Nobody polls any more; the queue is still to be shut down.
    pub(super) fn close(self) -> Summary {
        let Self { from, to, leaving: Leaving { queue, has_bql }, receiver, counts, .. } = self;
        let receive_drops = receive_drops(&receiver);
        let errors = [receiver.take_error(), receiver.close().err()].into_iter().flatten().collect();
        let (received, audit) = (receiver.received(), queue.pool().audit());
        let (span_ns, active_ns) = (counts.span_ns(), counts.active_ns());
        let (cut, pieces) = (counts.cut.load(Relaxed), counts.pieces.load(Relaxed));
        let drops = BTreeMap::new();
        let returned = 0;
        Summary {
            from,
            to,
            queue,
            has_bql,
            received,
            cut,
            pieces,
            returned,
            drops,
            span_ns,
            active_ns,
            errors,
            audit,
            counts,
            receive_drops,
        }
    }
}

impl Summary {
    /// Takes stock, once the queues of all that share the memory are shut down.
    pub(super) fn settle(&mut self) {
        self.audit = self.queue.audit();
        self.returned = self.queue.counters().returned.get() + self.counts.waiting.load(Relaxed);
        self.drops = all_drops(std::mem::take(&mut self.receive_drops), &self.queue, &self.counts);
    }

    /// What is missing in the account, if anything: frames received that are neither sent, dropped, nor returned.
    pub fn missing(&self) -> Option<String> {
        let counters = self.queue.counters();
        let (sent, failed) = (counters.sent.get(), counters.failed.get());
        let before = self.at_senders() + self.counts.refused.load(Relaxed);
        (self.received + self.pieces != self.cut + sent + failed + before + self.returned).then(|| {
            format!(
                "the account does not add up: {} packets received, of which {} were cut into {}, but {sent} sent, {failed} failed, {before} dropped before the queue and {} returned",
                self.received, self.cut, self.pieces, self.returned
            )
        })
    }

    fn at_senders(&self) -> u64 {
        at_senders(&self.queue)
    }
}

fn receive_drops(receiver: &RxQueue) -> BTreeMap<String, u64> {
    let mut drops = BTreeMap::new();
    receiver.drops(&mut |reason, count| add(&mut drops, reason, count));
    drops
}

/// Those where frames arrive, before the queue, within it, and where they leave.
fn all_drops(mut drops: BTreeMap<String, u64>, queue: &TxQueue, counts: &Counts) -> BTreeMap<String, u64> {
    add(&mut drops, DROP_TAIL, at_senders(queue));
    add(&mut drops, "closed", counts.refused.load(Relaxed));
    queue.counters().failures().into_iter().for_each(|(reason, count)| add(&mut drops, reason, count));
    drops
}

fn add(drops: &mut BTreeMap<String, u64>, reason: &str, count: u64) {
    if count > 0 {
        *drops.entry(reason.into()).or_default() += count;
    }
}

fn at_senders(queue: &TxQueue) -> u64 {
    let live: u64 = queue.senders().iter().map(|sender| sender.drops.get()).sum();
    live + queue.past_senders().drops.get()
}
