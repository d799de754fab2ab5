//! The memory that driver and hardware share: a ring of 16-byte descriptors and the tail register; and the
//! driver.
//!
//! Layout: Intel 82599 data sheet, 7.2.3.2.4 (advanced transmit data descriptor), read and written back.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use wharf_core::device::{
    CompletionMode, Completions, Device, DeviceError, LimitUnit, Notify, Transmitted, TxDevice, TxInfo,
};
use wharf_mem::{Batch, Frame, Region, lock};

const EOP: u32 = 1 << 24;
const IFCS: u32 = 1 << 25;
const RS: u32 = 1 << 27;
const DEXT: u32 = 1 << 29;
const DATA: u32 = 3 << 20;
const LENGTH_MASK: u32 = 0xffff;
const DONE: u32 = 1;
const PAYLOAD_SHIFT: u32 = 14;
/// Descriptors that stay free: in a full ring head and tail would be equal, as in an empty one.
const SPARE: usize = 1;

/// One advanced transmit data descriptor, as it lies in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Descriptor(pub [u8; 16]);

impl Descriptor {
    /// Creates a descriptor for a frame of `len_bytes` at `address`, with a report when done.
    #[inline]
    pub fn data(address: u64, len_bytes: u32) -> Self {
        let command = DATA | EOP | IFCS | RS | DEXT | (len_bytes & LENGTH_MASK);
        let status = len_bytes << PAYLOAD_SHIFT;
        Self::of_words(address, u64::from(status) << 32 | u64::from(command))
    }

    #[inline]
    fn of_words(low: u64, high: u64) -> Self {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&low.to_le_bytes());
        bytes[8..].copy_from_slice(&high.to_le_bytes());
        Self(bytes)
    }

    #[inline]
    fn word<const AT: usize>(&self) -> u32 {
        u32::from_le_bytes([self.0[AT], self.0[AT + 1], self.0[AT + 2], self.0[AT + 3]])
    }

    /// Returns the frame's address.
    #[inline]
    pub fn address(&self) -> u64 {
        u64::from(self.word::<4>()) << 32 | u64::from(self.word::<0>())
    }

    /// Returns its length.
    #[inline]
    pub fn len_bytes(&self) -> u32 {
        self.word::<8>() & LENGTH_MASK
    }

    /// Returns the descriptor as the hardware writes it back.
    #[inline]
    pub fn done() -> Self {
        Self::of_words(0, u64::from(DONE) << 32)
    }

    /// True if the hardware has written it back.
    #[inline]
    pub fn is_done(&self) -> bool {
        self.word::<12>() & DONE != 0
    }
}

/// One transmit queue's memory. Indices run free; the ring's length is a power of two.
#[derive(Debug)]
pub struct TxMemory {
    /// The ring.
    pub descriptors: Box<[Descriptor]>,
    /// The driver's last write to the tail register, or the one to come.
    pub tail: u32,
    /// The time from the last write-back until the next one, for drivers that know it; 0 if none is in
    /// flight.
    pub due_in_ns: u64,
}

impl TxMemory {
    /// Creates a ring of `frames` descriptors, rounded up to a power of two.
    pub fn new(frames: usize) -> Arc<Mutex<Self>> {
        let descriptors = vec![Descriptor::default(); frames.max(2).next_power_of_two()];
        Arc::new(Mutex::new(Self { descriptors: descriptors.into(), tail: 0, due_in_ns: 0 }))
    }

    /// Returns the descriptor of a free-running index.
    #[inline]
    pub fn at(&mut self, index: u32) -> &mut Descriptor {
        let mask = self.descriptors.len() - 1;
        &mut self.descriptors[index as usize & mask]
    }
}

/// The driver of one transmit queue.
#[derive(Debug)]
pub struct Driver {
    memory: Arc<Mutex<TxMemory>>,
    /// Frames in the order of their descriptors, from `next_to_clean` to `next_to_use`.
    held: VecDeque<Frame>,
    next_to_use: u32,
    next_to_clean: u32,
    room: usize,
    frame_bytes: u64,
    unit: LimitUnit,
    knows_times: bool,
    closed: bool,
}

