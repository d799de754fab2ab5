//! The sending half of a NIC: fetches entries, reads packets, puts them on the wire, completes them.
//!
//! Assumptions: the entries of a queue are fetched in order, some ahead of need; packets of all queues go to
//! the wire in the order in which they were read. Goal: every transfer is charged by its size, and the
//! driver's bytes are not trusted. The [`SendFormat`] knows the layout of entries.

use super::buffers::Buffers;
use super::fabric::{Fabric, Read};
use super::host_memory::{HostMemory, MemoryFault, Post};
use super::ring::{Intake, NicFault, Ring};
use crate::engine::{first_due, take_due};
use serde::Deserialize;
use std::collections::VecDeque;
use wharf_mem::lock;

/// A packet, or a piece of one, as an entry describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// Its location.
    pub place: Place,
    /// Its length.
    pub len_bytes: u32,
    /// Bytes before it that are read with it.
    pub before_bytes: u32,
    /// True for the last piece of its packet.
    pub last: bool,
}

/// The location of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// In memory, at this address.
    At(u64),
    /// In the entry itself; the packet's number.
    Inside(u64),
}

/// The result of parsing an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Parsed {
    /// An entry.
    Entry {
        /// Its units.
        units: u32,
        /// True if a completion is wanted.
        completion: bool,
    },
    /// It continues beyond the bytes read.
    Short,
    /// It makes no sense.
    Wrong(String),
}

/// The send descriptors of a family of NICs.
pub trait SendFormat {
    /// Returns the tail that `value` in the register means, where it was `old`. A tail beyond the ring is
    /// invalid.
    fn tail(&self, old: u32, value: u32) -> u32;

    /// Parses the entry at the start of `bytes`, at unit `index`, and adds its pieces to `pieces`.
    fn parse(&mut self, bytes: &[u8], index: u32, pieces: &mut Vec<Piece>) -> Parsed;

    /// Completes the entry at `index`, which has been sent.
    ///
    /// # Errors
    /// The queue's memory is not there.
    fn sent(&mut self, index: u32, completion: bool, post: &mut impl Post) -> Result<(), MemoryFault>;
}

/// A frame that has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Departed {
    /// The packet's number.
    pub number: u64,
    /// Its length, checksum included.
    pub len_bytes: u32,
    /// The time at which its last bit is on the wire.
    pub at_ps: u64,
    /// Its queue.
    pub queue: usize,
}

/// Costs of the sending half.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct SendCosts {
    /// Starting one entry, all queues together.
    pub entry_ps: u64,
    /// Bytes of a ring fetched at a time.
    pub fetch_bytes: u32,
    /// Such fetches in flight per queue.
    pub fetches: usize,
    /// One byte on the wire.
    pub wire_ps_per_byte: u64,
    /// Preamble and gap, in bytes.
    pub wire_overhead_bytes: u64,
    /// Packets are read at most this far ahead of the wire.
    pub ahead_ps: u64,
}

#[derive(Debug)]
struct Queue<F> {
    intake: Intake,
    format: F,
    /// Reads of the ring in flight.
    fetches: usize,
    /// Entries parsed and not started.
    ready: usize,
}

#[derive(Debug, Clone, Copy)]
struct Work {
    queue: usize,
    index: u32,
    pieces: usize,
    completion: bool,
}

#[derive(Debug, Clone, Copy)]
struct Pending {
    /// `None` for an entry without a packet.
    piece: Option<Piece>,
    here: bool,
    queue: usize,
    /// Set on the last piece of an entry.
    ends: Option<(u32, bool)>,
}

#[derive(Debug, Clone, Copy)]
struct Departure {
    frame: Option<Departed>,
    queue: usize,
    ends: Option<(u32, bool)>,
}

/// The sending half.
#[derive(Debug)]
pub struct Sending<F> {
    costs: SendCosts,
    buffers: Buffers,
    queues: Vec<Queue<F>>,
    work: VecDeque<Work>,
    pieces: VecDeque<Piece>,
    parsing: Vec<Piece>,
    /// Packets requested, in the order of the wire.
    pending: VecDeque<Pending>,
    next_unread: usize,
    departures: VecDeque<(u64, Departure)>,
    packet_bytes: u32,
    engine_free_ps: u64,
    wire_free_ps: u64,
    fault: Option<NicFault>,
}

