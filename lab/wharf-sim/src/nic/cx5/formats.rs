//! The descriptors that the hardware of `cx5` reads and writes.

use super::completion::{Completion, Opcode};
use super::compress::CompletionWriter;
use super::parse::{Content, Entry, EntryError};
use super::segment::{Kind, Pointer, SEGMENT_BYTES};
use crate::nic::buffers::number_of;
use crate::nic::host_memory::{MemoryFault, Post};
use crate::nic::receive::{Incoming, Posted, ReceiveFormat};
use crate::nic::send::{Parsed, Piece, Place, SendFormat};

/// The format of entries of 64-byte blocks.
#[derive(Debug)]
pub struct Entries {
    completions: CompletionWriter,
    queue: u32,
}

impl Entries {
    /// Creates the format for queue number `queue`.
    pub fn new(completions: CompletionWriter, queue: u32) -> Self {
        Self { completions, queue }
    }
}

impl SendFormat for Entries {
    /// The doorbell carries 16 bits.
    fn tail(&self, old: u32, value: u32) -> u32 {
        old.wrapping_add(u32::from((value as u16).wrapping_sub(old as u16)))
    }

    fn parse(&mut self, bytes: &[u8], index: u32, pieces: &mut Vec<Piece>) -> Parsed {
        let entry = match Entry::parse(bytes, index as u16) {
            Ok(entry) => entry,
            Err(EntryError::Short { .. }) => return Parsed::Short,
            Err(error) => return Parsed::Wrong(error.to_string()),
        };
        let first = pieces.len();
        for content in entry.contents(bytes) {
            let (place, len_bytes) = match content {
                Ok(Content::Pointer(Pointer { address, len_bytes, .. })) => (Place::At(address), len_bytes),
                Ok(Content::Bytes(bytes)) => (Place::Inside(number_of(bytes)), bytes.len() as u32),
                Err(error) => {
                    pieces.truncate(first);
                    return Parsed::Wrong(error.to_string());
                }
            };
            let last = entry.control.kind == Kind::Multi;
            pieces.push(Piece { place, len_bytes, before_bytes: 0, last });
        }
        if let Some(last) = pieces[first..].last_mut() {
            last.last = true;
        }
        Parsed::Entry { units: entry.blocks, completion: entry.control.completion }
    }

    fn sent(&mut self, index: u32, completion: bool, post: &mut impl Post) -> Result<(), MemoryFault> {
        if !completion {
            return Ok(());
        }
        self.completions.push(Completion::new(Opcode::Sent, index as u16, 0, self.queue), post)
    }
}

/// The format of receive descriptors with a buffer each.
#[derive(Debug)]
pub struct Descriptors {
    completions: CompletionWriter,
    queue: u32,
    record: u64,
    kept: u64,
}

impl Descriptors {
    /// Creates the format for queue number `queue`, whose driver writes the number of posted buffers to
    /// `record`.
    pub fn new(completions: CompletionWriter, queue: u32, record: u64) -> Self {
        Self { completions, queue, record, kept: 0 }
    }
}

impl ReceiveFormat for Descriptors {
    fn record(&self) -> u64 {
        self.record
    }

    fn parse(&mut self, bytes: &[u8], _index: u32, _len_bytes: u32) -> Option<Posted> {
        let segment: &[u8; SEGMENT_BYTES] = bytes.first_chunk()?;
        let Pointer { address, len_bytes, .. } = Pointer::from_segment(segment)?;
        Some(Posted { address, len_bytes, more: false })
    }

    fn received(
        &mut self, index: u32, packet: &Incoming, behind: bool, post: &mut impl Post,
    ) -> Result<bool, MemoryFault> {
        let completion = Completion::new(Opcode::Received, index as u16, packet.len_bytes, self.queue);
        // The hash of a flow; here, of all packets of this queue.
        self.completions.push(Completion { hash: 0x5eed ^ self.queue, hash_type: 1, ..completion }, post)?;
        if !behind {
            self.completions.flush(post)?;
        }
        let began = self.completions.pending() == 1;
        self.kept += u64::from(began);
        Ok(began)
    }

    fn flush(&mut self, kept: u64, post: &mut impl Post) -> Result<(), MemoryFault> {
        if kept == self.kept { self.completions.flush(post) } else { Ok(()) }
    }
}
