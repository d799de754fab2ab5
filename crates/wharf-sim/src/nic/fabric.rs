//! What is under way on the bus of one NIC, in picoseconds: reads and their answers, writes that land in memory,
//! doorbells on their way.

use super::host_memory::{Doorbell, MemoryFault, Post, SharedMemory, open};
use std::collections::VecDeque;
use wharf_plan::pcie::{Bus, BusSpec};

/// Most bytes of one write that lands in memory: eight descriptors of 16 bytes.
const LANDING_BYTES_MAX: usize = 128;

/// What was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Read {
    /// So many units of a send queue's ring.
    Send {
        /// Which queue.
        queue: usize,
        /// Units of its ring.
        units: u32,
    },
    /// So many descriptors of a receive queue's ring.
    Receive {
        /// Which queue.
        queue: usize,
        /// Descriptors.
        units: u32,
    },
    /// How far the driver of a receive queue has come.
    Record {
        /// Which queue.
        queue: usize,
    },
    /// A packet to be sent, or a piece of one.
    Packet,
}

/// What happens at one end of the bus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrived {
    /// Data are at the NIC.
    Data(Read),
    /// A write to a register is at the NIC.
    Doorbell(Doorbell),
    /// A write of the NIC for this queue is in memory.
    Landed(usize),
}

#[derive(Debug)]
struct Landing {
    queue: usize,
    address: u64,
    len_bytes: usize,
    bytes: [u8; LANDING_BYTES_MAX],
}

/// The bus and what is under way on it. What is due comes in order of time.
#[derive(Debug)]
pub struct Fabric {
    bus: Bus,
    memory: SharedMemory,
    /// Reads for which there are no tags.
    waiting: VecDeque<(u64, Read)>,
    /// When the host answers.
    answers: VecDeque<(u64, u64, Read)>,
    arrivals: VecDeque<(u64, Read)>,
    landings: VecDeque<(u64, Landing)>,
    doorbells: VecDeque<(u64, Doorbell)>,
}

impl Fabric {
    /// An idle one.
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

    /// What has crossed the bus.
    pub fn bus(&self) -> &Bus {
        &self.bus
    }

    /// Memory.
    pub fn memory(&self) -> &SharedMemory {
        &self.memory
    }

    /// The NIC reads `len_bytes`, as soon as there are tags.
    pub fn read(&mut self, now_ps: u64, len_bytes: u64, what: Read) {
        self.waiting.push_back((len_bytes, what));
        self.ask(now_ps);
    }

    /// Whether reads wait for tags: nothing more should be asked for.
    pub fn is_blocked(&self) -> bool {
        !self.waiting.is_empty()
    }

    fn ask(&mut self, now_ps: u64) {
        while let Some(&(len_bytes, what)) = self.waiting.front() {
            let Some(at_host_ps) = self.bus.request(now_ps, len_bytes) else { return };
            self.waiting.pop_front();
            self.answers.push_back((at_host_ps + self.bus.spec().latency_ps, len_bytes, what));
        }
    }

    /// The NIC writes a packet of `len_bytes` to memory; when it is there.
    pub fn write_packet(&mut self, now_ps: u64, len_bytes: u64) -> u64 {
        self.bus.nic_write(now_ps, len_bytes)
    }

    /// The NIC writes for `queue`: by [`Post`].
    pub fn post_for(&mut self, queue: usize, now_ps: u64) -> Poster<'_> {
        Poster { fabric: self, queue, now_ps }
    }

    /// A processor's writes to registers leave it.
    pub fn ring(&mut self, now_ps: u64, bells: &mut VecDeque<Doorbell>) {
        for doorbell in bells.drain(..) {
            let at_nic_ps = self.bus.write_to_nic(now_ps, doorbell.len_bytes);
            self.doorbells.push_back((at_nic_ps, doorbell));
        }
    }

    /// When something happens next.
    pub fn due_ps(&self) -> u64 {
        let first = |due: Option<u64>| due.unwrap_or(u64::MAX);
        first(self.answers.front().map(|answer| answer.0))
            .min(first(self.arrivals.front().map(|arrival| arrival.0)))
            .min(first(self.landings.front().map(|landing| landing.0)))
            .min(first(self.doorbells.front().map(|doorbell| doorbell.0)))
    }

    /// One thing that is due at `now_ps`; `Ok(None)` when it concerns nobody else, or when there is none.
    ///
    /// # Errors
    /// The NIC has written beyond memory.
    pub fn step(&mut self, now_ps: u64) -> Result<Option<Arrived>, MemoryFault> {
        let is_due = |due_ps: Option<u64>| due_ps.is_some_and(|due_ps| due_ps <= now_ps);
        if is_due(self.landings.front().map(|landing| landing.0))
            && let Some((_, landing)) = self.landings.pop_front()
        {
            open(&self.memory).write(landing.address, &landing.bytes[..landing.len_bytes])?;
            return Ok(Some(Arrived::Landed(landing.queue)));
        }
        if is_due(self.arrivals.front().map(|arrival| arrival.0)) {
            return Ok(self.arrivals.pop_front().map(|(_, what)| Arrived::Data(what)));
        }
        if is_due(self.doorbells.front().map(|doorbell| doorbell.0)) {
            return Ok(self.doorbells.pop_front().map(|(_, doorbell)| Arrived::Doorbell(doorbell)));
        }
        if is_due(self.answers.front().map(|answer| answer.0))
            && let Some((_, len_bytes, what)) = self.answers.pop_front()
        {
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
