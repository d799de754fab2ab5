//! `QdiscContext`: what a discipline can ask, and do, in a call.

use super::{wire_bytes, wire_packets};
use crate::counters;
use crate::host::Clock;
use wharf_mem::{Frame, Meta, Region, Times};
use wharf_packet::{flow_hash_seeded, mark_ce};

/// Age from which on a time stamp is no arrival's but that of a record in a capture.
const STAMP_AGE_NS_MAX: u64 = 10_000_000_000;

/// The clocks as they were read in a bulk.
#[derive(Debug, Default)]
pub(super) struct ReadClocks {
    now_ns: Option<u64>,
    origin_ns: Option<Option<u64>>,
    /// See [`QdiscContext::held_until_ns`].
    held_until_ns: u64,
}

/// Comes with each call of a discipline. Nothing in it costs anything unless it is used.
pub struct QdiscContext<'a> {
    pub(super) region: &'a Region,
    pub(super) clock: &'a dyn Clock,
    pub(super) read: &'a mut ReadClocks,
    pub(super) dropped: &'a mut Dropped,
}

impl std::fmt::Debug for QdiscContext<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "QdiscContext({:?}, {:?})", self.read, self.dropped)
    }
}

impl QdiscContext<'_> {
    /// Returns the time in nanoseconds, exactly, from any fixed origin. The clock is read once per bulk, at
    /// the first call.
    #[inline]
    pub fn now_ns(&mut self) -> u64 {
        match self.read.now_ns {
            Some(now_ns) => now_ns,
            None => *self.read.now_ns.insert(self.clock.exact_ns()),
        }
    }

    /// Notes that a discipline around this one has held packets, by its rate, until `at_ns`.
    pub(super) fn hold_until(&mut self, at_ns: u64) {
        self.read.held_until_ns = at_ns;
    }

    /// Returns the time until which a discipline around this one has held packets, ns; 0 if none has.
    pub(super) fn held_until_ns(&self) -> u64 {
        self.read.held_until_ns
    }

    /// Returns the bytes of a frame from its Ethernet header on: of a super-packet in several buffers, those
    /// of the first. Empty for a frame of another pool.
    #[inline]
    pub fn bytes<'f>(&'f self, frame: &'f Frame) -> &'f [u8] {
        self.region.bytes(frame).unwrap_or_default()
    }

    /// Returns the number of bytes that a frame occupies on a wire, each segment of a super-packet counted
    /// with its headers.
    #[inline]
    pub fn wire_bytes(&self, frame: &Frame) -> u64 {
        wire_bytes(frame, self.region)
    }

    /// Returns the number of packets that a frame is on a wire.
    #[inline]
    pub(crate) fn wire_packets(&self, frame: &Frame) -> u64 {
        wire_packets(frame, self.region)
    }

    /// Returns the metadata of a frame; the default for a frame of another pool.
    #[inline]
    pub fn meta(&self, frame: &Frame) -> Meta {
        self.region.meta(frame).unwrap_or_default()
    }

    /// Returns the earliest time of a frame's departure, by the clock of [`QdiscContext::now_ns`]; 0 unless
    /// its sender has set it ([`Packet::depart_at_ns`](crate::pool::Packet::depart_at_ns)).
    pub fn depart_at_ns(&self, frame: &Frame) -> u64 {
        self.times(frame).depart_ns
    }

    /// Returns the time from which on a frame is of no use, by the same clock; 0 unless its sender has set it
    /// ([`Packet::expire_at_ns`](crate::pool::Packet::expire_at_ns)).
    pub fn expire_at_ns(&self, frame: &Frame) -> u64 {
        self.times(frame).expire_ns
    }

    /// Returns both times.
    #[doc(hidden)]
    #[inline]
    pub fn times(&self, frame: &Frame) -> Times {
        self.region.times(frame).unwrap_or_default()
    }

    /// True if a frame is of no use any more, by its times.
    pub(crate) fn has_expired(&mut self, frame: &Frame) -> bool {
        let expire_ns = self.times(frame).expire_ns;
        expire_ns != 0 && expire_ns <= self.now_ns()
    }

    /// Returns the time at which a device has received a frame, by the clock of [`QdiscContext::now_ns`];
    /// now, if no device has noted it or the clock knows no date, or if it was more than ten seconds ago, as
    /// the time of a packet in a capture is. Three clocks are read once per bulk.
    #[inline]
    pub fn arrived_ns(&mut self, frame: &Frame) -> u64 {
        if frame.has_meta() { self.stamped_ns(frame) } else { self.now_ns() }
    }

    fn stamped_ns(&mut self, frame: &Frame) -> u64 {
        let (now_ns, stamp_ns) = (self.now_ns(), self.region.stamp_ns(frame));
        let Some(stamp_ns) = stamp_ns else { return now_ns };
        let origin_ns = *self.read.origin_ns.get_or_insert_with(|| self.clock.origin_ns());
        let age_ns = origin_ns.map_or(0, |origin_ns| (origin_ns + now_ns).saturating_sub(stamp_ns));
        if age_ns > STAMP_AGE_NS_MAX { now_ns } else { now_ns.saturating_sub(age_ns) }
    }

    /// Returns a hash of a frame's flow (addresses, protocol and ports), perturbed by `seed`.
    #[inline]
    pub fn flow_hash(&self, frame: &Frame, seed: u64) -> u64 {
        flow_hash_seeded(self.bytes(frame), seed)
    }

    /// Marks a packet as having experienced congestion (`INET_ECN_set_ce`, RFC 3168). False if its sender is
    /// not ECN-capable.
    pub fn mark_ce(&self, frame: &mut Frame) -> bool {
        self.region.bytes_mut(frame).is_ok_and(mark_ce)
    }

    /// Drops a frame: the only way to lose one. It goes back to its sender's memory and is counted by
    /// `reason` after the call. Reasons are words of the JSON output.
    #[inline]
    pub fn drop(&mut self, frame: Frame, reason: &'static str) {
        self.dropped.add(frame, reason);
    }
}

