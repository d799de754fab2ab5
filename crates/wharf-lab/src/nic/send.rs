//! The sending half of a NIC: fetches entries, reads packets, puts them on the wire, completes them.
//!
//! Assumptions: a queue's entries are fetched in order, some ahead of need; packets of all queues go to the wire in
//! the order in which they were read. Goal: every transfer charged by its size, and nothing believed that the driver
//! wrote. What an entry looks like is the [`SendFormat`]'s affair.

use super::buffers::Buffers;
use super::fabric::{Fabric, Read};
use super::host::{HostMemory, MemoryFault, Post, open};
use std::collections::VecDeque;

/// A ring of descriptors or blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ring {
    /// Its first byte.
    pub address: u64,
    /// Bytes of a unit.
    pub unit_bytes: u32,
    /// Bytes of it that are read.
    pub read_bytes: u32,
    /// Units; a power of two.
    pub units: u32,
}

impl Ring {
    /// Where the unit of a free-running index lies.
    #[inline]
    pub fn at(&self, index: u32) -> u64 {
        self.address + u64::from(index & (self.units - 1)) * u64::from(self.unit_bytes)
    }

    /// Units from `index` to the ring's end.
    #[inline]
    pub fn to_edge(&self, index: u32) -> u32 {
        self.units - (index & (self.units - 1))
    }
}

/// What is wrong with what a driver wrote.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("queue {queue}: {what}")]
pub struct NicFault {
    /// Which queue; it is stopped.
    pub queue: usize,
    /// What.
    pub what: String,
}

/// A packet, or a piece of one, as an entry describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// Where it lies, or the number that its bytes inside the entry begin with.
    pub place: Place,
    /// Bytes of it.
    pub len_bytes: u32,
    /// Bytes before it that are read with it.
    pub before_bytes: u32,
    /// Whether it is the last of its packet.
    pub last: bool,
}

/// Where a packet is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// In memory, at this address.
    At(u64),
    /// In the entry itself; its number.
    Inside(u64),
    /// No packet: what the entry points to, read before it.
    Table,
}

/// What an entry turned out to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Parsed {
    /// An entry of so many units, with or without a completion to be written.
    Entry {
        /// Units.
        units: u32,
        /// Whether a completion is wanted.
        completion: bool,
    },
    /// It goes on beyond what was read.
    Short,
    /// It makes no sense.
    Wrong(String),
}

/// How a family of NICs describes what is to be sent.
pub trait SendFormat {
    /// The tail that `value` in the register means, where it was `old`; more than the ring holds for what cannot be.
    fn tail(&self, old: u32, value: u32, memory: &HostMemory) -> u32;

    /// Reads the entry that `bytes` begin with, at unit `index`; its pieces are added to `pieces`, the last of them
    /// one of a packet. What it points to in `memory` is a piece of its own, [`Place::Table`].
    fn parse(&mut self, bytes: &[u8], index: u32, memory: &HostMemory, pieces: &mut Vec<Piece>) -> Parsed;

    /// The entry at `index` has been sent, and `more` follow at once.
    ///
    /// # Errors
    /// The queue's memory is not there.
    fn sent(
        &mut self, index: u32, completion: bool, more: bool, post: &mut impl Post,
    ) -> Result<(), MemoryFault>;
}

/// A frame that has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Departed {
    /// The packet's number.
    pub number: u64,
    /// Its length, checksum included.
    pub len_bytes: u32,
    /// When its last bit is on the wire.
    pub at_ps: u64,
    /// Which queue it came from.
    pub queue: usize,
}

/// What the sending half takes its time over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SendCosts {
    /// Taking up one entry, all queues together.
    pub entry_ps: u64,
    /// Bytes of a ring that are fetched at a time.
    pub fetch_bytes: u32,
    /// Such fetches of one queue in flight at a time.
    pub fetches: usize,
    /// One byte on the wire.
    pub wire_ps_per_byte: u64,
    /// Preamble and gap, in bytes.
    pub wire_overhead_bytes: u64,
    /// Packets are read no further ahead of the wire than this.
    pub ahead_ps: u64,
}

