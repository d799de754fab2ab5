//! `Inbox`: the packets of a receiver that the poller has received and the receiver has not taken, and the handlers that
//! fill one inbox, or several by flow.
//!
//! Invariant: each packet received is in one inbox, was taken by its receiver, or counts as dropped by reason. Several
//! inboxes together hold at most half of the pool, so that a receiver that is slow keeps no other from receiving. The
//! lock of an inbox is taken once per burst, by the poller and by the receiver.

use super::{Handler, Rest};
use crate::host::Wake;
use crate::metrics::{Row, Walk};
use crate::pool::{Burst, PagePool};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use wharf_mem::batch::BATCH_FRAMES_MAX;
use wharf_mem::{Batch, Frame, lock};

/// The reason of packets whose receiver was gone.
pub(super) const RECEIVER_GONE: &str = "receiver-gone";
const TAKEN: Row = Row::counter("wharf_receiver_taken", "packets", "Packets that the receiver has taken.");
const BACKLOG: Row =
    Row::gauge("wharf_receiver_backlog_packets", "packets", "Packets that wait for the receiver.");
const DROPS: Row = Row::counter(
    "wharf_receiver_drops",
    "packets",
    "Packets dropped since the receiver had no room or was gone, by reason.",
);

/// Packets received and not taken yet.
#[derive(Debug)]
pub(super) struct Inbox {
    burst: Burst,
    /// Packets that the burst has no room for. The burst is not empty unless they are.
    behind: VecDeque<Frame>,
    behind_bytes: u64,
    packets_max: usize,
    /// Its share of the pool: the most packets that may be set, and the most bytes inside, as frames.
    share_packets: usize,
    /// The poller holds packets for which there was no room.
    is_full: bool,
    /// The receiver is gone: packets that come are freed.
    is_closed: bool,
    /// Wakes the receiver when there is news: packets, an error, the end.
    pub(super) waiting: Option<Arc<dyn Wake>>,
    taken: u64,
    full_drops: u64,
    gone_drops: u64,
}

impl Drop for Inbox {
    fn drop(&mut self) {
        // A burst frees its packets; those behind it are frames.
        self.close();
    }
}

impl Inbox {
    fn new(pool: &PagePool, packets_max: usize, share_packets: usize) -> Arc<Mutex<Self>> {
        Arc::new(Mutex::new(Self {
            burst: pool.burst(BATCH_FRAMES_MAX),
            behind: VecDeque::new(),
            behind_bytes: 0,
            packets_max,
            share_packets,
            is_full: false,
            is_closed: false,
            waiting: None,
            taken: 0,
            full_drops: 0,
            gone_drops: 0,
        }))
    }

    /// Makes an inbox, and the handler that fills it. Packets without room stay with the poller.
    pub(super) fn one(pool: &PagePool) -> (Vec<Arc<Mutex<Self>>>, Handler) {
        let share_packets = (pool.frames() as usize / 2).max(BATCH_FRAMES_MAX);
        let inbox = Self::new(pool, BATCH_FRAMES_MAX, share_packets);
        let mine = inbox.clone();
        (vec![inbox], Box::new(move |burst: &mut Burst| lock(&mine).put(burst)))
    }

    /// Makes `count` inboxes and the handler that puts each packet into that of number `by(bytes) % count`.
    /// Packets without room are dropped.
    pub(super) fn several(
        pool: &PagePool, count: usize, mut by: impl FnMut(&[u8]) -> u64 + Send + 'static,
    ) -> (Vec<Arc<Mutex<Self>>>, Handler) {
        let share_packets = pool.frames() as usize / (2 * count);
        let packets_max = share_packets.min(BATCH_FRAMES_MAX);
        let inboxes: Vec<_> = (0..count).map(|_| Self::new(pool, packets_max, share_packets)).collect();
        let mut sorted: Vec<_> = (0..count).map(|_| pool.burst(BATCH_FRAMES_MAX)).collect();
        let mine = inboxes.clone();
        let handler = move |burst: &mut Burst| {
            // First, so that all packets are still in the burst if the user's function panics.
            let mut numbers = [0; BATCH_FRAMES_MAX];
            let region = burst.pool().region();
            for (number, frame) in numbers.iter_mut().zip(burst.frames()) {
                *number = (by(region.bytes(frame).unwrap_or_default()) % count as u64) as usize;
            }
            for number in numbers {
                let Some(frame) = burst.batch_mut().pop() else { break };
                sorted[number].batch_mut().push_within(frame);
            }
            for (inbox, packets) in mine.iter().zip(&mut sorted).filter(|(_, packets)| !packets.is_empty()) {
                lock(inbox).put_or_drop(packets.batch_mut());
                burst.batch_mut().append(packets.batch_mut(), usize::MAX);
            }
            Rest::Free
        };
        (inboxes, Box::new(handler))
    }

