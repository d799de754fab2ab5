//! A machine around one NIC: a processor for each queue pair polls it and handles every packet.
//!
//! Times are in picoseconds: at 100 million packets a second, a nanosecond is a tenth of a packet. Every run
//! ends by draining, and then conservation, order and the pool's ledger are checked.

use super::host_memory::{Doorbell, SharedMemory};
use super::port::{Port, PortEvent};
use super::receive::{ReceiveFormat, ReceiveTotals};
use super::send::{Departed, SendFormat};
use super::{NicDriver, buffers};
use crate::RunError;
use crate::engine::{Agenda, VirtualClock};
use std::collections::VecDeque;
use std::sync::Arc;
use wharf_core::device::Completions;
use wharf_core::pool::{Cache, PagePool, PoolError};
use wharf_mem::{Batch, lock};
use wharf_plan::pcie::{BusTotals, Traffic};

/// Packets of one poll: NAPI's budget.
const BUDGET: usize = 64;
/// Longer than anything is in flight at any setting. A run that drains earlier ends earlier.
const DRAIN_PS: u64 = 1_000_000_000_000_000;

/// The job of a processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Job {
    /// Receives and drops them (`XDP_DROP`).
    Drop,
    /// Sends each back, with a doorbell per `per_doorbell` packets at most (`XDP_TX`: a poll's;
    /// `XDP_REDIRECT`: 16).
    SendBack {
        /// Packets per doorbell.
        per_doorbell: usize,
    },
    /// Makes packets of `len_bytes` and sends them.
    Send {
        /// Their length, checksum included.
        len_bytes: u32,
        /// Packets per doorbell.
        per_doorbell: usize,
    },
}

/// Costs of a processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CoreCosts {
    /// A poll.
    pub poll_ps: u64,
    /// A packet.
    pub packet_ps: u64,
    /// From a write to memory until an idle processor polls.
    pub wake_ps: u64,
}

struct Core<D> {
    driver: D,
    cache: Cache,
    batch: Batch,
    /// Packets of one doorbell.
    part: Batch,
    done: Completions,
    /// Register writes that leave when the work under way is done.
    bells: VecDeque<Doorbell>,
    idle: bool,
    /// Number of the next packet made here.
    next_number: u64,
    next_out: u64,
    received: u64,
    accepted: u64,
    refused: u64,
    doorbells: u64,
}

/// Sums up to some time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Packets received by drivers.
    pub received: u64,
    /// Packets accepted by drivers for sending.
    pub accepted: u64,
    /// Packets that found the send queue full, and were dropped by the job.
    pub refused: u64,
    /// Packets that left.
    pub departed: u64,
    /// Their bytes.
    pub departed_bytes: u64,
    /// Doorbells rung for sending.
    pub doorbells: u64,
    /// Counts of packets from the wire.
    pub arrived: ReceiveTotals,
    /// Transfers on the bus.
    pub bus: BusTotals,
    /// Picoseconds in which each direction of it was used.
    pub bus_busy_ps: Traffic,
}

/// The machine.
pub struct Machine<D, S, R> {
    port: Port<S, R>,
    cores: Vec<Core<D>>,
    memory: SharedMemory,
    pool: PagePool,
    clock: Arc<VirtualClock>,
    job: Job,
    costs: CoreCosts,
    agenda: Agenda,
    departed: (u64, u64),
    ending: bool,
}

impl<D: NicDriver, S: SendFormat, R: ReceiveFormat> Machine<D, S, R> {
    /// Creates a machine with a processor for each of `drivers`, whose queues the hardware in `port` has.
    ///
    /// # Errors
    /// The pool has no frames, or a driver does not accept its memory.
    pub fn new(
        port: Port<S, R>, drivers: Vec<D>, pool: PagePool, clock: Arc<VirtualClock>, job: Job,
        costs: CoreCosts,
    ) -> Result<Self, RunError> {
        let memory = port.fabric().memory().clone();
        let mut cores = Vec::new();
        for mut driver in drivers {
            driver.attach(pool.region().clone())?;
            let mut cache = pool.cache(&format!("core {}", cores.len()))?;
            if !matches!(job, Job::Send { .. }) {
                driver.post(&mut cache);
            }
            cores.push(Core::new(driver, cache));
        }
        let agenda = Agenda::new(cores.len() + 1);
        let mut machine =
            Self { port, cores, memory, pool, clock, job, costs, agenda, departed: (0, 0), ending: false };
        let mut bells = std::mem::take(&mut lock(&machine.memory).doorbells);
        machine.port.ring(0, &mut bells);
        for core in 0..machine.cores.len() {
            machine.agenda.set(core, core as u64 * 1000);
        }
        machine.port_due();
        Ok(machine)
    }

