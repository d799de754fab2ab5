//! The receiving half of a NIC: takes packets from the wire, writes them into posted buffers, completes them.
//!
//! Packets wait in a buffer of the NIC's own for the bus; what finds that full, or no posted buffer, is dropped and
//! counted. One packet is written after another. What descriptors and completions look like is the
//! [`ReceiveFormat`]'s affair.

use super::buffers::Buffers;
use super::fabric::{Fabric, Read};
use super::host::{HostMemory, MemoryFault, Post, open};
use super::send::{NicFault, Ring};
use std::collections::VecDeque;

/// A packet from the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Incoming {
    /// The queue that its flow falls to.
    pub queue: usize,
    /// Its number.
    pub number: u64,
    /// Its length, checksum included.
    pub len_bytes: u32,
}

/// A posted buffer, as a descriptor describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Posted {
    /// Its first byte.
    pub address: u64,
    /// Bytes that it holds.
    pub len_bytes: u32,
    /// Bytes written before the packet.
    pub before_bytes: u32,
    /// Bytes that had to be read beside the ring.
    pub table_bytes: u32,
    /// Whether the next packet goes into the same one.
    pub more: bool,
}

/// How a family of NICs describes what is received.
pub trait ReceiveFormat {
    /// The tail that `value` in the register means, where it was `old`; more than the ring holds for what cannot be.
    fn tail(&self, old: u32, value: u32, memory: &HostMemory) -> u32;

    /// Reads the descriptor at unit `index`, for a packet of `len_bytes`; `None` where it makes no sense.
    fn parse(&mut self, bytes: &[u8], index: u32, memory: &HostMemory, len_bytes: u32) -> Option<Posted>;

    /// The packet for the buffer at `index` is in memory. Completions may be kept while `behind`: while others wait
    /// for the bus. Whether some began to be kept now.
    ///
    /// # Errors
    /// The queue's memory is not there.
    fn received(
        &mut self, index: u32, packet: &Incoming, behind: bool, post: &mut impl Post,
    ) -> Result<bool, MemoryFault>;

    /// What has been kept for too long is to be written, if it is still kept: `kept` is how many times
    /// [`ReceiveFormat::received`] had said that it began to keep some.
    ///
    /// # Errors
    /// The queue's memory is not there.
    fn flush(&mut self, kept: u64, post: &mut impl Post) -> Result<(), MemoryFault>;
}

/// What the receiving half is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceiveCosts {
    /// Packets that wait for the bus, in bytes.
    pub buffer_bytes: u64,
    /// Bytes of a ring that are fetched at a time.
    pub fetch_bytes: u32,
    /// Completions are kept no longer than this.
    pub keep_ps: u64,
}

#[derive(Debug)]
struct Queue<F> {
    ring: Ring,
    format: F,
    tail: u32,
    asked: u32,
    fetched: u32,
    /// Next buffer to be filled.
    used: u32,
    kept: u64,
    stopped: bool,
}

/// What became of packets from the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReceiveTotals {
    /// All of them.
    pub offered: u64,
    /// Written to memory.
    pub written: u64,
    /// Dropped: they came faster than the bus takes them.
    pub overrun: u64,
    /// Dropped: no buffer was posted.
    pub no_buffer: u64,
}

/// The receiving half.
#[derive(Debug)]
pub struct Receiving<F> {
    costs: ReceiveCosts,
    buffers: Buffers,
    queues: Vec<Queue<F>>,
    waiting: VecDeque<Incoming>,
    waiting_bytes: u64,
    /// The packet that is being written, and when it is there.
    writing: Option<(u64, Incoming, u32)>,
    deadlines: VecDeque<(u64, usize, u64)>,
    totals: ReceiveTotals,
    fault: Option<NicFault>,
}

impl<F: ReceiveFormat> Receiving<F> {
    /// With these queues.
    pub fn new(costs: ReceiveCosts, buffers: Buffers, queues: Vec<(Ring, F)>) -> Self {
        let queue = |(ring, format)| Queue {
            ring,
            format,
            tail: 0,
            asked: 0,
            fetched: 0,
            used: 0,
            kept: 0,
            stopped: false,
        };
        Self {
            costs,
            buffers,
            queues: queues.into_iter().map(queue).collect(),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            writing: None,
            deadlines: VecDeque::new(),
            totals: ReceiveTotals::default(),
            fault: None,
        }
    }

    /// What a driver wrote that made no sense, first of all.
    pub fn fault(&self) -> Option<&NicFault> {
        self.fault.as_ref()
    }

    /// What became of packets.
    pub fn totals(&self) -> &ReceiveTotals {
        &self.totals
    }

    fn stop(&mut self, queue: usize, what: String) {
        self.queues[queue].stopped = true;
        self.fault.get_or_insert(NicFault { queue, what });
    }

    /// Buffers have been posted to `queue`.
    pub fn doorbell(&mut self, queue: usize, value: u32, now_ps: u64, fabric: &mut Fabric) {
        let Some(at) = self.queues.get_mut(queue) else {
            self.fault.get_or_insert(NicFault { queue, what: "there is no such queue".into() });
            return;
        };
        let tail = at.format.tail(at.tail, value, &open(fabric.memory()));
        if tail.wrapping_sub(at.used) > at.ring.units {
            let units = at.ring.units;
            return self.stop(queue, format!("a tail of {value} is beyond the ring of {units}"));
        }
        at.tail = tail;
        self.fetch(queue, now_ps, fabric);
    }

