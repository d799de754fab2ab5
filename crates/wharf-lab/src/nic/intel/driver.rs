//! The driver: a ring to send from and one to receive into, as a `Device`.

use super::formats::Report;
use super::{DESCRIPTOR_BYTES, Descriptor, Layout, ToSend};
use crate::nic::NicDriver;
use crate::nic::buffers::{Buffers, number_of, put_number};
use crate::nic::host::{Doorbell, SharedMemory, open};
use crate::nic::ring::Ring;
use std::collections::VecDeque;
use std::marker::PhantomData;
use std::sync::Arc;
use wharf_core::device::{Capabilities, Completions, Device, DeviceError, Transmitted};
use wharf_core::pool::Cache;
use wharf_mem::{Batch, Frame, Region};

/// A tail register.
const TAIL_BYTES: u64 = 4;

/// How a queue pair is set up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spec {
    /// Descriptors of each ring; a power of two, 64 to 4096.
    pub descriptors: u32,
    /// Buffers that are posted at a time, with one write to the tail; up to 64.
    pub post: usize,
    /// Bytes of a buffer.
    pub buffer_bytes: u32,
    /// The NIC writes its head to memory, in place of descriptors.
    pub head_write_back: bool,
}

/// The driver of one queue pair.
#[derive(Debug)]
pub struct Driver<L> {
    name: String,
    number: usize,
    spec: Spec,
    memory: SharedMemory,
    buffers: Buffers,
    region: Option<Arc<Region>>,
    send: Ring,
    receive: Ring,
    report: Report,
    held: VecDeque<Frame>,
    /// Free-running indices of the send ring: next to write, next to clean; what the tail register was told.
    next_to_use: u32,
    next_to_clean: u32,
    told: u32,
    posted: Vec<Option<Frame>>,
    next_post: u32,
    next_receive: u32,
    fresh: Batch,
    closed: bool,
    layout: PhantomData<L>,
}

impl<L: Layout> Driver<L> {
    /// Sets up queue pair `number` of the NIC called `name`.
    ///
    /// # Errors
    /// [`DeviceError::Unsupported`]: a ring of a size that cannot be.
    pub fn new(
        name: &str, number: usize, spec: &Spec, memory: &SharedMemory, buffers: Buffers,
    ) -> Result<Self, DeviceError> {
        let units = spec.descriptors;
        if !units.is_power_of_two() || !(64..=4096).contains(&units) || !(1..=64).contains(&spec.post) {
            let what =
                "rings are of 64 to 4096 descriptors, a power of two; 1 to 64 buffers are posted at a time";
            return Err(DeviceError::Unsupported { device: name.into(), what: what.into() });
        }
        let mut there = open(memory);
        let mut ring = || {
            let address = there.allocate(units as usize * DESCRIPTOR_BYTES);
            let bytes = DESCRIPTOR_BYTES as u32;
            Ring { address, unit_bytes: bytes, read_bytes: bytes, units }
        };
        let (send, receive) = (ring(), ring());
        let report = if spec.head_write_back { Report::Head(there.allocate(4)) } else { Report::Descriptors };
        drop(there);
        Ok(Self {
            name: format!("{name}:{number}"),
            number,
            spec: *spec,
            memory: memory.clone(),
            buffers,
            region: None,
            send,
            receive,
            report,
            held: VecDeque::new(),
            next_to_use: 0,
            next_to_clean: 0,
            told: 0,
            posted: (0..units).map(|_| None).collect(),
            next_post: 0,
            next_receive: 0,
            fresh: Batch::new(spec.post),
            closed: false,
            layout: PhantomData,
        })
    }

    /// Where the rings lie, and how sending is reported: what the hardware is told.
    pub fn rings(&self) -> (Ring, Ring, Report) {
        (self.send, self.receive, self.report)
    }

    /// A full ring would look like an empty one.
    fn room(&self) -> u32 {
        self.send.units - 1 - self.next_to_use.wrapping_sub(self.next_to_clean)
    }

    fn tell(&mut self) -> bool {
        if self.told == self.next_to_use {
            return false;
        }
        self.told = self.next_to_use;
        let value = self.told & (self.send.units - 1);
        let doorbell = Doorbell { queue: self.number, receive: false, value, len_bytes: TAIL_BYTES };
        open(&self.memory).doorbells.push_back(doorbell);
        true
    }

    /// How many descriptors from `next_to_clean` on have been sent.
    fn sent(&self, most: u32) -> Result<u32, DeviceError> {
        let outstanding = self.told.wrapping_sub(self.next_to_clean);
        let memory = open(&self.memory);
        if let Report::Head(address) = self.report {
            let head = u32::from_le_bytes(memory.read(address).map_err(|fault| self.trouble(&fault))?);
            let count = head.wrapping_sub(self.next_to_clean) & (self.send.units - 1);
            if head >= self.send.units || count > outstanding {
                return Err(self.not_held(head));
            }
            return Ok(count.min(most));
        }
        let mut count = 0;
        while count < most.min(outstanding) {
            let at = self.send.at(self.next_to_clean.wrapping_add(count));
            let descriptor: Descriptor = memory.read(at).map_err(|fault| self.trouble(&fault))?;
            if !L::is_sent(&descriptor) {
                break;
            }
            count += 1;
        }
        Ok(count)
    }

    fn trouble(&self, what: &dyn std::fmt::Display) -> DeviceError {
        DeviceError::Unsupported { device: self.name(), what: what.to_string() }
    }

    fn not_held(&self, slot: u32) -> DeviceError {
        DeviceError::NotHeld { device: self.name(), slot, ring_frames: self.send.units }
    }

