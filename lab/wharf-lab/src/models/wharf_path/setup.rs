//! The settings, the costs and the result of a run.

use crate::comparators::histogram::Histogram;
use crate::models::linux_qdisc::shared::Counts;
use serde::Deserialize;
use wharf_core::bql::Bounds;
use wharf_core::engine::Batching;
use wharf_core::owner::Policy;
use wharf_core::qdisc::QdiscSpec;
use wharf_sim::engine::cache_line::LineCosts;
use wharf_sim::engine::cpu::{Smt, Tick};
use wharf_sim::flows::arrivals::Schedule;
use wharf_sim::harness::Timing;

/// Times of the steps, in nanoseconds.
#[derive(Debug, Clone, Copy, Deserialize)]
pub struct Costs {
    /// Making a packet.
    pub make_ns: u64,
    /// A read of the exact clock: one for each burst over a line, and two for one of a sender that pauses.
    #[serde(default)]
    pub clock_ns: u64,
    /// Putting one into the lane.
    pub stage_ns: u64,
    /// The owner word.
    pub word: LineCosts,
    /// Taking a packet out of a lane.
    pub pull_ns: u64,
    /// The driver, per packet.
    pub driver_ns: u64,
    /// The wait of the next step for a doorbell to leave the processor.
    pub doorbell_drain_ns: u64,
    /// A completed packet, until it is in its return ring.
    pub reclaim_ns: u64,
    /// The time until a sender that could not go on looks again.
    pub again_ns: u64,
    /// One look of an owner that stands by, or of a sender that waits.
    pub look_ns: u64,
    /// One of the pauses of a dedicated owner between two rounds; 0 for an owner without pauses, which
    /// idles until a completion.
    #[serde(default)]
    pub pause_ns: u64,
    /// The lines of a lane and of its return ring, from the sender to a dedicated owner, or back.
    #[serde(default)]
    pub lane_ns: u64,
    /// The timer.
    pub tick: Tick,
}

/// A sender.
#[derive(Debug, Clone)]
pub struct SenderSetup {
    /// Packets handed over at a time.
    pub burst: usize,
    /// Their length, without checksum.
    pub frame_bytes: u32,
    /// Their band; `None` for the discipline's choice.
    pub band: Option<u8>,
    /// The times at which it has packets.
    pub schedule: Schedule,
}

/// Threads of an operating system: a sender that waits looks for a while and then sleeps; the queue reads a
/// coarse clock.
#[derive(Debug, Clone, Copy)]
pub struct Threads {
    /// A poller runs the queue beside the senders.
    pub polled: bool,
    /// From a wake-up until the thread runs.
    pub wake_ns: u64,
    /// By how much a sleep is longer than it was to be.
    pub late_ns: u64,
    /// The coarse clock's step.
    pub clock_ns: u64,
    /// The time before a packet is due in which its sender spins.
    pub spin_ns: u64,
}

/// The settings of a run.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Processors.
    pub cpus: usize,
    /// Senders: number n runs on processor n modulo their number, and shares it with the others there.
    pub senders: Vec<SenderSetup>,
    /// A time slice of senders that share a processor.
    pub slice_ns: u64,
    /// A switch between them.
    pub switch_ns: u64,
    /// Bounds of one ownership.
    pub policy: Policy,
    /// True if a further processor owns the queue for good and sends nothing.
    pub dedicated: bool,
    /// The batching switch.
    pub batching: Batching,
    /// The discipline; `None` for a queue's default.
    pub qdisc: Option<QdiscSpec>,
    /// Bounds of the byte limit.
    pub byte_limits: Bounds,
    /// Most bytes of a sender inside, as [`QueueBuilder::small_queues`](wharf_core::queue::QueueBuilder::small_queues);
    /// the outer `None` for the discipline's default.
    pub small_queues: Option<Option<u32>>,
    /// Descriptors in the ring.
    pub ring_frames: usize,
    /// Time between two looks at completions: those in between are seen at the second; 0 as 1.
    pub completion_gap_ns: u64,
    /// Frames of the pool.
    pub pool_frames: u32,
    /// Senders as threads; `None` for senders that never sleep, on an exact clock, without a poller.
    pub threads: Option<Threads>,
    /// Processors that share cores.
    pub smt: Smt,
    /// Times of the steps.
    pub costs: Costs,
    /// Seed and times; the time of making varies.
    pub time: Timing,
}

/// The result of a run.
#[derive(Debug)]
pub struct Outcome {
    /// Packets that left within the measured time.
    pub packets: u64,
    /// Time measured.
    pub measured_ns: u64,
    /// Packets of the whole run.
    pub packets_in_all: u64,
    /// Doorbells.
    pub doorbells: u64,
    /// By processor: packets sent, and its work as owner, without standing by.
    pub by_cpu: Vec<Counts>,
    /// Packets of the longest run of an owner.
    pub longest_run: u64,
    /// Packets that left within the measured time, and their bytes on a wire, by sender.
    pub by_sender: Vec<(u64, u64)>,
    /// The byte limit at the end of the measured time.
    pub limit_bytes: u64,
    /// Times from a packet's making until it left, within the measured time, in nanoseconds, by sender.
    pub delays: Vec<Histogram>,
}

impl Outcome {
    /// Returns packets per second.
    pub fn packets_per_s(&self) -> u64 {
        (u128::from(self.packets) * 1_000_000_000 / u128::from(self.measured_ns.max(1))) as u64
    }

    /// Returns thousandths of a packet per doorbell.
    pub fn packets_per_doorbell_permille(&self) -> u64 {
        self.packets_in_all * 1000 / self.doorbells.max(1)
    }
}
