//! `tbf`: a token bucket before another discipline, as the kernel's `net/sched/sch_tbf.c`.
//!
//! Assumptions: the queue is run again when [`Qdisc::next_event_ns`] says so; the clock does not go back and
//! is exact to a part of the burst. Goal: in any time t no more than `burst + rate x t` leaves, and no less
//! while there is something to send and the bucket does not overflow. What counts is a frame's bytes on a
//! wire: from its Ethernet header on, without preamble, gap and check sequence; of a super-packet those of
//! each segment, headers included. At a rate of packets, each counts as 1514 bytes. A super-packet longer
//! than the burst leaves when the bucket is full, and is paid off after; [`crate::gso::GsoLimiter`] cuts such
//! ones before they come here.
//!
//! Tokens are counted in bits times nanoseconds per second, so nothing is rounded.

use super::rate_group::{Member, RateGroup};
use super::{EXPIRED, Limit, Qdisc, QdiscContext};
use crate::delegate_qdisc;
use wharf_mem::{Batch, Frame};

const NS_PER_SECOND: u64 = 1_000_000_000;
/// The cost of a byte.
const BYTE: u64 = 8 * NS_PER_SECOND;
/// Longest burst, which keeps the cost within 64 bits: 1 GiB.
pub const TBF_BURST_BYTES_MAX: u64 = 1 << 30;
/// Fastest rate: 1 Tbit/s.
pub const TBF_RATE_MAX: u64 = 1_000_000_000_000;
/// The bytes that a packet counts as, at a rate of packets.
const PACKET_BYTES: u64 = 1514;
/// Fastest rate of packets.
pub const TBF_PACKETS_MAX: u64 = TBF_RATE_MAX / (8 * PACKET_BYTES);
/// Default length of a burst: a tick of the kernel at 250 Hz, which `tc-tbf(8)` asks for, and far more than a
/// poller naps.
const BURST_NS: u64 = 4_000_000;
/// The least default: two frames of 1514 bytes.
const BURST_BYTES_MIN: u64 = 2 * 1514;

/// A rate, with the bytes that may leave at once after a pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    bits_per_second: u64,
    burst_bytes: u64,
    /// Each packet counts as [`PACKET_BYTES`], whatever its length.
    counts_packets: bool,
}

impl Rate {
    /// `bits_per_second`, from 1 to [`TBF_RATE_MAX`], with a burst of 4 ms, or two frames of 1514 bytes where
    /// that is more. Values out of bounds are moved to the nearest bound.
    pub fn new(bits_per_second: u64) -> Self {
        let bits_per_second = bits_per_second.clamp(1, TBF_RATE_MAX);
        let burst_bytes = bits_per_second / 8 * BURST_NS / NS_PER_SECOND;
        Self { bits_per_second, burst_bytes: burst_bytes.max(BURST_BYTES_MIN), counts_packets: false }
    }

    /// `packets_per_second`, from 1 to [`TBF_PACKETS_MAX`], with a burst of 4 ms, or of two packets where that is more. A packet, or a
    /// segment of a super-packet, counts as a frame of 1514 bytes.
    pub fn packets(packets_per_second: u64) -> Self {
        let packets = packets_per_second.clamp(1, TBF_PACKETS_MAX);
        Self { counts_packets: true, ..Self::new(packets * 8 * PACKET_BYTES) }
    }

    /// Sets the burst, from 1 byte to [`TBF_BURST_BYTES_MAX`]. A longer frame leaves when the bucket is full,
    /// and what it takes beyond the burst is paid off before the next.
    #[must_use]
    pub fn burst(mut self, bytes: u64) -> Self {
        self.burst_bytes = bytes.clamp(1, TBF_BURST_BYTES_MAX);
        self
    }

    /// Bits per second; those of frames of 1514 bytes for a rate of packets.
    pub fn bits_per_second(&self) -> u64 {
        self.bits_per_second
    }

