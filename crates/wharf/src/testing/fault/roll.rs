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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_gives_its_published_numbers() {
        let mut random = SplitMix64::new(1_234_567);
        let numbers = std::array::from_fn(|_| random.draw());
        assert_eq!(
            numbers,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423,
                4_593_380_528_125_082_431,
                16_408_922_859_458_223_821
            ]
        );
    }

    /// Returns the failing ones of the first 10 000 events, asked one by one.
    fn one_by_one(mut roll: Roll) -> Vec<u64> {
        (0..10_000).filter(|_| roll.happens()).collect()
    }

    /// Returns the same, asked in groups of all sizes.
    fn in_groups(mut roll: Roll) -> Vec<u64> {
        let (mut at, mut failed) = (0, Vec::new());
        while at < 10_000 {
            let group = (1 + at % 64).min(10_000 - at);
            let clear = roll.clear_of(group);
            roll.pass(clear);
            at += clear;
            if clear < group {
                assert!(roll.happens());
                failed.push(at);
                at += 1;
            }
        }
        failed
    }

    #[test]
    fn an_events_fate_does_not_depend_on_how_events_come() {
        for chance in
            [Chance::Never, Chance::Millionths(10_000), Chance::Millionths(500_000), Chance::Every(7)]
        {
            let roll = Roll::new(chance, 7, 1);
            assert_eq!(one_by_one(roll.clone()), in_groups(roll), "{chance:?}");
        }
    }

    #[test]
    fn chances_come_out_as_asked_for() {
        let count = |chance, seed| one_by_one(Roll::new(chance, seed, 0)).len();
        assert_eq!((count(Chance::Never, 1), count(Chance::Millionths(0), 1)), (0, 0));
        assert_eq!((count(Chance::Millionths(1_000_000), 1), count(Chance::Every(1), 1)), (10_000, 10_000));
        assert_eq!(one_by_one(Roll::new(Chance::Every(2500), 1, 0)), [2499, 4999, 7499, 9999]);
        for seed in 0..20 {
            // 100 are expected; five times the standard deviation of 10 is far out.
            assert!((50..150).contains(&count(Chance::Millionths(10_000), seed)), "seed {seed}");
        }
    }

    #[test]
    fn streams_and_seeds_differ_and_stay_the_same() {
        let events = |seed, stream| one_by_one(Roll::new(Chance::Millionths(10_000), seed, stream));
        assert_eq!(events(7, 1), events(7, 1));
        assert!(events(7, 1) != events(7, 2) && events(7, 1) != events(8, 1));
        // The numbers of another implementation of the generator.
        assert_eq!(events(7, 1)[..4], [232, 270, 286, 326]);
    }
}
