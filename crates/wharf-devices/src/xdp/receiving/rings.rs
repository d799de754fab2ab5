//! `Rings`: the fill and receive rings, and the frames between them.

use super::super::checksum;
use super::super::memory::Window;
use super::super::table::Table;
use crate::iface::{Drops, pool_fault};
use std::sync::Arc;
use wharf_core::device::DeviceError;
use wharf_core::pool::{Cache, PoolError};
use wharf_mem::batch::BATCH_FRAMES_MAX;
use wharf_mem::{Batch, Frame, Region};
use wharf_sys::xdp::{Consumer, Descriptor, PACKET_CONTINUES, Producer};

/// Bits of a received address that hold the address from the fill ring. The bits above hold the distance from there
/// to the frame's first byte.
const ADDRESS_BITS: u32 = 48;
/// Frames that are given to the fill ring at a time, at least; a quarter of those wanted where these are few.
const FILL_BULK: u32 = 64;

#[derive(Debug)]
pub struct Rings {
    fill: Producer<u64>,
    receive: Consumer<Descriptor>,
    table: Table,
    region: Arc<Region>,
    window: Window,
    /// With zero-copy, bytes of a page: no buffer may cross its end.
    page_bytes: Option<usize>,
    fills_checksums: bool,
    /// Frames that wait for packets, at most.
    wanted: u32,
    /// The first part of a packet of several buffers.
    head: Option<Frame>,
    /// The packet at hand is dropped: so are its further buffers.
    discards: bool,
    /// Frames that the kernel can do nothing with; a few of the pool.
    aside: Vec<Frame>,
    /// On their way from and to a cache.
    passing: Batch,
    drops: Drops,
}

impl Rings {
    pub fn new(
        fill: Producer<u64>, receive: Consumer<Descriptor>, region: Arc<Region>, window: Window,
        page_bytes: Option<usize>, fills_checksums: bool,
    ) -> Self {
        let wanted = wanted(&fill, &region, 3, 1);
        let table = Table::new(&region);
        let passing = Batch::new(BATCH_FRAMES_MAX);
        let (head, discards, aside, drops) = (None, false, Vec::new(), Drops::default());
        Self {
            fill,
            receive,
            table,
            region,
            window,
            page_bytes,
            fills_checksums,
            wanted,
            head,
            discards,
            aside,
            passing,
            drops,
        }
    }

    /// Up to so many `quarters` of the pool wait for packets, in place of 3, divided by so many devices that
    /// have it.
    pub(super) fn keeping(mut self, quarters: u32, shared_by: u32) -> Self {
        self.wanted = wanted(&self.fill, &self.region, quarters, shared_by);
        self
    }

    /// Returns the number of frames posted for packets, and of those that the kernel can do nothing with.
    pub fn held(&self) -> (u32, usize) {
        (self.table.held(), self.aside.len())
    }

    pub fn drops(&self) -> &Drops {
        &self.drops
    }

    /// True if nothing has arrived.
    pub(super) fn is_empty(&mut self) -> bool {
        self.receive.ready() == 0
    }

    /// True if the adapter needs a wake-up to see filled buffers.
    pub(super) fn needs_wakeup(&self) -> bool {
        self.page_bytes.is_some() && self.fill.needs_wakeup()
    }

    /// Takes up to `budget` packets, for which `to` has room, and gives the kernel new memory.
    #[inline]
    pub fn receive(
        &mut self, cache: &mut Cache, to: &mut Batch, budget: usize, device: impl Fn() -> String,
    ) -> Result<usize, DeviceError> {
        let (before, mut fault) = (to.len(), None);
        while to.len() - before < budget {
            let Some(descriptor) = self.receive.take() else { break };
            match self.arrive(&descriptor) {
                Ok(Some(frame)) => {
                    if let Err(frame) = to.push(frame) {
                        unreachable!("there was room for {frame:?}");
                    }
                }
                Ok(None) => {}
                Err(slot) => {
                    let ring_frames = self.fill.entries();
                    fault = Some(DeviceError::NotHeld { device: device(), slot, ring_frames });
                    break;
                }
            }
        }
        self.receive.release();
        if self.fills_checksums {
            checksum::finish_all(&self.region, to, before);
        }
        if self.table.held() + FILL_BULK.min(self.wanted / 4) <= self.wanted {
            self.refill(cache).map_err(|error| pool_fault(device(), error))?;
        }
        fault.map_or(Ok(to.len() - before), Err)
    }

