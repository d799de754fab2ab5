//! The result of a run.

/// A probe and its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probe {
    /// The time at which it was sent.
    pub sent_ns: u64,
    /// Delay until its last bit was on the wire.
    pub queued_ns: u64,
    /// Time until the next one was sent, after its answer: a transaction.
    pub transaction_ns: u64,
}

/// Sums up to some time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Totals {
    pub(super) packets: u64,
    pub(super) wire_bytes: u64,
    pub(super) requeues: u64,
    pub(super) bulks: u64,
    pub(super) super_packets: u64,
    pub(super) interrupts: u64,
    pub(super) probes: usize,
    pub(super) limits: usize,
}

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Start of the measured time.
    pub from_ns: u64,
    /// Length of the measured time.
    pub measured_ns: u64,
    /// Packets that left.
    pub packets: u64,
    /// Bytes on the wire.
    pub wire_bytes: u64,
    /// Times that the driver returned a part of a bulk.
    pub requeues: u64,
    /// Times that super-packets were dequeued.
    pub bulks: u64,
    /// Super-packets dequeued.
    pub super_packets: u64,
    /// Interrupts.
    pub interrupts: u64,
    /// Probes with answers, in order.
    pub probes: Vec<Probe>,
    /// The byte limit at the start and at each change.
    pub limits: Vec<(u64, u32)>,
    /// Packets of the whole run.
    pub packets_in_all: u64,
}

impl Outcome {
    /// Returns `count` per second.
    pub fn per_second(&self, count: u64) -> u64 {
        (u128::from(count) * 1_000_000_000 / u128::from(self.measured_ns.max(1))) as u64
    }

    /// Returns the mean time of a transaction: one second by their number, as in netperf-wrapper
    /// (`rr_to_ms`).
    pub fn mean_transaction_ns(&self) -> u64 {
        self.probes.iter().map(|probe| probe.transaction_ns).sum::<u64>() / (self.probes.len() as u64).max(1)
    }

    /// Returns the same for each whole part of the measured time, `part_ns` long, that has any.
    pub fn mean_by_part_ns(&self, part_ns: u64) -> Vec<u64> {
        let whole = (self.measured_ns / part_ns.max(1)).max(1);
        let part_of = |probe: &Probe| probe.sent_ns.checked_sub(self.from_ns).map(|ns| ns / part_ns.max(1));
        let parts = self.probes.chunk_by(|a, b| part_of(a) == part_of(b));
        let parts = parts.filter(|part| part.first().and_then(part_of).is_some_and(|at| at < whole));
        let mean =
            |part: &[Probe]| part.iter().map(|probe| probe.transaction_ns).sum::<u64>() / part.len() as u64;
        parts.map(mean).collect()
    }
}
