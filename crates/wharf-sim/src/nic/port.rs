//! The hardware of one NIC: bus, both halves, and a wire that brings packets.

use super::buffers::Buffers;
use super::fabric::{Arrived, Fabric, Read};
use super::host_memory::{Doorbell, MemoryFault, SharedMemory};
use super::receive::{Incoming, ReceiveCosts, ReceiveFormat, Receiving};
use super::ring::{NicFault, Ring};
use super::send::{Departed, SendCosts, SendFormat, Sending};
use crate::engine::Random;
use std::collections::VecDeque;
use wharf_plan::pcie::BusSpec;

/// What comes from the wire.
#[derive(Debug, Clone)]
pub struct Arrivals {
    /// Lengths, checksum included, and how many of each there are in a round.
    pub sizes: Vec<(u32, u32)>,
    /// Queues that flows are spread over.
    pub queues: usize,
    /// One byte on the wire.
    pub wire_ps_per_byte: u64,
    /// Preamble and gap.
    pub wire_overhead_bytes: u64,
    /// Which packets come, and to which queue.
    pub random: Random,
    /// When the next one is there; `u64::MAX` for none at all.
    pub next_ps: u64,
    numbers: Vec<u64>,
}

impl Arrivals {
    /// As many as the wire carries, from the start on.
    pub fn at_wire_rate(
        sizes: Vec<(u32, u32)>, queues: usize, wire_ps_per_byte: u64, wire_overhead_bytes: u64,
        random: Random,
    ) -> Self {
        let numbers = vec![0; queues];
        Self { sizes, queues, wire_ps_per_byte, wire_overhead_bytes, random, next_ps: 0, numbers }
    }

    /// No packets.
    pub fn none() -> Self {
        let silent = Self::at_wire_rate(vec![(64, 1)], 1, 0, 0, Random::new(0));
        Self { next_ps: u64::MAX, ..silent }
    }

    /// No further ones.
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

/// What happened at the NIC that others must know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Happened {
    /// A frame left.
    Departed(Departed),
    /// Something for the driver of this queue is in memory.
    Landed(usize),
}

/// The hardware.
#[derive(Debug)]
pub struct Port<S, R> {
    fabric: Fabric,
    sending: Sending<S>,
    receiving: Receiving<R>,
    /// What comes from the wire.
    pub arrivals: Arrivals,
}

/// What a NIC takes its time over.
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
    /// With these queues.
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

    /// The bus, and what is under way on it.
    pub fn fabric(&self) -> &Fabric {
        &self.fabric
    }

    /// The receiving half.
    pub fn receiving(&self) -> &Receiving<R> {
        &self.receiving
    }

    /// What a driver wrote that made no sense, if anything.
    pub fn fault(&self) -> Option<&NicFault> {
        self.sending.fault().or(self.receiving.fault())
    }

    /// A processor's writes to registers are on their way.
    pub fn ring(&mut self, now_ps: u64, bells: &mut VecDeque<Doorbell>) {
        self.fabric.ring(now_ps, bells);
    }

    /// When something happens next; `u64::MAX` for never.
    pub fn due_ps(&self) -> u64 {
        self.fabric
            .due_ps()
            .min(self.sending.due_ps(&self.fabric))
            .min(self.receiving.due_ps())
            .min(self.arrivals.next_ps)
    }

    /// One thing that is due at `now_ps`.
    ///
    /// # Errors
    /// A queue that the NIC was told to write to is not in memory.
    pub fn step(&mut self, now_ps: u64) -> Result<Option<Happened>, MemoryFault> {
        let Self { fabric, sending, receiving, arrivals } = self;
        if fabric.due_ps() <= now_ps {
            match fabric.step(now_ps)? {
                None => {}
                Some(Arrived::Landed(queue)) => return Ok(Some(Happened::Landed(queue))),
                Some(Arrived::Data(Read::Packet)) => sending.arrived(now_ps, fabric),
                Some(Arrived::Data(Read::Send { queue, units })) => {
                    sending.fetched(queue, units, now_ps, fabric)
                }
                Some(Arrived::Data(Read::Receive { queue, units })) => {
                    receiving.fetched(queue, units, now_ps, fabric)?;
                }
                Some(Arrived::Data(Read::Record { queue })) => receiving.looked(queue, now_ps, fabric)?,
                Some(Arrived::Doorbell(bell)) if bell.receive => {
                    receiving.doorbell(bell.queue);
                }
                Some(Arrived::Doorbell(bell)) => sending.doorbell(bell.queue, bell.value, now_ps, fabric),
            }
        } else if receiving.due_ps() <= now_ps {
            receiving.step(now_ps, fabric)?;
        } else if sending.due_ps(fabric) <= now_ps {
            return Ok(sending.step(now_ps, fabric)?.map(Happened::Departed));
        } else if arrivals.next_ps <= now_ps {
            let packet = arrivals.take();
            receiving.incoming(packet, now_ps, fabric)?;
        }
        Ok(None)
    }
}
