//! The receiving half of a NIC: takes packets from the wire, writes them into posted buffers, completes them.
//!
//! Packets wait for the bus in a buffer of the NIC. A packet that finds that buffer full, or no posted
//! buffer, is dropped and counted. Writes are posted: several are on their way to the bus at a time, and the NIC's read
//! requests wait behind them, since a read may not pass a posted write. The [`ReceiveFormat`] knows the layout of
//! descriptors and completions.

use super::buffers::Buffers;
use super::fabric::{Fabric, Read};
use super::host_memory::{MemoryFault, Post, SharedMemory};
use super::ring::{Intake, NicFault, Ring};
use crate::engine::{first_due, take_due};
use std::collections::VecDeque;
use wharf_mem::lock;

/// Bytes read from a record.
const RECORD_BYTES: u64 = 4;

/// A packet from the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Incoming {
    /// The queue of its flow.
    pub queue: usize,
    /// Its number.
    pub number: u64,
    /// Its length, checksum included.
    pub len_bytes: u32,
}

/// A posted buffer, as a descriptor describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Posted {
    /// Address of its first byte.
    pub address: u64,
    /// Bytes that it holds.
    pub len_bytes: u32,
    /// True if the next packet goes into the same buffer.
    pub more: bool,
}

/// The receive descriptors of a family of NICs.
pub trait ReceiveFormat {
    /// Returns the address of the driver's tail: four bytes, big endian. The NIC reads it when it knows too
    /// few descriptors.
    fn record(&self) -> u64;

    /// Parses the descriptor at unit `index`, for a packet of `len_bytes`. Returns `None` if it makes no
    /// sense.
    fn parse(&mut self, bytes: &[u8], index: u32, len_bytes: u32) -> Option<Posted>;

    /// Completes the packet in the buffer at `index`, which is in memory. Completions may be kept while
    /// `behind`: while other packets wait for the bus. Returns true if this began to keep some.
    ///
    /// # Errors
    /// The queue's memory is not there.
    fn received(
        &mut self, index: u32, packet: &Incoming, behind: bool, post: &mut impl Post,
    ) -> Result<bool, MemoryFault>;

    /// Writes completions kept too long, if they are still kept. `kept` is the number of times that
    /// [`ReceiveFormat::received`] had begun to keep some.
    ///
    /// # Errors
    /// The queue's memory is not there.
    fn flush(&mut self, kept: u64, post: &mut impl Post) -> Result<(), MemoryFault>;
}

/// Costs of the receiving half.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceiveCosts {
    /// Bytes of packets that may wait for the bus.
    pub buffer_bytes: u64,
    /// Bytes of a ring fetched at a time.
    pub fetch_bytes: u32,
    /// Completions are kept at most this long.
    pub keep_ps: u64,
    /// Packets whose writes are posted at a time; 0 counts as 1.
    pub posted_packets: usize,
}

#[derive(Debug)]
struct Queue<F> {
    intake: Intake,
    format: F,
    /// The record is being read.
    looks: bool,
    kept: u64,
}

/// The counts of packets from the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReceiveTotals {
    /// All packets.
    pub offered: u64,
    /// Written to memory.
    pub written: u64,
    /// Dropped: they arrive faster than the bus takes them.
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
    /// The packets being written, each with the time at which it is in memory, and its buffer.
    writing: VecDeque<(u64, (Incoming, u32))>,
    deadlines: VecDeque<(u64, (usize, u64))>,
    totals: ReceiveTotals,
    fault: Option<NicFault>,
}

impl<F: ReceiveFormat> Receiving<F> {
    /// Creates the half with these queues.
    pub fn new(costs: ReceiveCosts, buffers: Buffers, queues: Vec<(Ring, F)>) -> Self {
        let queue = |(ring, format)| Queue { intake: Intake::new(ring), format, looks: false, kept: 0 };
        Self {
            costs,
            buffers,
            queues: queues.into_iter().map(queue).collect(),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            writing: VecDeque::new(),
            deadlines: VecDeque::new(),
            totals: ReceiveTotals::default(),
            fault: None,
        }
    }

    /// Returns the driver's first fault.
    pub fn fault(&self) -> Option<&NicFault> {
        self.fault.as_ref()
    }

    /// Returns the counts of packets.
    pub fn totals(&self) -> &ReceiveTotals {
        &self.totals
    }

    fn stop(&mut self, queue: usize, what: String) {
        self.queues[queue].intake.stopped = true;
        self.fault.get_or_insert(NicFault { queue, what });
    }

    /// Handles a write to a receive register: a fault, since buffers are posted by the record.
    pub fn doorbell(&mut self, queue: usize) {
        self.fault.get_or_insert(NicFault { queue, what: "there is no such register".into() });
    }

    /// Handles the arrival of the record of `queue`.
    ///
    /// # Errors
    /// The record is not in memory.
    pub fn looked(&mut self, queue: usize, now_ps: u64, fabric: &mut Fabric) -> Result<(), MemoryFault> {
        let at = &mut self.queues[queue];
        at.looks = false;
        let value = u32::from_be_bytes(lock(fabric.memory()).read(at.format.record())?);
        self.moves_to(queue, value, now_ps, fabric);
        Ok(())
    }

