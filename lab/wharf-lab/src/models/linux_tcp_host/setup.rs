//! The settings, the costs and the result of a run.

use serde::Deserialize;
use wharf_sim::flows::tcp::Rules;
use wharf_sim::harness::Timing;

/// The segmenter of super-packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Offload {
    /// The NIC.
    Tso,
    /// The kernel, behind the qdisc.
    #[default]
    Gso,
}

/// Times of the steps, in nanoseconds.
#[derive(Debug, Clone, Copy, Deserialize)]
pub struct Costs {
    /// TCP's part in sending a super-packet, up to the qdisc.
    pub send_ns: u64,
    /// Dequeueing a super-packet.
    pub dequeue_ns: u64,
    /// Segmenting one packet.
    pub cut_ns: u64,
    /// The driver, per packet (per super-packet with TSO).
    pub driver_ns: u64,
    /// A doorbell.
    pub doorbell_ns: u64,
    /// A completed packet.
    pub reclaim_ns: u64,
    /// An incoming packet: an acknowledgement, or the answer to a probe.
    pub receive_ns: u64,
    /// An interrupt, until its poll begins.
    pub interrupt_ns: u64,
}

/// The settings of a run.
#[derive(Debug, Clone, Deserialize)]
pub struct Setup {
    /// Streams, which always have data.
    pub streams: usize,
    /// Their settings.
    #[serde(skip)]
    pub rules: Rules,
    /// Headers of each of their packets.
    pub header_bytes: u32,
    /// The segmenter.
    #[serde(skip)]
    pub offload: Offload,
    /// True if a bulk may have several super-packets.
    pub bulk: bool,
    /// Packets that each band holds.
    pub qdisc_packets: usize,
    /// Descriptors.
    pub ring_descriptors: u32,
    /// One byte on the wire.
    pub wire_ps_per_byte: u64,
    /// From a doorbell until its packets are at the wire.
    pub fetch_ns: u64,
    /// Least time between two interrupts.
    pub interrupt_gap_ns: u64,
    /// The other host's interrupts are as far apart, by a clock that differs by at most so many millionths.
    pub far_drift_ppm: u64,
    /// True if probes come by the interrupts of the streams' packets there; else by immediate ones of their
    /// own.
    pub far_shared: bool,
    /// From a packet's last bit until its acknowledgement, or the answer to a probe, is back, without
    /// interrupts.
    pub round_trip_ns: u64,
    /// From the reception of a probe's answer until the next probe is in the qdisc.
    pub think_ns: u64,
    /// Length of a request by UDP, whose delay is measured.
    pub udp_probe_bytes: u32,
    /// Length of a request by TCP.
    pub tcp_probe_bytes: u32,
    /// Length of an echo request.
    pub ping_bytes: u32,
    /// Time between two pairs of those, one of high priority and one of none.
    pub ping_every_ns: u64,
    /// The byte limit's hold time.
    pub hold_ns: u64,
    /// Times of the steps.
    pub costs: Costs,
    /// Seed and times; the ping interval, and TCP's time for a super-packet, vary.
    pub time: Timing,
}

/// A probe and its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probe {
    /// The time at which it was sent.
    pub sent_ns: u64,
    /// Time until the next one was sent, after its answer: a transaction.
    pub transaction_ns: u64,
}

/// Sums up to some time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Totals {
    pub(super) packets: u64,
    pub(super) requeues: u64,
    pub(super) bulks: u64,
    pub(super) super_packets: u64,
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
    /// Times that the driver returned a part of a bulk.
    pub requeues: u64,
    /// Times that super-packets were dequeued.
    pub bulks: u64,
    /// Super-packets dequeued.
    pub super_packets: u64,
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