#[derive(Debug)]
struct Queue<F> {
    ring: Ring,
    format: F,
    tail: u32,
    /// Next unit to ask for, next that is to come, next to parse.
    asked: u32,
    fetched: u32,
    parsed: u32,
    fetches: usize,
    /// Entries parsed and not taken up.
    ready: usize,
    /// Entries parsed and not sent.
    unsent: usize,
    stopped: bool,
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
    piece: Piece,
    here: bool,
    queue: usize,
    /// Set on an entry's last piece.
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
    /// Asked for, in the order in which they go to the wire; how many of them are here from the front on is `here`.
    pending: VecDeque<Pending>,
    next_unread: usize,
    departures: VecDeque<(u64, Departure)>,
    packet_bytes: u32,
    engine_free_ps: u64,
    wire_free_ps: u64,
    fault: Option<NicFault>,
}

impl<F: SendFormat> Sending<F> {
    /// With these queues.
    pub fn new(costs: SendCosts, buffers: Buffers, queues: Vec<(Ring, F)>) -> Self {
        let queue = |(ring, format)| Queue {
            ring,
            format,
            tail: 0,
            asked: 0,
            fetched: 0,
            parsed: 0,
            fetches: 0,
            ready: 0,
            unsent: 0,
            stopped: false,
        };
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

    /// What a driver wrote that made no sense, first of all.
    pub fn fault(&self) -> Option<&NicFault> {
        self.fault.as_ref()
    }

    fn stop(&mut self, queue: usize, what: String) {
        self.queues[queue].stopped = true;
        self.fault.get_or_insert(NicFault { queue, what });
    }

    /// The tail register of `queue` is written.
    pub fn doorbell(&mut self, queue: usize, value: u32, now_ps: u64, fabric: &mut Fabric) {
        let Some(at) = self.queues.get_mut(queue) else {
            self.fault.get_or_insert(NicFault { queue, what: "there is no such queue".into() });
            return;
        };
        let tail = at.format.tail(at.tail, value, &open(fabric.memory()));
        // No more can be new than the ring holds, less what is not parsed yet.
        if tail.wrapping_sub(at.parsed) > at.ring.units {
            let units = at.ring.units;
            return self.stop(queue, format!("a tail of {value} is beyond the ring of {units}"));
        }
        at.tail = tail;
        self.fetch(queue, now_ps, fabric);
    }

    fn fetch(&mut self, queue: usize, now_ps: u64, fabric: &mut Fabric) {
        let Self { queues, costs, .. } = self;
        let at = &mut queues[queue];
        let most = (costs.fetch_bytes / at.ring.unit_bytes).max(1);
        while !at.stopped && at.fetches < costs.fetches && at.asked != at.tail && at.ready < costs.fetches * 8
        {
            let units = at.tail.wrapping_sub(at.asked).min(most).min(at.ring.to_edge(at.asked));
            at.asked = at.asked.wrapping_add(units);
            at.fetches += 1;
            fabric.read(now_ps, u64::from(units * at.ring.read_bytes), Read::Send { queue, units });
        }
    }

    /// Units of a ring are here.
    pub fn fetched(&mut self, queue: usize, units: u32, now_ps: u64, fabric: &mut Fabric) {
        let at = &mut self.queues[queue];
        at.fetched = at.fetched.wrapping_add(units);
        at.fetches -= 1;
        let memory = fabric.memory().clone();
        let memory = open(&memory);
        while !self.queues[queue].stopped && self.queues[queue].parsed != self.queues[queue].fetched {
            let at = &mut self.queues[queue];
            let units = at.fetched.wrapping_sub(at.parsed).min(at.ring.to_edge(at.parsed));
            let (address, len_bytes) = (at.ring.at(at.parsed), (units * at.ring.unit_bytes) as usize);
            let parsed = match memory.bytes(address, len_bytes) {
                Ok(bytes) => at.format.parse(bytes, at.parsed, &memory, &mut self.parsing),
                Err(fault) => Parsed::Wrong(fault.to_string()),
            };
            match parsed {
                Parsed::Entry { units: taken, completion } if (1..=units).contains(&taken) => {
                    let pieces = self.parsing.len();
                    self.pieces.extend(self.parsing.drain(..));
                    self.work.push_back(Work { queue, index: at.parsed, pieces, completion });
                    at.parsed = at.parsed.wrapping_add(taken);
                    at.ready += 1;
                    at.unsent += 1;
                }
                Parsed::Short if at.fetched != at.tail && units < at.ring.to_edge(at.parsed) => break,
                Parsed::Short => self.stop(queue, "an entry that ends beyond the tail".into()),
                Parsed::Entry { units, .. } => self.stop(queue, format!("an entry of {units} units")),
                Parsed::Wrong(what) => self.stop(queue, what),
            }
        }
        self.parsing.clear();
        drop(memory);
        self.fetch(queue, now_ps, fabric);
    }

    /// The oldest packet that was asked for is here.
    pub fn arrived(&mut self, now_ps: u64, fabric: &Fabric) {
        let mut unread = self.pending.iter().skip(self.next_unread);
        let found = unread.position(|pending| !pending.here).map(|at| at + self.next_unread);
        if let Some(at) = found {
            self.pending[at].here = true;
            self.next_unread = at + 1;
        }
        self.put_on_wire(now_ps, fabric);
    }

    /// Puts on the wire what is here, in order.
    fn put_on_wire(&mut self, now_ps: u64, fabric: &Fabric) {
        while self.pending.front().is_some_and(|pending| pending.here) {
            let Some(pending) = self.pending.pop_front() else { return };
            self.next_unread = self.next_unread.saturating_sub(1);
            let Pending { piece, queue, ends, .. } = pending;
            self.packet_bytes = self.packet_bytes.saturating_add(piece.len_bytes);
            let mut frame = None;
            if piece.last {
                let len_bytes = std::mem::take(&mut self.packet_bytes);
                let wire_bytes = u64::from(len_bytes.max(64)) + self.costs.wire_overhead_bytes;
                self.wire_free_ps = self.wire_free_ps.max(now_ps) + wire_bytes * self.costs.wire_ps_per_byte;
                let number = match piece.place {
                    Place::Inside(number) => Ok(number),
                    Place::Table => Ok(u64::MAX),
                    Place::At(address) => self.buffers.number(address, &open(fabric.memory())),
                };
                match number {
                    Ok(number) => {
                        frame = Some(Departed { number, len_bytes, at_ps: self.wire_free_ps, queue })
                    }
                    Err(fault) => self.stop(queue, fault.to_string()),
                }
            }
            let at_ps = self.wire_free_ps.max(now_ps);
            self.departures.push_back((at_ps, Departure { frame, queue, ends }));
        }
    }

    /// When this half has something to do by itself.
    pub fn due_ps(&self, fabric: &Fabric) -> u64 {
        let departs_ps = self.departures.front().map_or(u64::MAX, |departure| departure.0);
        if self.work.is_empty() || fabric.is_blocked() {
            return departs_ps;
        }
        departs_ps.min(self.engine_free_ps.max(self.wire_free_ps.saturating_sub(self.costs.ahead_ps)))
    }

    /// Does what is due at `now_ps`: a frame leaves, or an entry is taken up.
    ///
    /// # Errors
    /// A completion queue is not in memory.
    pub fn step(&mut self, now_ps: u64, fabric: &mut Fabric) -> Result<Option<Departed>, MemoryFault> {
        if self.departures.front().is_some_and(|departure| departure.0 <= now_ps)
            && let Some((_, departure)) = self.departures.pop_front()
        {
            if let Some((index, completion)) = departure.ends {
                let queue = departure.queue;
                let at = &mut self.queues[queue];
                at.unsent -= 1;
                at.format.sent(index, completion, at.unsent > 0, &mut fabric.post_for(queue, now_ps))?;
            }
            return Ok(departure.frame);
        }
        self.take_up(now_ps, fabric);
        Ok(None)
    }

    /// Takes up one entry: asks for its packets.
    fn take_up(&mut self, now_ps: u64, fabric: &mut Fabric) {
        if self.engine_free_ps > now_ps || fabric.is_blocked() {
            return;
        }
        let Some(Work { queue, index, pieces, completion }) = self.work.pop_front() else { return };
        self.engine_free_ps = now_ps + self.costs.entry_ps;
        self.queues[queue].ready -= 1;
        if pieces == 0 {
            self.queues[queue].unsent -= 1;
        }
        for n in 0..pieces {
            let Some(piece) = self.pieces.pop_front() else { break };
            if piece.place == Place::Table {
                fabric.read(now_ps, piece.len_bytes.into(), Read::Table);
                continue;
            }
            let here = matches!(piece.place, Place::Inside(_));
            if !here {
                fabric.read(now_ps, u64::from(piece.len_bytes + piece.before_bytes), Read::Packet);
            }
            let ends = (n + 1 == pieces).then_some((index, completion));
            self.pending.push_back(Pending { piece, here, queue, ends });
        }
        self.put_on_wire(now_ps, fabric);
        self.fetch(queue, now_ps, fabric);
    }
}
