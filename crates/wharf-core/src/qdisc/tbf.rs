//! `tbf`: a token bucket before another discipline, as the kernel's `net/sched/sch_tbf.c`.
//!
//! Assumptions: whoever has the queue comes back when [`Qdisc::next_event_ns`] says so; the clock does not go back. Goal: in any
//! time t no more than `burst + rate x t` leaves, and no less while there is something to send and the bucket does not run over.
//! What counts is what a wire carries: the bytes of each frame from its Ethernet header on, without preamble, gap and check
//! sequence, and of a super-packet those of every segment, headers included. A super-packet longer than the burst leaves when the
//! bucket is full, and is paid for after; [`crate::gso::Shortener`] cuts such ones before they come here.
//!
//! Tokens are counted in bits times nanoseconds per second, so that nothing is ever rounded.

use super::Qdisc;
use crate::gso::{Cut, GSO_UDP};
use crate::host::Clock;
use std::sync::Arc;
use wharf_mem::{Batch, Frame, Meta, Region};

const NS_PER_SECOND: u64 = 1_000_000_000;
/// What a byte costs.
const BYTE: u64 = 8 * NS_PER_SECOND;
/// Bursts that keep within 64 bits: 1 GiB.
pub const TBF_BURST_BYTES_MAX: u64 = 1 << 30;
/// Fastest rate: 1 Tbit/s.
pub const TBF_RATE_MAX: u64 = 1_000_000_000_000;
/// What a burst lasts, by default: a tick of the kernel at 250 Hz, which is what its documentation asks for, and far more than a
/// poller naps.
const BURST_NS: u64 = 4_000_000;
/// The least default: two frames of 1514 bytes.
const BURST_BYTES_MIN: u64 = 2 * 1514;

/// Where a TCP header says how long it is, and how long a UDP header is.
const TCP_OFFSET_AT: usize = 12;
const UDP_BYTES: u64 = 8;

/// A rate, and how much may leave at once after a pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    bits_per_second: u64,
    burst_bytes: u64,
}

impl Rate {
    /// `bits_per_second`, from 1 to [`TBF_RATE_MAX`], with a burst of 4 ms, or two frames of 1514 bytes where that is more.
    /// Values out of bounds are moved to the nearest.
    pub fn new(bits_per_second: u64) -> Self {
        let bits_per_second = bits_per_second.clamp(1, TBF_RATE_MAX);
        let burst_bytes = bits_per_second / 8 * BURST_NS / NS_PER_SECOND;
        Self { bits_per_second, burst_bytes: burst_bytes.max(BURST_BYTES_MIN) }
    }

    /// Another burst, from 1 byte to [`TBF_BURST_BYTES_MAX`]. A frame that is longer leaves when the bucket is full, and what it
    /// takes beyond that is paid off before the next.
    #[must_use]
    pub fn burst(mut self, bytes: u64) -> Self {
        self.burst_bytes = bytes.clamp(1, TBF_BURST_BYTES_MAX);
        self
    }

    /// Bits per second.
    pub fn bits_per_second(&self) -> u64 {
        self.bits_per_second
    }

    /// Bytes that may leave at once.
    pub fn burst_bytes(&self) -> u64 {
        self.burst_bytes
    }
}

/// The bucket.
#[derive(Debug)]
struct Bucket {
    rate: u64,
    burst: u64,
    tokens: u64,
    /// What a frame longer than the burst has taken beyond it.
    debt: u64,
    /// When it was filled last.
    filled_ns: u64,
}

impl Bucket {
    fn new(rate: Rate, now_ns: u64) -> Self {
        let burst = rate.burst_bytes * BYTE;
        Self { rate: rate.bits_per_second, burst, tokens: burst, debt: 0, filled_ns: now_ns }
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

    /// In how many nanoseconds, from when it was filled last, there are tokens for `bytes`.
    fn due_ns(&self, bytes: u64) -> u64 {
        let cost = bytes.saturating_mul(BYTE).min(self.burst);
        let lacking = u128::from(cost.saturating_sub(self.tokens)) + u128::from(self.debt);
        u64::try_from(lacking.div_ceil(u128::from(self.rate))).unwrap_or(u64::MAX)
    }
}

/// `Q` at a rate.
#[derive(Debug)]
pub struct Tbf<Q> {
    inner: Q,
    bucket: Bucket,
    region: Arc<Region>,
    clock: Arc<dyn Clock>,
    /// The next frame to leave, which `inner` has given, and its bytes on a wire.
    head: Batch,
    head_bytes: u64,
}

impl<Q: Qdisc> Tbf<Q> {
    /// Before `inner`, which is empty, for frames in `region`. The bucket is full. `clock` should be exact to a part of the burst.
    pub fn new(inner: Q, rate: Rate, region: &Arc<Region>, clock: Arc<dyn Clock>) -> Self {
        let bucket = Bucket::new(rate, clock.now_ns());
        Self { inner, bucket, region: region.clone(), clock, head: Batch::new(1), head_bytes: 0 }
    }

