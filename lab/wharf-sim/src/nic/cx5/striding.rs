//! Striding receive: a buffer of many strides takes packets one behind the other, and the driver copies them
//! out.
//!
//! A buffer's entry is a next segment and a data segment (`struct mlx5e_rx_wqe_ll`). A completion names the
//! buffer (`wqe_id`) and the stride (`wqe_counter`). Its byte count holds the number of strides (bits 16 to
//! 30) beside the packet's length. The strides left when the longest packet no longer fits go with the last
//! packet. (Linux `mlx5/core/en_rx.c`, `mlx5e_handle_rx_cqe_mpwrq`; there a packet of its own says so, a
//! "filler".)

use super::completion::{Completion, Opcode, Selected};
use super::compress::CompletionWriter;
use super::expand::CompletionReader;
use super::half::{ReceiveError, ReceiveHalf, ReceiveQueues, Surroundings, finish, give_back};
use super::segment::{Pointer, SEGMENT_BYTES};
use super::send_half::KEY;
use crate::nic::host_memory::{HostMemory, MemoryFault, Post};
use crate::nic::receive::{Incoming, Posted, ReceiveFormat};
use std::collections::VecDeque;
use wharf_core::pool::Cache;
use wharf_mem::{Batch, Frame};

/// Bytes of a stride (`MLX5_MPWRQ_LOG_STRIDE_SIZE_CQE_COMPRESS` 8).
pub const STRIDE_BYTES: u32 = 256;
/// Strides of the longest packet, 1522 bytes.
const LONGEST: u32 = 6;
const ENTRY_BYTES: usize = 2 * SEGMENT_BYTES;
/// The field in mini completions: the stride. No counter goes up.
pub const SELECTED: Selected = Selected::Stride;
/// Most buffers: one completion queue takes the completions of all their packets.
const BUFFERS: u32 = 16;

fn strides_of(len_bytes: u32) -> u32 {
    len_bytes.div_ceil(STRIDE_BYTES)
}

/// The driver's half.
#[derive(Debug)]
pub struct Striding {
    queues: ReceiveQueues,
    reader: CompletionReader,
    /// Each buffer, with the number of its strides taken.
    posted: Vec<Option<(Frame, u32)>>,
    next: u32,
    strides: u32,
    fresh: Batch,
}

impl ReceiveHalf for Striding {
    /// Creates a half with 2^`log` completions, and buffers with as many strides in all.
    fn new(log: u32, memory: &mut HostMemory) -> Result<Self, MemoryFault> {
        let queues = ReceiveQueues::allocate(BUFFERS.ilog2(), ENTRY_BYTES, log, memory);
        let reader = CompletionReader::new(queues.completions, SELECTED, memory)?;
        let posted = (0..BUFFERS).map(|_| None).collect();
        Ok(Self { queues, reader, posted, next: 0, strides: 0, fresh: Batch::new(1) })
    }

    fn queues(&self) -> ReceiveQueues {
        self.queues
    }

    fn take(&mut self, around: &mut Surroundings<'_>) -> Result<Option<Frame>, ReceiveError> {
        // Memory first: a completion once read cannot be read again.
        if self.fresh.is_empty() && around.cache.take(&mut self.fresh, 1, STRIDE_BYTES).is_err() {
            return Ok(None);
        }
        let Some(completion) = self.reader.next(around.memory)? else { return Ok(None) };
        let place = usize::from(completion.entry) & (self.posted.len() - 1);
        let Some((frame, taken)) = &mut self.posted[place] else {
            return Err(ReceiveError::NotHeld(completion.entry.into()));
        };
        let (len_bytes, strides) = (completion.byte_count & 0xffff, completion.byte_count >> 16 & 0x7fff);
        let first = u32::from(completion.counter);
        let fits = strides >= strides_of(len_bytes) && first == *taken && first + strides <= self.strides;
        if !fits {
            return Err(ReceiveError::Contradiction(format!(
                "{len_bytes} bytes in {strides} strides from {first}, where {taken} of {} are taken",
                self.strides
            )));
        }
        *taken += strides;
        let address = around.buffers.address(frame) + u64::from(first * STRIDE_BYTES);
        let number = around.buffers.number(address, around.memory)?;
        if *taken == self.strides
            && let Some((frame, _)) = self.posted[place].take()
        {
            give_back(frame, around.cache);
        }
        let Some(copy) = self.fresh.pop() else { return Ok(None) };
        finish(copy, &completion, len_bytes, number, around)
    }

