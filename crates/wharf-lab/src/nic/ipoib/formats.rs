//! What the InfiniBand adapter reads and writes, on the general engines.

use super::{COMPLETION_BYTES, Completion, Next, ROUTING_HEADER_BYTES, SEGMENT_BYTES, SEND_BYTES};
use crate::nic::cx5::segment::Pointer;
use crate::nic::host::{HostMemory, MemoryFault, Post};
use crate::nic::receive::{Incoming, Posted, ReceiveFormat};
use crate::nic::ring::Ring;
use crate::nic::send::{Parsed, Piece, Place, SendFormat};

/// One queue, from the adapter's side.
#[derive(Debug)]
pub struct Queue {
    requests: Ring,
    completions: Ring,
    next: u32,
}

impl Queue {
    /// Of these rings.
    pub fn new(requests: Ring, completions: Ring) -> Self {
        debug_assert_eq!(completions.unit_bytes as usize, COMPLETION_BYTES);
        Self { requests, completions, next: 0 }
    }

    fn offset(&self, index: u32) -> u32 {
        (index & (self.requests.units - 1)) * self.requests.unit_bytes
    }

    fn complete(&mut self, completion: Completion, post: &mut impl Post) -> Result<(), MemoryFault> {
        post.post(self.completions.at(self.next), &completion.to_slot())?;
        self.next = self.next.wrapping_add(1);
        Ok(())
    }
}

fn pointer(bytes: &[u8], at: usize) -> Option<Pointer> {
    Pointer::from_segment(bytes.get(at..)?.first_chunk()?).filter(|pointer| pointer.len_bytes > 0)
}

impl SendFormat for Queue {
    /// The doorbell says where the first request lies; how many there are, the links say. They are read with the
    /// requests: here they are only looked at.
    fn tail(&self, old: u32, value: u32, memory: &HostMemory) -> u32 {
        let never = old.wrapping_add(2 * self.requests.units);
        let mut at = old;
        if value != self.offset(at) {
            return never;
        }
        for _ in 0..self.requests.units {
            let Ok(bytes) = memory.read::<SEGMENT_BYTES>(self.requests.at(at)) else { return never };
            at = at.wrapping_add(1);
            match Next::from_bytes(&bytes) {
                Next { offset: None, .. } | Next { doorbell_due: true, .. } => return at,
                Next { offset: Some(offset), .. } if offset == self.offset(at) => {}
                Next { .. } => return never,
            }
        }
        never
    }

    fn parse(&mut self, bytes: &[u8], index: u32, _memory: &HostMemory, pieces: &mut Vec<Piece>) -> Parsed {
        let Some(pointer) = pointer(bytes, SEND_BYTES - SEGMENT_BYTES) else {
            return Parsed::Wrong(format!("request {index} has nothing to send"));
        };
        let place = Place::At(pointer.address);
        pieces.push(Piece { place, len_bytes: pointer.len_bytes, before_bytes: 0, last: true });
        Parsed::Entry { units: 1, completion: Next::from_bytes(bytes).completion }
    }

    fn sent(
        &mut self, index: u32, completion: bool, _more: bool, post: &mut impl Post,
    ) -> Result<(), MemoryFault> {
        if !completion {
            return Ok(());
        }
        let offset = self.offset(index);
        self.complete(Completion { offset, byte_count: 0, send: true, error: false }, post)
    }
}

impl ReceiveFormat for Queue {
    fn tail(&self, _old: u32, value: u32, _memory: &HostMemory) -> u32 {
        value
    }

    fn parse(&mut self, bytes: &[u8], _index: u32, _memory: &HostMemory, _len_bytes: u32) -> Option<Posted> {
        let pointer = pointer(bytes, SEGMENT_BYTES)?;
        Some(Posted {
            address: pointer.address.checked_add(ROUTING_HEADER_BYTES.into())?,
            len_bytes: pointer.len_bytes.checked_sub(ROUTING_HEADER_BYTES)?,
            before_bytes: ROUTING_HEADER_BYTES,
            table_bytes: 0,
            more: false,
        })
    }

    fn received(
        &mut self, index: u32, packet: &Incoming, _behind: bool, post: &mut impl Post,
    ) -> Result<bool, MemoryFault> {
        let byte_count = packet.len_bytes + ROUTING_HEADER_BYTES;
        let offset = self.offset(index);
        self.complete(Completion { offset, byte_count, send: false, error: false }, post)?;
        Ok(false)
    }

    fn flush(&mut self, _kept: u64, _post: &mut impl Post) -> Result<(), MemoryFault> {
        Ok(())
    }
}
