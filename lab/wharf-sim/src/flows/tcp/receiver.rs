//! The receiving end: the data that arrived, and the times of acknowledgements.

use crate::flows::Ranges;

/// The longest delay of an acknowledgement (the kernel's least, `TCP_DELACK_MIN`).
const DELAY_NS: u64 = 40_000_000;
/// SACK blocks that fit beside a time stamp.
const BLOCKS: usize = 3;

/// An acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ack {
    /// All bytes below have arrived.
    pub next: u64,
    /// Ranges beyond it that have arrived, the latest first.
    pub beyond: [Option<(u64, u64)>; BLOCKS],
    /// The time at which the packet was sent that this answers, if it was sent once.
    pub echo_ns: Option<u64>,
}

/// The receiving end of one connection.
#[derive(Debug, Clone, Default)]
pub struct Receiver {
    next: u64,
    beyond: Ranges,
    unanswered_bytes: u64,
    echo_ns: Option<u64>,
    answer_at_ns: Option<u64>,
}

impl Receiver {
    /// Takes the packet `from..to` at `now_ns`, sent at `sent_ns` (`None` for a retransmission). Returns the
    /// acknowledgement if one is due.
    pub fn received(
        &mut self, now_ns: u64, (from, to): (u64, u64), sent_ns: Option<u64>, mss_bytes: u32,
    ) -> Option<Ack> {
        let in_order = from <= self.next && self.beyond.is_empty();
        if self.unanswered_bytes == 0 {
            self.echo_ns = sent_ns;
        }
        self.unanswered_bytes += to - from;
        if to > self.next {
            self.beyond.insert(from.max(self.next), to);
            if let Some(end) = self.beyond.end_at(self.next) {
                self.next = end;
                self.beyond.remove_below(end);
            }
        }
        if !in_order || self.unanswered_bytes >= 2 * u64::from(mss_bytes) {
            return Some(self.answer(Some((from, to))));
        }
        self.answer_at_ns = self.answer_at_ns.or(Some(now_ns + DELAY_NS));
        None
    }

    /// Returns the time at which an acknowledgement is due if no packet arrives.
    pub fn answer_at_ns(&self) -> Option<u64> {
        self.answer_at_ns
    }

    /// Returns an acknowledgement; `latest` is the range that arrived last.
    pub fn answer(&mut self, latest: Option<(u64, u64)>) -> Ack {
        let mut beyond = [None; BLOCKS];
        let is_latest =
            |range: &(u64, u64)| latest.is_some_and(|(from, _)| (range.0..range.1).contains(&from));
        let first = self.beyond.iter().filter(is_latest);
        let others = self.beyond.iter().filter(|range| !is_latest(range));
        beyond.iter_mut().zip(first.chain(others)).for_each(|(place, range)| *place = Some(range));
        (self.unanswered_bytes, self.answer_at_ns) = (0, None);
        Ack { next: self.next, beyond, echo_ns: self.echo_ns.take() }
    }

    /// Returns the position below which all bytes have arrived.
    pub fn next(&self) -> u64 {
        self.next
    }
}
