//! The costs and the settings of a run.

use super::far;
use serde::Deserialize;
use wharf::testing::FaultSpec;
use wharf_core::engine::Batching;
use wharf_core::owner::Policy;
use wharf_sim::engine::cpu::Tick;
use wharf_sim::engine::lock::{LockCosts, LockKind};
use wharf_sim::harness::Timing;

/// Times of the path's steps, in nanoseconds.
#[derive(Debug, Clone, Copy, Deserialize)]
pub struct Costs {
    /// Root locks and queue locks.
    pub lock: LockCosts,
    /// The order in which spinners get a lock.
    #[serde(skip)]
    pub lock_kind: LockKind,
    /// Enqueueing a packet.
    pub enqueue_ns: u64,
    /// Dequeueing a packet.
    pub dequeue_ns: u64,
    /// The driver, per packet: mapping it, writing its descriptor.
    pub driver_ns: u64,
    /// The wait of the processor's next locked instruction for a doorbell to leave.
    pub doorbell_drain_ns: u64,
    /// A completed packet: unmapping and freeing it.
    pub reclaim_ns: u64,
    /// A completion that the driver asked for, one per call; 0 if the device writes packets back.
    pub completion_ns: u64,
    /// An interrupt, and a poll with nothing in it.
    pub interrupt_ns: u64,
    /// Least time between two interrupts of a vector.
    pub interrupt_gap_ns: u64,
    /// Waking a process, on the side of the waker.
    pub wake_ns: u64,
    /// Switching to another process.
    pub switch_ns: u64,
    /// The time until a woken idle processor begins to work.
    pub idle_exit_ns: u64,
    /// The timer.
    pub tick: Tick,
}

/// The work of streams: a process makes packets and sends them as its socket's buffer allows.
#[derive(Debug, Clone, Copy)]
pub struct Traffic {
    /// Making a packet and, but for TCP, sending it, without the steps of the path.
    pub make_ns: u64,
    /// Packets in flight. The buffer holds as many, of TCP twice as many; the process is woken when half of it
    /// is free.
    pub window_packets: u32,
    /// TCP: packets leave when made if the window allows, else in a softirq when acknowledgements come.
    pub tcp: Option<Tcp>,
}

/// TCP's part in the work.
#[derive(Debug, Clone, Copy, Deserialize)]
pub struct Tcp {
    /// Sending a packet, without the steps of the path.
    pub send_ns: u64,
    /// Receiving one acknowledgement; one comes for every two packets.
    pub ack_ns: u64,
    /// From the completion of a packet to its acknowledgement.
    pub round_trip_ns: u64,
    /// The acknowledgements of a stream come to the processor this many further on, by its hash.
    pub ack_shift: usize,
}

impl Traffic {
    /// Returns the packets that a socket's buffer holds.
    pub(super) fn buffer_packets(&self) -> u32 {
        if self.tcp.is_some() { 2 * self.window_packets } else { self.window_packets }
    }
}

/// The assignment of transmit queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Queues {
    /// One per processor, with an interrupt vector. Stream n has its process and its queue on processor n
    /// modulo their number.
    Each,
    /// One for all, whose interrupts and acknowledgements come to the first processor. Stream n has its
    /// process on the n-th after that.
    One,
}

/// The settings of a run.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Processors.
    pub cpus: usize,
    /// The assignment of queues.
    pub queues: Queues,
    /// True with a byte limit; without one, the ring stops a queue.
    pub byte_limit: bool,
    /// True if bulks have more than one packet only in a softirq: after the queue was stopped, or the quota
    /// spent.
    pub wake_only: bool,
    /// Faults of the device.
    pub errors: Option<FaultSpec>,
    /// Streams.
    pub streams: usize,
    /// Length of their packets, without checksum.
    pub frame_bytes: u32,
    /// Their work.
    pub traffic: Traffic,
    /// Receiving at the far host; `None` if it takes only the round-trip time.
    pub far: Option<far::Costs>,
    /// The switch of bulk dequeue.
    pub batching: Batching,
    /// Descriptors in each ring.
    pub ring_frames: usize,
    /// Bounds of one run of a qdisc.
    pub policy: Policy,
    /// Descriptors that must be free before a queue stopped by a full ring goes on; at most the ring's.
    pub wake_free_frames: usize,
    /// Packets that each qdisc holds.
    pub qdisc_packets: usize,
    /// The byte limit's hold time.
    pub hold_ns: u64,
    /// Times of the steps.
    pub costs: Costs,
    /// Seed and times; the time of making a packet varies.
    pub time: Timing,
}

impl Setup {
    /// Returns the number of transmit queues.
    pub(super) fn queue_count(&self) -> usize {
        match self.queues {
            Queues::Each => self.cpus,
            Queues::One => 1,
        }
    }

    /// Returns the number of buffers: those of the streams, a stock, and those that a cache may keep.
    pub(super) fn frames(&self) -> u32 {
        self.streams as u32 * self.traffic.window_packets + 2048
    }
}
