//! Percentiles of a histogram.

use wharf_lab::comparators::histogram::Histogram;

#[test]
fn percentiles_are_within_a_sixteenth() {
    let histogram = Histogram::default();
    assert_eq!((histogram.at_permille(500), histogram.max()), (0, 0));
    (1..=1000).for_each(|value| histogram.record(value));
    let both = Histogram::default();
    both.add(&histogram);
    for (permille, wanted) in [(1, 1), (10, 10), (500, 500), (990, 990), (1000, 1000)] {
        let found = both.at_permille(permille);
        assert!((wanted..=wanted + wanted / 16).contains(&found), "{permille}: {found}");
    }
    assert_eq!((both.count(), both.sum(), both.max()), (1000, 500_500, 1000));
}
