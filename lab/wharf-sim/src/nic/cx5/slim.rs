//! Send entries of 16 bytes: a pointer each. All other fields lie in the 16 bytes before the packet and are
//! read with it. This was proposed at netdev 0x13 as the descriptor of the future ("metadata in the buffer");
//! no NIC has it. Receiving is unchanged.
//!
//! An entry is a data segment (`struct mlx5_wqe_data_seg`) that points to the metadata. Devices use 24 bits
//! of its key; the first byte says whether a completion is wanted.

use super::completion::{Completion, Opcode};
use super::compress::CompletionWriter;
use super::segment::{Pointer, SEGMENT_BYTES};
use super::send_half::{KEY, NotOutstanding, Outgoing, SendHalf, Spec, WriteError};
use crate::nic::host_memory::{HostMemory, MemoryFault, Post};
use crate::nic::ring::Ring;
use crate::nic::send::{Parsed, Piece, Place, SendFormat};

/// Bytes of metadata before each packet.
pub const METADATA_BYTES: u32 = 16;
const KEY_MASK: u32 = 0xff_ffff;
const COMPLETION: u32 = 1 << 24;

fn entry(address: u64, len_bytes: u32, completion: bool) -> Pointer {
    let key = KEY & KEY_MASK | if completion { COMPLETION } else { 0 };
    Pointer { address: address - u64::from(METADATA_BYTES), len_bytes: len_bytes + METADATA_BYTES, key }
}

/// The driver's side of sending. Indices run free.
#[derive(Debug)]
pub struct Slim {
    ring: Ring,
    /// Next entry to write, entries shown to the NIC, entries completed.
    next: u32,
    told: u32,
    done: u32,
    last: (u64, u32),
}

impl SendHalf for Slim {
    const NAME: &'static str = "cx5-slim";

    fn new(_number: u32, spec: &Spec, memory: &mut HostMemory) -> (Self, Ring) {
        let ring = Ring::allocate(spec.log_send_blocks, SEGMENT_BYTES, memory);
        (Self { ring, next: 0, told: 0, done: 0, last: (0, 0) }, ring)
    }

    fn has_room(&self) -> bool {
        self.next.wrapping_sub(self.done) < self.ring.units
    }

    fn push(&mut self, packet: &Outgoing<'_>, memory: &mut HostMemory) -> Result<(), WriteError> {
        let [Pointer { address, len_bytes, .. }] = *packet.pieces else {
            return Err(WriteError::Pieces { pieces: packet.pieces.len(), most: 1 });
        };
        memory.write(self.ring.at(self.next), &entry(address, len_bytes, false).to_segment())?;
        self.last = (address, len_bytes);
        self.next = self.next.wrapping_add(1);
        Ok(())
    }

    /// The last entry before a doorbell asks for the completion of all.
    fn ring(&mut self, memory: &mut HostMemory) -> Result<Option<u32>, MemoryFault> {
        if self.told == self.next {
            return Ok(None);
        }
        let (address, len_bytes) = self.last;
        let at = self.ring.at(self.next.wrapping_sub(1));
        memory.write(at, &entry(address, len_bytes, true).to_segment())?;
        self.told = self.next;
        Ok(Some(self.told))
    }

    fn completed(&mut self, index: u16) -> Result<usize, NotOutstanding> {
        let packets = u32::from(index.wrapping_sub(self.done as u16)) + 1;
        let outstanding = self.told.wrapping_sub(self.done);
        if packets > outstanding {
            return Err(NotOutstanding { index, outstanding: outstanding as usize });
        }
        self.done = self.done.wrapping_add(packets);
        Ok(packets as usize)
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
