//! Virtual time and its generator.

use std::sync::Arc;
use wharf_core::host::{Clock, Park};
use wharf_sim::engine::{Random, VirtualClock, VirtualPark};

/// The authors' SplitMix64, and their xoshiro256++ from its first four numbers.
#[test]
fn a_seed_means_the_same_numbers_for_ever() {
    let mut random = Random::new(1_477_776_061_723_855_037);
    assert_eq!(
        std::array::from_fn::<u64, 3, _>(|_| random.next_u64()),
        [8_908_797_893_915_236_016, 6_865_687_317_417_346_668, 10_619_842_690_850_731_434]
    );
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

#[test]
fn waiting_moves_the_clock_unless_woken_before() {
    let clock = Arc::new(VirtualClock::default());
    let park = VirtualPark::new(clock.clone());
    park.park(500);
    park.waker().wake();
    park.park(500);
    assert_eq!(clock.now_ns(), 500);
    park.park(u64::MAX);
    assert_eq!(clock.now_ns(), u64::MAX);
}
