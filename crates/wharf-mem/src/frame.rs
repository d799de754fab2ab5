//! `Frame`: the owned name of one buffer, in 8 bytes; `FreeFrame`: the same buffer while nobody uses it.
//!
//! Bits of a frame, from the top: length 18 (bytes), sender 12, band 3, has-metadata 1, pool 6, index 24.
//! The length lies on top because every stage sums it: one shift. Index and pool lie at the bottom as in a
//! free frame: one instruction makes the one of the other. Neither type can be cloned, and only this
//! crate turns bits into one, so a frame in hand is the only way to its buffer. The pool's number is checked
//! on every access: a frame used with another pool's region would be somebody else's memory.
#![forbid(unsafe_code)]

const LENGTH_SHIFT: u32 = 46;
const SENDER_SHIFT: u32 = 34;
const BAND_SHIFT: u32 = 31;
const META_SHIFT: u32 = 30;
const POOL_SHIFT: u32 = 24;
pub(crate) const META: u64 = 1 << META_SHIFT;
pub(crate) const SENDER_MASK: u64 = (SENDERS_MAX as u64 - 1) << SENDER_SHIFT;
pub(crate) const POOL_MASK: u64 = 63 << POOL_SHIFT;

/// Longest frame or super-packet, bytes: 18 bits.
pub const LENGTH_BYTES_MAX: u32 = (1 << 18) - 1;
/// Most buffers in one pool: 24 bits.
pub const FRAMES_MAX: u32 = 1 << 24;
/// Most senders that one process can tell apart: 12 bits.
pub const SENDERS_MAX: u16 = 1 << 12;
/// Bands that a frame can name: 3 bits.
pub const BANDS_MAX: u8 = 8;

/// One buffer, in use. Dropping it without giving it back to its pool leaks the buffer, and the pool's
/// ledger will say so.
#[must_use = "a frame dropped is a buffer lost: give it back to its pool"]
#[repr(transparent)]
#[derive(PartialEq, Eq)]
pub struct Frame(u64);

impl Frame {
    /// What fills an empty place in a table: names no buffer (pools count from 1) and never leaves this crate.
    pub(crate) const NONE: Frame = Frame(0);

    /// `template` names the pool of `free`.
    #[inline(always)]
    pub(crate) fn from_parts(free: FreeFrame, template: u64) -> Self {
        debug_assert_eq!(u64::from(free.0) & POOL_MASK, template & POOL_MASK);
        Frame(template | u64::from(free.0))
    }

    /// The bits that frames of one pool, sender and length share.
    #[inline(always)]
    pub(crate) fn template(pool: u8, sender: u16, len_bytes: u32) -> u64 {
        u64::from(len_bytes) << LENGTH_SHIFT
            | u64::from(pool) << POOL_SHIFT
            | u64::from(sender & (SENDERS_MAX - 1)) << SENDER_SHIFT
    }

    /// A second name for the same buffer: only for moving it between two places of this crate.
    #[inline(always)]
    pub(crate) fn moved(&self) -> Self {
        Frame(self.0)
    }

    #[inline(always)]
    pub(crate) fn bits(&self) -> u64 {
        self.0
    }

    #[inline(always)]
    pub(crate) fn from_bits(bits: u64) -> Self {
        Frame(bits)
    }

    #[inline(always)]
    pub(crate) fn into_free(self) -> FreeFrame {
        FreeFrame(self.0 as u32 & (POOL_MASK as u32 | INDEX_MASK))
    }

    /// Number of the pool it belongs to, from 1.
    #[inline(always)]
    pub fn pool(&self) -> u8 {
        (self.0 >> POOL_SHIFT) as u8 & 63
    }

    /// Which of the pool's buffers it is.
    #[inline(always)]
    pub fn index(&self) -> u32 {
        self.0 as u32 & INDEX_MASK
    }

    /// Length of the packet in bytes; of a super-packet, all its chunks together.
    #[inline(always)]
    pub fn len_bytes(&self) -> u32 {
        (self.0 >> LENGTH_SHIFT) as u32
    }

    #[inline(always)]
    pub(crate) fn set_len_bytes(&mut self, len_bytes: u32) {
        self.0 =
            self.0 & !(u64::from(LENGTH_BYTES_MAX) << LENGTH_SHIFT) | u64::from(len_bytes) << LENGTH_SHIFT;
    }

