//! `Buffers`: the memory of the super-packets in a discipline, for one whose limit drops.
//!
//! Limits count packets, or bytes on a wire. A super-packet is one packet and up to 45 buffers: a few hundred take a whole pool
//! before a limit of 500 packets is reached. Then nothing more is received, of no flow, and nothing is dropped by the discipline.
//! So buffers beyond the first of each packet have a limit of their own (the kernel's `truesize` in `fq_codel`'s `memory_limit`).

use wharf_mem::Region;

/// See the module.
#[derive(Debug)]
pub(super) struct Buffers {
    /// Bytes of one buffer: no packet of as many has a second one.
    data_bytes: u32,
    /// The buffers beyond the first of each packet.
    further: usize,
    most: usize,
}

impl Default for Buffers {
    /// Without a limit.
    fn default() -> Self {
        Self { data_bytes: u32::MAX, further: 0, most: usize::MAX }
    }
}

impl Buffers {
    /// Sets the limit of an empty discipline: three eighths of the memory, so that two directions of one pool leave a quarter.
    pub(super) fn bound(&mut self, region: &Region) {
        (self.data_bytes, self.most) =
            (region.data_bytes_max().max(1), region.spec().frames as usize * 3 / 8);
    }

    #[inline]
    fn of(&self, len_bytes: u32) -> usize {
        if len_bytes <= self.data_bytes { 0 } else { (len_bytes - 1) as usize / self.data_bytes as usize }
    }

    #[inline]
    pub(super) fn enter(&mut self, len_bytes: u32) {
        self.further += self.of(len_bytes);
    }

    #[inline]
    pub(super) fn leave(&mut self, len_bytes: u32) {
        self.further -= self.of(len_bytes);
    }

    /// True if super-packets take more memory than they may.
    pub(super) fn are_over(&self) -> bool {
        self.further > self.most
    }

    /// True if those of all of a discipline's parts do so together.
    pub(super) fn are_over_in<'a>(mut parts: impl Iterator<Item = &'a Self> + Clone) -> bool {
        let further: usize = parts.clone().map(|part| part.further).sum();
        parts.next().is_some_and(|first| further > first.most)
    }

    /// True if one of the packets is a super-packet.
    pub(super) fn are_several(&self) -> bool {
        self.further > 0
    }
}
