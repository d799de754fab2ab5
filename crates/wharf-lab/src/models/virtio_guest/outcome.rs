//! What came of a run.

/// Sums up to some time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Totals {
    /// Time that the guest (polling for it included), vhost and the peer took.
    pub(super) busy_ns: [u64; 3],
    /// What the peer has read of streams.
    pub(super) read_bytes: u64,
    /// Packets with a stream's data that have left the guest, and their payload.
    pub(super) data_packets: u64,
    pub(super) data_bytes: u64,
    pub(super) kicks: u64,
    pub(super) transmit_interrupts: u64,
    pub(super) interrupts: u64,
    /// Answers, all of which have their time.
    pub(super) answers: usize,
    /// Packets that the qdisc, or the peer's socket, had no room for.
    pub(super) dropped: u64,
}

/// What was measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// For how long.
    pub measured_ns: u64,
    /// Time that guest, vhost and peer took.
    pub busy_ns: u64,
    /// What the peer has read of streams.
    pub read_bytes: u64,
    /// Packets with a stream's data that left the guest, and their payload.
    pub data_packets: u64,
    /// Their payload.
    pub data_bytes: u64,
    /// Times that the guest left to the host for a kick.
    pub kicks: u64,
    /// Interrupts of the transmit ring.
    pub transmit_interrupts: u64,
    /// Interrupts of both rings.
    pub interrupts: u64,
    /// How long each answer took, least first.
    pub answers_ns: Vec<u64>,
    /// Packets that a qdisc, or the peer's socket, had no room for.
    pub dropped: u64,
    /// Packets of the whole run.
    pub packets_in_all: u64,
}

impl Outcome {
    pub(super) fn between(
        measured_ns: u64, before: &Totals, after: &Totals, answers: &[u64], packets_in_all: u64,
    ) -> Self {
        let mut answers_ns = answers[before.answers..after.answers].to_vec();
        answers_ns.sort_unstable();
        Self {
            measured_ns,
            busy_ns: (0..3).map(|at| after.busy_ns[at] - before.busy_ns[at]).sum(),
            read_bytes: after.read_bytes - before.read_bytes,
            data_packets: after.data_packets - before.data_packets,
            data_bytes: after.data_bytes - before.data_bytes,
            kicks: after.kicks - before.kicks,
            transmit_interrupts: after.transmit_interrupts - before.transmit_interrupts,
            interrupts: after.interrupts - before.interrupts,
            answers_ns,
            dropped: after.dropped - before.dropped,
            packets_in_all,
        }
    }

    /// Within which so many thousandths of the answers came; 0 where there were none.
    pub fn answered_within_ns(&self, permille: usize) -> u64 {
        let last = self.answers_ns.len().saturating_sub(1);
        self.answers_ns.get(last * permille / 1000).copied().unwrap_or(0)
    }

    /// Bits that the peer has read in a second.
    pub fn bits_per_s(&self) -> u64 {
        (u128::from(self.read_bytes) * 8_000_000_000 / u128::from(self.measured_ns.max(1))) as u64
    }
}