impl<F: SendFormat> Sending<F> {
    /// Creates the half with these queues.
    pub fn new(costs: SendCosts, buffers: Buffers, queues: Vec<(Ring, F)>) -> Self {
        let queue = |(ring, format)| Queue { intake: Intake::new(ring), format, fetches: 0, ready: 0 };
        Self {
            costs,
            buffers,
            queues: queues.into_iter().map(queue).collect(),
            work: VecDeque::new(),
            pieces: VecDeque::new(),
            parsing: Vec::new(),
            pending: VecDeque::new(),
            next_unread: 0,
            departures: VecDeque::new(),
            packet_bytes: 0,
            engine_free_ps: 0,
            wire_free_ps: 0,
            fault: None,
        }
    }

    /// Returns the driver's first fault.
    pub fn fault(&self) -> Option<&NicFault> {
        self.fault.as_ref()
    }

    fn stop(&mut self, queue: usize, what: String) {
        self.queues[queue].intake.stopped = true;
        self.fault.get_or_insert(NicFault { queue, what });
    }

    /// Handles a write to the tail register of `queue`.
    pub fn doorbell(&mut self, queue: usize, value: u32, now_ps: u64, fabric: &mut Fabric) {
        let Some(at) = self.queues.get_mut(queue) else {
            self.fault.get_or_insert(NicFault { queue, what: "there is no such queue".into() });
            return;
        };
        let tail = at.format.tail(at.intake.tail(), value);
        match at.intake.moves_to(tail) {
            Ok(()) => self.fetch(queue, now_ps, fabric),
            Err(what) => self.stop(queue, what),
        }
    }

    fn fetch(&mut self, queue: usize, now_ps: u64, fabric: &mut Fabric) {
        let Self { queues, costs, .. } = self;
        let Queue { intake, fetches, ready, .. } = &mut queues[queue];
        let most = (costs.fetch_bytes / intake.ring.unit_bytes).max(1);
        while !intake.stopped
            && *fetches < costs.fetches
            && intake.unasked() > 0
            && *ready < costs.fetches * 8
        {
            let units = intake.readable(most);
            *fetches += 1;
            fabric.read(now_ps, intake.ask(units), Read::Send { queue, units });
        }
    }

    /// Handles the arrival of units of a ring.
    pub fn fetched(&mut self, queue: usize, units: u32, now_ps: u64, fabric: &mut Fabric) {
        let at = &mut self.queues[queue];
        at.intake.come(units);
        at.fetches -= 1;
        let memory = fabric.memory().clone();
        self.parse(queue, &lock(&memory));
        self.parsing.clear();
        self.fetch(queue, now_ps, fabric);
    }

    /// Parses the entries that have arrived.
    fn parse(&mut self, queue: usize, memory: &HostMemory) {
        loop {
            let Queue { intake, format, ready, .. } = &mut self.queues[queue];
            let (index, units) = (intake.used(), intake.here());
            if intake.stopped || units == 0 {
                return;
            }
            let (address, len_bytes) = (intake.ring.at(index), (units * intake.ring.unit_bytes) as usize);
            let parsed = match memory.bytes(address, len_bytes) {
                Ok(bytes) => format.parse(bytes, index, &mut self.parsing),
                Err(fault) => Parsed::Wrong(fault.to_string()),
            };
            match parsed {
                Parsed::Entry { units: taken, completion } if (1..=units).contains(&taken) => {
                    let pieces = self.parsing.len();
                    self.pieces.extend(self.parsing.drain(..));
                    self.work.push_back(Work { queue, index, pieces, completion });
                    intake.take(taken);
                    *ready += 1;
                }
                Parsed::Short if !intake.is_all_here() && units < intake.ring.to_edge(index) => return,
                Parsed::Short => self.stop(queue, "an entry that ends beyond the tail".into()),
                Parsed::Entry { units, .. } => self.stop(queue, format!("an entry of {units} units")),
                Parsed::Wrong(what) => self.stop(queue, what),
            }
        }
    }