impl Driver {
    /// Lets it know when the next frame is done, as a line in the same process does.
    #[must_use]
    pub fn knowing_times(self) -> Self {
        Self { knows_times: true, ..self }
    }

    /// Makes the unit of its byte limit `unit`.
    #[must_use]
    pub fn limited_by(self, unit: LimitUnit) -> Self {
        Self { unit, ..self }
    }

    /// Creates the driver of the queue with this memory.
    pub fn new(memory: Arc<Mutex<TxMemory>>) -> Self {
        let frames = lock(&memory).descriptors.len();
        let room = frames - SPARE;
        Self {
            memory,
            held: VecDeque::with_capacity(frames),
            next_to_use: 0,
            next_to_clean: 0,
            room,
            frame_bytes: 0,
            unit: LimitUnit::Bytes,
            knows_times: false,
            closed: false,
        }
    }
}

impl Notify for Driver {}

impl Device for Driver {
    fn name(&self) -> String {
        "model".into()
    }

    fn attach(&mut self, region: Arc<Region>) -> Result<(), DeviceError> {
        self.frame_bytes = region.spec().frame_bytes.into();
        Ok(())
    }

    fn visit(&self, see: &mut dyn FnMut(&Frame)) {
        self.held.iter().for_each(see);
    }

    /// Resets the queue: frames not done by now never will be.
    fn close(&mut self) -> Result<(), DeviceError> {
        self.closed = true;
        Ok(())
    }
}

impl TxDevice for Driver {
    fn info(&self) -> TxInfo {
        let ring_frames = Some((self.room + self.held.len()) as u32);
        let (completions, limit_unit) = (CompletionMode::Real, self.unit);
        TxInfo { ring_frames, completions, limit_unit, segments_max: 1, ..TxInfo::default() }
    }

    fn transmit(&mut self, batch: &mut Batch, more: bool) -> Transmitted {
        let mut memory = lock(&self.memory);
        while self.room > 0 {
            let Some(frame) = batch.pop() else { break };
            let address = u64::from(frame.index()) * self.frame_bytes;
            *memory.at(self.next_to_use) = Descriptor::data(address, frame.len_bytes());
            self.next_to_use = self.next_to_use.wrapping_add(1);
            self.room -= 1;
            self.held.push_back(frame);
        }
        let stopped = self.room == 0;
        let doorbell = (!more || stopped) && memory.tail != self.next_to_use;
        if doorbell {
            memory.tail = self.next_to_use;
        }
        Transmitted { doorbell, stopped }
    }

    fn flush(&mut self) -> bool {
        let mut memory = lock(&self.memory);
        let owed = memory.tail != self.next_to_use;
        memory.tail = self.next_to_use;
        owed
    }

    fn reap(&mut self, budget: usize, _urgent: bool, into: &mut Completions) -> Result<(), DeviceError> {
        let mut memory = lock(&self.memory);
        for _ in 0..budget.min(into.sent.room()) {
            if self.next_to_clean == self.next_to_use || !memory.at(self.next_to_clean).is_done() {
                break;
            }
            let Some(frame) = self.held.pop_front() else { break };
            self.next_to_clean = self.next_to_clean.wrapping_add(1);
            self.room += 1;
            let pushed = into.sent.push(frame);
            debug_assert!(pushed.is_ok(), "bounded by the room");
        }
        if self.closed {
            let rest = self.held.len().min(budget.saturating_sub(into.len()));
            into.failed.extend(self.held.drain(..rest).map(|frame| (frame, "device closed")));
        }
        Ok(())
    }

    fn outstanding(&self) -> usize {
        self.held.len()
    }

    fn next_completion_ns(&self) -> Option<u64> {
        let knows = self.knows_times && !self.held.is_empty();
        knows.then(|| lock(&self.memory).due_in_ns)
    }
}
