//! `Feeding`: what a thread that polls a receive queue has its sends do. `Slice`: how much a poller transmits
//! before it receives again.
//!
//! A sender on an idle queue transmits at once. If a handler of arrivals did so under overload, nothing would
//! be received meanwhile, and what arrives would stand in the receive ring, whose tail drops whichever flow
//! comes. So its packets go into the discipline, which orders and drops them, and the queue's poller
//! transmits them in slices that are short by the clock (the kernel weighs the two by `dev_weight_rx_bias`
//! and `dev_weight_tx_bias`).

use crate::device::{THIN_BUCKETS, thin_bucket};
use std::cell::Cell;
use std::ops::RangeInclusive;
use wharf_mem::{Frame, Region};

/// What the calling thread does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Feeding {
    /// It handles no arrivals: its sends transmit.
    Nothing,
    /// It handles arrivals: a queue whose discipline holds packets takes further ones, and its poller
    /// transmits.
    Arrivals,
    /// So many arrive that each queue does so.
    Flood,
}

thread_local! {
    static NOW: Cell<Feeding> = const { Cell::new(Feeding::Nothing) };
    /// What the flood that the thread handles counts its drops in.
    static DROPS: Cell<Option<Drops>> = const { Cell::new(None) };
}

/// Packets of one receive queue that were dropped for lack of room in a flood, by bucket.
pub(crate) type Drops = Box<[u32; THIN_BUCKETS]>;

/// Returns the bucket of a packet.
pub(crate) fn bucket_of(frame: &Frame, region: &Region) -> usize {
    thin_bucket(region.bytes(frame).unwrap_or_default())
}

/// Notes packets that are dropped for lack of room, if a flood is why.
pub(crate) fn note_drops(frames: &[Frame], region: &Region) {
    if Feeding::now() == Feeding::Flood {
        with_drops(|drops| frames.iter().for_each(|frame| drops[bucket_of(frame, region)] += 1));
    }
}

/// Has the calling thread count drops in `drops`, and puts what it counted in before there.
pub(crate) fn swap_drops(drops: &mut Option<Drops>) {
    *drops = DROPS.replace(drops.take());
}

/// Shows to `see` what the calling thread counts drops in.
pub(crate) fn with_drops(see: impl FnOnce(&mut Drops)) {
    let mut drops = DROPS.take();
    drops.as_mut().map(see);
    DROPS.set(drops);
}

impl Feeding {
    #[inline(always)]
    pub(crate) fn now() -> Self {
        NOW.get()
    }

    /// Says what the calling thread does until the guard is dropped.
    pub(crate) fn begin(self) -> FeedingGuard {
        FeedingGuard(NOW.replace(self))
    }
}

/// Restores what the thread did before.
#[derive(Debug)]
pub(crate) struct FeedingGuard(Feeding);

impl Drop for FeedingGuard {
    fn drop(&mut self) {
        NOW.set(self.0);
    }
}

/// Times that a slice may take. A ring of 2048 frames lasts for 400 us at 5 million packets a second. In
/// slices of 100 us a packet cost half as much again: receiving in between takes the consumer's part of the
/// cache.
const SLICE_NS: RangeInclusive<u64> = 400_000..=1_000_000;
/// Packets of the first slice.
const FIRST_PACKETS: u32 = 64;
/// Part of the time since the last slice that the next one may take in any case: receiving does not starve
/// it.
const SHARE: u64 = 4;

/// The packets that a poller transmits at a time while handlers of arrivals feed the queue.
#[derive(Debug)]
pub(crate) struct Slice {
    packets: u32,
    is_fed: bool,
    began_ns: u64,
    ended_ns: u64,
}

impl Default for Slice {
    fn default() -> Self {
        Self { packets: FIRST_PACKETS, is_fed: false, began_ns: 0, ended_ns: 0 }
    }
}

impl Slice {
    /// Notes that a handler has left packets to the poller.
    pub(crate) fn feed(&mut self) {
        self.is_fed = true;
    }

    /// Begins a slice. Returns its most packets; `None` while no handler feeds the queue.
    pub(crate) fn begin(&mut self, now_ns: impl FnOnce() -> u64) -> Option<u32> {
        if !self.is_fed {
            return None;
        }
        self.began_ns = now_ns();
        Some(self.packets)
    }

    /// Notes that `sent` packets have been transmitted by now, and whether packets are left. Returns the time
    /// that it took.
    pub(crate) fn end(&mut self, sent: u32, now_ns: u64, is_left: bool) -> u64 {
        let took_ns = now_ns.saturating_sub(self.began_ns);
        let before_ns = self.began_ns.saturating_sub(self.ended_ns);
        let may_take_ns = (before_ns / SHARE).clamp(*SLICE_NS.start(), *SLICE_NS.end());
        if took_ns > may_take_ns {
            self.packets = (self.packets.min(sent) / 2).max(1);
        } else if sent >= self.packets && took_ns < may_take_ns / 2 {
            self.packets *= 2;
        }
        (self.is_fed, self.ended_ns) = (is_left, now_ns);
        took_ns
    }
}
