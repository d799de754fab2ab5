//! `fifo`: first in, first out, limited by packets or by bytes (`net/sched/sch_fifo.c`).

use super::buffers::{ALL, HALF};
use super::registry::{Order, QUEUE_PACKETS, QUEUE_PACKETS_MAX, QdiscKind};
use super::store::Store;
use super::{Backpressure, DROP_HEAD, Limit, OVERLIMIT, Qdisc, QdiscContext, WhenFull};
use wharf_mem::{Batch, Frame, Region};

/// `fifo` of a registry.
pub(super) const KIND: QdiscKind = QdiscKind {
    name: "fifo",
    usage: "fifo[:N|:SIZE]",
    summary: "1000 packets, or N, or a size such as 64k",
    takes_limit: true,
    order: Order::All,
    keys: &[],
    packets: |spec| match spec.limit() {
        Some(FifoLimit::Packets(packets)) => packets,
        // Limited by bytes it holds as many as the usual one, of whatever length they are.
        Some(FifoLimit::Bytes(_)) | None => QUEUE_PACKETS,
    },
    build: |spec, setup| {
        let limit = spec.limit().unwrap_or(FifoLimit::Packets(QUEUE_PACKETS));
        Box::new(Fifo::new(limit).when_full(setup.when_full))
    },
};

/// The limit of a [`Fifo`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FifoLimit {
    /// A number of frames.
    Packets(usize),
    /// A number of bytes.
    Bytes(u64),
}

/// The frame length that storage of a FIFO limited by bytes is sized for. Shorter frames fill the storage
/// first.
const ASSUMED_FRAME_BYTES: u64 = 64;
/// Most frames that a FIFO limited by bytes stores.
const STORED_FRAMES_MAX: u64 = 1 << 16;

/// First in, first out.
#[derive(Debug)]
pub struct Fifo {
    store: Store,
    limit: FifoLimit,
    /// The packets that it holds at most, whatever their bytes.
    limit_packets: usize,
    when_full: WhenFull,
}

impl Fifo {
    /// An empty one whose senders wait at `limit`: 1 to [`QUEUE_PACKETS_MAX`] packets, or 1 byte at least.
    /// Other values are moved to the nearest bound. The kernel's default is a device's transmit queue length,
    /// 1000 packets.
    pub fn new(limit: FifoLimit) -> Self {
        let limit = match limit {
            FifoLimit::Packets(packets) => FifoLimit::Packets(packets.clamp(1, QUEUE_PACKETS_MAX)),
            FifoLimit::Bytes(bytes) => FifoLimit::Bytes(bytes.max(1)),
        };
        let limit_packets = match limit {
            FifoLimit::Packets(packets) => packets,
            FifoLimit::Bytes(bytes) => (bytes / ASSUMED_FRAME_BYTES).clamp(64, STORED_FRAMES_MAX) as usize,
        };
        Self { store: Store::with_capacity(limit_packets), limit, limit_packets, when_full: WhenFull::Wait }
    }

    /// Sets what its limit does.
    #[must_use]
    pub fn when_full(mut self, when_full: WhenFull) -> Self {
        self.when_full = when_full;
        self
    }

    /// Returns the reason to drop if it holds more than its limit, or than its part of the memory.
    fn is_over(&self) -> Option<&'static str> {
        let is_over_bytes = matches!(self.limit, FifoLimit::Bytes(bytes) if self.store.bytes > bytes);
        match self.len() > self.limit_packets || is_over_bytes {
            true => Some(DROP_HEAD),
            false => (self.memory_eighths() > ALL).then_some(OVERLIMIT),
        }
    }

    /// Returns the eighths of the memory that it may take.
    fn memory_eighths(&self) -> usize {
        self.store.buffers.eighths(self.len())
    }

    fn room(&self, memory_eighths: usize) -> usize {
        match self.limit {
            FifoLimit::Bytes(bytes) if self.store.bytes >= bytes => 0,
            _ if memory_eighths > ALL => 0,
            _ => self.limit_packets.saturating_sub(self.len()),
        }
    }

    fn has_drained(&self, memory_eighths: usize) -> bool {
        let is_long = matches!(self.limit, FifoLimit::Bytes(bytes) if self.store.bytes > bytes / 2);
        self.len() <= self.limit_packets / 2 && !is_long && memory_eighths <= HALF
    }
}

impl Qdisc for Fifo {
    fn name(&self) -> &'static str {
        "fifo"
    }

    fn reserve(&mut self, frames: usize) {
        self.store.reserve(frames);
    }

    fn storage(&self) -> usize {
        self.store.capacity - self.store.frames.len()
    }

    fn enqueue(&mut self, _cx: &mut QdiscContext<'_>, from: &mut Batch) {
        while self.store.frames.len() < self.store.capacity {
            let Some(frame) = from.pop() else { return };
            let pushed = self.store.push(frame);
            debug_assert!(pushed.is_ok());
        }
    }

    fn dequeue(&mut self, _cx: &mut QdiscContext<'_>, to: &mut Batch, limit: Limit) {
        self.store.drain(to, limit);
    }

    fn len(&self) -> usize {
        self.store.frames.len()
    }

    fn backpressure(&self) -> Backpressure {
        match self.when_full {
            WhenFull::Wait => {
                let eighths = self.memory_eighths();
                Backpressure::of_all(self.room(eighths), self.has_drained(eighths))
            }
            WhenFull::DropHead => Backpressure::of_dropping(self.is_over().is_some()),
        }
    }

    fn when_full(&self) -> WhenFull {
        self.when_full
    }

    fn bound_memory(&mut self, region: &Region) {
        self.store.buffers.bound(region);
    }

    fn trim(&mut self, cx: &mut QdiscContext<'_>) {
        while let Some(reason) = self.is_over().filter(|_| self.when_full == WhenFull::DropHead) {
            let Some(oldest) = self.store.pop() else { return };
            cx.drop(oldest, reason);
        }
    }

    fn purge(&mut self, to: &mut Batch) {
        self.store.drain(to, Limit::NONE);
    }

    fn can_bypass(&self) -> bool {
        true
    }

    fn visit(&self, see: &mut dyn FnMut(&Frame)) {
        self.store.frames.iter().for_each(see);
    }
}