    /// Fetches descriptors: whole fetches, ahead of need; less only where there are none left.
    fn fetch(&mut self, queue: usize, now_ps: u64, fabric: &mut Fabric) {
        let at = &mut self.queues[queue];
        let whole = (self.costs.fetch_bytes / at.ring.unit_bytes).max(1);
        loop {
            let (ahead, there) = (at.asked.wrapping_sub(at.used), at.tail.wrapping_sub(at.asked));
            let units = there.min(whole).min(at.ring.to_edge(at.asked));
            let enough = ahead >= 2 * whole || (units < whole && ahead > 0);
            if at.stopped || units == 0 || enough {
                return;
            }
            at.asked = at.asked.wrapping_add(units);
            fabric.read(now_ps, u64::from(units * at.ring.read_bytes), Read::Receive { queue, units });
        }
    }

    /// Descriptors are here.
    pub fn fetched(
        &mut self, queue: usize, units: u32, now_ps: u64, fabric: &mut Fabric,
    ) -> Result<(), MemoryFault> {
        let at = &mut self.queues[queue];
        at.fetched = at.fetched.wrapping_add(units);
        self.begin(now_ps, fabric)
    }

    /// A packet comes from the wire.
    ///
    /// # Errors
    /// A queue is not in memory.
    pub fn incoming(
        &mut self, packet: Incoming, now_ps: u64, fabric: &mut Fabric,
    ) -> Result<(), MemoryFault> {
        self.totals.offered += 1;
        if self.waiting_bytes + u64::from(packet.len_bytes) > self.costs.buffer_bytes {
            self.totals.overrun += 1;
            return Ok(());
        }
        self.waiting_bytes += u64::from(packet.len_bytes);
        self.waiting.push_back(packet);
        self.begin(now_ps, fabric)
    }

    /// Begins to write the next packet, unless one is being written.
    fn begin(&mut self, now_ps: u64, fabric: &mut Fabric) -> Result<(), MemoryFault> {
        while self.writing.is_none()
            && let Some(packet) = self.waiting.pop_front()
        {
            self.waiting_bytes -= u64::from(packet.len_bytes);
            let queue = packet.queue;
            let at = &mut self.queues[queue];
            if at.stopped || at.used == at.fetched {
                self.totals.no_buffer += 1;
                continue;
            }
            let index = at.used;
            let memory = fabric.memory().clone();
            let mut memory = open(&memory);
            let bytes = memory.bytes(at.ring.at(index), at.ring.unit_bytes as usize)?;
            let posted = at
                .format
                .parse(bytes, index, &memory, packet.len_bytes)
                .filter(|posted| posted.len_bytes >= packet.len_bytes);
            let set =
                posted.map(|posted| self.buffers.set_number(posted.address, packet.number, &mut memory));
            drop(memory);
            let Some((Posted { before_bytes, table_bytes, more, .. }, Ok(()))) = posted.zip(set) else {
                self.totals.no_buffer += 1;
                self.stop(queue, format!("the buffer posted at {index} is none, or too short"));
                continue;
            };
            let at = &mut self.queues[queue];
            at.used = at.used.wrapping_add(u32::from(!more));
            if table_bytes > 0 {
                fabric.read(now_ps, table_bytes.into(), Read::Table);
            }
            let there_ps = fabric.write_packet(now_ps, u64::from(packet.len_bytes + before_bytes));
            self.writing = Some((there_ps, packet, index));
            self.fetch(queue, now_ps, fabric);
        }
        Ok(())
    }

    /// When this half has something to do by itself.
    pub fn due_ps(&self) -> u64 {
        let written_ps = self.writing.map_or(u64::MAX, |writing| writing.0);
        written_ps.min(self.deadlines.front().map_or(u64::MAX, |deadline| deadline.0))
    }

    /// Does what is due at `now_ps`.
    ///
    /// # Errors
    /// A completion queue is not in memory.
    pub fn step(&mut self, now_ps: u64, fabric: &mut Fabric) -> Result<(), MemoryFault> {
        if let Some((_, packet, index)) = self.writing.take_if(|writing| writing.0 <= now_ps) {
            self.totals.written += 1;
            let behind = !self.waiting.is_empty();
            let at = &mut self.queues[packet.queue];
            let mut post = fabric.post_for(packet.queue, now_ps);
            if at.format.received(index, &packet, behind, &mut post)? {
                at.kept += 1;
                self.deadlines.push_back((now_ps + self.costs.keep_ps, packet.queue, at.kept));
            }
            return self.begin(now_ps, fabric);
        }
        if self.deadlines.front().is_some_and(|deadline| deadline.0 <= now_ps)
            && let Some((_, queue, kept)) = self.deadlines.pop_front()
        {
            self.queues[queue].format.flush(kept, &mut fabric.post_for(queue, now_ps))?;
        }
        Ok(())
    }
}