    fn moves_to(&mut self, queue: usize, value: u32, now_ps: u64, fabric: &mut Fabric) {
        let at = &mut self.queues[queue];
        match at.intake.moves_to(value) {
            Ok(()) => self.fetch(queue, now_ps, fabric),
            Err(what) => self.stop(queue, what),
        }
    }

    /// Fetches descriptors ahead of need: whole fetches, or less if there are no more.
    fn fetch(&mut self, queue: usize, now_ps: u64, fabric: &mut Fabric) {
        let intake = &mut self.queues[queue].intake;
        let whole = (self.costs.fetch_bytes / intake.ring.unit_bytes).max(1);
        loop {
            let units = intake.readable(whole);
            let enough = intake.ahead() >= 2 * whole || (units < whole && intake.ahead() > 0);
            if intake.stopped || units == 0 || enough {
                return;
            }
            fabric.read(now_ps, intake.ask(units), Read::Receive { queue, units });
        }
    }

    /// Reads the record after a packet for `queue`, if the NIC knows at most half of a fetch of descriptors.
    /// The driver posts many at once, so this is rare.
    fn look(&mut self, queue: usize, now_ps: u64, fabric: &mut Fabric) {
        let Queue { intake, looks, .. } = &mut self.queues[queue];
        let whole = (self.costs.fetch_bytes / intake.ring.unit_bytes).max(1);
        let is_enough = intake.left() > whole.min(intake.ring.units) / 2;
        if *looks || intake.stopped || is_enough {
            return;
        }
        *looks = true;
        fabric.read(now_ps, RECORD_BYTES, Read::Record { queue });
    }

    /// Handles the arrival of descriptors.
    ///
    /// # Errors
    /// A queue is not in memory.
    pub fn fetched(
        &mut self, queue: usize, units: u32, now_ps: u64, fabric: &mut Fabric,
    ) -> Result<(), MemoryFault> {
        self.queues[queue].intake.come(units);
        self.begin(now_ps, fabric)
    }

    /// Handles a packet from the wire.
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

    /// Begins to write packets, as many as may be posted.
    fn begin(&mut self, now_ps: u64, fabric: &mut Fabric) -> Result<(), MemoryFault> {
        while self.writing.len() < self.costs.posted_packets.max(1)
            && let Some(packet) = self.waiting.pop_front()
        {
            self.waiting_bytes -= u64::from(packet.len_bytes);
            match self.posted_for(&packet, &fabric.memory().clone())? {
                Some((index, posted)) => self.write(index, packet, &posted, now_ps, fabric),
                None => self.totals.no_buffer += 1,
            }
            self.look(packet.queue, now_ps, fabric);
        }
        Ok(())
    }

    /// Returns the buffer for `packet`, with the packet's number in it, if one is posted.
    fn posted_for(
        &mut self, packet: &Incoming, memory: &SharedMemory,
    ) -> Result<Option<(u32, Posted)>, MemoryFault> {
        let Queue { intake, format, .. } = &mut self.queues[packet.queue];
        if intake.stopped || intake.here() == 0 {
            return Ok(None);
        }
        let index = intake.used();
        let mut memory = lock(memory);
        let bytes = memory.bytes(intake.ring.at(index), intake.ring.unit_bytes as usize)?;
        let posted = format.parse(bytes, index, packet.len_bytes);
        let posted = posted.filter(|posted| posted.len_bytes >= packet.len_bytes);
        if let Some(posted) = posted
            && self.buffers.set_number(posted.address, packet.number, &mut memory).is_ok()
        {
            return Ok(Some((index, posted)));
        }
        self.stop(packet.queue, format!("the buffer posted at {index} is none, or too short"));
        Ok(None)
    }

    fn write(&mut self, index: u32, packet: Incoming, posted: &Posted, now_ps: u64, fabric: &mut Fabric) {
        self.queues[packet.queue].intake.take(u32::from(!posted.more));
        let there_ps = fabric.write_packet(now_ps, u64::from(packet.len_bytes));
        self.writing.push_back((there_ps, (packet, index)));
        self.fetch(packet.queue, now_ps, fabric);
    }

    /// Returns the time of this half's next own event.
    pub fn due_ps(&self) -> u64 {
        first_due(&self.writing).min(first_due(&self.deadlines))
    }

    /// Handles the event at `now_ps`.
    ///
    /// # Errors
    /// A completion queue is not in memory.
    pub fn step(&mut self, now_ps: u64, fabric: &mut Fabric) -> Result<(), MemoryFault> {
        if let Some((packet, index)) = take_due(&mut self.writing, now_ps) {
            self.totals.written += 1;
            let behind = !self.waiting.is_empty() || !self.writing.is_empty();
            let at = &mut self.queues[packet.queue];
            let mut post = fabric.post_for(packet.queue, now_ps);
            if at.format.received(index, &packet, behind, &mut post)? {
                at.kept += 1;
                self.deadlines.push_back((now_ps + self.costs.keep_ps, (packet.queue, at.kept)));
            }
            return self.begin(now_ps, fabric);
        }
        if let Some((queue, kept)) = take_due(&mut self.deadlines, now_ps) {
            self.queues[queue].format.flush(kept, &mut fabric.post_for(queue, now_ps))?;
        }
        Ok(())
    }
}
