//! `Frame`: the owned name of one buffer, in 8 bytes. `FreeFrame`: the name of a buffer that is not in use, in 4.
//!
//! Bits of a frame, from the top: length 18 (bytes), sender 12, band 3, has-metadata 1, pool 6, index 24.
//! The length is on top because every stage sums lengths: one shift. Index and pool are at the bottom, as in a
//! free frame: one instruction converts. Neither type is `Clone`, and only this crate turns bits into one, so a frame is
//! the only way to its buffer. Every access checks the pool's number: a frame of another pool would name another
//! region's memory.
#![forbid(unsafe_code)]

const LENGTH_SHIFT: u32 = 46;
const SENDER_SHIFT: u32 = 34;
const BAND_SHIFT: u32 = 31;
const META_SHIFT: u32 = 30;
const POOL_SHIFT: u32 = 24;
pub(crate) const META: u64 = 1 << META_SHIFT;
pub(crate) const SENDER_MASK: u64 = (SENDERS_MAX as u64 - 1) << SENDER_SHIFT;
pub(crate) const POOL_MASK: u64 = 63 << POOL_SHIFT;

/// The length of the longest frame or super-packet, bytes: 18 bits.
pub const LENGTH_BYTES_MAX: u32 = (1 << 18) - 1;
/// The most buffers of one pool: 24 bits.
pub const FRAMES_MAX: u32 = 1 << 24;
/// The number of senders that one process can distinguish: 12 bits.
pub const SENDERS_MAX: u16 = 1 << 12;
/// The number of priority bands that a frame can name: 3 bits.
pub const BANDS_MAX: u8 = 8;

/// One buffer in use: its pool, index, length, sender and band. A frame that is dropped, not given back to its pool, leaks
/// the buffer; the pool's ledger reports it.
#[must_use = "a frame dropped is a buffer lost: give it back to its pool"]
#[repr(transparent)]
#[derive(PartialEq, Eq)]
pub struct Frame(u64);

impl Frame {
    /// The content of an empty place in a table: names no buffer (pools count from 1), and never leaves this crate.
    pub(crate) const NONE: Frame = Frame(0);

    /// Makes a frame of `free` with the bits of `template`, which is of the same pool. Used by `region/take.rs`.
    #[inline(always)]
    pub(crate) fn from_parts(free: FreeFrame, template: u64) -> Self {
        debug_assert_eq!(u64::from(free.0) & POOL_MASK, template & POOL_MASK);
        Frame(template | u64::from(free.0))
    }

    /// Makes a frame of `len_bytes` of `free`, which names the pool, charged to the sender of `charge`. Used by
    /// `region/take.rs`.
    #[inline(always)]
    pub(crate) fn charged(free: FreeFrame, charge: Charge, len_bytes: u32) -> Self {
        Frame(charge.0 & SENDER_MASK | u64::from(len_bytes) << LENGTH_SHIFT | u64::from(free.0))
    }

    /// Returns the bits that frames of one pool, sender and length share.
    #[inline(always)]
    pub(crate) fn template(pool: u8, sender: u16, len_bytes: u32) -> u64 {
        u64::from(len_bytes) << LENGTH_SHIFT
            | u64::from(pool) << POOL_SHIFT
            | u64::from(sender & (SENDERS_MAX - 1)) << SENDER_SHIFT
    }

    /// Returns a second name for the same buffer; the caller forgets the first. Used by `batch.rs`, between its slots.
    #[inline(always)]
    pub(crate) fn moved(&self) -> Self {
        Frame(self.0)
    }

    /// Returns the frame's bits, which are no name.
    #[inline(always)]
    pub(crate) fn bits(&self) -> u64 {
        self.0
    }

    /// Returns the bits of this buffer's `FreeFrame`, which are no name.
    #[inline(always)]
    pub(crate) fn free_bits(&self) -> u32 {
        self.0 as u32 & (POOL_MASK as u32 | INDEX_MASK)
    }

    /// Makes a name of a frame's bits; the caller forgets those. Used by `lane.rs`.
    #[inline(always)]
    pub(crate) fn from_bits(bits: u64) -> Self {
        Frame(bits)
    }

    #[inline(always)]
    pub(crate) fn into_free(self) -> FreeFrame {
        FreeFrame(self.free_bits())
    }

