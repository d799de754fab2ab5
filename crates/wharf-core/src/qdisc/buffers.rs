//! `Buffers`: the memory of the packets in a discipline.
//!
//! Limits count packets, or bytes on a wire. A super-packet is one packet and up to 45 buffers: a few hundred take a whole pool
//! before a limit of 500 packets is reached. Then nothing more is received, of no flow, and nothing is dropped by the discipline.
//! So buffers beyond the first of each packet have a limit of their own (the kernel's `truesize` in `fq_codel`'s `memory_limit`).
//! Where many queues share the memory, as the ports of a switch do, the first ones count, too.

use wharf_mem::{Region, Sharers};

/// Queues whose parts are never smaller: both directions of a pair.
const PAIR: u32 = 2;
/// Eighths of a discipline's whole part, and of the half at which it has drained.
pub(super) const HALF: usize = ALL / 2;
pub(super) const ALL: usize = 8;

/// See the module.
#[derive(Debug)]
pub(super) struct Buffers {
    /// Bytes of one buffer: no packet of as many has a second one.
    data_bytes: u32,
    /// The buffers beyond the first of each packet.
    further: usize,
    /// What the queues of the region may have together.
    most: usize,
    sharers: Sharers,
}

impl Default for Buffers {
    /// Without a limit.
    fn default() -> Self {
        Self { data_bytes: u32::MAX, further: 0, most: usize::MAX, sharers: Sharers::default() }
    }
}

impl Buffers {
    /// Sets the limit of an empty discipline: an equal part of three quarters of the memory. A quarter is left
    /// to receive into.
    pub(super) fn bound(&mut self, region: &Region) {
        (self.data_bytes, self.most) =
            (region.data_bytes_max().max(1), (region.spec().frames as usize * 3 / 4).max(1));
        self.sharers = region.sharers().clone();
    }

    #[inline]
    fn of(&self, len_bytes: u32) -> usize {
        if len_bytes <= self.data_bytes { 0 } else { (len_bytes - 1) as usize / self.data_bytes as usize }
    }

    /// Counts a packet. Returns its buffers beyond the first.
    #[inline]
    pub(super) fn enter(&mut self, len_bytes: u32) -> usize {
        let further = self.of(len_bytes);
        self.further += further;
        further
    }

    /// Counts a packet no more. Returns its buffers beyond the first.
    #[inline]
    pub(super) fn leave(&mut self, len_bytes: u32) -> usize {
        let further = self.of(len_bytes);
        self.further -= further;
        further
    }

    /// Returns the eighths of the discipline's part that its `packets` take, rounded up: more than [`ALL`] are too
    /// much, and with [`HALF`] it has drained.
    #[inline]
    pub(super) fn eighths(&self, packets: usize) -> usize {
        // A path that is quiet has none.
        if packets == 0 { 0 } else { self.eighths_with(self.further, packets) }
    }

    /// Returns those of all parts of a discipline together.
    pub(super) fn eighths_of<'a>(mut all: impl Iterator<Item = &'a Self> + Clone, packets: usize) -> usize {
        let further = all.clone().map(|one| one.further).sum();
        all.next().map_or(0, |first| first.eighths_with(further, packets))
    }

    fn eighths_with(&self, further: usize, packets: usize) -> usize {
        let sharers = self.sharers.count();
        let held = if sharers > PAIR { further + packets } else { further };
        if held == 0 { 0 } else { (held * sharers.max(PAIR) as usize * ALL).div_ceil(self.most) }
    }

    /// True if one of a part's `packets` counts.
    pub(super) fn count_some(&self, packets: usize) -> bool {
        self.further > 0 || packets > 0 && self.sharers.count() > PAIR
    }
}
