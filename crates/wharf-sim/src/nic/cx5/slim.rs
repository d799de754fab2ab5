//! Send entries of 16 bytes: a pointer each. All other fields lie in the 16 bytes before the packet and are
//! read with it. This was proposed at netdev 0x13 as the descriptor of the future ("metadata in the buffer");
//! no NIC has it. Receiving is unchanged.
//!
//! An entry is a data segment (`struct mlx5_wqe_data_seg`) that points to the metadata. Devices use 24 bits
//! of its key; the first byte says whether a completion is wanted.

use super::completion::{Completion, Opcode};
use super::compress::{CompletionRing, CompletionWriter};
use super::expand::CompletionReader;
use super::half::{ReceiveQueues, SELECTED};
use super::segment::{Pointer, SEGMENT_BYTES};
use crate::nic::host_memory::{HostMemory, MemoryFault, Post};
use crate::nic::queue_pair::{Contradiction, RegisterWrite, RingBytes};
use crate::nic::ring::Ring;
use crate::nic::send::{Parsed, Piece, Place, SendFormat};

/// Bytes of metadata before each packet.
pub const METADATA_BYTES: u32 = 16;
const DOORBELL_BYTES: u64 = 8;
const KEY: u32 = 0x1000;
const KEY_MASK: u32 = 0xff_ffff;
const COMPLETION: u32 = 1 << 24;

fn entry(address: u64, len_bytes: u32, completion: bool) -> Pointer {
    let key = KEY & KEY_MASK | if completion { COMPLETION } else { 0 };
    Pointer { address: address - u64::from(METADATA_BYTES), len_bytes: len_bytes + METADATA_BYTES, key }
}

/// The locations of a pair's queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Queues {
    /// Send entries.
    pub send: Ring,
    /// Their completions.
    pub sent: CompletionRing,
    /// Receive buffers.
    pub receive: ReceiveQueues,
}

impl Queues {
    /// Allocates rings of 2^`log` entries each.
    pub fn allocate(log: u32, memory: &mut HostMemory) -> Self {
        let bytes = SEGMENT_BYTES as u32;
        let address = memory.allocate(SEGMENT_BYTES << log);
        let send = Ring { address, unit_bytes: bytes, read_bytes: bytes, units: 1 << log };
        let sent = CompletionRing::allocate(log, memory);
        Self { send, sent, receive: ReceiveQueues::allocate(log, SEGMENT_BYTES, log, memory) }
    }
}

/// The driver's side.
#[derive(Debug)]
pub struct Slim {
    queues: Queues,
    sent: CompletionReader,
    received: CompletionReader,
    /// To send: next to write, last doorbell, oldest outstanding, completed up to here.
    next: u32,
    told: u32,
    oldest: u32,
    done: u32,
    last: (u64, u32),
    posted: u32,
    taken: u32,
}

impl Slim {
    /// Creates the driver's side of `queues`.
    ///
    /// # Errors
    /// They are not in memory.
    pub fn new(queues: Queues, memory: &mut HostMemory) -> Result<Self, MemoryFault> {
        Ok(Self {
            sent: CompletionReader::new(queues.sent, SELECTED, memory)?,
            received: CompletionReader::new(queues.receive.completions, SELECTED, memory)?,
            queues,
            next: 0,
            told: 0,
            oldest: 0,
            done: 0,
            last: (0, 0),
            posted: 0,
            taken: 0,
        })
    }

    fn place(&self, index: u32) -> usize {
        (index & (self.queues.send.units - 1)) as usize
    }
}

impl RingBytes for Slim {
    fn places(&self) -> usize {
        self.queues.send.units as usize
    }

    fn has_room(&self) -> bool {
        self.next.wrapping_sub(self.oldest) < self.queues.send.units
    }

    fn send(&mut self, address: u64, len_bytes: u32, memory: &mut HostMemory) -> Result<usize, MemoryFault> {
        let index = self.next;
        memory.write(self.queues.send.at(index), &entry(address, len_bytes, false).to_segment())?;
        self.last = (address, len_bytes);
        self.next = index.wrapping_add(1);
        Ok(self.place(index))
    }

