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
    /// Lost packets whose number is lower than the first that arrived: perhaps the receiver began later than the sender.
    pub lost_before_first: u64,
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
    /// The number of the first arrival; 0 once the sender has restarted.
    first: u64,
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
            first: 0,
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
            (self.next, self.different, self.first) = (0, 0, 0);
        }
        if number >= self.next {
            if self.counts.packets == 1 {
                (self.first, self.counts.lost_before_first) = (number, number);
            }
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
            self.counts.lost_before_first -= u64::from(number < self.first);
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