    /// Whether there is a next frame.
    fn load(&mut self) -> bool {
        if self.head.is_empty() && self.inner.dequeue(&mut self.head, 1, u64::MAX) > 0 {
            self.head_bytes = self.head.frames().first().map_or(0, |frame| wire_bytes(frame, &self.region));
        }
        !self.head.is_empty()
    }
}

/// Bytes of a frame on a wire, each of its segments counted with its headers; of one whose headers make no sense, its own.
pub fn wire_bytes(frame: &Frame, region: &Region) -> u64 {
    let len_bytes = u64::from(frame.len_bytes());
    if !frame.has_meta() {
        return len_bytes;
    }
    super_packet_bytes(frame, region).unwrap_or(len_bytes)
}

#[cold]
fn super_packet_bytes(frame: &Frame, region: &Region) -> Option<u64> {
    let (len_bytes, meta) = (u64::from(frame.len_bytes()), region.meta(frame).ok()?);
    let header_bytes = header_bytes(region.bytes(frame).ok()?, frame.len_bytes() as usize, &meta)?;
    let payload_bytes = len_bytes.checked_sub(header_bytes)?;
    let segments = payload_bytes.div_ceil(Some(u64::from(meta.gso_bytes)).filter(|&bytes| bytes > 0)?);
    Some(payload_bytes + segments.max(1) * header_bytes)
}

/// Bytes of the headers of a super-packet, which begins with `first`. Where its checksum is finished nothing says where the transport's
/// begins: then they are walked.
fn header_bytes(first: &[u8], len_bytes: usize, meta: &Meta) -> Option<u64> {
    if !meta.needs_checksum {
        return Some(Cut::of_start(first, len_bytes, meta).ok()?.header_bytes() as u64);
    }
    let transport_at = usize::from(meta.checksum_start);
    let transport_bytes = match meta.gso_kind {
        GSO_UDP => UDP_BYTES,
        _ => u64::from(first.get(transport_at + TCP_OFFSET_AT)? >> 4) * 4,
    };
    Some(transport_at as u64 + transport_bytes)
}

// Whatever is not said here would be the default's answer, not that of what is inside.
#[deny(clippy::missing_trait_methods)]
impl<Q: Qdisc> Qdisc for Tbf<Q> {
    fn name(&self) -> &'static str {
        "tbf"
    }

    fn enqueue(&mut self, from: &mut Batch) {
        self.inner.enqueue(from);
    }

    fn storage(&self) -> usize {
        self.inner.storage()
    }

    fn dequeue(&mut self, to: &mut Batch, packets: usize, bytes: u64) -> usize {
        if !self.load() {
            return 0;
        }
        self.bucket.fill(self.clock.now_ns());
        let (mut moved, mut moved_bytes) = (0, 0);
        while moved < packets && (moved == 0 || moved_bytes < bytes) && to.room() > 0 && self.load() {
            if !self.bucket.take(self.head_bytes) {
                break;
            }
            moved_bytes += self.head.bytes();
            moved += 1;
            to.append(&mut self.head, 1);
        }
        moved
    }

    fn give_up(&mut self, to: &mut Batch) -> usize {
        if !self.head.is_empty() {
            let before = to.len();
            to.append(&mut self.head, 1);
            return to.len() - before;
        }
        self.inner.give_up(to)
    }

    fn len(&self) -> usize {
        self.head.len() + self.inner.len()
    }

    fn is_empty(&self) -> bool {
        self.head.is_empty() && self.inner.is_empty()
    }

    fn room(&self, band: u8) -> usize {
        self.inner.room(band)
    }

    fn has_drained(&self, band: u8) -> bool {
        self.inner.has_drained(band)
    }

    fn full_bands(&self) -> u32 {
        self.inner.full_bands()
    }

    fn shed(&mut self, to: &mut Batch) -> Option<usize> {
        self.inner.shed(to)
    }

    /// Never: every frame has to be counted.
    fn can_bypass(&self) -> bool {
        false
    }

    fn uses_bands(&self) -> bool {
        self.inner.uses_bands()
    }

    fn reserve(&mut self, frames: usize) {
        self.inner.reserve(frames);
    }

    /// When the next frame may leave; at once where none has been looked at.
    fn next_event_ns(&self) -> Option<u64> {
        if self.head.is_empty() {
            return (!self.inner.is_empty()).then_some(0);
        }
        let passed_ns = self.clock.now_ns().saturating_sub(self.bucket.filled_ns);
        Some(self.bucket.due_ns(self.head_bytes).saturating_sub(passed_ns))
    }

    fn visit(&self, see: &mut dyn FnMut(&Frame)) {
        self.head.frames().iter().for_each(&mut *see);
        self.inner.visit(see);
    }
}

#[cfg(test)]
mod tests;