    /// The next packet that was received, if there is one.
    fn take_received(&mut self, region: &Region) -> Result<Option<Frame>, DeviceError> {
        let memory = open(&self.memory);
        let at = self.receive.at(self.next_receive);
        let place = self.next_receive & (self.receive.units - 1);
        if self.posted[place as usize].is_none() {
            return Ok(None);
        }
        let descriptor: Descriptor = memory.read(at).map_err(|fault| self.trouble(&fault))?;
        let Some(received) = L::read_received(&descriptor) else { return Ok(None) };
        let Some(mut frame) = self.posted[place as usize].take() else { return Ok(None) };
        let number = self.buffers.number(self.buffers.address(&frame), &memory).unwrap_or(u64::MAX);
        drop(memory);
        self.next_receive = self.next_receive.wrapping_add(1);
        let good = received.last
            && received.errors == 0
            && (1..=self.spec.buffer_bytes).contains(&received.len_bytes);
        if good && region.set_len(&mut frame, received.len_bytes).is_ok() {
            if let Ok(bytes) = region.bytes_mut(&mut frame) {
                put_number(bytes, number);
            }
            return Ok(Some(frame));
        }
        let pushed = self.fresh.push(frame);
        debug_assert!(pushed.is_ok(), "empty between calls");
        Err(self.trouble(&format!("descriptor {place} says {received:?}")))
    }
}

impl<L: Layout> Device for Driver<L> {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn capabilities(&self) -> Capabilities {
        let ring_frames = Some(self.send.units - 1);
        Capabilities { ring_frames, real_completions: true, segments_max: 1, ..Capabilities::default() }
    }

    fn attach(&mut self, region: Arc<Region>) -> Result<(), DeviceError> {
        self.region = Some(region);
        Ok(())
    }

    fn transmit(&mut self, batch: &mut Batch, more: bool) -> Transmitted {
        let Some(region) = self.region.clone() else { return Transmitted::default() };
        let mut memory = open(&self.memory);
        while self.room() > 0 {
            let Some(frame) = batch.pop() else { break };
            let address = self.buffers.address(&frame);
            let number = number_of(region.bytes(&frame).unwrap_or_default());
            let what = ToSend { address, len_bytes: frame.len_bytes(), last: true, report: true };
            let noted = self.buffers.set_number(address, number, &mut memory);
            let written = memory.write(self.send.at(self.next_to_use), &L::to_send(&what));
            debug_assert!(noted.is_ok() && written.is_ok(), "ring and buffers are in memory");
            self.next_to_use = self.next_to_use.wrapping_add(1);
            self.held.push_back(frame);
        }
        drop(memory);
        let stopped = self.room() == 0;
        let doorbell = (!more || stopped) && self.tell();
        Transmitted { doorbell, stopped }
    }

    fn flush(&mut self) -> bool {
        self.tell()
    }

    fn reap(&mut self, budget: usize, into: &mut Completions) -> Result<(), DeviceError> {
        for _ in 0..self.sent(budget.min(into.sent.room()) as u32)? {
            let Some(frame) = self.held.pop_front() else { break };
            self.next_to_clean = self.next_to_clean.wrapping_add(1);
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

    fn visit(&self, see: &mut dyn FnMut(&Frame)) {
        self.held.iter().chain(self.posted.iter().flatten()).for_each(see);
    }

    fn receive(&mut self, cache: &mut Cache, to: &mut Batch, budget: usize) -> Result<usize, DeviceError> {
        let Some(region) = self.region.clone() else { return Ok(0) };
        let mut count = 0;
        let mut result = Ok(());
        while count < budget && to.room() > 0 {
            match self.take_received(&region) {
                Ok(Some(frame)) => {
                    let pushed = to.push(frame);
                    debug_assert!(pushed.is_ok(), "there was room");
                    count += 1;
                }
                Ok(None) => break,
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
        }
        if !self.fresh.is_empty() && cache.give(&mut self.fresh).is_err() {
            debug_assert!(false, "it came from this pool");
        }
        self.post(cache);
        result.map(|()| count)
    }

    fn receive_ended(&self) -> bool {
        false
    }

    fn close(&mut self) -> Result<(), DeviceError> {
        self.closed = true;
        Ok(())
    }
}

impl<L: Layout> NicDriver for Driver<L> {
    fn post(&mut self, cache: &mut Cache) {
        let len_bytes = self.spec.buffer_bytes.min(cache.pool().region().data_bytes_max());
        let (before, post) = (self.next_post, self.spec.post as u32);
        let mut memory = open(&self.memory);
        while self.receive.units - 1 - self.next_post.wrapping_sub(self.next_receive) >= post
            && cache.take(&mut self.fresh, post as usize, len_bytes).is_ok()
        {
            while let Some(frame) = self.fresh.pop() {
                let descriptor = L::to_receive(self.buffers.address(&frame));
                let written = memory.write(self.receive.at(self.next_post), &descriptor);
                debug_assert_eq!(written, Ok(()), "the ring was allocated");
                self.posted[(self.next_post & (self.receive.units - 1)) as usize] = Some(frame);
                self.next_post = self.next_post.wrapping_add(1);
            }
            let value = self.next_post & (self.receive.units - 1);
            let doorbell = Doorbell { queue: self.number, receive: true, value, len_bytes: TAIL_BYTES };
            memory.doorbells.push_back(doorbell);
        }
        debug_assert!(self.next_post.wrapping_sub(before) < self.receive.units);
    }

    fn unpost(&mut self, cache: &mut Cache) {
        for frame in self.posted.iter_mut().filter_map(Option::take) {
            let given = cache.give_one(frame);
            debug_assert!(given.is_ok(), "it came from this pool");
        }
    }
}
