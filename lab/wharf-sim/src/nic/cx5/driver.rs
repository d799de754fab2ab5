//! The driver: one send queue and one receive queue, with their completion queues. [`SendHalf`] and
//! [`ReceiveHalf`] write and read the descriptors.

use super::completion::Opcode;
use super::compress::CompletionRing;
use super::expand::CompletionReader;
use super::half::{self, ReceiveError, ReceiveHalf, ReceiveQueues, Surroundings};
use super::segment::{Ethernet, Pointer};
use super::send_half::{KEY, Outgoing, SendHalf, Spec, WriteError};
use super::write::EntryWriter;
use crate::nic::buffers::{Buffers, number_of};
use crate::nic::host_memory::{Doorbell, MemoryFault, SharedMemory};
use crate::nic::ring::Ring;
use crate::nic::{NicDriver, fill};
use std::collections::VecDeque;
use std::sync::Arc;
use wharf_core::device::{
    CompletionMode, Completions, Device, DeviceError, Notify, RxDevice, Transmitted, TxDevice, TxInfo,
};
use wharf_core::pool::Cache;
use wharf_mem::{Batch, Frame, Region, lock};

/// A doorbell: the control segment's first eight bytes (`mlx5_write64`).
const DOORBELL_BYTES: u64 = 8;
/// The locations of the queues, which the hardware is told at set-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Queues {
    /// Send queue.
    pub send: Ring,
    /// Its completions.
    pub sent: CompletionRing,
    /// Receive queue.
    pub receive: ReceiveQueues,
}

/// The driver of one queue pair.
#[derive(Debug)]
pub struct Driver<R, S = EntryWriter> {
    number: usize,
    memory: SharedMemory,
    buffers: Buffers,
    region: Option<Arc<Region>>,
    queues: Queues,
    writer: S,
    sent: CompletionReader,
    held: VecDeque<Frame>,
    /// Number of held packets that were sent and not returned yet.
    done: usize,
    half: R,
    closed: bool,
}

impl<R: ReceiveHalf, S: SendHalf> Driver<R, S> {
    /// Creates queue pair `number` in `memory`, for the frames in `buffers`.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`]: a ring of an invalid size.
    pub fn new(
        number: usize, spec: &Spec, memory: &SharedMemory, buffers: Buffers,
    ) -> Result<Self, DeviceError> {
        if !(5..=15).contains(&spec.log_send_blocks) || !(6..=15).contains(&spec.log_receive) {
            let what = "rings are of 2^5 to 2^15 blocks and 2^6 to 2^15 buffers".into();
            return Err(DeviceError::Unsupported { device: S::NAME.into(), what });
        }
        let lacking =
            |fault: MemoryFault| DeviceError::Unsupported { device: S::NAME.into(), what: fault.to_string() };
        let mut there = lock(memory);
        let half = R::new(spec.log_receive, &mut there).map_err(lacking)?;
        let (writer, send) = S::new(number as u32, spec, &mut there);
        let sent = CompletionRing::allocate(spec.log_send_blocks, &mut there);
        let queues = Queues { send, sent, receive: half.queues() };
        let sent = CompletionReader::new(queues.sent, half::SELECTED, &mut there).map_err(lacking)?;
        drop(there);
        Ok(Self {
            number,
            memory: memory.clone(),
            buffers,
            region: None,
            queues,
            writer,
            sent,
            held: VecDeque::new(),
            done: 0,
            half,
            closed: false,
        })
    }

    /// Returns the locations of its queues.
    pub fn queues(&self) -> &Queues {
        &self.queues
    }

    fn trouble(&self, what: &dyn std::fmt::Display) -> DeviceError {
        DeviceError::Unsupported { device: self.name(), what: what.to_string() }
    }

    fn not_held(&self, slot: u32) -> DeviceError {
        DeviceError::NotHeld { device: self.name(), slot, ring_frames: self.queues.receive.ring.units }
    }

    /// Reads the completions of packets sent.
    fn read_sent(&mut self) -> Result<(), DeviceError> {
        loop {
            let next = self.sent.next(&mut lock(&self.memory));
            let Some(completion) = next.map_err(|error| self.trouble(&error))? else { return Ok(()) };
            let packets = self.writer.completed(completion.counter).map_err(|error| self.trouble(&error))?;
            self.done += packets;
            if completion.opcode != Opcode::Sent {
                return Err(self.trouble(&format!("entry {} was not sent", completion.counter)));
            }
        }
    }

