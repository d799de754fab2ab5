//! The transfers in flight on the bus of one NIC, in picoseconds: reads and their completions, writes to
//! memory, doorbells.

use super::host_memory::{Doorbell, MemoryFault, Post, SharedMemory};
use crate::engine::{first_due, take_due};
use std::collections::VecDeque;
use wharf_mem::lock;
use wharf_plan::pcie::{Bus, BusSpec};

/// Most bytes of one write to memory: eight descriptors of 16 bytes.
const LANDING_BYTES_MAX: usize = 128;

/// The purpose of a read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Read {
    /// Units of a send queue's ring.
    Send {
        /// The queue.
        queue: usize,
        /// Units of its ring.
        units: u32,
    },
    /// Descriptors of a receive queue's ring.
    Receive {
        /// The queue.
        queue: usize,
        /// Descriptors.
        units: u32,
    },
    /// The tail of a receive queue's driver.
    Record {
        /// The queue.
        queue: usize,
    },
    /// A packet to send, or a piece of one.
    Packet,
}

/// An arrival at one end of the bus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BusEvent {
    /// Data at the NIC.
    Data(Read),
    /// A write to a register, at the NIC.
    Doorbell(Doorbell),
    /// A write of the NIC for this queue, in memory.
    Landed(usize),
}

#[derive(Debug)]
struct Landing {
    queue: usize,
    address: u64,
    len_bytes: usize,
    bytes: [u8; LANDING_BYTES_MAX],
}

/// The bus and its transfers in flight. Events come in order of time.
#[derive(Debug)]
pub struct Fabric {
    bus: Bus,
    memory: SharedMemory,
    /// Reads that wait for tags.
    waiting: VecDeque<(u64, Read)>,
    /// The times at which the host answers.
    answers: VecDeque<(u64, (u64, Read))>,
    arrivals: VecDeque<(u64, Read)>,
    landings: VecDeque<(u64, Landing)>,
    doorbells: VecDeque<(u64, Doorbell)>,
}

impl Fabric {
    /// Creates an idle fabric.
    pub fn new(spec: BusSpec, memory: SharedMemory) -> Self {
        Self {
            bus: Bus::new(spec),
            memory,
            waiting: VecDeque::new(),
            answers: VecDeque::new(),
            arrivals: VecDeque::new(),
            landings: VecDeque::new(),
            doorbells: VecDeque::new(),
        }
    }

    /// Returns the bus.
    pub fn bus(&self) -> &Bus {
        &self.bus
    }

    /// Returns the memory.
    pub fn memory(&self) -> &SharedMemory {
        &self.memory
    }

    /// Reads `len_bytes` for the NIC, as soon as there are tags.
    pub fn read(&mut self, now_ps: u64, len_bytes: u64, what: Read) {
        self.waiting.push_back((len_bytes, what));
        self.ask(now_ps);
    }

    /// True if reads wait for tags: the NIC should request no more.
    pub fn is_blocked(&self) -> bool {
        !self.waiting.is_empty()
    }

    fn ask(&mut self, now_ps: u64) {
        while let Some(&(len_bytes, what)) = self.waiting.front() {
            let Some(at_host_ps) = self.bus.request(now_ps, len_bytes) else { return };
            self.waiting.pop_front();
            self.answers.push_back((at_host_ps + self.bus.spec().latency_ps, (len_bytes, what)));
        }
    }

    /// Writes a packet of `len_bytes` to memory. Returns the time at which it is there.
    pub fn write_packet(&mut self, now_ps: u64, len_bytes: u64) -> u64 {
        self.bus.nic_write(now_ps, len_bytes)
    }

    /// Returns the way of the NIC's writes for `queue`.
    pub fn post_for(&mut self, queue: usize, now_ps: u64) -> Poster<'_> {
        Poster { fabric: self, queue, now_ps }
    }

    /// Sends a processor's writes to registers.
    pub fn ring(&mut self, now_ps: u64, bells: &mut VecDeque<Doorbell>) {
        for doorbell in bells.drain(..) {
            let at_nic_ps = self.bus.write_to_nic(now_ps, doorbell.len_bytes);
            self.doorbells.push_back((at_nic_ps, doorbell));
        }
    }

    /// Returns the time of the next event.
    pub fn due_ps(&self) -> u64 {
        let (answers, arrivals) = (first_due(&self.answers), first_due(&self.arrivals));
        answers.min(arrivals).min(first_due(&self.landings)).min(first_due(&self.doorbells))
    }

    /// Handles one event at `now_ps`. Returns `Ok(None)` if it concerns no other part, or if there is none.
    ///
    /// # Errors
    /// The NIC wrote beyond memory.
    pub fn step(&mut self, now_ps: u64) -> Result<Option<BusEvent>, MemoryFault> {
        if let Some(landing) = take_due(&mut self.landings, now_ps) {
            lock(&self.memory).write(landing.address, &landing.bytes[..landing.len_bytes])?;
            return Ok(Some(BusEvent::Landed(landing.queue)));
        }
        if let Some(what) = take_due(&mut self.arrivals, now_ps) {
            return Ok(Some(BusEvent::Data(what)));
        }
        if let Some(doorbell) = take_due(&mut self.doorbells, now_ps) {
            return Ok(Some(BusEvent::Doorbell(doorbell)));
        }
        if let Some((len_bytes, what)) = take_due(&mut self.answers, now_ps) {
            let there_ps = self.bus.complete(now_ps, len_bytes);
            self.arrivals.push_back((there_ps, what));
            self.ask(now_ps);
        }
        Ok(None)
    }
}

/// See [`Fabric::post_for`].
#[derive(Debug)]
pub struct Poster<'a> {
    fabric: &'a mut Fabric,
    queue: usize,
    now_ps: u64,
}

impl Post for Poster<'_> {
    fn post(&mut self, address: u64, bytes: &[u8]) -> Result<(), MemoryFault> {
        for (part, at) in bytes.chunks(LANDING_BYTES_MAX).zip((address..).step_by(LANDING_BYTES_MAX)) {
            let there_ps = self.fabric.bus.nic_write(self.now_ps, part.len() as u64);
            let mut copy = [0; LANDING_BYTES_MAX];
            copy[..part.len()].copy_from_slice(part);
            let landing = Landing { queue: self.queue, address: at, len_bytes: part.len(), bytes: copy };
            self.fabric.landings.push_back((there_ps, landing));
        }
        Ok(())
    }
}