    /// Packets per second; `None` for a rate of bits.
    pub fn packets_per_second(&self) -> Option<u64> {
        self.counts_packets.then_some(self.bits_per_second / (8 * PACKET_BYTES))
    }

    /// Bytes that may leave at once.
    pub fn burst_bytes(&self) -> u64 {
        self.burst_bytes
    }

    /// The part of one of `parts` that share it.
    fn part(self, parts: u64) -> Self {
        let least = self.burst_bytes.min(BURST_BYTES_MIN);
        let bits_per_second = (self.bits_per_second / parts).max(1);
        Self { bits_per_second, burst_bytes: (self.burst_bytes / parts).max(least), ..self }
    }
}

/// The bucket.
#[derive(Debug)]
struct Bucket {
    rate: u64,
    burst: u64,
    tokens: u64,
    /// The part of a long frame's cost that was beyond the burst.
    debt: u64,
    /// When tokens were last added; 0 before the first time.
    filled_ns: u64,
}

impl Bucket {
    fn new(rate: Rate) -> Self {
        let burst = rate.burst_bytes * BYTE;
        Self { rate: rate.bits_per_second, burst, tokens: burst, debt: 0, filled_ns: 0 }
    }

    /// Sets the rate. Tokens beyond the new burst are gone; those of the time since the bucket was last filled come at the new rate.
    fn set_rate(&mut self, rate: Rate) {
        self.rate = rate.bits_per_second;
        self.burst = rate.burst_bytes * BYTE;
        self.tokens = self.tokens.min(self.burst);
    }

    fn fill(&mut self, now_ns: u64) {
        let passed_ns = now_ns.saturating_sub(self.filled_ns);
        self.filled_ns = self.filled_ns.max(now_ns);
        let new = u128::from(passed_ns) * u128::from(self.rate);
        let new = u64::try_from(new).unwrap_or(u64::MAX);
        let paid = self.debt.min(new);
        self.debt -= paid;
        self.tokens = self.tokens.saturating_add(new - paid).min(self.burst);
    }

    /// Takes the tokens of `bytes`, if they are there.
    fn take(&mut self, bytes: u64) -> bool {
        let cost = bytes.saturating_mul(BYTE);
        if self.tokens < cost.min(self.burst) || self.debt > 0 {
            return false;
        }
        self.debt = cost.saturating_sub(self.burst);
        self.tokens -= cost.min(self.burst);
        true
    }

    /// Returns the time at which there are tokens for `bytes`.
    fn due_ns(&self, bytes: u64) -> u64 {
        let cost = bytes.saturating_mul(BYTE).min(self.burst);
        let lacking = u128::from(cost.saturating_sub(self.tokens)) + u128::from(self.debt);
        let wait_ns = u64::try_from(lacking.div_ceil(u128::from(self.rate))).unwrap_or(u64::MAX);
        self.filled_ns.saturating_add(wait_ns)
    }
}

/// `Q` at a rate.
#[derive(Debug)]
pub struct Tbf<Q> {
    inner: Q,
    bucket: Bucket,
    /// The whole of its rate, and its place among those that share it.
    rate: Rate,
    member: Option<Member>,
    /// The next frame to leave, out of `inner` already, its bytes, and those of as many packets at a rate of packets.
    head: Batch,
    head_bytes: u64,
    head_packets_bytes: u64,
}

impl<Q: Qdisc> Tbf<Q> {
    /// Before `inner`, which is empty. The bucket is full.
    pub fn new(inner: Q, rate: Rate) -> Self {
        Self {
            inner,
            bucket: Bucket::new(rate),
            rate,
            member: None,
            head: Batch::new(1),
            head_bytes: 0,
            head_packets_bytes: 0,
        }
    }

    /// Shares the rate with the other buckets of `group`, which are of the same rate: equal parts for those
    /// that have packets (`cake_mq`). After a pause each bucket has its own burst.
    #[must_use]
    pub fn in_group(mut self, group: &RateGroup) -> Self {
        self.member = Some(Member::of(group));
        self
    }