    /// Calls `work` with the receiving half and its surroundings.
    fn with_half<T>(
        &mut self, cache: &mut Cache, work: impl FnOnce(&mut R, &mut Surroundings<'_>) -> T,
    ) -> Option<T> {
        let Self { region, buffers, memory, half, .. } = self;
        let region = region.as_deref()?;
        let mut memory = lock(memory);
        Some(work(half, &mut Surroundings { buffers, region, memory: &mut memory, cache }))
    }
}

impl<R: ReceiveHalf, S: SendHalf> Notify for Driver<R, S> {}

impl<R: ReceiveHalf, S: SendHalf> Device for Driver<R, S> {
    fn name(&self) -> String {
        format!("{}:{}", S::NAME, self.number)
    }

    fn attach(&mut self, region: Arc<Region>) -> Result<(), DeviceError> {
        self.region = Some(region);
        Ok(())
    }

    fn visit(&self, see: &mut dyn FnMut(&Frame)) {
        self.held.iter().for_each(&mut *see);
        self.half.visit(see);
    }

    fn close(&mut self) -> Result<(), DeviceError> {
        self.closed = true;
        Ok(())
    }
}

impl<R: ReceiveHalf, S: SendHalf> TxDevice for Driver<R, S> {
    fn info(&self) -> TxInfo {
        let ring_frames = Some(self.queues.send.units);
        TxInfo { ring_frames, completions: CompletionMode::Real, segments_max: 1, ..TxInfo::default() }
    }

    fn transmit(&mut self, batch: &mut Batch, more: bool) -> Transmitted {
        let Some(region) = self.region.clone() else { return Transmitted::default() };
        let mut memory = lock(&self.memory);
        while self.writer.has_room() && !batch.is_empty() {
            let Some(frame) = batch.pop() else { break };
            let address = self.buffers.address(&frame);
            let bytes = region.bytes(&frame).unwrap_or_default();
            let pieces = [Pointer { address, len_bytes: frame.len_bytes(), key: KEY }];
            let noted = self.buffers.set_number(address, number_of(bytes), &mut memory);
            let packet = Outgoing { ethernet: Ethernet::default(), pieces: &pieces, bytes: Some(bytes) };
            let pushed =
                noted.map_err(WriteError::from).and_then(|()| self.writer.push(&packet, &mut memory));
            debug_assert_eq!(pushed, Ok(()), "there was room");
            self.held.push_back(frame);
        }
        drop(memory);
        let stopped = !self.writer.has_room();
        let doorbell = (!more || stopped) && self.flush();
        Transmitted { doorbell, stopped }
    }

    fn flush(&mut self) -> bool {
        let mut memory = lock(&self.memory);
        let Ok(Some(value)) = self.writer.ring(&mut memory) else { return false };
        let doorbell = Doorbell { queue: self.number, receive: false, value, len_bytes: DOORBELL_BYTES };
        memory.doorbells.push_back(doorbell);
        true
    }

    fn reap(&mut self, budget: usize, _urgent: bool, into: &mut Completions) -> Result<(), DeviceError> {
        let read = self.read_sent();
        for _ in 0..budget.min(into.sent.room()).min(self.done) {
            let Some(frame) = self.held.pop_front() else { break };
            self.done -= 1;
            let pushed = into.sent.push(frame);
            debug_assert!(pushed.is_ok(), "bounded by the room");
        }
        if self.closed && self.done == 0 {
            let rest = self.held.len().min(budget.saturating_sub(into.len()));
            into.failed.extend(self.held.drain(..rest).map(|frame| (frame, "device closed")));
        }
        read
    }

    fn outstanding(&self) -> usize {
        self.held.len()
    }
}

impl<R: ReceiveHalf, S: SendHalf> RxDevice for Driver<R, S> {
    fn receive(&mut self, cache: &mut Cache, to: &mut Batch, budget: usize) -> Result<usize, DeviceError> {
        let result = fill(to, budget, || match self.with_half(cache, |half, around| half.take(around)) {
            Some(Ok(frame)) => Ok(frame),
            None => Ok(None),
            Some(Err(ReceiveError::NotHeld(slot))) => Err(self.not_held(slot)),
            Some(Err(ReceiveError::Contradiction(what))) => Err(self.trouble(&what)),
        });
        self.post(cache);
        result
    }
}

impl<R: ReceiveHalf, S: SendHalf> NicDriver for Driver<R, S> {
    fn post(&mut self, cache: &mut Cache) {
        self.with_half(cache, |half, around| half.post(around));
    }

    fn unpost(&mut self, cache: &mut Cache) {
        self.half.unpost(cache);
    }
}
