//! Addresses as numbers, and what a table of prefixes wants of them.

use std::fmt::Debug;

/// An address as a number: `u32` or `u128`.
pub(crate) trait Key: Copy + Ord + Debug {
    const BITS: u8;
    const IS_V4: bool = Self::BITS == 32;
    /// The word of a range: bits of its first address, and 16 of what is found there.
    type Word: Copy + Ord + Debug + Send + Sync;
    /// How many bits of an address a word has.
    const WORD_BITS: u8;
    /// Words have values below this, less one, and lengths that fit beside them.
    const WORD_VALUES: u32;
    /// Returns the word of the address behind its first `depth` bits.
    fn word(self, depth: u8, low: u16) -> Self::Word;
    fn low(word: Self::Word) -> u16;
    /// Returns the eight bits behind the first `depth`.
    fn slot(self, depth: u8) -> usize;
    /// Returns the number of leading bits that two keys share.
    fn common(self, other: Self) -> u8;
    /// Returns the first address of the prefix of `len` bits that the key is in.
    fn first(self, len: u8) -> Self;
    /// Returns the last address of that prefix.
    fn last(self, len: u8) -> Self;
    fn successor(self) -> Option<Self>;
}

macro_rules! key {
    ($number:ty, $word:ty, $values:expr) => {
        impl Key for $number {
            const BITS: u8 = <$number>::BITS as u8;
            type Word = $word;
            const WORD_BITS: u8 = <$word>::BITS as u8 - 16;
            const WORD_VALUES: u32 = $values;
            #[inline(always)]
            fn word(self, depth: u8, low: u16) -> $word {
                let shifted = self.checked_shl(u32::from(depth)).unwrap_or(0);
                let top = (shifted >> (<$number>::BITS - <$word>::BITS)) as $word;
                top & !0xffff | <$word>::from(low)
            }
            #[inline(always)]
            fn low(word: $word) -> u16 {
                word as u16
            }
            #[inline(always)]
            fn slot(self, depth: u8) -> usize {
                (self >> (<Self as Key>::BITS - 8 - depth)) as usize & 255
            }
            #[inline(always)]
            fn common(self, other: Self) -> u8 {
                (self ^ other).leading_zeros() as u8
            }
            fn first(self, len: u8) -> Self {
                self & !Self::MAX.checked_shr(u32::from(len)).unwrap_or(0)
            }
            fn last(self, len: u8) -> Self {
                self | Self::MAX.checked_shr(u32::from(len)).unwrap_or(0)
            }
            fn successor(self) -> Option<Self> {
                self.checked_add(1)
            }
        }
    };
}

key!(u32, u32, 1 << 10);
key!(u128, u64, 1 << 9);
