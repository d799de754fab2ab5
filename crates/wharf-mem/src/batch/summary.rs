//! The summary of a batch's frames, kept up to date as they come and go: no stage must read each frame.
#![forbid(unsafe_code)]

use crate::frame::{Charge, Frame, META, POOL_MASK, SENDER_MASK};

/// The bits that the frames of a batch have in common, and their bytes. After frames have left, the common
/// bits are a bound: never more than there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Summary {
    /// Bits that some frame has set.
    any: u64,
    /// Bits that all frames have set.
    all: u64,
    /// The sum of the frames' lengths, bytes.
    pub(super) bytes: u64,
}

impl Summary {
    pub(crate) const NONE: Summary = Summary { any: 0, all: u64::MAX, bytes: 0 };
    /// Bounds nothing: any bit may be set or clear in any frame.
    pub(super) const UNKNOWN: Summary = Summary { any: u64::MAX, all: 0, bytes: 0 };

    /// Summarises `count` frames that differ in their index only. `template` has all bits but the index.
    #[inline]
    pub(crate) fn of_template(template: u64, count: usize) -> Self {
        let bytes = u64::from(Frame::from_bits(template).len_bytes()) * count as u64;
        Summary { any: template, all: template, bytes }
    }

    #[inline]
    pub(super) fn of(frames: &[Frame]) -> Self {
        let mut summary = Summary::NONE;
        frames.iter().for_each(|frame| summary.add(frame));
        summary
    }

    #[inline(always)]
    pub(crate) fn add(&mut self, frame: &Frame) {
        self.any |= frame.bits();
        self.all &= frame.bits();
        self.bytes = self.bytes.wrapping_add(u64::from(frame.len_bytes()));
    }

    #[inline(always)]
    pub(super) fn join(&mut self, other: Summary) {
        self.any |= other.any;
        self.all &= other.all;
        self.bytes = self.bytes.wrapping_add(other.bytes);
    }

    #[inline]
    pub(super) fn any_meta(&self) -> bool {
        self.any & META != 0
    }

    #[inline]
    pub(super) fn sender(&self) -> Option<u16> {
        ((self.any ^ self.all) & SENDER_MASK == 0).then_some(Frame::from_bits(self.any).sender())
    }

    #[inline(always)]
    pub(super) fn is_of_pool(&self, pool: u8) -> bool {
        self.all_have(Frame::template(pool, 0, 0), POOL_MASK)
    }

    #[inline(always)]
    pub(super) fn is_plain_of(&self, pool: u8) -> bool {
        self.all_have(Frame::template(pool, 0, 0), POOL_MASK | META)
    }

    #[inline(always)]
    pub(super) fn is_of(&self, charge: Charge) -> bool {
        self.all_have(charge.bits(), POOL_MASK | SENDER_MASK)
    }

    /// True if all frames have the bits of `mask` as in `want`.
    #[inline(always)]
    fn all_have(&self, want: u64, mask: u64) -> bool {
        ((self.any ^ want) | (self.all ^ want)) & mask == 0
    }
}
