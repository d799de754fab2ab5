//! Packets of one sender: lost, reordered, duplicated.

use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::BTreeSet;
use wharf_tools::traffic::{Arrival, Arrivals, Check, Generator, GeneratorSpec, SequenceCounts};

/// Numbers behind the highest that are told apart.
const WINDOW: u64 = 8192;

/// The packets of one sender as they arrive.
struct Sequence {
    generator: Generator,
    arrivals: Arrivals,
}

impl Sequence {
    fn new() -> Self {
        let generator = GeneratorSpec::default().generators().unwrap().remove(0);
        Self { generator, arrivals: Arrivals::default() }
    }

    fn arrived(&mut self, number: u64, time_ns: u64) {
        let mut packet = [0; 60];
        self.generator.write_packet(&mut packet, number, time_ns);
        self.arrivals.check(&packet, Arrival::default());
    }

    fn counts(&self) -> SequenceCounts {
        self.arrivals.counts()
    }
}

fn counts(numbers: impl IntoIterator<Item = u64>) -> [u64; 4] {
    let mut sequence = Sequence::new();
    numbers.into_iter().for_each(|number| sequence.arrived(number, 1));
    let SequenceCounts { packets, lost, reordered, duplicated, .. } = sequence.counts();
    [packets, lost, reordered, duplicated]
}

#[test]
fn lost_reordered_and_duplicated_are_told_apart() {
    assert_eq!(counts([]), [0, 0, 0, 0]);
    assert_eq!(counts(0..100_000), [100_000, 0, 0, 0]);
    assert_eq!(counts([2, 3]), [2, 2, 0, 0], "lost before the first");
    assert_eq!(counts([0, 3, 1]), [3, 1, 1, 0]);
    assert_eq!(counts([0, 1, 1, 0]), [4, 0, 0, 2]);
    assert_eq!(counts([0, 2, 1, 1]), [4, 0, 1, 1]);
    assert_eq!(counts([WINDOW, 0]), [2, WINDOW, 1, 0], "too late to be told apart");
    assert_eq!(counts([0, WINDOW - 1, 0]), [3, WINDOW - 2, 0, 1]);
    let last = (1 << 44) - 1;
    assert_eq!(counts([last, last, last - 1]), [3, last - 1, 1, 1]);
}

#[test]
fn losses_before_the_first_arrival_are_told_apart() {
    for (numbers, lost) in
        [(&[0, 3][..], (2, 0)), (&[5, 7], (6, 5)), (&[5, 4, 3], (3, 3)), (&[2, 1, 0], (0, 0))]
    {
        let mut sequence = Sequence::new();
        numbers.iter().for_each(|&number| sequence.arrived(number, 1));
        let counts = sequence.counts();
        assert_eq!((counts.lost, counts.lost_before_first), lost, "{numbers:?}");
    }
}

#[test]
fn a_restarted_sender_has_lost_nothing() {
    let mut sequence = Sequence::new();
    for (round, lost) in [(1, 0), (2, 0), (3, 1)] {
        // Each round ends with a packet that was made before, and comes late.
        for (number, time_ns) in [(0, 10), (1, 20), (3, 30), (2, 20)] {
            if (round, number) != (3, 2) {
                sequence.arrived(number, 100 * round + time_ns);
            }
        }
        assert_eq!(sequence.counts().lost, lost, "round {round}");
    }
    assert_eq!(
        sequence.counts(),
        SequenceCounts { packets: 11, lost: 1, reordered: 2, duplicated: 0, lost_before_first: 0 }
    );
}

proptest! {
    #[test]
    fn counts_agree_with_a_set_of_all_numbers(steps in vec((-20i64..=20, 0..3000u64), 0..300)) {
        let (mut set, mut expected, mut at) = (BTreeSet::new(), SequenceCounts::default(), 0u64);
        let (mut sequence, mut first) = (Sequence::new(), None);
        for (step, leap) in steps {
            at = at.saturating_add_signed(step) + if leap < 10 { leap * 500 } else { 0 };
            expected.packets += 1;
            let highest = set.last().copied();
            if !set.insert(at) {
                expected.duplicated += 1;
            } else if highest.is_some_and(|highest| at < highest) {
                expected.reordered += 1;
            }
            expected.lost = set.last().map_or(0, |highest| highest + 1 - set.len() as u64);
            let first = *first.get_or_insert(at);
            expected.lost_before_first = first - set.range(..first).count() as u64;
            sequence.arrived(at, 5);
            prop_assert_eq!(sequence.counts(), expected);
        }
    }
}
