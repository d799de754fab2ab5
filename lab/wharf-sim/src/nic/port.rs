//! The hardware of one NIC: bus, both halves, and a wire that brings packets.

use super::buffers::Buffers;
use super::fabric::{BusEvent, Fabric, Read};
use super::host_memory::{Doorbell, MemoryFault, SharedMemory};
use super::receive::{Incoming, ReceiveCosts, ReceiveFormat, Receiving};
use super::ring::{NicFault, Ring};
use super::send::{Departed, SendCosts, SendFormat, Sending};
use crate::engine::Random;
use std::collections::VecDeque;
use wharf_plan::pcie::BusSpec;

/// The packets that arrive from the wire.
#[derive(Debug, Clone)]
pub struct Arrivals {
    /// Lengths, checksum included, and the number of each in a round.
    pub sizes: Vec<(u32, u32)>,
    /// Queues that flows are spread over.
    pub queues: usize,
    /// One byte on the wire.
    pub wire_ps_per_byte: u64,
    /// Preamble and gap.
    pub wire_overhead_bytes: u64,
    /// The source of sizes and queues.
    pub random: Random,
    /// Time of the next arrival; `u64::MAX` for none.
    pub next_ps: u64,
    numbers: Vec<u64>,
}

impl Arrivals {
    /// Creates arrivals at the wire's rate, from the start on.
    pub fn at_wire_rate(
        sizes: Vec<(u32, u32)>, queues: usize, wire_ps_per_byte: u64, wire_overhead_bytes: u64,
        random: Random,
    ) -> Self {
        let numbers = vec![0; queues];
        Self { sizes, queues, wire_ps_per_byte, wire_overhead_bytes, random, next_ps: 0, numbers }
    }

    /// Creates no arrivals.
    pub fn none() -> Self {
        let silent = Self::at_wire_rate(vec![(64, 1)], 1, 0, 0, Random::new(0));
        Self { next_ps: u64::MAX, ..silent }
    }

    /// Ends the arrivals.
    pub fn end(&mut self) {
        self.next_ps = u64::MAX;
    }

    fn take(&mut self) -> Incoming {
        let all: u64 = self.sizes.iter().map(|size| u64::from(size.1)).sum();
        let mut choice = if self.sizes.len() > 1 { self.random.below(all) } else { 0 };
        let mut len_bytes = self.sizes[0].0;
        for &(size, count) in &self.sizes {
            if choice < u64::from(count) {
                len_bytes = size;
                break;
            }
            choice -= u64::from(count);
        }
        let queue = self.random.below(self.queues as u64) as usize;
        let number = (queue as u64) << 40 | self.numbers[queue];
        self.numbers[queue] += 1;
        self.next_ps += (u64::from(len_bytes) + self.wire_overhead_bytes) * self.wire_ps_per_byte;
        Incoming { queue, number, len_bytes }
    }
}

/// An event at the NIC that others must know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PortEvent {
    /// A frame left.
    Departed(Departed),
    /// A write for the driver of this queue is in memory.
    Landed(usize),
}

/// The hardware.
#[derive(Debug)]
pub struct Port<S, R> {
    fabric: Fabric,
    sending: Sending<S>,
    receiving: Receiving<R>,
    /// The packets from the wire.
    pub arrivals: Arrivals,
}

/// Costs of a NIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortCosts {
    /// The bus.
    pub bus: BusSpec,
    /// Sending.
    pub send: SendCosts,
    /// Receiving.
    pub receive: ReceiveCosts,
}

impl<S: SendFormat, R: ReceiveFormat> Port<S, R> {
    /// Creates the hardware with these queues.
    pub fn new(
        costs: &PortCosts, memory: SharedMemory, buffers: Buffers, send: Vec<(Ring, S)>,
        receive: Vec<(Ring, R)>, arrivals: Arrivals,
    ) -> Self {
        Self {
            fabric: Fabric::new(costs.bus, memory),
            sending: Sending::new(costs.send, buffers, send),
            receiving: Receiving::new(costs.receive, buffers, receive),
            arrivals,
        }
    }

    /// Returns the bus and its transfers in flight.
    pub fn fabric(&self) -> &Fabric {
        &self.fabric
    }

    /// Returns the receiving half.
    pub fn receiving(&self) -> &Receiving<R> {
        &self.receiving
    }

    /// Returns the driver's fault, if any.
    pub fn fault(&self) -> Option<&NicFault> {
        self.sending.fault().or(self.receiving.fault())
    }

    /// Sends a processor's writes to registers.
    pub fn ring(&mut self, now_ps: u64, bells: &mut VecDeque<Doorbell>) {
        self.fabric.ring(now_ps, bells);
    }

    /// Returns the time of the next event; `u64::MAX` for never.
    pub fn due_ps(&self) -> u64 {
        self.fabric
            .due_ps()
            .min(self.sending.due_ps(&self.fabric))
            .min(self.receiving.due_ps())
            .min(self.arrivals.next_ps)
    }

    /// Handles one event at `now_ps`.
    ///
    /// # Errors
    /// A queue of the NIC is not in memory.
    pub fn step(&mut self, now_ps: u64) -> Result<Option<PortEvent>, MemoryFault> {
        let Self { fabric, sending, receiving, arrivals } = self;
        if fabric.due_ps() <= now_ps {
            match fabric.step(now_ps)? {
                None => {}
                Some(BusEvent::Landed(queue)) => return Ok(Some(PortEvent::Landed(queue))),
                Some(BusEvent::Data(Read::Packet)) => sending.arrived(now_ps, fabric),
                Some(BusEvent::Data(Read::Send { queue, units })) => {
                    sending.fetched(queue, units, now_ps, fabric)
                }
                Some(BusEvent::Data(Read::Receive { queue, units })) => {
                    receiving.fetched(queue, units, now_ps, fabric)?;
                }
                Some(BusEvent::Data(Read::Record { queue })) => receiving.looked(queue, now_ps, fabric)?,
                Some(BusEvent::Doorbell(bell)) if bell.receive => {
                    receiving.doorbell(bell.queue);
                }
                Some(BusEvent::Doorbell(bell)) => sending.doorbell(bell.queue, bell.value, now_ps, fabric),
            }
        } else if receiving.due_ps() <= now_ps {
            receiving.step(now_ps, fabric)?;
        } else if sending.due_ps(fabric) <= now_ps {
            return Ok(sending.step(now_ps, fabric)?.map(PortEvent::Departed));
        } else if arrivals.next_ps <= now_ps {
            let packet = arrivals.take();
            receiving.incoming(packet, now_ps, fabric)?;
        }
        Ok(None)
    }
}
