//! Drivers and NICs with somebody between them: see `hostile`. The fuzz target `nic_pairs` plays the same.

mod hostile;

use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn whatever_is_written_there_is_an_end_and_no_frame_is_lost(
        which in 0u8..4, bytes in proptest::collection::vec(any::<u8>(), 0..400),
    ) {
        hostile::play(&[&[which], &bytes[..]].concat());
    }
}

/// With nobody between them, packets come and go.
#[test]
fn left_alone_every_pair_works() {
    for which in 0..4 {
        // Sends 9, receives 8, lets it all happen, reaps and receives; twice.
        let once = [0, 8, 3, 8, 7, 255, 7, 255, 7, 255, 1, 2];
        let seen = hostile::play(&[&[which], &once[..], &once[..]].concat());
        assert_eq!((seen.sent, seen.lies, seen.fault), (18, 0, false), "{which}: {seen:?}");
        assert!(seen.received >= 8, "{which}: {seen:?}");
    }
}
