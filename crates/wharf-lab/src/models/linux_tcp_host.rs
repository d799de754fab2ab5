//! The transmit path of Linux 3.18 with super-packets: TCP streams and probes of high priority, one queue.
//!
//! Streams put super-packets into `pfifo_fast`. Its runner dequeues them, one or a bulk within the byte
//! limit. They are segmented behind the qdisc (GSO) or by the NIC (TSO), and packets go to the driver until
//! that is stopped. The rest is requeued and goes first: a packet of high priority waits behind it, and
//! behind the packets in the NIC. Completions and acknowledgements come with the same interrupt, a least time
//! after the one before. (`net/core/dev.c`, `net/sched/sch_generic.c`, `ixgbe`; facts in our own words.)
//!
//! `Prio`, `Bql` and the pool are the path's own, the streams are [`flows`](wharf_sim::flows). The kernel's
//! driver may stop between two packets of one super-packet. Wharf's own path does not have that: it segments
//! before it hands over.

mod host;
mod nic;
mod outcome;
mod poll;
mod probes;
mod xmit;

pub use outcome::{Outcome, Probe};

use host::Host;
use std::sync::Arc;
use wharf_sim::RunError;
use wharf_sim::engine::{Agenda, VirtualClock};
use wharf_sim::flows::tcp::Rules;
use wharf_sim::harness;

/// The segmenter of super-packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offload {
    /// The NIC.
    Tso,
    /// The kernel, behind the qdisc.
    Gso,
}

/// Times of the steps, in nanoseconds.
#[derive(Debug, Clone, Copy)]
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
#[derive(Debug, Clone)]
pub struct Setup {
    /// Streams, which always have data.
    pub streams: usize,
    /// Their settings.
    pub rules: Rules,
    /// Headers of each of their packets.
    pub header_bytes: u32,
    /// The segmenter.
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

/// Runs a setup. Asks `goes_on` after each slice of time.
///
/// # Errors
/// [`RunError`]: a rule of the path was broken, there was too little memory, or `goes_on` returned false.
pub fn run(setup: Setup, goes_on: &mut dyn FnMut() -> bool) -> Result<Outcome, RunError> {
    let clock = Arc::new(VirtualClock::default());
    let mut host = Host::new(setup, &clock)?;
    let mut agenda = Agenda::new(host::SLOTS);
    host.start(&mut agenda);
    let window = (host.setup.settle_ns, host.setup.measure_ns);
    let course = harness::settle_measure_drain(&mut host, &mut agenda, &clock, window, goes_on)?;
    host.finish(course.before, course.after)
}
