//! `Rx`: the receive ring of a queue, and the buffers posted in it.

use super::bus::Bus;
use super::family::{Arrival, Family, RingRegisters};
use super::options::PortOptions;
use super::ring::Ring;
use std::io;
use std::marker::PhantomData;
use std::sync::Arc;
use wharf_core::device::DeviceError;
use wharf_core::pool::{Cache, PoolError};
use wharf_devices::iface::Drops;
use wharf_mem::batch::BATCH_FRAMES_MAX;
use wharf_mem::{Batch, Frame, Posting, Region};

/// Buffers posted at a time, at least: the tail register is written once for them. A quarter of those wanted if these
/// are few.
const FILL_BULK: u32 = 32;

/// Longest frame that an adapter takes in without being told of long ones, bytes, with a tag and the check sequence:
/// 8254x manual, section 3.2.
const USUAL_ARRIVAL_BYTES: u32 = 1522;
#[derive(Debug)]
pub(super) struct Rx<F> {
    ring: Ring,
    region: Arc<Region>,
    /// Address of the region's first byte for the adapter.
    region_at: u64,
    /// The frame whose buffer each descriptor has.
    table: Box<[Option<Frame>]>,
    /// Buffers posted, at most.
    wanted: u32,
    posting: Posting,
    /// The next descriptor to be written, and the first that is not done.
    next: u32,
    clean: u32,
    /// The first buffers of a frame that has more to come.
    head: Option<Frame>,
    /// True if the rest of a frame is dropped.
    skips: bool,
    /// Frames that were dropped, until the next refill.
    aside: Vec<Frame>,
    passing: Batch,
    pub(super) drops: Drops,
    of: PhantomData<F>,
}

impl<F: Family> Rx<F> {
    /// Makes the ring of `size` descriptors, in which up to `wanted` buffers are posted.
    ///
    /// # Errors
    /// Those of mapping memory.
    pub(super) fn new(
        bus: &impl Bus, registers: RingRegisters, (size, wanted): (u32, u32), region: &Arc<Region>,
        region_at: u64,
    ) -> io::Result<Self> {
        let posting = Posting::of(region, wanted.min(size - 1));
        Ok(Self {
            ring: Ring::new(bus, registers, size)?,
            region: region.clone(),
            region_at,
            table: (0..size).map(|_| None).collect(),
            wanted: posting.frames(0).clamp(1, size - 1),
            posting,
            next: 0,
            clean: 0,
            head: None,
            skips: false,
            aside: Vec::with_capacity(size as usize),
            passing: Batch::new(BATCH_FRAMES_MAX),
            drops: Drops::default(),
            of: PhantomData,
        })
    }

    #[inline(always)]
    fn posted(&self) -> u32 {
        self.next.wrapping_sub(self.clean)
    }

    /// Returns the descriptor that is the next to be done, if it is.
    #[inline(always)]
    fn next_arrival(&self) -> Option<Arrival> {
        if self.posted() == 0 { None } else { F::arrival(self.ring.second(self.clean)) }
    }

    /// True if a frame, or a part of one, has arrived.
    pub(super) fn has_arrived(&self) -> bool {
        self.next_arrival().is_some()
    }

    /// Takes up to `budget` frames, for which `to` has room, and gives the adapter new memory.
    #[inline]
    pub(super) fn receive(
        &mut self, bus: &impl Bus, cache: &mut Cache, to: &mut Batch, budget: usize,
    ) -> Result<usize, PoolError> {
        let before = to.len();
        while to.len() - before < budget {
            let Some(arrival) = self.next_arrival() else { break };
            let place = self.ring.place(self.clean) as usize;
            self.clean = self.clean.wrapping_add(1);
            let Some(frame) = self.table[place].take() else { continue };
            if let Some(frame) = self.arrive(frame, arrival)
                && let Err(frame) = to.push(frame)
            {
                unreachable!("there was room for {frame:?}");
            }
        }
        let lacking = self.wanted - self.posted().min(self.wanted);
        if lacking >= FILL_BULK.min(self.wanted / 4).max(1) || !self.aside.is_empty() {
            self.refill(bus, cache)?;
        }
        Ok(to.len() - before)
    }

    /// Handles a buffer that has been written to. Returns the frame that ends with it.
    #[inline(always)]
    fn arrive(&mut self, mut frame: Frame, arrival: Arrival) -> Option<Frame> {
        let is_whole = arrival.is_last && !arrival.is_bad && self.head.is_none() && !self.skips;
        if is_whole && arrival.len_bytes > 0 && self.region.set_len(&mut frame, arrival.len_bytes).is_ok() {
            return Some(frame);
        }
        self.arrive_in_parts(frame, arrival)
    }

