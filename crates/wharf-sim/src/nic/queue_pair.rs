//! A driver of one queue pair, generic over the bytes of its rings, for descriptors that name a buffer each.

use super::buffers::{Buffers, number_of, put_number};
use super::host_memory::{Doorbell, HostMemory, MemoryFault, SharedMemory, open};
use super::{NicDriver, fill};
use std::sync::Arc;
use wharf_core::device::{
    CompletionMode, Completions, Device, DeviceError, Notify, RxDevice, Transmitted, TxDevice, TxInfo,
};
use wharf_core::pool::Cache;
use wharf_mem::{Batch, Frame, Region};

/// A contradiction in what the NIC wrote.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Contradiction(pub String);

impl From<MemoryFault> for Contradiction {
    fn from(fault: MemoryFault) -> Self {
        Self(fault.to_string())
    }
}

/// A write to a register: value and bytes.
pub type RegisterWrite = (u32, u64);

/// The driver's side of two rings. A place is a number below [`RingBytes::places`]; it names a buffer while
/// that is in a ring.
pub trait RingBytes: Send + std::fmt::Debug {
    /// Returns the places of each ring.
    fn places(&self) -> usize;

    /// Returns the number of buffers that fit each ring at a time.
    fn fits(&self) -> usize {
        self.places()
    }

    /// Returns the number of buffers posted at a time.
    fn posts(&self) -> usize {
        16
    }

    /// True if another packet fits.
    fn has_room(&self) -> bool;

    /// Writes a packet to send. Returns its place.
    ///
    /// # Errors
    /// The ring is not in memory.
    fn send(&mut self, address: u64, len_bytes: u32, memory: &mut HostMemory) -> Result<usize, MemoryFault>;

    /// Shows the NIC the packets written. Returns the register write that it wants, if any.
    ///
    /// # Errors
    /// The ring is not in memory.
    fn ring(&mut self, memory: &mut HostMemory) -> Result<Option<RegisterWrite>, MemoryFault>;

    /// Returns the next place whose packet has been sent.
    ///
    /// # Errors
    /// The NIC contradicts itself; the completion is skipped.
    fn next_sent(&mut self, memory: &mut HostMemory) -> Result<Option<usize>, Contradiction>;

    /// Posts a receive buffer. Returns its place, or `None` if all are taken.
    ///
    /// # Errors
    /// The ring is not in memory.
    fn post(
        &mut self, address: u64, len_bytes: u32, memory: &mut HostMemory,
    ) -> Result<Option<usize>, MemoryFault>;

    /// Shows the NIC the buffers posted. Returns the register write that it wants, if any.
    ///
    /// # Errors
    /// The ring is not in memory.
    fn ring_posted(&mut self, memory: &mut HostMemory) -> Result<Option<RegisterWrite>, MemoryFault>;

    /// Returns the next place that a packet was received into, and the packet's length.
    ///
    /// # Errors
    /// The NIC contradicts itself; the completion is skipped.
    fn next_received(&mut self, memory: &mut HostMemory) -> Result<Option<(usize, u32)>, Contradiction>;
}

/// The driver.
#[derive(Debug)]
pub struct Pair<B> {
    name: String,
    number: usize,
    rings: B,
    memory: SharedMemory,
    buffers: Buffers,
    region: Option<Arc<Region>>,
    held: Vec<Option<Frame>>,
    outstanding: usize,
    posted: Vec<Option<Frame>>,
    places_left: usize,
    buffer_bytes: u32,
    spare: Batch,
    closed: bool,
}

impl<B: RingBytes> Pair<B> {
    /// Creates queue pair `number` of the NIC called `name`. `buffer_bytes` is the greatest length of a
    /// received packet.
    pub fn new(
        name: &str, number: usize, rings: B, memory: &SharedMemory, buffers: Buffers, buffer_bytes: u32,
    ) -> Self {
        let (places, fits, posts) = (rings.places(), rings.fits(), rings.posts());
        Self {
            name: format!("{name}:{number}"),
            number,
            rings,
            memory: memory.clone(),
            buffers,
            region: None,
            held: (0..places).map(|_| None).collect(),
            outstanding: 0,
            posted: (0..places).map(|_| None).collect(),
            places_left: fits,
            buffer_bytes,
            spare: Batch::new(posts),
            closed: false,
        }
    }

    fn lie(&self, what: &dyn std::fmt::Display) -> DeviceError {
        DeviceError::Unsupported { device: self.name.clone(), what: what.to_string() }
    }

    fn not_held(&self, slot: usize) -> DeviceError {
        let ring_frames = self.rings.places() as u32;
        DeviceError::NotHeld { device: self.name.clone(), slot: slot as u32, ring_frames }
    }

    fn kick(&self, receive: bool, kick: Option<RegisterWrite>, memory: &mut HostMemory) -> bool {
        let Some((value, len_bytes)) = kick else { return false };
        memory.doorbells.push_back(Doorbell { queue: self.number, receive, value, len_bytes });
        true
    }

    fn reap_sent(&mut self, budget: usize, into: &mut Completions) -> Result<(), DeviceError> {
        for _ in 0..budget.min(into.sent.room()) {
            let next = self.rings.next_sent(&mut open(&self.memory)).map_err(|lie| self.lie(&lie))?;
            let Some(place) = next else { break };
            let taken = self.held.get_mut(place).and_then(Option::take);
            let Some(frame) = taken else { return Err(self.not_held(place)) };
            self.outstanding -= 1;
            let pushed = into.sent.push(frame);
            debug_assert!(pushed.is_ok(), "bounded by the room");
        }
        Ok(())
    }

