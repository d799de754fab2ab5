//! `fifo`: first in, first out, limited by packets or by bytes.

use super::{Qdisc, Store, Trim};
use wharf_mem::{Batch, Frame};

/// What limits a [`Fifo`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FifoLimit {
    /// So many frames.
    Packets(usize),
    /// So many bytes.
    Bytes(u64),
}

/// Storage of a FIFO limited by bytes, where frames are this long: shorter ones fill the storage first.
const ASSUMED_FRAME_BYTES: u64 = 64;
/// Most frames that a FIFO limited by bytes stores.
const STORED_FRAMES_MAX: u64 = 1 << 16;

/// First in, first out.
#[derive(Debug)]
pub struct Fifo {
    store: Store,
    limit: FifoLimit,
}

impl Fifo {
    /// An empty one; a limit of 0 counts as 1. The kernel's default is a device's transmit queue length, 1000 packets.
    pub fn new(limit: FifoLimit) -> Self {
        let limit = match limit {
            FifoLimit::Packets(packets) => FifoLimit::Packets(packets.max(1)),
            FifoLimit::Bytes(bytes) => FifoLimit::Bytes(bytes.max(1)),
        };
        let frames = match limit {
            FifoLimit::Packets(packets) => packets,
            FifoLimit::Bytes(bytes) => (bytes / ASSUMED_FRAME_BYTES).clamp(64, STORED_FRAMES_MAX) as usize,
        };
        Self { store: Store::with_capacity(frames.max(1)), limit }
    }
}

impl Qdisc for Fifo {
    fn name(&self) -> &'static str {
        "fifo"
    }

    fn enqueue(&mut self, from: &mut Batch) {
        while self.store.frames.len() < self.store.capacity {
            let Some(frame) = from.pop() else { return };
            let pushed = self.store.push(frame);
            debug_assert!(pushed.is_ok());
        }
    }

    fn storage(&self) -> usize {
        self.store.capacity - self.store.frames.len()
    }

    fn dequeue(&mut self, to: &mut Batch, packets: usize, bytes: u64) -> usize {
        self.store.drain(to, packets, bytes).0
    }

    fn len(&self) -> usize {
        self.store.frames.len()
    }

    fn room(&self, _band: u8) -> usize {
        match self.limit {
            FifoLimit::Packets(packets) => packets.saturating_sub(self.len()),
            FifoLimit::Bytes(bytes) if self.store.bytes >= bytes => 0,
            FifoLimit::Bytes(_) => self.store.capacity - self.len(),
        }
    }

    fn has_drained(&self, _band: u8) -> bool {
        match self.limit {
            FifoLimit::Packets(packets) => self.len() <= packets / 2,
            FifoLimit::Bytes(bytes) => self.store.bytes <= bytes / 2,
        }
    }

    fn full_bands(&self) -> u32 {
        if self.room(0) == 0 { u32::MAX } else { 0 }
    }

    fn can_bypass(&self) -> bool {
        true
    }

    fn uses_bands(&self) -> bool {
        false
    }

    fn reserve(&mut self, frames: usize) {
        self.store.reserve(frames);
    }

    fn next_event_ns(&self) -> Option<u64> {
        None
    }

    fn visit(&self, see: &mut dyn FnMut(&Frame)) {
        self.store.frames.iter().for_each(see);
    }
}

impl Trim for Fifo {
    fn trim(&mut self, to: &mut Batch) -> usize {
        let (packets, bytes) = match self.limit {
            FifoLimit::Packets(packets) => (self.len().saturating_sub(packets), u64::MAX),
            FifoLimit::Bytes(bytes) => (usize::MAX, self.store.bytes.saturating_sub(bytes)),
        };
        if packets == 0 || bytes == 0 { 0 } else { self.store.drain(to, packets, bytes).0 }
    }
}
