//! What is run, what its steps take, and what was measured.

use wharf_core::engine::Batching;
use wharf_core::owner::Policy;
use wharf_sim::engine::cache_line::LineCosts;
use wharf_sim::engine::cpu::Tick;

/// What steps take, in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub struct Costs {
    /// Making a packet.
    pub make_ns: u64,
    /// Putting one into the lane.
    pub stage_ns: u64,
    /// The owner word.
    pub word: LineCosts,
    /// Taking a packet out of a lane.
    pub pull_ns: u64,
    /// The driver, per packet.
    pub driver_ns: u64,
    /// What the next step waits for a doorbell to have left the processor.
    pub doorbell_drain_ns: u64,
    /// A completed packet, until it is on its way home.
    pub reclaim_ns: u64,
    /// Before a sender that could not go on looks again.
    pub again_ns: u64,
    /// One look of an owner that stands by.
    pub look_ns: u64,
    /// The timer.
    pub tick: Tick,
}

/// What is run.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Processors, each with one sender.
    pub cpus: usize,
    /// How long one owns the queue.
    pub policy: Policy,
    /// A processor more that owns the queue for good and sends nothing.
    pub dedicated: bool,
    /// Packets handed over at a time.
    pub burst: usize,
    /// Their length, without checksum.
    pub frame_bytes: u32,
    /// The batching switch.
    pub batching: Batching,
    /// Descriptors in the ring.
    pub ring_frames: usize,
    /// Frames of the pool.
    pub pool_frames: u32,
    /// What the steps cost.
    pub costs: Costs,
    /// Thousandths by which the time of making varies, either way.
    pub jitter_permille: u64,
    /// Of the generator.
    pub seed: u64,
    /// Time before measuring.
    pub settle_ns: u64,
    /// Time measured.
    pub measure_ns: u64,
}

/// What was measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Packets that left within the time of measuring.
    pub packets: u64,
    /// How long that was.
    pub measured_ns: u64,
    /// In the whole run: packets, doorbells rung for them, and packets by sender.
    pub packets_in_all: u64,
    /// Doorbells.
    pub doorbells: u64,
    /// By sender: what it sent.
    pub by_sender: Vec<u64>,
    /// By sender: what it handed to the device as owner, for itself and others.
    pub drained: Vec<u64>,
    /// By sender: of that, sent by others.
    pub for_others: Vec<u64>,
    /// By sender: time as owner, standing by left out.
    pub owned_ns: Vec<u64>,
    /// Packets of the longest run of an owner.
    pub longest_run: u64,
    /// Events.
    pub events: u64,
}

impl Outcome {
    /// Packets per second.
    pub fn packets_per_s(&self) -> u64 {
        (u128::from(self.packets) * 1_000_000_000 / u128::from(self.measured_ns.max(1))) as u64
    }

    /// Thousandths of a packet per doorbell.
    pub fn packets_per_doorbell_permille(&self) -> u64 {
        self.packets_in_all * 1000 / self.doorbells.max(1)
    }
}