    /// Adds the tokens that have come by now, and takes its part of the rate.
    fn fill(&mut self, now_ns: u64) {
        self.bucket.fill(now_ns);
        if self.member.as_mut().is_some_and(|member| member.look(now_ns)) {
            self.set_rate(self.rate);
        }
    }

    /// True if there is a next frame. One that has expired while it waited for tokens is none.
    fn load(&mut self, cx: &mut QdiscContext<'_>) -> bool {
        if self.inner.drops_expired() && self.head.frames().first().is_some_and(|frame| cx.has_expired(frame))
        {
            self.head.pop().into_iter().for_each(|frame| cx.drop(frame, EXPIRED));
        }
        if self.head.is_empty() {
            self.inner.dequeue(cx, &mut self.head, Limit::packets(1));
            if let Some(frame) = self.head.frames().first() {
                self.head_bytes = cx.wire_bytes(frame);
                self.head_packets_bytes = cx.wire_packets(frame) * PACKET_BYTES;
            }
        }
        !self.head.is_empty()
    }

    /// Has the others of its group share its part, if it is empty.
    fn rest(&self, now_ns: u64) {
        if let Some(member) = self.member.as_ref().filter(|_| self.is_empty()) {
            member.rest(now_ns);
        }
    }

    /// The bytes that the next frame counts as.
    fn head_cost_bytes(&self) -> u64 {
        if self.rate.counts_packets { self.head_packets_bytes } else { self.head_bytes }
    }
}

// A method left out here would get the default's answer in place of the inner discipline's.
#[deny(clippy::missing_trait_methods)]
impl<Q: Qdisc> Qdisc for Tbf<Q> {
    delegate_qdisc!(inner: reserve, storage, enqueue, backpressure, when_full, bound_memory, trim, uses_bands);
    delegate_qdisc!(inner: dscp_bands, drops_expired, stats);

    fn name(&self) -> &'static str {
        "tbf"
    }

    fn dequeue(&mut self, cx: &mut QdiscContext<'_>, to: &mut Batch, limit: Limit) {
        if !self.load(cx) {
            self.rest(cx.now_ns());
            return;
        }
        cx.hold_until(self.bucket.due_ns(self.head_cost_bytes()));
        self.fill(cx.now_ns());
        let (mut moved, mut moved_bytes) = (0, 0);
        while moved < limit.packets
            && (moved == 0 || moved_bytes < limit.bytes)
            && to.room() > 0
            && self.load(cx)
            && self.bucket.take(self.head_cost_bytes())
        {
            moved_bytes += self.head.bytes();
            moved += 1;
            to.append(&mut self.head, 1);
        }
        if let Some(member) = &self.member {
            member.note(cx.now_ns(), !self.is_empty());
        }
    }

    fn len(&self) -> usize {
        self.head.len() + self.inner.len()
    }

    fn is_empty(&self) -> bool {
        self.head.is_empty() && self.inner.is_empty()
    }

    fn purge(&mut self, to: &mut Batch) {
        to.append(&mut self.head, 1);
        self.inner.purge(to);
        self.rest(0);
    }

    /// False: each frame has to be counted.
    fn can_bypass(&self) -> bool {
        false
    }

    /// The time at which the next frame may leave; 0, at once, if no frame has been looked at.
    fn next_event_ns(&self) -> Option<u64> {
        if self.head.is_empty() {
            return self.inner.next_event_ns().or((!self.inner.is_empty()).then_some(0));
        }
        Some(self.bucket.due_ns(self.head_cost_bytes()))
    }

    fn visit(&self, see: &mut dyn FnMut(&Frame)) {
        self.head.frames().iter().for_each(&mut *see);
        self.inner.visit(see);
    }

    fn set_rate(&mut self, rate: Rate) -> bool {
        self.bucket.set_rate(rate.part(self.member.as_ref().map_or(1, |member| member.parts)));
        self.rate = rate;
        true
    }
}