/// The reasons that one discipline, with those inside it, may have at a time without an allocation.
const REASONS: usize = 8;

/// The frames that a discipline has dropped and that are not home yet.
#[derive(Debug, Default)]
pub struct Dropped {
    frames: Vec<Frame>,
    reasons: Vec<(&'static str, u64)>,
}

impl Dropped {
    /// With storage for `frames` frames.
    pub(super) fn with_capacity(frames: usize) -> Self {
        Self { frames: Vec::with_capacity(frames), reasons: Vec::with_capacity(REASONS) }
    }

    fn add(&mut self, frame: Frame, reason: &'static str) {
        self.frames.push(frame);
        counters::add(&mut self.reasons, reason, 1);
    }

    pub(super) fn frames(&self) -> &[Frame] {
        &self.frames
    }

    pub(super) fn len(&self) -> usize {
        self.frames.len()
    }

    /// Moves frames to `to`, up to its room.
    pub(super) fn take(&mut self, to: &mut wharf_mem::Batch) {
        to.fill_by(|| self.frames.pop());
    }

    /// Shows the counts by reason that were not shown before.
    pub(super) fn take_reasons(&mut self, see: impl FnMut((&'static str, u64))) {
        self.reasons.drain(..).for_each(see);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pool::{Burst, PagePool};

    /// A clock that began a second after 1970, and shows 50.
    #[derive(Debug)]
    struct Dated(Option<u64>);

    impl Clock for Dated {
        fn now_ns(&self) -> u64 {
            50
        }

        fn origin_ns(&self) -> Option<u64> {
            self.0
        }
    }

    #[test]
    fn arrival_is_by_the_clock_of_now_and_now_without_a_stamp_or_a_date() {
        let pool = PagePool::builder().frames(4).huge_pages(false).build().unwrap();
        let second = 1_000_000_000;
        for (origin_ns, time_ns, arrived_ns) in [
            (Some(second), second + 20, 20),
            (Some(second), second + 90, 50),
            (Some(second), 7, 0),
            (Some(second), 0, 50),
            (Some(11 * second), second + 49, 50),
            (None, second + 20, 50),
        ] {
            let mut packet = pool.packet(60).unwrap();
            packet.set_meta(&Meta { time_ns, ..Meta::default() });
            packet.depart_at_ns(9);
            let burst = Burst::from(packet);
            let frame = &burst.frames()[0];
            let (clock, mut dropped) = (Dated(origin_ns), Dropped::default());
            let (region, read) = (pool.region(), &mut ReadClocks::default());
            let mut cx = QdiscContext { region, clock: &clock, read, dropped: &mut dropped };
            assert_eq!(cx.arrived_ns(frame), arrived_ns);
            assert_eq!((cx.meta(frame).time_ns, cx.times(frame).depart_ns), (time_ns, 9));
        }
    }
}