    /// Takes the packets that there is room for. Returns the treatment of the others.
    fn put(&mut self, burst: &mut Burst) -> Rest {
        if self.is_closed {
            self.gone_drops += burst.len() as u64;
            return Rest::Free;
        }
        self.add(burst.batch_mut(), usize::MAX);
        self.is_full = !burst.is_empty();
        if self.is_full { Rest::Again } else { Rest::Free }
    }

    /// Takes the packets that there is room for. Counts the others, which the caller frees.
    fn put_or_drop(&mut self, packets: &mut Batch) {
        if self.is_closed {
            self.gone_drops += packets.len() as u64;
            return;
        }
        let bytes_max = self.share_packets as u64 * u64::from(self.burst.pool().region().data_bytes_max());
        let bytes = self.burst.batch_mut().bytes() + self.behind_bytes;
        let mut room_bytes = bytes_max.saturating_sub(bytes);
        let fits = |&len_bytes: &u32| {
            let left = room_bytes.checked_sub(len_bytes.into());
            room_bytes = left.unwrap_or(0);
            left.is_some()
        };
        let lengths = packets.frames().iter().map(|frame| frame.len_bytes());
        let fitting = lengths.take_while(fits).count();
        self.add(packets, fitting);
        self.full_drops += packets.len() as u64;
    }

    /// Moves up to `most` packets to the back, as far as there is room.
    fn add(&mut self, from: &mut Batch, most: usize) {
        let mut most = most.min(self.packets_max.saturating_sub(self.len()));
        if self.behind.is_empty() {
            most -= self.burst.batch_mut().append(from, most);
        }
        if most > 0 && !from.is_empty() {
            self.add_behind(from, most);
        }
    }

    #[cold]
    fn add_behind(&mut self, from: &mut Batch, most: usize) {
        for frame in (0..most).map_while(|_| from.pop()) {
            self.behind_bytes += u64::from(frame.len_bytes());
            self.behind.push_back(frame);
        }
    }

    /// Moves packets from behind into the burst.
    #[cold]
    fn move_up(&mut self) {
        let Self { burst, behind, behind_bytes, .. } = self;
        burst
            .batch_mut()
            .fill_by(|| behind.pop_front().inspect(|frame| *behind_bytes -= u64::from(frame.len_bytes())));
    }

    /// Sets the most packets inside, within its share of the pool.
    pub(super) fn set_packets_max(&mut self, packets: usize) {
        self.packets_max = packets.min(self.share_packets).max(1);
        self.behind.reserve(self.packets_max.saturating_sub(BATCH_FRAMES_MAX));
    }

    /// Returns the number of packets inside.
    fn len(&self) -> usize {
        self.burst.len() + self.behind.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.burst.is_empty()
    }

    /// Returns the number of the pool of its packets.
    pub(super) fn pool_number(&self) -> u8 {
        self.burst.number()
    }

    /// Moves packets to the back of `into`. Returns their number, and true if the poller has more.
    pub(super) fn take(&mut self, into: &mut Burst) -> (usize, bool) {
        let mut count = into.batch_mut().append(self.burst.batch_mut(), usize::MAX);
        while !self.behind.is_empty() && self.burst.is_empty() {
            self.move_up();
            count += into.batch_mut().append(self.burst.batch_mut(), usize::MAX);
        }
        self.taken += count as u64;
        (count, count > 0 && std::mem::take(&mut self.is_full))
    }

    /// Frees the packets inside, and those that come from now on.
    pub(super) fn close(&mut self) {
        self.gone_drops += self.len() as u64;
        self.burst.clear();
        while !self.behind.is_empty() {
            self.move_up();
            self.burst.clear();
        }
        self.is_closed = true;
    }

    /// Shows the packets dropped, by reason.
    pub(super) fn drops(&self, see: &mut dyn FnMut(&'static str, u64)) {
        self.by_reason()
            .into_iter()
            .filter(|(_, count)| *count > 0)
            .for_each(|(reason, count)| see(reason, count));
    }

    /// Returns the number of packets that the receiver has taken.
    pub(super) fn taken(&self) -> u64 {
        self.taken
    }

    /// True if the receiver is gone.
    pub(super) fn is_closed(&self) -> bool {
        self.is_closed
    }

    fn by_reason(&self) -> [(&'static str, u64); 2] {
        [("inbox-full", self.full_drops), (RECEIVER_GONE, self.gone_drops)]
    }

    /// Returns what shows its metrics as of now, without its lock: a walk calls the program.
    pub(super) fn measured(&self) -> impl Fn(&mut Walk<'_>) + use<> {
        let (taken, waiting, reasons) = (self.taken, self.len() as u64, self.by_reason());
        move |walk| {
            walk.show(TAKEN, taken);
            walk.show(BACKLOG, waiting);
            walk.by_reason(DROPS, &reasons);
        }
    }
}