    /// The last entry before a doorbell asks for the completion of all.
    fn ring(&mut self, memory: &mut HostMemory) -> Result<Option<RegisterWrite>, MemoryFault> {
        if self.told == self.next {
            return Ok(None);
        }
        let (address, len_bytes) = self.last;
        let at = self.queues.send.at(self.next.wrapping_sub(1));
        memory.write(at, &entry(address, len_bytes, true).to_segment())?;
        self.told = self.next;
        Ok(Some((self.told, DOORBELL_BYTES)))
    }

    fn next_sent(&mut self, memory: &mut HostMemory) -> Result<Option<usize>, Contradiction> {
        if self.oldest == self.done {
            let next = self.sent.next(memory).map_err(|error| Contradiction(error.to_string()))?;
            let Some(completion) = next else { return Ok(None) };
            let ahead = completion.counter.wrapping_sub(self.done as u16);
            if completion.opcode != Opcode::Sent || u32::from(ahead) >= self.told.wrapping_sub(self.done) {
                return Err(Contradiction(format!(
                    "completion of entry {}, which is not outstanding",
                    completion.counter
                )));
            }
            self.done = self.done.wrapping_add(u32::from(ahead) + 1);
        }
        let place = self.place(self.oldest);
        self.oldest = self.oldest.wrapping_add(1);
        Ok(Some(place))
    }

    fn post(
        &mut self, address: u64, len_bytes: u32, memory: &mut HostMemory,
    ) -> Result<Option<usize>, MemoryFault> {
        if self.posted.wrapping_sub(self.taken) >= self.queues.receive.ring.units {
            return Ok(None);
        }
        let index = self.posted;
        let pointer = Pointer { address, len_bytes, key: KEY };
        memory.write(self.queues.receive.ring.at(index), &pointer.to_segment())?;
        self.posted = index.wrapping_add(1);
        Ok(Some(self.place(index)))
    }

    fn ring_posted(&mut self, memory: &mut HostMemory) -> Result<Option<RegisterWrite>, MemoryFault> {
        self.queues.receive.show(self.posted, memory);
        Ok(None)
    }

    fn next_received(&mut self, memory: &mut HostMemory) -> Result<Option<(usize, u32)>, Contradiction> {
        let next = self.received.next(memory).map_err(|error| Contradiction(error.to_string()))?;
        let Some(completion) = next else { return Ok(None) };
        if completion.opcode != Opcode::Received || completion.counter != self.taken as u16 {
            return Err(Contradiction(format!(
                "completion of buffer {}, where {} is next",
                completion.counter, self.taken
            )));
        }
        let place = self.place(self.taken);
        self.taken = self.taken.wrapping_add(1);
        Ok(Some((place, completion.byte_count)))
    }
}

/// The NIC's side.
#[derive(Debug)]
pub struct SlimEntries {
    completions: CompletionWriter,
    queue: u32,
}

impl SlimEntries {
    /// Creates the format for queue number `queue`.
    pub fn new(completions: CompletionWriter, queue: u32) -> Self {
        Self { completions, queue }
    }
}

impl SendFormat for SlimEntries {
    fn tail(&self, _old: u32, value: u32) -> u32 {
        value
    }

    fn parse(&mut self, bytes: &[u8], index: u32, pieces: &mut Vec<Piece>) -> Parsed {
        let segment = bytes.first_chunk().and_then(Pointer::from_segment);
        let Some(pointer) = segment.filter(|pointer| pointer.len_bytes > METADATA_BYTES) else {
            return Parsed::Wrong(format!("entry {index} points to no packet"));
        };
        let place = Place::At(pointer.address.saturating_add(METADATA_BYTES.into()));
        let len_bytes = pointer.len_bytes - METADATA_BYTES;
        pieces.push(Piece { place, len_bytes, before_bytes: METADATA_BYTES, last: true });
        Parsed::Entry { units: 1, completion: pointer.key & COMPLETION != 0 }
    }

    fn sent(&mut self, index: u32, completion: bool, post: &mut impl Post) -> Result<(), MemoryFault> {
        if !completion {
            return Ok(());
        }
        self.completions.push(Completion::new(Opcode::Sent, index as u16, 0, self.queue), post)
    }
}
