//! The settings and the costs of a run.

use serde::Deserialize;
use wharf_sim::flows::tcp::Rules;

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
    /// Thousandths by which the ping interval, and TCP's time for a super-packet, vary.
    pub jitter_permille: u64,
    /// Seed of the generator.
    pub seed: u64,
    /// Time before measuring.
    pub settle_ns: u64,
    /// Time measured.
    pub measure_ns: u64,
}
