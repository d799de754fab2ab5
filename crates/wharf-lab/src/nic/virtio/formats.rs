//! What a virtio NIC reads and writes, on the general engines.

use super::{DESCRIPTOR_BYTES, HEADER_BYTES, INDEX_AT, KICK_BYTES, Split};
use crate::nic::host::{HostMemory, MemoryFault, Post};
use crate::nic::receive::{Incoming, Posted, ReceiveFormat};
use crate::nic::ring::Ring;
use crate::nic::send::{Parsed, Piece, Place, SendFormat};
use std::collections::VecDeque;

/// Elements used with one new index.
const BATCH: u16 = 16;

/// The NIC's side of what is used.
#[derive(Debug)]
struct Used {
    ring: Split,
    next: u16,
    told: u16,
    /// Where an interrupt is written to, if there are any.
    interrupt: Option<u64>,
}

impl Used {
    fn push(&mut self, id: u16, len_bytes: u32, more: bool, post: &mut impl Post) -> Result<(), MemoryFault> {
        let mut element = [0; 8];
        element[..4].copy_from_slice(&u32::from(id).to_le_bytes());
        element[4..].copy_from_slice(&len_bytes.to_le_bytes());
        post.post(self.ring.used_at(self.next), &element)?;
        self.next = self.next.wrapping_add(1);
        if more && self.next.wrapping_sub(self.told) < BATCH { Ok(()) } else { self.tell(post) }
    }

    fn tell(&mut self, post: &mut impl Post) -> Result<(), MemoryFault> {
        if self.told == self.next {
            return Ok(());
        }
        self.told = self.next;
        post.post(self.ring.used + INDEX_AT, &self.told.to_le_bytes())?;
        match self.interrupt {
            Some(address) => post.post(address, &[0; KICK_BYTES as usize]),
            None => Ok(()),
        }
    }
}

/// A split ring, from the NIC's side.
#[derive(Debug)]
pub struct Virtqueue {
    ring: Split,
    used: Used,
    /// Descriptors taken and not used yet, in order.
    taken: VecDeque<u16>,
    start: u16,
    kept: u64,
}

impl Virtqueue {
    /// Of this ring; interrupts are written to that address, if any; indices start at `start`.
    pub fn new(ring: Split, interrupt: Option<u64>, start: u16) -> Self {
        let used = Used { ring, next: start, told: start, interrupt };
        Self { ring, used, taken: VecDeque::new(), start, kept: 0 }
    }

    /// What the driver makes available, as the general engine knows it. Its indices start at 0.
    pub fn available(&self) -> Ring {
        Ring { address: self.ring.available_at(0), unit_bytes: 2, read_bytes: 2, units: self.ring.size }
    }

    /// The kick carries the index in its upper half.
    fn tail_of(&self, old: u32, value: u32) -> u32 {
        let index = ((value >> 16) as u16).wrapping_sub(self.start);
        old.wrapping_add(u32::from(index.wrapping_sub(old as u16)))
    }
}

impl SendFormat for Virtqueue {
    fn tail(&self, old: u32, value: u32, _memory: &HostMemory) -> u32 {
        self.tail_of(old, value)
    }

    fn parse(&mut self, bytes: &[u8], _index: u32, memory: &HostMemory, pieces: &mut Vec<Piece>) -> Parsed {
        let Some(&[a, b]) = bytes.first_chunk() else { return Parsed::Short };
        let id = u16::from_le_bytes([a, b]);
        let descriptor = match self.ring.read_descriptor(id, memory) {
            Ok(descriptor) if !descriptor.write && descriptor.len_bytes > HEADER_BYTES => descriptor,
            Ok(descriptor) => return Parsed::Wrong(format!("nothing to send: {descriptor:?}")),
            Err(what) => return Parsed::Wrong(what),
        };
        self.taken.push_back(id);
        let table = DESCRIPTOR_BYTES as u32;
        pieces.push(Piece { place: Place::Table, len_bytes: table, before_bytes: 0, last: false });
        let place = Place::At(descriptor.address.saturating_add(HEADER_BYTES.into()));
        let len_bytes = descriptor.len_bytes - HEADER_BYTES;
        pieces.push(Piece { place, len_bytes, before_bytes: HEADER_BYTES, last: true });
        Parsed::Entry { units: 1, completion: true }
    }

    fn sent(
        &mut self, _index: u32, _completion: bool, more: bool, post: &mut impl Post,
    ) -> Result<(), MemoryFault> {
        match self.taken.pop_front() {
            Some(id) => self.used.push(id, 0, more, post),
            None => Ok(()),
        }
    }
}

impl ReceiveFormat for Virtqueue {
    fn tail(&self, old: u32, value: u32, _memory: &HostMemory) -> u32 {
        self.tail_of(old, value)
    }

    fn parse(&mut self, bytes: &[u8], _index: u32, memory: &HostMemory, _len_bytes: u32) -> Option<Posted> {
        let &[a, b] = bytes.first_chunk()?;
        let id = u16::from_le_bytes([a, b]);
        let descriptor = self.ring.read_descriptor(id, memory).ok()?;
        let len_bytes = descriptor.len_bytes.checked_sub(HEADER_BYTES).filter(|_| descriptor.write)?;
        self.taken.push_back(id);
        Some(Posted {
            address: descriptor.address.checked_add(HEADER_BYTES.into())?,
            len_bytes,
            before_bytes: HEADER_BYTES,
            table_bytes: DESCRIPTOR_BYTES as u32,
            more: false,
        })
    }

    fn received(
        &mut self, _index: u32, packet: &Incoming, behind: bool, post: &mut impl Post,
    ) -> Result<bool, MemoryFault> {
        let Some(id) = self.taken.pop_front() else { return Ok(false) };
        let had_none = self.used.told == self.used.next;
        self.used.push(id, packet.len_bytes + HEADER_BYTES, behind, post)?;
        let began = had_none && self.used.told != self.used.next;
        self.kept += u64::from(began);
        Ok(began)
    }

    fn flush(&mut self, kept: u64, post: &mut impl Post) -> Result<(), MemoryFault> {
        if kept == self.kept { self.used.tell(post) } else { Ok(()) }
    }
}
