//! The bulk: the frames that go to the device in one call, within the bounds of the batching switch and the byte
//! limit.

use super::{BULK_PACKETS_MAX, Source, TxEngine};
use crate::qdisc::Limit;

/// The batching switch: the bound of one call to the device. It may change under traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Batching {
    /// All frames within the byte limit.
    #[default]
    On,
    /// One packet, one call, one doorbell.
    Off,
    /// This number of bytes, with one packet past them, within the byte limit.
    Bytes(u32),
}

impl Batching {
    /// Returns the most packets, and the most bytes (with one packet past them), in one call.
    pub(super) fn bounds(self) -> (usize, u64) {
        match self {
            Batching::On => (BULK_PACKETS_MAX, u64::MAX),
            Batching::Off => (1, u64::MAX),
            Batching::Bytes(bytes) => (BULK_PACKETS_MAX, bytes.into()),
        }
    }
}

impl TxEngine {
    /// Returns the bounds of the next bulk: packets and bytes.
    #[inline(always)]
    fn bulk_bounds(&self) -> (usize, u64) {
        let (packets, bytes) = self.switch();
        let (room_packets, room_bytes) = self.netdev.limit.room().unwrap_or((packets, 0));
        (packets.min(room_packets), bytes.min(room_bytes))
    }

    /// Returns the batching switch's bounds of a bulk.
    #[inline(always)]
    pub(super) fn switch(&self) -> (usize, u64) {
        // The build without the switch shows what the switch itself costs.
        if cfg!(feature = "unswitched-off") { (1, u64::MAX) } else { self.bounds }
    }

    /// Fills the empty batch with the frames that may go in one call.
    #[inline]
    pub(super) fn dequeue_bulk(&mut self, source: &mut impl Source, packets: usize) {
        let (packets_max, bytes) = self.bulk_bounds();
        let packets = packets.min(packets_max);
        if self.bypass && self.root.held() == 0 {
            let pulled = source.pull(&mut self.batch, packets);
            self.netdev.counters.accepted.add(pulled as u64);
            if pulled > 1 && self.batch.bytes() > bytes {
                self.refuse_beyond(bytes);
            }
        } else {
            self.absorb(source);
            self.root.dequeue(&mut self.batch, Limit { packets, bytes });
        }
    }

    /// Moves the frames beyond `bytes` (with one packet past them) of a bulk that passed by the qdisc into the qdisc.
    #[cold]
    fn refuse_beyond(&mut self, bytes: u64) {
        let keep = self.within(BULK_PACKETS_MAX, bytes);
        self.passing.append(&mut self.batch, keep);
        self.root.begin();
        self.root.enqueue(&mut self.batch);
        debug_assert!(self.batch.is_empty(), "an empty qdisc has storage for one bulk");
        std::mem::swap(&mut self.passing, &mut self.batch);
    }

    /// Moves the source's frames into the qdisc, as far as it has storage.
    pub(super) fn absorb(&mut self, source: &mut impl Source) {
        self.root.begin();
        while !source.is_empty() {
            let pulled = source.pull(&mut self.passing, self.root.storage().min(BULK_PACKETS_MAX));
            if pulled == 0 {
                return;
            }
            self.netdev.counters.accepted.add(pulled as u64);
            self.root.enqueue(&mut self.passing);
            debug_assert!(self.passing.is_empty(), "the qdisc said that it had storage");
        }
    }

    /// Hands over frames that the device left last time, as many as the present bounds allow.
    #[cold]
    pub(super) fn hand_requeued(&mut self) -> (u32, bool) {
        let (packets, bytes) = self.bulk_bounds();
        let count = self.within(packets, bytes);
        // The others wait aside, behind those that the device may leave of these.
        self.passing.append(&mut self.batch, count);
        self.behind.append(&mut self.batch, usize::MAX);
        std::mem::swap(&mut self.passing, &mut self.batch);
        let handed = self.hand_batch();
        self.batch.append(&mut self.behind, usize::MAX);
        handed
    }

    /// Returns the number of frames at the front of the batch within `packets`, and within `bytes` with one packet
    /// past them.
    fn within(&self, packets: usize, bytes: u64) -> usize {
        let (mut keep, mut kept_bytes) = (0, 0);
        for frame in self.batch.frames().iter().take(packets) {
            if keep > 0 && kept_bytes >= bytes {
                break;
            }
            keep += 1;
            kept_bytes += u64::from(frame.len_bytes());
        }
        keep
    }
}
