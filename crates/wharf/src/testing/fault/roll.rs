//! The events at which a fault happens: by chance from a seeded generator, or every n-th one.

use super::spec::Chance;
use wharf_core::random::SplitMix64;

/// The fates of one kind of event.
///
/// Fates are drawn ahead, so that the n-th event of a kind has the same fate however events are grouped into calls.
#[derive(Debug, Clone)]
pub struct Roll {
    chance: Chance,
    random: SplitMix64,
    /// Events ahead that are known to go well.
    clear: u64,
    /// True if the event behind those is known to fail.
    hit: bool,
}

impl Roll {
    /// Makes that of `chance`. Its generator is distinguished by `stream` from others of the same seed, so that a fault switched on
    /// changes no other.
    pub fn new(chance: Chance, seed: u64, stream: u64) -> Self {
        // Neighbouring streams must not be the same numbers, shifted: one more round of mixing.
        let mixed = SplitMix64::new(seed).draw().wrapping_add(stream);
        Self { chance, random: SplitMix64::new(SplitMix64::new(mixed).draw()), clear: 0, hit: false }
    }

    /// True if an event can fail.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.chance != Chance::Never
    }

    /// Returns how many of the next `most` events go well before the first that fails, or `most` if none fails.
    #[inline]
    pub fn clear_of(&mut self, most: u64) -> u64 {
        if self.chance == Chance::Never {
            return most;
        }
        while !self.hit && self.clear < most {
            self.draw();
        }
        self.clear.min(most)
    }

    fn draw(&mut self) {
        match self.chance {
            Chance::Never => {}
            Chance::Millionths(share) => {
                self.hit = self.random.below(1_000_000) < share.into();
                self.clear += u64::from(!self.hit);
            }
            Chance::Every(period) => {
                self.clear += period - 1;
                self.hit = true;
            }
        }
    }

    /// Uses up `count` events that go well, at most as many as [`Roll::clear_of`] has returned.
    #[inline]
    pub fn pass(&mut self, count: u64) {
        debug_assert!(count <= self.clear || self.chance == Chance::Never);
        self.clear = self.clear.saturating_sub(count);
    }

    /// Uses up one event. Returns true if it fails.
    #[inline]
    pub fn happens(&mut self) -> bool {
        if self.clear_of(1) == 1 {
            self.pass(1);
            return false;
        }
        self.hit = false;
        true
    }

    /// Returns a number from 1 to `most`, for the extent of a fault.
    pub fn up_to(&mut self, most: u64) -> u64 {
        1 + self.random.below(most)
    }
}
