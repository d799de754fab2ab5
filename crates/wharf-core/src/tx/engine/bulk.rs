//! What goes to the device in one call: the bulk, within the batching switch's bounds and the byte limit's.

use super::{BULK_PACKETS_MAX, Source, TxEngine};
use crate::qdisc::Limit;

/// How many frames go to the device in one call: a switch per device, live.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Batching {
    /// As many as the byte limit allows.
    #[default]
    On,
    /// One packet, one call, one doorbell.
    Off,
    /// So many bytes, and one packet past them, within the byte limit.
    Bytes(u32),
}

impl Batching {
    /// Most packets and bytes (and one packet past them) in one call.
    pub(super) fn bounds(self) -> (usize, u64) {
        match self {
            Batching::On => (BULK_PACKETS_MAX, u64::MAX),
            Batching::Off => (1, u64::MAX),
            Batching::Bytes(bytes) => (BULK_PACKETS_MAX, bytes.into()),
        }
    }
}

impl TxEngine {
    /// The bounds of the next bulk, packets and bytes.
    #[inline(always)]
    fn bulk_bounds(&self) -> (usize, u64) {
        let (packets, bytes) = self.switch();
        (packets, self.netdev.room_bytes().unwrap_or(0).min(bytes))
    }

    /// What the batching switch bounds a bulk to.
    #[inline(always)]
    pub(super) fn switch(&self) -> (usize, u64) {
        // The build without the switch shows what the switch itself costs.
        if cfg!(feature = "unswitched-off") { (1, u64::MAX) } else { self.bounds }
    }

    /// Fills the empty batch with what may go in one call.
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

    /// Puts what lies beyond `bytes` (and one packet past them) of a bulk that passed by the qdisc into it.
    #[cold]
    fn refuse_beyond(&mut self, bytes: u64) {
        let keep = self.within(BULK_PACKETS_MAX, bytes);
        self.passing.append(&mut self.batch, keep);
        self.root.begin();
        self.root.enqueue(&mut self.batch);
        debug_assert!(self.batch.is_empty(), "an empty qdisc has storage for one bulk");
        std::mem::swap(&mut self.passing, &mut self.batch);
    }

    /// Moves what the source holds into the qdisc, as far as that has storage.
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

    /// What the device left last time goes first, in as many calls as today's bounds make of it.
    #[cold]
    pub(super) fn hand_requeued(&mut self) -> (u32, bool) {
        let (packets, bytes) = self.bulk_bounds();
        let count = self.within(packets, bytes);
        // The others wait aside, and stay behind what the device may leave of these.
        self.passing.append(&mut self.batch, count);
        self.behind.append(&mut self.batch, usize::MAX);
        std::mem::swap(&mut self.passing, &mut self.batch);
        let handed = self.netdev.hand(&mut self.batch);
        self.batch.append(&mut self.behind, usize::MAX);
        handed
    }

    /// How many frames of the batch make at most `packets`, and `bytes` with one packet past them.
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
