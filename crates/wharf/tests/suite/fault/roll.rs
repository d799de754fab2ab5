//! Events by chance and by count, from a seed.

use wharf::testing::Chance;
use wharf::testing::Roll;
use wharf_core::random::SplitMix64;

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
    for chance in [Chance::Never, Chance::Millionths(10_000), Chance::Millionths(500_000), Chance::Every(7)] {
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