    /// The sender that it is charged to and goes home to.
    #[inline(always)]
    pub fn sender(&self) -> u16 {
        (self.0 >> SENDER_SHIFT) as u16 & (SENDERS_MAX - 1)
    }

    /// Charges it to `sender`.
    #[inline(always)]
    pub fn set_sender(&mut self, sender: u16) {
        self.0 = self.0 & !SENDER_MASK | u64::from(sender) << SENDER_SHIFT & SENDER_MASK;
    }

    /// Priority band, 0 first.
    #[inline(always)]
    pub fn band(&self) -> u8 {
        (self.0 >> BAND_SHIFT) as u8 & (BANDS_MAX - 1)
    }

    /// Puts it into `band`; higher numbers than [`BANDS_MAX`] - 1 count as the last band.
    #[inline(always)]
    pub fn set_band(&mut self, band: u8) {
        let band = u64::from(band.min(BANDS_MAX - 1));
        self.0 = self.0 & !(u64::from(BANDS_MAX - 1) << BAND_SHIFT) | band << BAND_SHIFT;
    }

    /// Whether the pool's side table has a row for it (a chain, a checksum request, ...).
    #[inline(always)]
    pub fn has_meta(&self) -> bool {
        self.0 & META != 0
    }

    /// Whether it belongs to pool `pool` and has no row in the side table.
    #[inline(always)]
    pub(crate) fn is_plain_of(&self, pool: u8) -> bool {
        self.0 & (POOL_MASK | META) == u64::from(pool) << POOL_SHIFT
    }

    #[inline(always)]
    pub(crate) fn set_has_meta(&mut self, has: bool) {
        self.0 = self.0 & !META | u64::from(has) << META_SHIFT;
    }
}

impl std::fmt::Debug for Frame {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Frame({}:{}, {} B, sender {})", self.pool(), self.index(), self.len_bytes(), self.sender())
    }
}

const INDEX_MASK: u32 = FRAMES_MAX - 1;

/// One buffer that nobody uses, in 4 bytes: pool 6 (above), index 24. What caches, depots and return rings hold.
#[must_use = "a free frame dropped is a buffer lost: give it back to its pool"]
#[repr(transparent)]
#[derive(PartialEq, Eq)]
pub struct FreeFrame(u32);

impl FreeFrame {
    #[inline(always)]
    pub(crate) fn new(pool: u8, index: u32) -> Self {
        FreeFrame(u32::from(pool) << POOL_SHIFT | index)
    }

    #[inline(always)]
    pub(crate) fn from_bits(bits: u32) -> Self {
        FreeFrame(bits)
    }

    #[inline(always)]
    pub(crate) fn bits(&self) -> u32 {
        self.0
    }

    /// Number of the pool it belongs to, from 1.
    #[inline(always)]
    pub fn pool(&self) -> u8 {
        (self.0 >> POOL_SHIFT) as u8
    }

    /// Which of the pool's buffers it is.
    #[inline(always)]
    pub fn index(&self) -> u32 {
        self.0 & INDEX_MASK
    }
}

impl std::fmt::Debug for FreeFrame {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FreeFrame({}:{})", self.pool(), self.index())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_do_not_touch_each_other() {
        let template = Frame::template(63, SENDERS_MAX - 1, LENGTH_BYTES_MAX);
        let mut frame = Frame::from_parts(FreeFrame::new(63, INDEX_MASK), template);
        frame.set_band(7);
        frame.set_has_meta(true);
        assert_eq!(frame.bits(), u64::MAX);
        frame.set_len_bytes(60);
        frame.set_sender(5);
        frame.set_band(2);
        frame.set_has_meta(false);
        assert_eq!(
            (frame.pool(), frame.index(), frame.len_bytes(), frame.sender(), frame.band(), frame.has_meta()),
            (63, INDEX_MASK, 60, 5, 2, false)
        );
        assert_eq!(frame.into_free(), FreeFrame::new(63, INDEX_MASK));
    }

    #[test]
    fn sizes_are_those_of_the_design() {
        assert_eq!((size_of::<Frame>(), size_of::<FreeFrame>()), (8, 4));
    }
}
