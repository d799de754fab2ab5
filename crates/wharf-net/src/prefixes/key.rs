//! Addresses as numbers, and what a table of prefixes wants of them.

use std::fmt::Debug;

/// An address as a number: `u32` or `u128`.
pub(crate) trait Key: Copy + Ord + Debug {
    const BITS: u8;
    const IS_V4: bool = Self::BITS == 32;
    const ZERO: Self;
    /// The words of a prefix in a list.
    const WORDS: usize;
    /// Returns the eight bits above the lowest `shift`.
    fn byte(self, shift: u8) -> usize;
    /// Returns the key with these eight bits above the lowest `shift`, which were 0.
    fn with(self, byte: usize, shift: u8) -> Self;
    /// Returns the number of leading bits that two keys share.
    fn common(self, other: Self) -> u8;
    /// Returns true if the keys differ in no bit of the mask.
    fn is_equal(self, other: Self, mask: Self) -> bool;
    /// Returns the first address of the prefix of `len` bits that the key is in.
    fn first(self, len: u8) -> Self;
    /// Returns the last address of that prefix.
    fn last(self, len: u8) -> Self;
    /// Writes the words of a prefix. Of `number` the upper eight bits are the prefix's length, 1 at least.
    fn write(self, number: u32, words: &mut Vec<u64>);
    /// Reads them: the first address and the number.
    fn read(words: &[u64]) -> (Self, u32);
    /// Returns the number of the first prefix of a list that covers the key; 0: none.
    fn in_list(self, list: &[u64]) -> u32;
}

macro_rules! bits {
    ($number:ty) => {
        const BITS: u8 = <$number>::BITS as u8;
        const ZERO: Self = 0;
        #[inline(always)]
        fn byte(self, shift: u8) -> usize {
            self.wrapping_shr(u32::from(shift)) as usize & 255
        }
        fn with(self, byte: usize, shift: u8) -> Self {
            self | (byte as $number) << shift
        }
        #[inline(always)]
        fn common(self, other: Self) -> u8 {
            (self ^ other).leading_zeros() as u8
        }
        #[inline(always)]
        fn is_equal(self, other: Self, mask: Self) -> bool {
            (self ^ other) & mask == 0
        }
        fn first(self, len: u8) -> Self {
            self & !Self::MAX.checked_shr(u32::from(len)).unwrap_or(0)
        }
        fn last(self, len: u8) -> Self {
            self | Self::MAX.checked_shr(u32::from(len)).unwrap_or(0)
        }
    };
}

impl Key for u32 {
    bits!(u32);
    const WORDS: usize = 1;

    /// The address, the value and one, and 64 less the length: a shift by that leaves the bits of the prefix.
    fn write(self, number: u32, words: &mut Vec<u64>) {
        words.push(u64::from(self) << 32 | u64::from(number << 8) | u64::from(64 - (number >> 24)));
    }

    fn read(words: &[u64]) -> (Self, u32) {
        ((words[0] >> 32) as u32, number_in(words[0]))
    }

    #[inline(always)]
    fn in_list(self, list: &[u64]) -> u32 {
        let key = u64::from(self) << 32;
        list.iter().find(|word| (**word ^ key) >> (**word & 63) == 0).map_or(0, |word| number_in(*word))
    }
}

fn number_in(word: u64) -> u32 {
    (64 - (word as u32 & 63)) << 24 | word as u32 >> 8
}

impl Key for u128 {
    bits!(u128);
    const WORDS: usize = 3;

    fn write(self, number: u32, words: &mut Vec<u64>) {
        words.extend([(self >> 64) as u64, self as u64, u64::from(number)]);
    }

    fn read(words: &[u64]) -> (Self, u32) {
        (u128::from(words[0]) << 64 | u128::from(words[1]), words[2] as u32)
    }

    #[inline(always)]
    fn in_list(self, list: &[u64]) -> u32 {
        let covers = |words: &&[u64; 3]| {
            let (first, number) = Self::read(&words[..]);
            (first ^ self).wrapping_shr((number >> 24).wrapping_neg()) == 0
        };
        list.as_chunks().0.iter().find(covers).map_or(0, |words| words[2] as u32)
    }
}