    fn port_due(&mut self) {
        let slot = self.cores.len();
        match self.port.due_ps() {
            u64::MAX => self.agenda.clear(slot),
            due_ps => self.agenda.set(slot, due_ps),
        }
    }

    /// Handles all events before `until_ps`.
    ///
    /// # Errors
    /// [`RunError`].
    pub fn run(&mut self, until_ps: u64) -> Result<Totals, RunError> {
        while let Some((now_ps, slot)) = self.agenda.take_before(until_ps) {
            self.clock.set(now_ps / 1000);
            if slot < self.cores.len() {
                self.core_acts(slot, now_ps)?;
            } else {
                match self.port.step(now_ps)? {
                    None => {}
                    Some(PortEvent::Departed(frame)) => self.leaves(&frame)?,
                    Some(PortEvent::Landed(queue)) => self.wake(queue, now_ps),
                }
            }
            self.port_due();
        }
        self.port.fault().map_or(Ok(()), |fault| Err(fault.clone()))?;
        Ok(self.totals(until_ps))
    }

    /// Returns the sums so far.
    fn totals(&self, now_ps: u64) -> Totals {
        let sum = |of: fn(&Core<D>) -> u64| self.cores.iter().map(of).sum();
        Totals {
            received: sum(|core| core.received),
            accepted: sum(|core| core.accepted),
            refused: sum(|core| core.refused),
            departed: self.departed.0,
            departed_bytes: self.departed.1,
            doorbells: sum(|core| core.doorbells),
            arrived: *self.port.receiving().totals(),
            bus: *self.port.fabric().bus().totals(),
            bus_busy_ps: self.port.fabric().bus().busy_ps(now_ps),
        }
    }

    fn wake(&mut self, core: usize, now_ps: u64) {
        if let Some(at) = self.cores.get_mut(core)
            && std::mem::take(&mut at.idle)
        {
            self.agenda.set(core, now_ps + self.costs.wake_ps);
        }
    }

    /// Checks that the numbers of a queue's packets go up: none is sent twice, none overtakes.
    fn leaves(&mut self, frame: &Departed) -> Result<(), RunError> {
        self.departed.0 += 1;
        self.departed.1 += u64::from(frame.len_bytes);
        let broken = || RunError::Broken(format!("order broken by {frame:?}"));
        let core = self.cores.get_mut(frame.queue).ok_or_else(broken)?;
        let (queue, number) = (frame.number >> 40, frame.number & ((1 << 40) - 1));
        if queue != frame.queue as u64 || number < core.next_out {
            return Err(broken());
        }
        core.next_out = number + 1;
        Ok(())
    }

    /// Sends the processor's register writes, then polls.
    fn core_acts(&mut self, at: usize, now_ps: u64) -> Result<(), RunError> {
        let Self { port, cores, job, costs, memory, ending, .. } = self;
        let core = &mut cores[at];
        port.ring(now_ps, &mut core.bells);
        let reaped = core.reap()?;
        let packets = match *job {
            Job::Drop => core.receive()?,
            Job::SendBack { per_doorbell } => {
                let packets = core.receive()?;
                core.send(packets, per_doorbell);
                core.refused += core.batch.len() as u64;
                packets
            }
            Job::Send { .. } if *ending => 0,
            Job::Send { len_bytes, per_doorbell } => {
                let made = core.make(at as u64, len_bytes, per_doorbell)?;
                core.send(made, per_doorbell);
                // Packets that did not fit were never made.
                core.next_number -= core.batch.len() as u64;
                made - core.batch.len()
            }
        };
        core.cache.give(&mut core.batch)?;
        core.bells.append(&mut lock(memory).doorbells);
        if packets + reaped == 0 {
            core.idle = true;
            port.ring(now_ps, &mut core.bells);
            return Ok(());
        }
        let work_ps = costs.poll_ps + packets as u64 * costs.packet_ps;
        self.agenda.set(at, now_ps + work_ps.max(1));
        Ok(())
    }

