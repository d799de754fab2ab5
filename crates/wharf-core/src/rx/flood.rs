//! `Flood`: more comes than can be transmitted, and the device drops it before it is received.
//!
//! At millions of packets a second, to receive those that the discipline will drop takes most of a processor.
//! So drops are counted by flow, in buckets, and a device that can ([`RxDevice::thin`]) lets only a part of a
//! bucket through: four times what left of it, of which the discipline still chooses. A bucket of which
//! nothing is dropped passes whole, whatever comes beside it. A flow has a bucket in each of two rows, and
//! passes by the better one: to be thinned, a sparse flow would have to share both with heavy ones.

use crate::device::{Passes, RxDevice, THIN_BUCKETS};
use crate::tx::feeding::{Drops, Feeding, FeedingGuard, buckets_of, packets_of};
use std::sync::Arc;
use wharf_mem::{Frame, Region};

/// Time for which polls all spend their budget: what comes is more than can be transmitted, and no burst. It
/// is the interval in which CoDel lets a queue stand.
const FLOOD_NS: u64 = 100_000_000;
/// Time between two settings of what passes.
const SETTLE_NS: u64 = 20_000_000;
/// Packets that pass for each one that left, and at least in that time.
const FOR_EACH: u64 = 4;
const AT_LEAST: u64 = 4;
/// The least part that passes, of 2^32: it grows at most twofold each time.
const PASSES_MIN: u64 = 1 << 16;

/// See the module.
#[derive(Debug)]
pub(super) struct Flood {
    /// When the polls began that all spent their first budget: the receive ring has not been empty since.
    full_since_ns: Option<u64>,
    /// Its end, unless another poll spends its budget before, or something is dropped.
    until_ns: Option<u64>,
    settle_at_ns: u64,
    arrived: Box<[u32; THIN_BUCKETS]>,
    /// What of it was dropped.
    drops: Arc<Drops>,
    passes: Box<Passes>,
    /// True if the device has been told what to let through.
    is_told: bool,
}

impl Default for Flood {
    fn default() -> Self {
        let (arrived, passes) = (Box::new([0; THIN_BUCKETS]), Box::new([u32::MAX; THIN_BUCKETS]));
        let (full_since_ns, until_ns, settle_at_ns) = (None, None, 0);
        Self { full_since_ns, until_ns, settle_at_ns, arrived, drops: Arc::default(), passes, is_told: false }
    }
}

impl Flood {
    pub(super) fn is_on(&self, now_ns: impl FnOnce() -> u64) -> bool {
        self.until_ns.is_some_and(|ns| now_ns() < ns)
    }

    /// Begins a poll.
    pub(super) fn begin(&self, is_on: bool) -> FeedingGuard {
        self.drops.set_on(is_on);
        match is_on {
            true => Feeding::Flood.begin(Some(self.drops.clone())),
            false => Feeding::Arrivals.begin(None),
        }
    }

    /// Notes whether a poll has spent its budget, or a lane had no room for what came.
    pub(super) fn note_full(&mut self, is_full: bool, is_on: bool, now_ns: u64) {
        self.full_since_ns = is_full.then(|| self.full_since_ns.unwrap_or(now_ns));
        if is_full && (is_on || self.full_since_ns.is_some_and(|ns| now_ns.saturating_sub(ns) >= FLOOD_NS)) {
            self.until_ns = Some(now_ns + FLOOD_NS);
        }
    }

    /// Counts what has come, and sets from time to time what `device` lets through.
    #[cold]
    pub(super) fn settle(&mut self, device: &mut dyn RxDevice, came: &[Frame], region: &Region, now_ns: u64) {
        for frame in came {
            let packets = packets_of(frame, region);
            buckets_of(frame, region).into_iter().for_each(|bucket| self.arrived[bucket] += packets);
        }
        if now_ns < self.settle_at_ns {
            return;
        }
        self.settle_at_ns = now_ns + SETTLE_NS;
        let (mut has_dropped, mut is_thinned) = (false, false);
        for (bucket, arrived) in self.arrived.iter_mut().enumerate() {
            let (arrived, dropped) = (std::mem::take(arrived), self.drops.take(bucket));
            let most = (FOR_EACH * u64::from(arrived.saturating_sub(dropped))).max(AT_LEAST);
            let before = u64::from(self.passes[bucket]).max(PASSES_MIN);
            let after = (before * most / u64::from(arrived).max(1)).min(2 * before);
            self.passes[bucket] = u32::try_from(after).unwrap_or(u32::MAX);
            has_dropped |= dropped > 0;
            is_thinned |= after < u64::from(u32::MAX);
        }
        if has_dropped || is_thinned {
            self.until_ns = Some(now_ns + FLOOD_NS);
        }
        if is_thinned || self.is_told {
            self.is_told = device.thin(Some(&self.passes));
        }
        if !self.is_told {
            self.passes.fill(u32::MAX);
        }
    }

    /// Returns within which time the device is to be told again, if it has been told.
    pub(super) fn end_due_ns(&self) -> Option<u64> {
        self.is_told.then_some(FLOOD_NS)
    }

    /// Has `device` let everything through again, if that is not so.
    #[inline]
    pub(super) fn end(&mut self, device: &mut dyn RxDevice) {
        if std::mem::take(&mut self.is_told) {
            self.passes.fill(u32::MAX);
            device.thin(None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rx::tests::Long;

    #[test]
    fn a_device_that_thins_is_polled_within_the_time_of_a_flood() {
        let mut flood = Flood { is_told: true, ..Flood::default() };
        assert_eq!(flood.end_due_ns(), Some(FLOOD_NS), "nothing notifies of the end");
        flood.end(&mut Long::default());
        assert_eq!(flood.end_due_ns(), None);
    }
}