    /// One buffer has come; the packet, if it was its last. The number of a buffer that is not held is an
    /// error.
    #[inline]
    fn arrive(&mut self, descriptor: &Descriptor) -> Result<Option<Frame>, u32> {
        let behind = descriptor.addr >> ADDRESS_BITS;
        let at = (descriptor.addr & ((1 << ADDRESS_BITS) - 1)).saturating_add(behind);
        let place = usize::try_from(at).ok().and_then(|at| Some((at, self.region.buffer_at(at)?)));
        let Some((at, (index, start))) = place else { return Err(u32::MAX) };
        let Ok(Some((mut frame, _))) = self.table.complete(index, 0) else { return Err(index) };
        let is_last = descriptor.options & PACKET_CONTINUES == 0;
        let is_whole = is_last && self.head.is_none() && !self.discards;
        let is_placed = if at == start {
            self.region.set_len(&mut frame, descriptor.len).is_ok()
        } else {
            self.move_to_its_place(&mut frame, at.wrapping_sub(start), descriptor.len)
        };
        if !is_whole || !is_placed {
            return Ok(self.arrive_in_part(frame, is_last, is_placed));
        }
        Ok(Some(frame))
    }

    /// Moves a frame that lies `behind` bytes into its buffer to the buffer's start. Returns true if it lies within.
    #[cold]
    fn move_to_its_place(&self, frame: &mut Frame, behind: usize, len_bytes: u32) -> bool {
        let end = u32::try_from(behind).ok().and_then(|behind| behind.checked_add(len_bytes));
        let Some(end) = end else { return false };
        if self.region.set_len(frame, end).is_err() {
            return false;
        }
        if let Ok(bytes) = self.region.bytes_mut(frame) {
            bytes.copy_within(behind.., 0);
        }
        self.region.set_len(frame, len_bytes).is_ok()
    }

    /// A buffer of a packet that has several, or is to be dropped; the packet, if it is whole now.
    #[cold]
    fn arrive_in_part(&mut self, frame: Frame, is_last: bool, is_placed: bool) -> Option<Frame> {
        if !self.discards && !is_placed {
            self.drops.add("misplaced");
            self.discards = true;
        }
        if self.discards {
            self.aside_for_now(frame);
        } else {
            match &mut self.head {
                None => self.head = Some(frame),
                Some(head) => {
                    if let Err((_, frame)) = self.region.link(head, frame) {
                        self.drops.add("too-long");
                        self.discards = true;
                        self.aside_for_now(frame);
                    }
                }
            }
        }
        if self.discards
            && let Some(head) = self.head.take()
        {
            self.aside_for_now(head);
        }
        if !is_last {
            return None;
        }
        self.discards = false;
        self.head.take()
    }

    /// A dropped buffer waits for the next refill, which gives it back to the pool.
    fn aside_for_now(&mut self, frame: Frame) {
        if let Err(frame) = self.passing.push(frame) {
            self.aside.push(frame);
        }
    }

    /// Gives the kernel as many frames as are wanted, and the pool has.
    fn refill(&mut self, cache: &mut Cache) -> Result<(), PoolError> {
        cache.give(&mut self.passing)?;
        let len_bytes = self.region.data_bytes_max();
        while self.table.held() < self.wanted {
            let count = (self.wanted - self.table.held()).min(self.fill.room()) as usize;
            match cache.take(&mut self.passing, count.min(BATCH_FRAMES_MAX), len_bytes) {
                Ok(1..) => {}
                Ok(0) | Err(PoolError::Exhausted { .. }) => break,
                Err(error) => return Err(error),
            }
            while let Some(frame) = self.passing.pop() {
                self.lend(frame);
            }
        }
        self.fill.publish();
        Ok(())
    }

    /// Lets the kernel have a frame, if it lies so that it can.
    fn lend(&mut self, frame: Frame) {
        let at =
            self.region.offset_bytes(&frame).ok().and_then(|at| self.window.begins_at(at, self.page_bytes));
        match at {
            Some(at) if self.fill.put(at as u64) => self.table.hold(frame),
            _ => self.aside.push(frame),
        }
    }

    pub(super) fn visit(&self, see: &mut dyn FnMut(&Frame)) {
        self.table.visit(see);
        self.aside.iter().chain(&self.head).for_each(&mut *see);
        self.passing.frames().iter().for_each(see);
    }

    /// Lets go of the rings; all frames inside.
    pub fn close(mut self) -> Vec<Frame> {
        let mut held = std::mem::take(&mut self.aside);
        held.extend(self.head.take());
        held.extend(std::iter::from_fn(|| self.passing.pop()));
        held.extend(self.table.into_held());
        held
    }
}

fn wanted(fill: &Producer<u64>, region: &Region, quarters: u32, shared_by: u32) -> u32 {
    fill.entries().min(region.spec().frames / 4 * quarters / shared_by.max(1)).max(1)
}