    fn post(&mut self, around: &mut Surroundings<'_>) {
        self.strides = around.region.data_bytes_max() / STRIDE_BYTES;
        let len_bytes = self.strides * STRIDE_BYTES;
        let before = self.next;
        // The completion queue must have room for a packet per stride of all buffers.
        let most = (self.queues.completions.slots() / self.strides.max(1)).clamp(1, BUFFERS);
        let there = self.posted.iter().flatten().count() as u32;
        for _ in there..most {
            let place = self.next as usize & (self.posted.len() - 1);
            if self.posted[place].is_some() {
                break;
            }
            if self.fresh.is_empty() && around.cache.take(&mut self.fresh, 1, len_bytes).is_err() {
                break;
            }
            let Some(frame) = self.fresh.pop() else { break };
            let pointer = Pointer { address: around.buffers.address(&frame), len_bytes, key: KEY };
            let written = around
                .memory
                .write(self.queues.ring.at(self.next) + SEGMENT_BYTES as u64, &pointer.to_segment());
            debug_assert_eq!(written, Ok(()), "the ring was allocated");
            self.posted[place] = Some((frame, 0));
            self.next = self.next.wrapping_add(1);
        }
        if self.next != before {
            self.queues.show(self.next, around.memory);
        }
    }

    fn unpost(&mut self, cache: &mut Cache) {
        self.posted.iter_mut().filter_map(Option::take).for_each(|(frame, _)| give_back(frame, cache));
        while let Some(frame) = self.fresh.pop() {
            give_back(frame, cache);
        }
    }

    fn visit(&self, see: &mut dyn FnMut(&Frame)) {
        self.posted.iter().flatten().map(|(frame, _)| frame).chain(self.fresh.frames()).for_each(see);
    }
}

/// The NIC's half.
#[derive(Debug)]
pub struct Strides {
    completions: CompletionWriter,
    queue: u32,
    record: u64,
    /// Strides taken of the buffer being filled.
    taken: u32,
    /// First stride and number of strides of the packets being written.
    packets: VecDeque<(u32, u32)>,
    kept: u64,
}

impl Strides {
    /// Creates the format for queue number `queue`, whose driver writes the number of posted buffers to
    /// `record`.
    pub fn new(completions: CompletionWriter, queue: u32, record: u64) -> Self {
        Self { completions, queue, record, taken: 0, packets: VecDeque::new(), kept: 0 }
    }
}

impl ReceiveFormat for Strides {
    fn record(&self) -> u64 {
        self.record
    }

    fn parse(&mut self, bytes: &[u8], _index: u32, len_bytes: u32) -> Option<Posted> {
        let pointer = Pointer::from_segment(bytes.get(SEGMENT_BYTES..)?.first_chunk()?)?;
        let (all, first) = (pointer.len_bytes / STRIDE_BYTES, self.taken);
        let left = all.checked_sub(first + strides_of(len_bytes))?;
        let more = left >= LONGEST;
        let strides = strides_of(len_bytes) + if more { 0 } else { left };
        self.packets.push_back((first, strides));
        self.taken = if more { first + strides } else { 0 };
        Some(Posted {
            address: pointer.address.checked_add(u64::from(first * STRIDE_BYTES))?,
            len_bytes: strides * STRIDE_BYTES,
            more,
        })
    }

    fn received(
        &mut self, index: u32, packet: &Incoming, behind: bool, post: &mut impl Post,
    ) -> Result<bool, MemoryFault> {
        let (first, strides) = self.packets.pop_front().unwrap_or_default();
        let byte_count = strides << 16 | packet.len_bytes & 0xffff;
        let completion = Completion::new(Opcode::Received, first as u16, byte_count, self.queue);
        self.completions.push(Completion { entry: index as u16, ..completion }, post)?;
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