    /// Handles a buffer of a frame that has several, or that is dropped.
    #[cold]
    fn arrive_in_parts(&mut self, mut frame: Frame, arrival: Arrival) -> Option<Frame> {
        let is_placed = arrival.len_bytes > 0 && self.region.set_len(&mut frame, arrival.len_bytes).is_ok();
        let is_good = is_placed && !arrival.is_bad && !self.skips;
        let joined = match (is_good, self.head.take()) {
            (true, None) => Ok(frame),
            (true, Some(mut head)) => match self.region.link(&mut head, frame) {
                Ok(()) => Ok(head),
                Err((_, frame)) => Err([Some(head), Some(frame)]),
            },
            (false, head) => Err([head, Some(frame)]),
        };
        match (joined, arrival.is_last) {
            (Ok(frame), true) => return Some(frame),
            (Ok(head), false) => self.head = Some(head),
            (Err(frames), is_last) => {
                self.aside.extend(frames.into_iter().flatten());
                if !self.skips {
                    self.drops.add("malformed");
                }
                self.skips = !is_last;
            }
        }
        None
    }

    /// Posts as many buffers as are wanted, and the pool has.
    pub(super) fn refill(&mut self, bus: &impl Bus, cache: &mut Cache) -> Result<(), PoolError> {
        self.wanted = self.posting.frames(self.posted());
        while let Some(frame) = self.aside.pop() {
            if let Err((error, frame)) = cache.give_one(frame) {
                self.aside.push(frame);
                return Err(error);
            }
        }
        let (before, len_bytes) = (self.next, self.region.data_bytes_max());
        while self.posted() < self.wanted {
            let count = ((self.wanted - self.posted()) as usize).min(BATCH_FRAMES_MAX);
            match cache.take(&mut self.passing, count, len_bytes) {
                Ok(1..) => {}
                Ok(0) | Err(PoolError::Exhausted { .. }) => break,
                Err(error) => return Err(error),
            }
            while let Some(frame) = self.passing.pop() {
                self.lend(frame);
            }
        }
        if self.next != before {
            self.ring.publish(bus, self.next);
        }
        Ok(())
    }

    #[inline(always)]
    fn lend(&mut self, frame: Frame) {
        // A fresh frame of the pool that the caller's cache is of.
        let Ok(offset) = self.region.offset_bytes(&frame) else { return self.aside.push(frame) };
        // A second word of 0 is not done, in either family.
        self.ring.put(self.next, [self.region_at + offset as u64, 0]);
        self.table[self.ring.place(self.next) as usize] = Some(frame);
        self.next = self.next.wrapping_add(1);
    }

    pub(super) fn visit(&self, see: &mut dyn FnMut(&Frame)) {
        self.table.iter().flatten().chain(&self.aside).chain(&self.head).for_each(&mut *see);
        self.passing.frames().iter().for_each(see);
    }

    /// Returns all frames inside, of an adapter that does not write to them any more.
    pub(super) fn into_held(mut self) -> impl Iterator<Item = Frame> {
        let passing: Vec<Frame> = self.passing.pop_each().collect();
        self.table.into_iter().flatten().chain(self.aside).chain(self.head).chain(passing)
    }
}

/// Returns the length of a receive buffer, as the adapter is told.
///
/// Without long frames the adapter drops what is longer than 1522 bytes. The buffer may then be told longer than it
/// is.
pub(super) fn buffer_bytes<F: Family>(
    region: &Region, options: &PortOptions, device: &str,
) -> Result<u32, DeviceError> {
    let room_bytes = region.data_bytes_max();
    if !options.has_long_frames() && room_bytes >= USUAL_ARRIVAL_BYTES {
        let enough = F::BUFFER_BYTES.iter().find(|&&bytes| bytes >= USUAL_ARRIVAL_BYTES);
        return Ok(enough.copied().unwrap_or_default());
    }
    let longest = F::BUFFER_BYTES.iter().rev().find(|&&bytes| bytes <= room_bytes);
    longest.copied().ok_or_else(|| {
        let least = F::BUFFER_BYTES.first().copied().unwrap_or_default();
        let what = format!(
            "frames of the pool have room for {room_bytes} bytes, and the adapter wants {least} at least"
        );
        DeviceError::Unsupported { device: device.into(), what }
    })
}
