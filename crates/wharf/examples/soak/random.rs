//! Chance, by SplitMix64.

use wharf_core::random::SplitMix64;

#[derive(Debug, Clone)]
pub struct Random(SplitMix64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(SplitMix64::new(seed))
    }

    pub fn next(&mut self) -> u64 {
        self.0.draw()
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.0.below(bound)
    }

    /// True once in `times` calls on average.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    pub fn one_of<T: Copy>(&mut self, those: &[T]) -> T {
        those[self.below(those.len() as u64) as usize]
    }
}
