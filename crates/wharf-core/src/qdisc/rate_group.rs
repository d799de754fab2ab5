//! `RateGroup`: token buckets of several queues that share one rate, as `cake_mq` does it.
//!
//! Each queue looks every 200 us how many of the others have packets, or had some since its last look, and
//! takes the rate divided by that number. No lock, and no packet passes a place that all share. The split is
//! equal: what a queue does not use of its part is not used.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Time between two looks (`cake`: `sync_time`).
const LOOK_NS: u64 = 200_000;
/// Most queues of a group. Further ones take the part of one that sees all others and is not seen.
const MEMBERS_MAX: usize = 256;
/// States of a member, besides the time at which it last had packets: no member, none had yet, it has some.
const FREE: u64 = 0;
const NEVER: u64 = 1;
const NOW: u64 = u64::MAX;

/// Token buckets that share one rate: see [`Tbf::in_group`](super::Tbf::in_group).
#[derive(Debug, Clone)]
pub struct RateGroup(Arc<[AtomicU64]>);

impl Default for RateGroup {
    fn default() -> Self {
        Self((0..MEMBERS_MAX).map(|_| AtomicU64::new(FREE)).collect())
    }
}

/// One of the buckets.
#[derive(Debug)]
pub(super) struct Member {
    group: RateGroup,
    place: Option<usize>,
    looked_ns: u64,
    /// Members that were active at the last look, this one included.
    pub(super) parts: u64,
}

impl Member {
    pub(super) fn of(group: &RateGroup) -> Self {
        let take = |member: &AtomicU64| member.compare_exchange(FREE, NEVER, Relaxed, Relaxed).is_ok();
        Self { place: group.0.iter().position(take), group: group.clone(), looked_ns: NEVER, parts: 1 }
    }

    /// Counts the active members, if it is time to look. Returns true if their number has changed.
    pub(super) fn look(&mut self, now_ns: u64) -> bool {
        if now_ns.saturating_sub(self.looked_ns) < LOOK_NS {
            return false;
        }
        let others = self.group.0.iter().enumerate().filter(|(at, _)| Some(*at) != self.place);
        let active = others.filter(|(_, member)| member.load(Relaxed) > self.looked_ns).count();
        self.looked_ns = now_ns.max(NEVER);
        let parts = 1 + active as u64;
        std::mem::replace(&mut self.parts, parts) != parts
    }

    /// Notes that it has no packets any more though none has left: they were dropped, by now, or taken out,
    /// at 0.
    pub(super) fn rest(&self, now_ns: u64) {
        if self.place.is_some_and(|place| self.group.0[place].load(Relaxed) == NOW) {
            self.note(now_ns, false);
        }
    }

    /// Notes whether it has packets after some have left.
    pub(super) fn note(&self, now_ns: u64, has_packets: bool) {
        if let Some(place) = self.place {
            self.group.0[place].store(if has_packets { NOW } else { now_ns.max(NEVER) }, Relaxed);
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            self.group.0[place].store(FREE, Relaxed);
        }
    }
}
