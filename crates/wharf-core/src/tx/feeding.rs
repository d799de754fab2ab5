//! `Feeding`: what a thread that polls a receive queue has its sends do. `Slice`: how much a poller transmits
//! before it receives again.
//!
//! A sender on an idle queue transmits at once. If a handler of arrivals did so under overload, nothing would
//! be received meanwhile, and what arrives would stand in the receive ring, whose tail drops whichever flow
//! comes. So its packets go into the discipline, which orders and drops them, and the queue's poller
//! transmits them in slices that are short by the clock (the kernel weighs the two by `dev_weight_rx_bias`
//! and `dev_weight_tx_bias`).

use crate::device::{THIN_BUCKETS, THIN_ROWS, thin_buckets};
use crate::qdisc::wire_packets;
use std::cell::Cell;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
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
    static DROPS: Cell<Option<Arc<Drops>>> = const { Cell::new(None) };
    /// A sender has held packets back for lack of room in its lane.
    static HELD: Cell<bool> = const { Cell::new(false) };
}

/// Packets of one receive queue that were dropped for lack of room in a flood, by bucket. Whichever thread
/// drops them counts.
#[derive(Debug)]
pub(crate) struct Drops {
    counts: Box<[AtomicU32; THIN_BUCKETS]>,
    is_on: AtomicBool,
}

impl Default for Drops {
    fn default() -> Self {
        let counts = Box::new([const { AtomicU32::new(0) }; THIN_BUCKETS]);
        Self { counts, is_on: AtomicBool::new(false) }
    }
}

impl Drops {
    /// True during the flood.
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Relaxed)
    }

    pub(crate) fn set_on(&self, is_on: bool) {
        if self.is_on() != is_on {
            self.is_on.store(is_on, Relaxed);
        }
    }

    /// Returns the drops of `bucket` since the last call.
    pub(crate) fn take(&self, bucket: usize) -> u32 {
        let count = &self.counts[bucket];
        if count.load(Relaxed) == 0 { 0 } else { count.swap(0, Relaxed) }
    }

    pub(crate) fn add(&self, frames: &[Frame], region: &Region) {
        for frame in frames {
            let packets = packets_of(frame, region);
            for bucket in buckets_of(frame, region) {
                self.counts[bucket].fetch_add(packets, Relaxed);
            }
        }
    }
}

/// Returns the buckets of a packet.
pub(crate) fn buckets_of(frame: &Frame, region: &Region) -> [usize; THIN_ROWS] {
    thin_buckets(region.bytes(frame).unwrap_or_default())
}

/// Returns the packets that a frame counts as: a super-packet may be cut before it is dropped.
pub(crate) fn packets_of(frame: &Frame, region: &Region) -> u32 {
    wire_packets(frame, region) as u32
}

/// Notes packets that are dropped for lack of room, if a flood that this thread handles is why.
pub(crate) fn note_drops(frames: &[Frame], region: &Region) {
    if let Some(drops) = drops() {
        drops.add(frames, region);
    }
}

/// Returns what the flood that this thread handles counts its drops in.
pub(crate) fn drops() -> Option<Arc<Drops>> {
    let drops = DROPS.take();
    DROPS.set(drops.clone());
    drops
}

/// Notes that a sender holds packets back for lack of room in its lane, and that no band is full.
pub(crate) fn note_held() {
    HELD.set(true);
}

/// Returns whether one has since the last call.
pub(crate) fn take_held() -> bool {
    HELD.take()
}

impl Feeding {
    #[inline(always)]
    pub(crate) fn now() -> Self {
        NOW.get()
    }

    /// Says what the calling thread does, and what it counts drops in, until the guard is dropped.
    pub(crate) fn begin(self, drops: Option<Arc<Drops>>) -> FeedingGuard {
        FeedingGuard(NOW.replace(self), DROPS.replace(drops))
    }
}

/// Restores what the thread did before.
#[derive(Debug)]
pub(crate) struct FeedingGuard(Feeding, Option<Arc<Drops>>);

impl Drop for FeedingGuard {
    fn drop(&mut self) {
        NOW.set(self.0);
        DROPS.set(self.1.take());
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
    /// that it took. A run that goes on after this has begun another slice.
    pub(crate) fn end(&mut self, sent: u32, now_ns: u64, is_left: bool) -> u64 {
        let took_ns = now_ns.saturating_sub(self.began_ns);
        let before_ns = self.began_ns.saturating_sub(self.ended_ns);
        let may_take_ns = (before_ns / SHARE).clamp(*SLICE_NS.start(), *SLICE_NS.end());
        if took_ns > may_take_ns {
            self.packets = (self.packets.min(sent) / 2).max(1);
        } else if sent >= self.packets && took_ns < may_take_ns / 2 {
            self.packets *= 2;
        }
        (self.is_fed, self.ended_ns, self.began_ns) = (is_left, now_ns, now_ns);
        took_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::PagePool;
    use wharf_mem::{Batch, Meta};
    use wharf_packet::gso::GSO_TCPV4;

    #[test]
    fn a_super_packet_counts_as_its_segments() {
        let pool = PagePool::builder().frames(4).huge_pages(false).build().unwrap();
        let (mut cache, mut batch) = (pool.cache("test").unwrap(), Batch::new(1));
        cache.take(&mut batch, 1, 54 + 1000).unwrap();
        let (frame, drops) = (&mut batch.frames_mut()[0], Drops::default());
        pool.region().bytes_mut(frame).unwrap()[34 + 12] = 5 << 4;
        let (gso_kind, needs_checksum) = (GSO_TCPV4, true);
        let meta = Meta {
            gso_bytes: 100,
            gso_kind,
            needs_checksum,
            checksum_start: 34,
            checksum_offset: 16,
            ..Meta::default()
        };
        pool.region().set_meta(frame, &meta).unwrap();
        drops.add(batch.frames(), pool.region());
        assert_eq!((0..THIN_BUCKETS).map(|bucket| drops.take(bucket)).sum::<u32>(), 10 * THIN_ROWS as u32);
        cache.give(&mut batch).unwrap();
    }

    #[test]
    fn a_slice_that_ends_twice_is_counted_once() {
        let mut slice = Slice::default();
        slice.feed();
        assert_eq!(slice.begin(|| 1_000), Some(FIRST_PACKETS));
        assert_eq!(slice.end(10, 5_000, true), 4_000);
        assert_eq!(slice.end(1, 6_000, false), 1_000, "since the first end");
        assert_eq!(slice.begin(|| 7_000), None);
    }
}