    /// Ends the run: makes no new packets, drains, then checks every rule.
    ///
    /// # Errors
    /// [`RunError`].
    pub fn end(mut self, now_ps: u64) -> Result<Totals, RunError> {
        self.ending = true;
        self.port.arrivals.end();
        self.port_due();
        let totals = self.run(now_ps + DRAIN_PS)?;
        let arrived = &totals.arrived;
        let broken = |what: String| Err(RunError::Broken(what));
        if arrived.offered != arrived.written + arrived.overrun + arrived.no_buffer {
            return broken(format!("packets from the wire: {arrived:?}"));
        }
        if totals.received != arrived.written {
            return broken(format!("{} packets written, {} received", arrived.written, totals.received));
        }
        if totals.departed != totals.accepted {
            return broken(format!("{} packets accepted, {} sent", totals.accepted, totals.departed));
        }
        if matches!(self.job, Job::SendBack { .. }) && totals.accepted + totals.refused != totals.received {
            return broken(format!("packets to be sent back: {totals:?}"));
        }
        for core in &mut self.cores {
            if core.driver.outstanding() != 0 {
                return broken(format!("{} frames outstanding", core.driver.outstanding()));
            }
            core.driver.close()?;
            core.driver.unpost(&mut core.cache);
        }
        let audit = self.pool.audit();
        if audit.out() == 0 { Ok(totals) } else { broken(audit.to_string()) }
    }
}

impl<D: NicDriver> Core<D> {
    fn new(driver: D, cache: Cache) -> Self {
        Self {
            driver,
            cache,
            batch: Batch::new(BUDGET),
            part: Batch::new(BUDGET),
            done: Completions::new(256),
            bells: VecDeque::new(),
            idle: false,
            next_number: 0,
            next_out: 0,
            received: 0,
            accepted: 0,
            refused: 0,
            doorbells: 0,
        }
    }

    /// Takes back the frames that were sent.
    fn reap(&mut self) -> Result<usize, RunError> {
        self.driver.reap(256, false, &mut self.done)?;
        let count = self.done.len();
        self.cache.give(&mut self.done.sent)?;
        Ok(count)
    }

    fn receive(&mut self) -> Result<usize, RunError> {
        let packets = self.driver.receive(&mut self.cache, &mut self.batch, BUDGET)?;
        self.received += packets as u64;
        Ok(packets)
    }

    /// Fills the batch with new packets.
    fn make(&mut self, queue: u64, len_bytes: u32, count: usize) -> Result<usize, RunError> {
        let made = match self.cache.take(&mut self.batch, count.min(BUDGET), len_bytes) {
            Ok(made) => made,
            Err(PoolError::Exhausted { .. }) => 0,
            Err(error) => return Err(error.into()),
        };
        let region = self.cache.pool().region().clone();
        for bytes in region.each_bytes_mut(&mut self.batch) {
            buffers::put_number(bytes, queue << 40 | self.next_number);
            self.next_number += 1;
        }
        Ok(made)
    }

    /// Sends the batch, with a doorbell per `per_doorbell` packets. Refused packets stay in it.
    fn send(&mut self, packets: usize, per_doorbell: usize) {
        let mut left = packets;
        while left > 0 {
            let count = self.part.append(&mut self.batch, left.min(per_doorbell.max(1)));
            let done = self.driver.transmit(&mut self.part, false);
            self.doorbells += u64::from(done.doorbell);
            self.accepted += (count - self.part.len()) as u64;
            left -= count;
            if !self.part.is_empty() {
                // The ring is full: the packets behind are refused as well.
                self.batch.append(&mut self.part, BUDGET);
                return;
            }
        }
    }
}
