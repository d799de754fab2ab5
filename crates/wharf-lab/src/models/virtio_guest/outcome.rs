//! The result of a run.

/// Sums up to some time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Totals {
    /// Busy time of the guest (host polling included), vhost and the peer.
    pub(super) busy_ns: [u64; 3],
    /// Bytes of streams that the peer has read.
    pub(super) read_bytes: u64,
    /// Packets with a stream's data that have left the guest.
    pub(super) data_packets: u64,
    pub(super) data_bytes: u64,
    pub(super) kicks: u64,
    pub(super) transmit_interrupts: u64,
    pub(super) interrupts: u64,
    /// Answers; each has its time.
    pub(super) answers: usize,
    /// Packets dropped by the qdisc or the peer's socket.
    pub(super) dropped: u64,
}

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Time measured.
    pub measured_ns: u64,
    /// Busy time of guest, vhost and peer.
    pub busy_ns: u64,
    /// Bytes of streams that the peer has read.
    pub read_bytes: u64,
    /// Packets with a stream's data that left the guest.
    pub data_packets: u64,
    /// Their payload.
    pub data_bytes: u64,
    /// Exits of the guest to the host for a kick.
    pub kicks: u64,
    /// Interrupts of the transmit ring.
    pub transmit_interrupts: u64,
    /// Interrupts of both rings.
    pub interrupts: u64,
    /// Time of each answer, least first.
    pub answers_ns: Vec<u64>,
    /// Packets dropped by a qdisc, or by the peer's socket.
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

    /// Returns the time within which `permille` thousandths of the answers came; 0 if there were none.
    pub fn answered_within_ns(&self, permille: usize) -> u64 {
        let last = self.answers_ns.len().saturating_sub(1);
        self.answers_ns.get(last * permille / 1000).copied().unwrap_or(0)
    }

    /// Returns the bits per second that the peer has read.
    pub fn bits_per_s(&self) -> u64 {
        (u128::from(self.read_bytes) * 8_000_000_000 / u128::from(self.measured_ns.max(1))) as u64
    }
}
