//! A NIC after the 82599, as far as `bulk` needs one: a cost per doorbell, a latency of fetching, a wire.
//!
//! Doorbells of all queues are served one after the other, `doorbell_ps` each, for any number of descriptors:
//! bulk dequeue was made against that limit. The bus is not modelled.

use super::Departed;
use super::memory::{Descriptor, TxMemory};
use crate::engine::take_due;
use serde::Deserialize;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use wharf_mem::lock;

/// Bytes on the wire besides each frame: preamble 8, checksum 4, gap 12.
pub const WIRE_OVERHEAD_BYTES: u64 = 24;
/// The shortest frame on the wire, without its checksum.
const FRAME_BYTES_MIN: u64 = 60;
const PS: u64 = 1000;

/// Returns the bytes that a frame of this length takes on the wire.
pub fn wire_bytes(len_bytes: u32) -> u64 {
    u64::from(len_bytes).max(FRAME_BYTES_MIN) + WIRE_OVERHEAD_BYTES
}

/// The NIC's costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
pub struct Costs {
    /// Serving one doorbell, picoseconds.
    pub doorbell_ps: u64,
    /// From a doorbell served until its frames are at the wire, nanoseconds.
    pub fetch_ns: u64,
    /// From the last bit of a frame until its descriptor is written back, nanoseconds.
    pub write_back_ns: u64,
    /// One byte on the wire, picoseconds; 0 for no wire.
    pub wire_ps_per_byte: u64,
    /// All frames of a doorbell are written back together, when the last one is.
    #[serde(skip)]
    pub written_back_together: bool,
}

/// The hardware half.
#[derive(Debug, Default)]
pub struct Simple {
    costs: Costs,
    frame_bytes: u64,
    doorbells_free_ps: u64,
    wire_free_ps: u64,
    /// Times at which the wire changes its speed, and the new picoseconds a byte.
    changes: VecDeque<(u64, u64)>,
    queues: Vec<Queue>,
}

#[derive(Debug)]
struct Queue {
    memory: Arc<Mutex<TxMemory>>,
    /// Next descriptor to fetch, next to write back.
    fetch: u32,
    written_back: u32,
    /// The time of each write-back between them.
    write_backs_ns: VecDeque<u64>,
}

impl Simple {
    /// Creates the hardware with a queue per memory, for frames that lie `frame_bytes` apart.
    pub fn new(costs: Costs, memories: Vec<Arc<Mutex<TxMemory>>>, frame_bytes: u32) -> Self {
        let queue = |memory| Queue { memory, fetch: 0, written_back: 0, write_backs_ns: VecDeque::new() };
        let queues = memories.into_iter().map(queue).collect();
        Self { costs, frame_bytes: frame_bytes.into(), queues, ..Self::default() }
    }

    /// Changes the wire's speed for frames that begin at a time (nanoseconds) or later, to so many
    /// picoseconds a byte. In order of time.
    #[must_use]
    pub fn changing(mut self, changes: impl IntoIterator<Item = (u64, u64)>) -> Self {
        self.changes = changes.into_iter().map(|(at_ns, ps)| (at_ns * PS, ps)).collect();
        self
    }

    /// Handles a write to the tail register of `queue` at `now_ns`; calls come in order of time. Adds the
    /// frames that will leave to `departed`, in that order.
    #[inline]
    pub fn doorbell(&mut self, queue: usize, now_ns: u64, departed: &mut Vec<Departed>) {
        self.doorbells_free_ps = self.doorbells_free_ps.max(now_ns * PS) + self.costs.doorbell_ps;
        let at_wire_ps = self.doorbells_free_ps + self.costs.fetch_ns * PS;
        let queue = &mut self.queues[queue];
        let mut memory = lock(&queue.memory);
        let before = queue.write_backs_ns.len();
        while queue.fetch != memory.tail {
            let descriptor = *memory.at(queue.fetch);
            queue.fetch = queue.fetch.wrapping_add(1);
            let len_bytes = descriptor.len_bytes();
            let wire_bytes = wire_bytes(len_bytes);
            let begins_ps = self.wire_free_ps.max(at_wire_ps);
            while let Some(ps) = take_due(&mut self.changes, begins_ps) {
                self.costs.wire_ps_per_byte = ps;
            }
            self.wire_free_ps = begins_ps + wire_bytes * self.costs.wire_ps_per_byte;
            let at_ns = self.wire_free_ps / PS;
            queue.write_backs_ns.push_back(at_ns + self.costs.write_back_ns);
            let index = (descriptor.address() / self.frame_bytes) as u32;
            departed.push(Departed { index, len_bytes, at_ns });
        }
        if self.costs.written_back_together
            && let Some(&last_ns) = queue.write_backs_ns.back()
        {
            queue.write_backs_ns.range_mut(before..).for_each(|at_ns| *at_ns = last_ns);
        }
    }

    /// Makes the hardware's writes up to `now_ns` visible in memory.
    pub fn write_back(&mut self, queue: usize, now_ns: u64) {
        let queue = &mut self.queues[queue];
        let mut memory = lock(&queue.memory);
        while queue.write_backs_ns.front().is_some_and(|&at_ns| at_ns <= now_ns) {
            queue.write_backs_ns.pop_front();
            *memory.at(queue.written_back) = Descriptor::done();
            queue.written_back = queue.written_back.wrapping_add(1);
        }
        memory.due_in_ns = queue.write_backs_ns.front().map_or(0, |&at_ns| at_ns - now_ns);
    }

    /// True if frames take time on a wire.
    pub fn has_line(&self) -> bool {
        self.costs.wire_ps_per_byte > 0
    }

    /// Returns the time of the next write-back in flight, which an interrupt waits for.
    #[inline]
    pub fn next_write_back_ns(&self, queue: usize) -> Option<u64> {
        self.queues[queue].write_backs_ns.front().copied()
    }
}
