//! `Random`: xoshiro256++ (Blackman and Vigna, "Scrambled linear pseudorandom number generators", 2019),
//! seeded by SplitMix64 as its authors advise. It is named, so that a seed means the same numbers for ever.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

/// Bits of a logarithm behind the point.
const FRACTION_BITS: u32 = 24;
/// The natural logarithm of 2, with 32 bits behind the point.
const LN_2: u128 = 2_977_044_472;

/// A stream of numbers that a seed determines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Random(Xoshiro256PlusPlus);

impl Random {
    /// Creates a stream from any seed.
    pub fn new(seed: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// Returns the next number, of 64 bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Returns a number below `bound`, by multiplication: biased by less than `bound` / 2^64. Returns 0 for a
    /// bound of 0.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// Returns an exponentially distributed number with that mean, by integers alone: the same on every machine.
    pub fn exponential(&mut self, mean: u64) -> u64 {
        // -log2 of a number in (0, 1]: its leading zeros, less the logarithm of what follows them, bit by bit.
        let number = self.next_u64().max(1);
        let zeros = number.leading_zeros();
        let (mut rest, mut fraction) = (number << zeros, 0u64);
        for _ in 0..FRACTION_BITS {
            let square = (u128::from(rest) * u128::from(rest)) >> 63;
            let bit = square >> 64 != 0;
            rest = if bit { square >> 1 } else { square } as u64;
            fraction = fraction << 1 | u64::from(bit);
        }
        let log2 = ((u64::from(zeros) + 1) << FRACTION_BITS) - fraction;
        let ln = (u128::from(log2) * LN_2) >> 32;
        ((u128::from(mean) * ln) >> FRACTION_BITS) as u64
    }

    /// Returns `mean` plus or minus up to `permille` thousandths of it, uniformly distributed.
    #[inline]
    pub fn around(&mut self, mean: u64, permille: u64) -> u64 {
        let spread = mean * permille / 1000;
        mean - spread + self.below(2 * spread + 1)
    }
}