    /// Handles the arrival of the oldest packet requested.
    pub fn arrived(&mut self, now_ps: u64, fabric: &Fabric) {
        let mut unread = self.pending.iter().skip(self.next_unread);
        let found = unread.position(|pending| !pending.here).map(|at| at + self.next_unread);
        if let Some(at) = found {
            self.pending[at].here = true;
            self.next_unread = at + 1;
        }
        self.put_on_wire(now_ps, fabric);
    }

    /// Puts the packets that have arrived on the wire, in order.
    fn put_on_wire(&mut self, now_ps: u64, fabric: &Fabric) {
        while self.pending.front().is_some_and(|pending| pending.here) {
            let Some(pending) = self.pending.pop_front() else { return };
            self.next_unread = self.next_unread.saturating_sub(1);
            let Pending { piece, queue, ends, .. } = pending;
            let frame = piece.and_then(|piece| self.on_wire(piece, queue, now_ps, fabric));
            let at_ps = self.wire_free_ps.max(now_ps);
            self.departures.push_back((at_ps, Departure { frame, queue, ends }));
        }
    }

    /// Puts one piece on the wire. Returns the frame that it completes.
    fn on_wire(&mut self, piece: Piece, queue: usize, now_ps: u64, fabric: &Fabric) -> Option<Departed> {
        self.packet_bytes = self.packet_bytes.saturating_add(piece.len_bytes);
        if !piece.last {
            return None;
        }
        let len_bytes = std::mem::take(&mut self.packet_bytes);
        let wire_bytes = u64::from(len_bytes.max(64)) + self.costs.wire_overhead_bytes;
        self.wire_free_ps = self.wire_free_ps.max(now_ps) + wire_bytes * self.costs.wire_ps_per_byte;
        let number = match piece.place {
            Place::Inside(number) => Ok(number),
            Place::At(address) => self.buffers.number(address, &lock(fabric.memory())),
        };
        match number {
            Ok(number) => Some(Departed { number, len_bytes, at_ps: self.wire_free_ps, queue }),
            Err(fault) => {
                self.stop(queue, fault.to_string());
                None
            }
        }
    }

    /// Returns the time of this half's next own event.
    pub fn due_ps(&self, fabric: &Fabric) -> u64 {
        let departs_ps = first_due(&self.departures);
        if self.work.is_empty() || fabric.is_blocked() {
            return departs_ps;
        }
        departs_ps.min(self.engine_free_ps.max(self.wire_free_ps.saturating_sub(self.costs.ahead_ps)))
    }

    /// Handles the event at `now_ps`: a frame leaves, or an entry is started.
    ///
    /// # Errors
    /// A completion queue is not in memory.
    pub fn step(&mut self, now_ps: u64, fabric: &mut Fabric) -> Result<Option<Departed>, MemoryFault> {
        if let Some(departure) = take_due(&mut self.departures, now_ps) {
            if let Some((index, completion)) = departure.ends {
                let queue = departure.queue;
                let at = &mut self.queues[queue];
                at.format.sent(index, completion, &mut fabric.post_for(queue, now_ps))?;
            }
            return Ok(departure.frame);
        }
        self.take_up(now_ps, fabric);
        Ok(None)
    }

    /// Starts one entry: requests its packets.
    fn take_up(&mut self, now_ps: u64, fabric: &mut Fabric) {
        if self.engine_free_ps > now_ps || fabric.is_blocked() {
            return;
        }
        let Some(Work { queue, index, pieces, completion }) = self.work.pop_front() else { return };
        self.engine_free_ps = now_ps + self.costs.entry_ps;
        self.queues[queue].ready -= 1;
        if pieces == 0 {
            // An entry without a packet is done in its turn, and may want a completion.
            let ends = Some((index, completion));
            self.pending.push_back(Pending { piece: None, here: true, queue, ends });
        }
        for n in 0..pieces {
            let Some(piece) = self.pieces.pop_front() else { break };
            let here = matches!(piece.place, Place::Inside(_));
            if !here {
                fabric.read(now_ps, u64::from(piece.len_bytes + piece.before_bytes), Read::Packet);
            }
            let ends = (n + 1 == pieces).then_some((index, completion));
            self.pending.push_back(Pending { piece: Some(piece), here, queue, ends });
        }
        self.put_on_wire(now_ps, fabric);
        self.fetch(queue, now_ps, fabric);
    }
}
