//! What things cost, and what is run.

use super::far;
use wharf_core::engine::Batching;
use wharf_core::owner::Policy;
use wharf_sim::engine::cpu::Tick;
use wharf_sim::engine::lock::{LockCosts, LockKind};
use wharf_tools::fault::FaultSpec;

/// Time that the steps of the path take, in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub struct Costs {
    /// Root locks and queue locks.
    pub lock: LockCosts,
    /// Who gets a lock that several spin for.
    pub lock_kind: LockKind,
    /// Putting a packet into the qdisc.
    pub enqueue_ns: u64,
    /// Taking one out.
    pub dequeue_ns: u64,
    /// The driver, per packet: mapping it, writing its descriptor.
    pub driver_ns: u64,
    /// What the processor waits at its next locked instruction for a doorbell to have left it.
    pub doorbell_drain_ns: u64,
    /// A completed packet: unmapping and freeing it.
    pub reclaim_ns: u64,
    /// A completion that the device was asked for, one for each call of the driver; where it writes packets back, 0.
    pub completion_ns: u64,
    /// An interrupt, and a poll with nothing in it.
    pub interrupt_ns: u64,
    /// Least time between two interrupts of a vector.
    pub interrupt_gap_ns: u64,
    /// Waking a process, for who wakes it.
    pub wake_ns: u64,
    /// Switching to another process.
    pub switch_ns: u64,
    /// Until an idle processor has begun what it was woken for.
    pub idle_exit_ns: u64,
    /// The timer.
    pub tick: Tick,
}

/// What streams do.
#[derive(Debug, Clone, Copy)]
pub enum Traffic {
    /// A process makes a packet and sends it, as often as its socket's buffer allows.
    Socket {
        /// Making and sending one, apart from the steps of the path.
        make_ns: u64,
        /// Packets that the buffer has room for; the process is woken when half of it is free.
        window_packets: u32,
    },
    /// A process copies packets into the socket's buffer; what the window allows leaves in that call, or when
    /// acknowledgements come, in a softirq.
    Tcp {
        /// Copying one packet in.
        copy_ns: u64,
        /// Sending one, apart from the steps of the path.
        send_ns: u64,
        /// Receiving one acknowledgement; one comes for every two packets.
        ack_ns: u64,
        /// From the completion of a packet to its acknowledgement.
        round_trip_ns: u64,
        /// Packets that may be unacknowledged, and that the buffer has room for beyond those.
        window_packets: u32,
        /// The acknowledgements of a stream come to so many processors further on, as its hash has it.
        ack_shift: usize,
    },
}

/// Whose the transmit queues are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Queues {
    /// One for each processor, with an interrupt vector: stream n has its process, and its queue, on processor n modulo their
    /// number.
    Each,
    /// One for all, whose interrupts come to the first processor, acknowledgements with them: stream n has its process on the
    /// n-th after that.
    One,
}

/// What is run, and for how long.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Processors.
    pub cpus: usize,
    /// Whose the queues are.
    pub queues: Queues,
    /// Whether there is a byte limit; without one, the ring is what stops a queue.
    pub byte_limit: bool,
    /// Bulks of more than one packet only where a softirq runs the queue: because it was stopped, or the quota spent.
    pub wake_only: bool,
    /// Faults of the device.
    pub errors: Option<FaultSpec>,
    /// Streams.
    pub streams: usize,
    /// Length of their packets, without checksum.
    pub frame_bytes: u32,
    /// What they do.
    pub traffic: Traffic,
    /// What receiving TCP takes at the far host; `None` for one that takes no time but the round trip's.
    pub far: Option<far::Costs>,
    /// The switch of bulk dequeue.
    pub batching: Batching,
    /// Descriptors in each ring.
    pub ring_frames: usize,
    /// Bounds one run of a qdisc.
    pub policy: Policy,
    /// Descriptors that must be free for a queue to go on that the full ring has stopped; as many as the ring has, at most.
    pub wake_free_frames: usize,
    /// Packets that each qdisc takes.
    pub qdisc_packets: usize,
    /// The byte limit's hold time.
    pub hold_ns: u64,
    /// What the steps cost.
    pub costs: Costs,
    /// Thousandths by which the time of making a packet varies, either way.
    pub jitter_permille: u64,
    /// Of the generator.
    pub seed: u64,
    /// Time before measuring.
    pub settle_ns: u64,
    /// Time measured.
    pub measure_ns: u64,
}

impl Setup {
    /// Packets that a stream may have under way.
    pub(super) fn window_packets(&self) -> u32 {
        match self.traffic {
            Traffic::Socket { window_packets, .. } | Traffic::Tcp { window_packets, .. } => window_packets,
        }
    }

    /// Transmit queues.
    pub(super) fn queue_count(&self) -> usize {
        match self.queues {
            Queues::Each => self.cpus,
            Queues::One => 1,
        }
    }

    /// Buffers for all of them: what streams have under way, a stock, and what a cache may keep to itself.
    pub(super) fn frames(&self) -> u32 {
        self.streams as u32 * self.window_packets() + 2048
    }
}