    /// Returns the number of the frame's pool, 1 to 63.
    #[inline(always)]
    pub fn pool(&self) -> u8 {
        (self.0 >> POOL_SHIFT) as u8 & 63
    }

    /// Returns the buffer's index in its pool.
    #[inline(always)]
    pub fn index(&self) -> u32 {
        self.0 as u32 & INDEX_MASK
    }

    /// Returns the length of the packet, bytes; of a super-packet, the sum of its chunks.
    #[inline(always)]
    pub fn len_bytes(&self) -> u32 {
        (self.0 >> LENGTH_SHIFT) as u32
    }

    #[inline(always)]
    pub(crate) fn set_len_bytes(&mut self, len_bytes: u32) {
        self.0 =
            self.0 & !(u64::from(LENGTH_BYTES_MAX) << LENGTH_SHIFT) | u64::from(len_bytes) << LENGTH_SHIFT;
    }

    /// Returns the number of the sender that the frame is charged and returned to.
    #[inline(always)]
    pub fn sender(&self) -> u16 {
        (self.0 >> SENDER_SHIFT) as u16 & (SENDERS_MAX - 1)
    }

    /// Charges the frame to `sender`.
    #[inline(always)]
    pub fn set_sender(&mut self, sender: u16) {
        self.0 = self.0 & !SENDER_MASK | u64::from(sender) << SENDER_SHIFT & SENDER_MASK;
    }

    /// Returns the priority band, 0 to 7; band 0 is served first.
    #[inline(always)]
    pub fn band(&self) -> u8 {
        (self.0 >> BAND_SHIFT) as u8 & (BANDS_MAX - 1)
    }

    /// Sets the priority band; numbers from [`BANDS_MAX`] on set the last band.
    #[inline(always)]
    pub fn set_band(&mut self, band: u8) {
        let band = u64::from(band.min(BANDS_MAX - 1));
        self.0 = self.0 & !(u64::from(BANDS_MAX - 1) << BAND_SHIFT) | band << BAND_SHIFT;
    }

    /// True if the frame has a row in its pool's side table: a chain, or a checksum or segmentation request.
    #[inline(always)]
    pub fn has_meta(&self) -> bool {
        self.0 & META != 0
    }

    /// True if the frame belongs to pool `pool` and has no row in the side table.
    #[inline(always)]
    pub(crate) fn is_plain_of(&self, pool: u8) -> bool {
        self.0 & (POOL_MASK | META) == u64::from(pool) << POOL_SHIFT
    }

    /// True if the frame is charged to `charge` and has no row in the side table.
    #[inline(always)]
    pub(crate) fn is_plain_and_charged(&self, charge: Charge) -> bool {
        self.0 & (POOL_MASK | META | SENDER_MASK) == charge.0
    }

    #[inline(always)]
    pub(crate) fn set_has_meta(&mut self, has: bool) {
        self.0 = self.0 & !META | u64::from(has) << META_SHIFT;
    }
}

/// The pool and the sender of frames, as the bits that such frames have in common: one comparison checks both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Charge(u64);

impl Charge {
    /// Makes the charge of frames of `pool` to `sender`.
    #[inline]
    pub fn new(pool: u8, sender: u16) -> Self {
        Charge(Frame::template(pool, sender, 0))
    }

    /// Returns the sender's number.
    #[inline(always)]
    pub fn sender(self) -> u16 {
        Frame(self.0).sender()
    }

    /// Returns the bits of frames that are charged so, without row in the side table, in band 0, of index and length 0.
    #[inline(always)]
    pub(crate) fn bits(self) -> u64 {
        self.0
    }
}

impl std::fmt::Debug for Frame {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Frame({}:{}, {} B, sender {})", self.pool(), self.index(), self.len_bytes(), self.sender())
    }
}

const INDEX_MASK: u32 = FRAMES_MAX - 1;

/// The name of one buffer that is not in use, in 4 bytes: pool 6 bits (above), index 24. Caches, depots and return rings
/// hold these.
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

    /// Returns the number of the buffer's pool, 1 to 63.
    #[inline(always)]
    pub fn pool(&self) -> u8 {
        (self.0 >> POOL_SHIFT) as u8
    }

    /// Returns the buffer's index in its pool.
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
    fn a_field_that_is_set_leaves_the_others() {
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
    fn a_frame_has_8_bytes_and_a_free_frame_4() {
        assert_eq!((size_of::<Frame>(), size_of::<FreeFrame>()), (8, 4));
    }
}
