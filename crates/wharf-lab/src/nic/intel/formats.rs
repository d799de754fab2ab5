//! What the hardware of Intel's NICs reads and writes, on the general engines.

use super::{DESCRIPTOR_BYTES, Descriptor, Layout, Received};
use crate::nic::host::{HostMemory, MemoryFault, Post};
use crate::nic::receive::{Incoming, Posted, ReceiveFormat};
use crate::nic::ring::Ring;
use crate::nic::send::{Parsed, Piece, Place, SendFormat};
use std::collections::VecDeque;
use std::marker::PhantomData;

/// Where descriptors that were sent are reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Report {
    /// Written back to the ring.
    Descriptors,
    /// The head, four bytes, to this address.
    Head(u64),
}

/// The tail register holds a place in the ring, not a count: one beyond it is no place.
fn tail(ring: &Ring, old: u32, value: u32) -> u32 {
    if value >= ring.units {
        return old.wrapping_add(ring.units + 1);
    }
    old.wrapping_add(value.wrapping_sub(old) & (ring.units - 1))
}

/// Descriptors to be written back, next to each other in the ring: one write for up to so many.
#[derive(Debug)]
struct WriteBack {
    ring: Ring,
    batch: usize,
    first: u32,
    bytes: Vec<u8>,
}

impl WriteBack {
    fn new(ring: Ring, batch: usize) -> Self {
        Self { ring, batch: batch.clamp(1, 8), first: 0, bytes: Vec::with_capacity(8 * DESCRIPTOR_BYTES) }
    }

    fn push(&mut self, index: u32, descriptor: Descriptor, post: &mut impl Post) -> Result<(), MemoryFault> {
        let count = self.bytes.len() / DESCRIPTOR_BYTES;
        let goes_on =
            index == self.first.wrapping_add(count as u32) && self.ring.to_edge(index) < self.ring.units;
        if count > 0 && !goes_on {
            self.flush(post)?;
        }
        if self.bytes.is_empty() {
            self.first = index;
        }
        self.bytes.extend(descriptor);
        if self.bytes.len() >= self.batch * DESCRIPTOR_BYTES { self.flush(post) } else { Ok(()) }
    }

    fn flush(&mut self, post: &mut impl Post) -> Result<(), MemoryFault> {
        if self.bytes.is_empty() {
            return Ok(());
        }
        let done = post.post(self.ring.at(self.first), &self.bytes);
        self.bytes.clear();
        done
    }
}

/// Sends what descriptors say.
#[derive(Debug)]
pub struct SendDescriptors<L> {
    report: Report,
    back: WriteBack,
    /// Descriptors read and not reported: the legacy layout writes back what it has read.
    read: VecDeque<(u32, Descriptor)>,
    layout: PhantomData<L>,
}

impl<L> SendDescriptors<L> {
    /// Of this ring, reporting so many at a time.
    pub fn new(ring: Ring, report: Report, batch: usize) -> Self {
        Self { report, back: WriteBack::new(ring, batch), read: VecDeque::new(), layout: PhantomData }
    }
}

impl<L: Layout> SendFormat for SendDescriptors<L> {
    fn tail(&self, old: u32, value: u32, _memory: &HostMemory) -> u32 {
        tail(&self.back.ring, old, value)
    }

    fn parse(&mut self, bytes: &[u8], index: u32, _memory: &HostMemory, pieces: &mut Vec<Piece>) -> Parsed {
        let Some(descriptor) = bytes.first_chunk::<DESCRIPTOR_BYTES>() else { return Parsed::Short };
        let what = match L::read_to_send(descriptor) {
            Ok(what) => what,
            Err(wrong) => return Parsed::Wrong(format!("descriptor {index}: {wrong}")),
        };
        self.read.push_back((index, *descriptor));
        let place = Place::At(what.address);
        pieces.push(Piece { place, len_bytes: what.len_bytes, before_bytes: 0, last: what.last });
        Parsed::Entry { units: 1, completion: what.report }
    }

    fn sent(
        &mut self, index: u32, completion: bool, more: bool, post: &mut impl Post,
    ) -> Result<(), MemoryFault> {
        let read = self.read.pop_front();
        match (self.report, read) {
            (Report::Descriptors, Some((at, descriptor))) if completion && at == index => {
                self.back.push(index, L::sent(&descriptor), post)?;
                if more { Ok(()) } else { self.back.flush(post) }
            }
            (Report::Head(address), _) if completion => {
                let head = index.wrapping_add(1) & (self.back.ring.units - 1);
                let due = head.is_multiple_of(self.back.batch as u32) || !more;
                if due { post.post(address, &head.to_le_bytes()) } else { Ok(()) }
            }
            _ => Ok(()),
        }
    }
}

/// Receives into the buffers that descriptors name.
#[derive(Debug)]
pub struct ReceiveDescriptors<L> {
    back: WriteBack,
    buffer_bytes: u32,
    read: Descriptor,
    kept: u64,
    layout: PhantomData<L>,
}

impl<L> ReceiveDescriptors<L> {
    /// Of this ring, with buffers of one size, written back so many at a time.
    pub fn new(ring: Ring, buffer_bytes: u32, batch: usize) -> Self {
        let back = WriteBack::new(ring, batch);
        Self { back, buffer_bytes, read: [0; DESCRIPTOR_BYTES], kept: 0, layout: PhantomData }
    }
}

impl<L: Layout> ReceiveFormat for ReceiveDescriptors<L> {
    fn tail(&self, old: u32, value: u32, _memory: &HostMemory) -> u32 {
        tail(&self.back.ring, old, value)
    }

    fn parse(&mut self, bytes: &[u8], _index: u32, _memory: &HostMemory, _len_bytes: u32) -> Option<Posted> {
        self.read = *bytes.first_chunk()?;
        let address = L::read_to_receive(&self.read);
        Some(Posted { address, len_bytes: self.buffer_bytes, before_bytes: 0, table_bytes: 0, more: false })
    }

    fn received(
        &mut self, index: u32, packet: &Incoming, behind: bool, post: &mut impl Post,
    ) -> Result<bool, MemoryFault> {
        let was_empty = self.back.bytes.is_empty();
        let received = Received { len_bytes: packet.len_bytes, last: true, errors: 0 };
        self.back.push(index, L::received(&self.read, &received), post)?;
        if !behind {
            self.back.flush(post)?;
        }
        let began = was_empty && !self.back.bytes.is_empty();
        self.kept += u64::from(began);
        Ok(began)
    }

    fn flush(&mut self, kept: u64, post: &mut impl Post) -> Result<(), MemoryFault> {
        if kept == self.kept { self.back.flush(post) } else { Ok(()) }
    }
}
