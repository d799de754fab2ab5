//! `ipoib`: IP over InfiniBand on a Mellanox InfiniHost III, driver mthca, as in 2007.
//!
//! A work request is made of segments of 16 bytes and names the next one: requests linked to each other are posted by
//! one doorbell, which says where the first lies; the NIC follows the links. Completions are of 32 bytes, asked for
//! with each request or with the last of a post.
//!
//! Layout: Linux `drivers/infiniband/hw/mthca/mthca_wqe.h`, `struct mthca_next_seg`, `mthca_tavor_ud_seg`,
//! `mthca_data_seg`, and `mthca_cq.c`, `struct mthca_cqe`. Big endian.

pub mod driver;
pub mod formats;
pub mod setup;

#[cfg(test)]
mod tests;

use super::cx5::segment::Pointer;

/// Bytes of a segment.
pub const SEGMENT_BYTES: usize = 16;
/// A request to send: next segment, datagram segment of 48 bytes, data segment.
pub const SEND_BYTES: usize = 80;
/// How far requests to send lie apart: the next power of two.
pub const SEND_STRIDE_BYTES: usize = 128;
/// A request to receive: next segment, data segment.
pub const RECEIVE_BYTES: usize = 32;
/// A completion.
pub const COMPLETION_BYTES: usize = 32;
/// A doorbell.
pub const DOORBELL_BYTES: u64 = 8;
/// Written before each packet received: a global routing header.
pub const ROUTING_HEADER_BYTES: u32 = 40;

const OPCODE_SEND: u32 = 0x0a;
/// The next request waits for a doorbell of its own.
const DOORBELL_DUE: u32 = 1 << 7;
const SIZE_MASK: u32 = 0x3f;
const COMPLETION_WANTED: u32 = 1 << 3;
/// A completion that is the NIC's to write.
const OWNER_NIC: u8 = 1 << 7;
const ERROR_MASK: u8 = 0xfe;
const OWNER_AT: usize = 31;

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|four| four.first_chunk()).map_or(0, |four| u32::from_be_bytes(*four))
}

fn put(bytes: &mut [u8], at: usize, word: u32) {
    bytes[at..at + 4].copy_from_slice(&word.to_be_bytes());
}

/// The first segment of a request: what comes after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Next {
    /// Where the next request lies, from the queue's start, and that it is there at all.
    pub offset: Option<u32>,
    /// Whether the next one waits for a doorbell of its own.
    pub doorbell_due: bool,
    /// Whether a completion is wanted for this one.
    pub completion: bool,
}

impl Next {
    fn to_segment(self, size: u32) -> [u8; SEGMENT_BYTES] {
        let mut segment = [0; SEGMENT_BYTES];
        if let Some(offset) = self.offset {
            put(&mut segment, 0, offset & !SIZE_MASK | OPCODE_SEND);
            put(&mut segment, 4, if self.doorbell_due { DOORBELL_DUE } else { 0 } | size);
        }
        put(&mut segment, 8, if self.completion { COMPLETION_WANTED } else { 0 });
        segment
    }

    fn from_bytes(bytes: &[u8]) -> Self {
        let (address, size) = (word(bytes, 0), word(bytes, 4));
        Self {
            offset: (size & SIZE_MASK != 0).then_some(address & !SIZE_MASK),
            doorbell_due: size & DOORBELL_DUE != 0,
            completion: word(bytes, 8) & COMPLETION_WANTED != 0,
        }
    }
}

/// A request to send, behind its first segment.
fn datagram(queue: u32, pointer: Pointer) -> [u8; SEND_BYTES - SEGMENT_BYTES] {
    let mut bytes = [0; SEND_BYTES - SEGMENT_BYTES];
    put(&mut bytes, 4, pointer.key);
    put(&mut bytes, 32, queue);
    put(&mut bytes, 36, 0x0b1b); // the key of IPoIB's broadcast group
    bytes[48..].copy_from_slice(&pointer.to_segment());
    bytes
}

/// What is completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completion {
    /// The request, by its offset from the queue's start.
    pub offset: u32,
    /// Bytes received.
    pub byte_count: u32,
    /// Whether it was to send.
    pub send: bool,
    /// Whether it failed.
    pub error: bool,
}

impl Completion {
    fn to_slot(self) -> [u8; COMPLETION_BYTES] {
        let mut slot = [0; COMPLETION_BYTES];
        put(&mut slot, 20, self.byte_count);
        put(&mut slot, 24, self.offset);
        slot[28] = if self.error { ERROR_MASK } else { 0 };
        slot[29] = u8::from(self.send);
        slot
    }

    /// `None` while it is the NIC's to write.
    fn from_slot(slot: &[u8; COMPLETION_BYTES]) -> Option<Self> {
        (slot[OWNER_AT] & OWNER_NIC == 0).then(|| Self {
            offset: word(slot, 24),
            byte_count: word(slot, 20),
            send: slot[29] & 1 != 0,
            error: slot[28] & ERROR_MASK == ERROR_MASK,
        })
    }
}
