//! Drivers and NICs with a hostile script between them: see `hostile`. The fuzz target `nic_pairs` plays the
//! same.

use crate::hostile;

use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn any_script_ends_and_loses_no_frame(
        which in 0u8..4, bytes in proptest::collection::vec(any::<u8>(), 0..400),
    ) {
        hostile::play(&[&[which], &bytes[..]].concat());
    }
}

/// Without hostile writes, packets come and go.
#[test]
fn undisturbed_pairs_work() {
    for which in 0..4 {
        // Sends 9, receives 8, lets it all happen, reaps and receives; twice.
        let once = [0, 8, 3, 8, 7, 255, 7, 255, 7, 255, 1, 2];
        let seen = hostile::play(&[&[which], &once[..], &once[..]].concat());
        assert_eq!((seen.sent, seen.lies, seen.fault), (18, 0, false), "{which}: {seen:?}");
        assert!(seen.received >= 8, "{which}: {seen:?}");
    }
}
