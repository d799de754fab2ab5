//! The kernel's transmit path of late 2014 with super-packets: TCP streams and probes of high priority, one queue.
//!
//! Streams put super-packets into `pfifo_fast`; whoever runs it takes them out, one or a bulk within the byte limit, cuts them
//! behind the qdisc (GSO) or has the NIC do it (TSO), and gives packets to the driver until that is stopped. What is left
//! is requeued and goes first: a packet of high priority waits behind it, and behind what the NIC holds. Completions and
//! acknowledgements come with the same interrupt, a least time after the one before. (Linux 3.18, `net/core/dev.c`,
//! `net/sched/sch_generic.c`, `ixgbe`; facts in our own words.)
//!
//! `Prio`, `Bql` and the pool are the path's own, the streams are [`flows`](wharf_sim::flows). The driver's stop between two packets
//! of one super-packet is the kernel's, which our own path does not have: it cuts before it hands over.

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

/// Who cuts super-packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offload {
    /// The NIC.
    Tso,
    /// The kernel, behind the qdisc.
    Gso,
}

/// What steps take, in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub struct Costs {
    /// TCP's part in sending a super-packet, up to the qdisc.
    pub send_ns: u64,
    /// Taking one out of the qdisc.
    pub dequeue_ns: u64,
    /// Cutting one packet off a super-packet.
    pub cut_ns: u64,
    /// The driver, per packet (per super-packet where the NIC cuts).
    pub driver_ns: u64,
    /// A doorbell.
    pub doorbell_ns: u64,
    /// A completed packet.
    pub reclaim_ns: u64,
    /// A packet that comes back: an acknowledgement, or the answer to a probe.
    pub receive_ns: u64,
    /// An interrupt, until its poll begins.
    pub interrupt_ns: u64,
}

/// What is run.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Streams, each with as much to send as it may.
    pub streams: usize,
    /// What they go by.
    pub rules: Rules,
    /// Headers of each packet of theirs.
    pub header_bytes: u32,
    /// Who cuts.
    pub offload: Offload,
    /// Several super-packets in one bulk.
    pub bulk: bool,
    /// Packets that each band takes.
    pub qdisc_packets: usize,
    /// Descriptors.
    pub ring_descriptors: u32,
    /// One byte on the wire.
    pub wire_ps_per_byte: u64,
    /// From a doorbell until its packets are at the wire.
    pub fetch_ns: u64,
    /// Least time between two interrupts.
    pub interrupt_gap_ns: u64,
    /// The other host's interrupts come as far apart, by a clock that differs by so many millionths at most.
    pub far_drift_ppm: u64,
    /// Probes come by the interrupts of the streams' packets there; else by others, which come at once.
    pub far_shared: bool,
    /// From a packet's last bit until its acknowledgement, or the answer to a probe, is back, without interrupts.
    pub round_trip_ns: u64,
    /// From where the answer to a probe has been received until the next probe is in the qdisc.
    pub think_ns: u64,
    /// Lengths of requests by UDP, whose delay is measured, and by TCP, and of an echo request.
    pub udp_probe_bytes: u32,
    /// By TCP.
    pub tcp_probe_bytes: u32,
    /// Of an echo request.
    pub ping_bytes: u32,
    /// How often two of these are sent, one of high priority and one of none.
    pub ping_every_ns: u64,
    /// The byte limit's hold time.
    pub hold_ns: u64,
    /// What steps cost.
    pub costs: Costs,
    /// Thousandths by which that time, and TCP's time for a super-packet, vary.
    pub jitter_permille: u64,
    /// Of the generator.
    pub seed: u64,
    /// Time before measuring.
    pub settle_ns: u64,
    /// Time measured.
    pub measure_ns: u64,
}

/// Runs a setup; what came of it. `goes_on` is asked now and then.
///
/// # Errors
/// [`RunError`]: a rule of the path was broken, there was no memory, or it was not to go on.
pub fn run(setup: Setup, goes_on: &mut dyn FnMut() -> bool) -> Result<Outcome, RunError> {
    let clock = Arc::new(VirtualClock::default());
    let mut host = Host::new(setup, &clock)?;
    let mut agenda = Agenda::new(host::SLOTS);
    host.start(&mut agenda);
    let window = (host.setup.settle_ns, host.setup.measure_ns);
    let course = harness::settle_measure_drain(&mut host, &mut agenda, &clock, window, goes_on)?;
    host.finish(course.before, course.after)
}
