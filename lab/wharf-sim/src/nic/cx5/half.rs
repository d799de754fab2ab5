//! The receiving half of the driver, with a buffer for each packet.

use super::completion::{Completion, Opcode, Selected};
use super::compress::CompletionRing;
use super::expand::CompletionReader;
use super::segment::{Pointer, SEGMENT_BYTES};
use super::send_half::KEY;
use crate::nic::buffers::{Buffers, put_number};
use crate::nic::host_memory::{HostMemory, MemoryFault};
use crate::nic::ring::Ring;
use wharf_core::pool::Cache;
use wharf_mem::{Batch, Frame, Region};

/// A completion that the driver cannot accept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReceiveError {
    /// Its buffer is not posted.
    NotHeld(u32),
    /// Another contradiction.
    Contradiction(String),
}

impl<E: std::error::Error> From<E> for ReceiveError {
    fn from(error: E) -> Self {
        Self::Contradiction(error.to_string())
    }
}

/// The surroundings of a receiving half.
#[derive(Debug)]
pub struct Surroundings<'a> {
    /// Addresses of frames.
    pub buffers: &'a Buffers,
    /// Their bytes.
    pub region: &'a Region,
    /// The rings' memory.
    pub memory: &'a mut HostMemory,
    /// The owner's cache of frames.
    pub cache: &'a mut Cache,
}

/// The location of a receive queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceiveQueues {
    /// The ring of posted buffers.
    pub ring: Ring,
    /// The number of buffers ever posted: four bytes, big endian.
    pub record: u64,
    /// The completion queue.
    pub completions: CompletionRing,
}

impl ReceiveQueues {
    /// Allocates 2^`log_units` units of `unit_bytes`, 2^`log_slots` completions, and the record.
    pub fn allocate(log_units: u32, unit_bytes: usize, log_slots: u32, memory: &mut HostMemory) -> Self {
        let ring = Ring::allocate(log_units, unit_bytes, memory);
        let completions = CompletionRing::allocate(log_slots, memory);
        Self { ring, record: memory.allocate(RECORD_BYTES), completions }
    }

    /// Writes the number of buffers ever posted to the record.
    pub fn show(&self, posted: u32, memory: &mut HostMemory) {
        let written = memory.write(self.record, &posted.to_be_bytes());
        debug_assert_eq!(written, Ok(()), "it was allocated");
    }
}

const RECORD_BYTES: usize = 4;

/// A receiving half.
pub trait ReceiveHalf: Send + std::fmt::Debug + Sized {
    /// Creates a half with 2^`log` buffers.
    ///
    /// # Errors
    /// There is not enough memory.
    fn new(log: u32, memory: &mut HostMemory) -> Result<Self, MemoryFault>;

    /// Returns the location of its queue.
    fn queues(&self) -> ReceiveQueues;

    /// Takes the next packet, or `None` if there is none.
    ///
    /// # Errors
    /// [`ReceiveError`]; the completion is skipped, and no frame is lost.
    fn take(&mut self, around: &mut Surroundings<'_>) -> Result<Option<Frame>, ReceiveError>;

    /// Posts buffers while there are free descriptors, and writes their total number to the record; there is
    /// no register for that (`mlx5_wq_cyc_update_db_record`).
    fn post(&mut self, around: &mut Surroundings<'_>);

    /// Takes back all buffers.
    fn unpost(&mut self, cache: &mut Cache);

    /// Shows each buffer to `see`.
    fn visit(&self, see: &mut dyn FnMut(&Frame));
}

/// Gives one frame back to its cache.
pub(super) fn give_back(frame: Frame, cache: &mut Cache) {
    let given = cache.give_one(frame);
    debug_assert!(given.is_ok(), "it came from this pool");
}

/// Sets the length and the number of the packet in `frame`.
pub(super) fn finish(
    mut frame: Frame, completion: &Completion, len_bytes: u32, number: u64, around: &mut Surroundings<'_>,
) -> Result<Option<Frame>, ReceiveError> {
    let good = completion.opcode == Opcode::Received && len_bytes > 0;
    if good && around.region.set_len(&mut frame, len_bytes).is_ok() {
        if let Ok(bytes) = around.region.bytes_mut(&mut frame) {
            put_number(bytes, number);
        }
        return Ok(Some(frame));
    }
    give_back(frame, around.cache);
    Err(ReceiveError::Contradiction(format!(
        "{:?}, {len_bytes} bytes, in buffer {}",
        completion.opcode, completion.counter
    )))
}

/// A half with a buffer for each packet, which posts `POST` of them at a time.
#[derive(Debug)]
pub struct Single<const POST: usize = 32> {
    queues: ReceiveQueues,
    reader: CompletionReader,
    posted: Vec<Option<Frame>>,
    next: u32,
    free: usize,
    fresh: Batch,
}

/// The field in mini completions for [`Single`], as the driver sets its queues up (`MLX5_CQE_FORMAT_CSUM`).
pub const SELECTED: Selected = Selected::Checksum;

impl<const POST: usize> ReceiveHalf for Single<POST> {
    fn new(log: u32, memory: &mut HostMemory) -> Result<Self, MemoryFault> {
        let queues = ReceiveQueues::allocate(log, SEGMENT_BYTES, log, memory);
        let units = queues.ring.units as usize;
        let posted = (0..units).map(|_| None).collect();
        let reader = CompletionReader::new(queues.completions, SELECTED, memory)?;
        Ok(Self { queues, reader, posted, next: 0, free: units, fresh: Batch::new(POST) })
    }

    fn queues(&self) -> ReceiveQueues {
        self.queues
    }

    fn take(&mut self, around: &mut Surroundings<'_>) -> Result<Option<Frame>, ReceiveError> {
        let Some(completion) = self.reader.next(around.memory)? else { return Ok(None) };
        let place = usize::from(completion.counter) & (self.posted.len() - 1);
        let Some(frame) = self.posted[place].take() else {
            return Err(ReceiveError::NotHeld(completion.counter.into()));
        };
        self.free += 1;
        let number = around.buffers.number(around.buffers.address(&frame), around.memory)?;
        finish(frame, &completion, completion.byte_count, number, around)
    }

    fn post(&mut self, around: &mut Surroundings<'_>) {
        let len_bytes = around.region.data_bytes_max().min(2048);
        let before = self.next;
        while self.free >= POST && around.cache.take(&mut self.fresh, POST, len_bytes).is_ok() {
            while let Some(frame) = self.fresh.pop() {
                let place = self.next as usize & (self.posted.len() - 1);
                if self.posted[place].is_some() {
                    // This happens only after the NIC has broken the order.
                    give_back(frame, around.cache);
                    self.free = 0;
                    continue;
                }
                let pointer = Pointer { address: around.buffers.address(&frame), len_bytes, key: KEY };
                let written = around.memory.write(self.queues.ring.at(self.next), &pointer.to_segment());
                debug_assert_eq!(written, Ok(()), "the ring was allocated");
                self.posted[place] = Some(frame);
                self.next = self.next.wrapping_add(1);
                self.free = self.free.saturating_sub(1);
            }
        }
        if self.next != before {
            self.queues.show(self.next, around.memory);
        }
    }

    fn unpost(&mut self, cache: &mut Cache) {
        self.posted.iter_mut().filter_map(Option::take).for_each(|frame| give_back(frame, cache));
    }

    fn visit(&self, see: &mut dyn FnMut(&Frame)) {
        self.posted.iter().flatten().for_each(see);
    }
}
