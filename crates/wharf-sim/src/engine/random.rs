//! `Random`: xoshiro256++ (Blackman and Vigna, "Scrambled linear pseudorandom number generators", 2019),
//! seeded by SplitMix64 as its authors advise. It is named, so that a seed means the same numbers for ever.

/// A stream of numbers that a seed determines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Random([u64; 4]);

impl Random {
    /// Creates a stream from any seed.
    pub fn new(seed: u64) -> Self {
        let mut state = seed;
        Self(std::array::from_fn(|_| split_mix(&mut state)))
    }

    /// Returns the next number, of 64 bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        let [a, b, c, d] = &mut self.0;
        let result = a.wrapping_add(*d).rotate_left(23).wrapping_add(*a);
        let shifted = *b << 17;
        *c ^= *a;
        *d ^= *b;
        *b ^= *c;
        *a ^= *d;
        *c ^= shifted;
        *d = d.rotate_left(45);
        result
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

fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The authors' C programs print these for state 1, 2, 3, 4.
    #[test]
    fn first_values_are_those_of_its_authors() {
        let mut random = Random([1, 2, 3, 4]);
        let wanted = [
            41_943_041,
            58_720_359,
            3_588_806_011_781_223,
            3_591_011_842_654_386,
            9_228_616_714_210_784_205,
            9_973_669_472_204_895_162,
            14_011_001_112_246_962_877,
            12_406_186_145_184_390_807,
            15_849_039_046_786_891_736,
            10_450_023_813_501_588_000,
        ];
        assert_eq!(std::array::from_fn::<u64, 10, _>(|_| random.next_u64()), wanted);
    }

    #[test]
    fn seeding_is_that_of_its_authors() {
        let mut state = 1_477_776_061_723_855_037;
        let wanted = [1_985_237_415_132_408_290, 2_979_275_885_539_914_483, 13_511_426_838_097_143_398];
        assert_eq!(std::array::from_fn::<u64, 3, _>(|_| split_mix(&mut state)), wanted);
    }

    #[test]
    fn bounds_hold_and_both_ends_come() {
        let mut random = Random::new(1);
        let mut seen = [false; 6];
        (0..200).for_each(|_| seen[random.below(6) as usize] = true);
        assert!(seen.iter().all(|&seen| seen) && random.below(0) == 0 && random.below(1) == 0);
        let around: Vec<u64> = (0..2000).map(|_| random.around(100, 50)).collect();
        assert_eq!((around.iter().min(), around.iter().max()), (Some(&95), Some(&105)));
    }
}