    fn take_received(&mut self, region: &Region) -> Result<Option<Frame>, DeviceError> {
        let mut memory = open(&self.memory);
        let next = self.rings.next_received(&mut memory).map_err(|lie| self.lie(&lie))?;
        let Some((place, len_bytes)) = next else { return Ok(None) };
        let taken = self.posted.get_mut(place).and_then(Option::take);
        let Some(mut frame) = taken else { return Err(self.not_held(place)) };
        self.places_left += 1;
        let number = self.buffers.number(self.buffers.address(&frame), &memory).unwrap_or(u64::MAX);
        drop(memory);
        let fits = (1..=self.buffer_bytes).contains(&len_bytes);
        if fits && region.set_len(&mut frame, len_bytes).is_ok() {
            if let Ok(bytes) = region.bytes_mut(&mut frame) {
                put_number(bytes, number);
            }
            return Ok(Some(frame));
        }
        let pushed = self.spare.push(frame);
        debug_assert!(pushed.is_ok(), "empty between calls");
        Err(self.lie(&format!("a packet of {len_bytes} bytes in a buffer of {}", self.buffer_bytes)))
    }
}

impl<B: RingBytes> Notify for Pair<B> {}

impl<B: RingBytes> Device for Pair<B> {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn attach(&mut self, region: Arc<Region>) -> Result<(), DeviceError> {
        self.region = Some(region);
        Ok(())
    }

    fn visit(&self, see: &mut dyn FnMut(&Frame)) {
        self.held.iter().chain(&self.posted).flatten().for_each(see);
    }

    fn close(&mut self) -> Result<(), DeviceError> {
        self.closed = true;
        Ok(())
    }
}

impl<B: RingBytes> TxDevice for Pair<B> {
    fn info(&self) -> TxInfo {
        let ring_frames = Some(self.rings.fits() as u32);
        TxInfo { ring_frames, completions: CompletionMode::Real, segments_max: 1, ..TxInfo::default() }
    }

    fn transmit(&mut self, batch: &mut Batch, more: bool) -> Transmitted {
        let Some(region) = self.region.clone() else { return Transmitted::default() };
        let mut memory = open(&self.memory);
        while self.rings.has_room() {
            let Some(frame) = batch.pop() else { break };
            let address = self.buffers.address(&frame);
            let number = number_of(region.bytes(&frame).unwrap_or_default());
            let noted = self.buffers.set_number(address, number, &mut memory);
            let place = self.rings.send(address, frame.len_bytes(), &mut memory);
            debug_assert!(noted.is_ok() && place.is_ok(), "ring and buffers are in memory");
            self.outstanding += 1;
            self.held[place.unwrap_or_default()] = Some(frame);
        }
        drop(memory);
        let stopped = !self.rings.has_room();
        let doorbell = (!more || stopped) && self.flush();
        Transmitted { doorbell, stopped }
    }

    fn flush(&mut self) -> bool {
        let mut memory = open(&self.memory);
        let kick = self.rings.ring(&mut memory).unwrap_or_default();
        self.kick(false, kick, &mut memory)
    }

    fn reap(&mut self, budget: usize, _urgent: bool, into: &mut Completions) -> Result<(), DeviceError> {
        let result = self.reap_sent(budget, into);
        // Packets not sent by now never will be.
        if self.closed && (result.is_err() || into.len() < budget) {
            let rest = budget.saturating_sub(into.len());
            let failed = self.held.iter_mut().filter_map(Option::take).take(rest);
            into.failed.extend(failed.map(|frame| (frame, "device closed")));
            self.outstanding = self.held.iter().flatten().count();
        }
        result
    }

    fn outstanding(&self) -> usize {
        self.outstanding
    }
}

impl<B: RingBytes> RxDevice for Pair<B> {
    fn receive(&mut self, cache: &mut Cache, to: &mut Batch, budget: usize) -> Result<usize, DeviceError> {
        let Some(region) = self.region.clone() else { return Ok(0) };
        let result = fill(to, budget, || self.take_received(&region));
        if !self.spare.is_empty() && cache.give(&mut self.spare).is_err() {
            debug_assert!(false, "it came from this pool");
        }
        self.post(cache);
        result
    }

    fn ended(&self) -> bool {
        false
    }
}

impl<B: RingBytes> NicDriver for Pair<B> {
    fn post(&mut self, cache: &mut Cache) {
        let (mut memory, posts) = (open(&self.memory), self.rings.posts());
        while self.places_left >= posts && cache.take(&mut self.spare, posts, self.buffer_bytes).is_ok() {
            let before = self.places_left;
            while let Some(frame) = self.spare.pop() {
                let posted = self.rings.post(self.buffers.address(&frame), self.buffer_bytes, &mut memory);
                match posted {
                    Ok(Some(place)) if self.posted[place].is_none() => {
                        self.posted[place] = Some(frame);
                        self.places_left -= 1;
                    }
                    _ => {
                        // This happens only after the NIC has contradicted itself.
                        let given = cache.give_one(frame);
                        debug_assert!(given.is_ok(), "it came from this pool");
                    }
                }
            }
            let kick = self.rings.ring_posted(&mut memory).unwrap_or_default();
            self.kick(true, kick, &mut memory);
            if self.places_left == before {
                return;
            }
        }
    }

    fn unpost(&mut self, cache: &mut Cache) {
        for frame in self.posted.iter_mut().filter_map(Option::take) {
            let given = cache.give_one(frame);
            debug_assert!(given.is_ok(), "it came from this pool");
        }
    }
}
