//! `Random`: xoshiro256++ (Blackman and Vigna, "Scrambled linear pseudorandom number generators", 2019),
//! seeded by SplitMix64 as its authors advise. It is named, so that a seed means the same numbers for ever.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

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

    /// Returns `mean` plus or minus up to `permille` thousandths of it, uniformly distributed.
    #[inline]
    pub fn around(&mut self, mean: u64, permille: u64) -> u64 {
        let spread = mean * permille / 1000;
        mean - spread + self.below(2 * spread + 1)
    }
}
