//! Seeded chance, for peers that misbehave.

/// xorshift64*. The seed is not 0.
#[derive(Debug)]
pub struct Chance(pub u64);

impl Chance {
    /// Returns the next word.
    pub fn word(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Returns a number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.word() % bound
    }
}
