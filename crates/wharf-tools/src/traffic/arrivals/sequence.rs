//! The sequence numbers of one sender as they arrive: lost, reordered or duplicated.
//!
//! A packet is *reordered* if one with a higher number came before it (RFC 4737, section 3), *duplicated* if it has come before, and
//! *lost* if a higher number has come, but it has not. Numbers count from 0, so losses before the first arrival count, too. A packet
//! more than [`WINDOW`] numbers late is reordered and stays lost.
//!
//! A sender that restarts begins at 0 again. The stamps' time shows that: a packet with a lower number that was made *after* the
//! highest one is not late.

/// Numbers behind the highest that are told apart.
pub(super) const WINDOW: u64 = 8192;
const WORDS: usize = (WINDOW / 64) as usize;

/// Fates of a sender's packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct SequenceCounts {
    /// Packets that arrived, duplicates included.
    pub packets: u64,
    /// Numbers below the highest that did not arrive.
    pub lost: u64,
    /// Packets that came after one with a higher number.
    pub reordered: u64,
    /// Packets that had come before.
    pub duplicated: u64,
}

/// One sender's numbers.
#[derive(Debug)]
pub(super) struct Sequence {
    /// One more than the highest number seen.
    next: u64,
    /// Time at which the packet with the highest number was made.
    newest_ns: u64,
    /// Numbers that came, each once.
    different: u64,
    /// Arrivals of the last [`WINDOW`] numbers below `next`, by bit `number % WINDOW`.
    seen: Box<[u64; WORDS]>,
    counts: SequenceCounts,
    /// Losses before the sender restarted.
    lost_before: u64,
}

impl Sequence {
    pub(super) fn new() -> Self {
        Self {
            next: 0,
            newest_ns: 0,
            different: 0,
            seen: Box::new([0; WORDS]),
            counts: SequenceCounts::default(),
            lost_before: 0,
        }
    }

    /// Notes the arrival of packet `number`, made at `time_ns`.
    #[inline]
    pub(super) fn arrived(&mut self, number: u64, time_ns: u64) {
        self.counts.packets += 1;
        if number == self.next {
            self.mark(number, time_ns);
        } else {
            self.out_of_step(number, time_ns);
        }
    }

    /// Notes the new highest number.
    #[inline]
    fn mark(&mut self, number: u64, time_ns: u64) {
        let (word, bit) = place(number);
        self.seen[word] |= bit;
        (self.next, self.newest_ns) = (number + 1, time_ns);
        self.different += 1;
    }

    #[cold]
    fn out_of_step(&mut self, number: u64, time_ns: u64) {
        if number < self.next && time_ns > self.newest_ns {
            self.lost_before = self.lost();
            (self.next, self.different) = (0, 0);
        }
        if number >= self.next {
            self.skip_to(number);
            return self.mark(number, time_ns);
        }
        let (word, bit) = place(number);
        let is_told_apart = self.next - number <= WINDOW;
        if is_told_apart && self.seen[word] & bit != 0 {
            self.counts.duplicated += 1;
            return;
        }
        self.counts.reordered += 1;
        if is_told_apart {
            self.seen[word] |= bit;
            self.different += 1;
        }
    }

    /// Notes that the numbers from the next one up to `number` have not come.
    fn skip_to(&mut self, number: u64) {
        if number - self.next >= WINDOW {
            return self.seen.fill(0);
        }
        for missing in self.next..number {
            let (word, bit) = place(missing);
            self.seen[word] &= !bit;
        }
    }

    fn lost(&self) -> u64 {
        self.lost_before.saturating_add(self.next - self.different)
    }

    pub(super) fn counts(&self) -> SequenceCounts {
        SequenceCounts { lost: self.lost(), ..self.counts }
    }
}

#[inline]
fn place(number: u64) -> (usize, u64) {
    let at = number % WINDOW;
    ((at / 64) as usize, 1 << (at % 64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn counts(numbers: impl IntoIterator<Item = u64>) -> [u64; 4] {
        let mut sequence = Sequence::new();
        numbers.into_iter().for_each(|number| sequence.arrived(number, 1));
        let SequenceCounts { packets, lost, reordered, duplicated } = sequence.counts();
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
        let last = (1 << 48) - 1;
        assert_eq!(counts([last, last, last - 1]), [3, last - 1, 1, 1]);
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
        assert_eq!(sequence.counts(), SequenceCounts { packets: 11, lost: 1, reordered: 2, duplicated: 0 });
    }

    proptest! {
        #[test]
        fn counts_agree_with_a_set_of_all_numbers(steps in vec((-20i64..=20, 0..3000u64), 0..300)) {
            let (mut set, mut expected, mut at) = (BTreeSet::new(), SequenceCounts::default(), 0u64);
            let mut sequence = Sequence::new();
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
                sequence.arrived(at, 5);
                prop_assert_eq!(sequence.counts(), expected);
            }
        }
    }
}
