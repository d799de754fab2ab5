//! `Rings`: the fill and receive rings of one queue or several, and the frames between them.

use super::super::checksum;
use super::super::memory::Window;
use super::super::table::Table;
use crate::iface::{Drops, pool_fault};
use std::sync::Arc;
use wharf_core::device::DeviceError;
use wharf_core::pool::{Cache, PoolError};
use wharf_mem::batch::BATCH_FRAMES_MAX;
use wharf_mem::{Batch, Frame, Posting, Region};
use wharf_sys::xdp::{Consumer, Descriptor, PACKET_CONTINUES, Producer};

/// Bits of a received address that hold the address from the fill ring. The bits above hold the distance from there
/// to the frame's first byte.
const ADDRESS_BITS: u32 = 48;
/// Frames that are given to the fill ring at a time, at least; a quarter of those wanted where these are few.
const FILL_BULK: u32 = 64;

/// The rings of all queues, one registration of memory, and one table.
#[derive(Debug)]
pub struct Rings {
    queues: Vec<QueueRings>,
    memory: Memory,
    /// The queue that is received from first next time: each has its turn.
    first: usize,
}

/// The rings of one queue. Frames of a flow come by one queue, in order.
#[derive(Debug)]
struct QueueRings {
    fill: Producer<u64>,
    receive: Consumer<Descriptor>,
    /// Frames that wait for packets, and their most: now, and beside no other receiver.
    posted: u32,
    wanted: u32,
    wish: u32,
    /// Packets received.
    packets: u64,
    /// The first part of a packet of several buffers.
    head: Option<Frame>,
    /// The packet at hand is dropped: so are its further buffers.
    discards: bool,
}

/// The frames of all queues.
#[derive(Debug)]
struct Memory {
    table: Table,
    region: Arc<Region>,
    /// With the number of queues.
    posting: Option<(Posting, u32)>,
    window: Window,
    /// With zero-copy, bytes of a page: no buffer may cross its end.
    page_bytes: Option<usize>,
    fills_checksums: bool,
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
        let table = Table::new(&region);
        let passing = Batch::new(BATCH_FRAMES_MAX);
        let (aside, drops, posting) = (Vec::new(), Drops::default(), None);
        let memory =
            Memory { table, region, posting, window, page_bytes, fills_checksums, aside, passing, drops };
        Self { queues: Vec::new(), memory, first: 0 }.and(fill, receive).keeping(3, 1)
    }

    /// Adds the rings of a further queue.
    #[must_use]
    pub fn and(mut self, fill: Producer<u64>, receive: Consumer<Descriptor>) -> Self {
        let (posted, wanted, wish, packets, head, discards) = (0, 1, 1, 0, None, false);
        self.queues.push(QueueRings { fill, receive, posted, wanted, wish, packets, head, discards });
        self
    }

    /// Up to so many `quarters` of the pool wait for packets, divided by so many devices that have it, and by
    /// the queues; less while other receivers want them, too: see [`Posting`].
    #[must_use]
    pub fn keeping(mut self, quarters: u32, shared_by: u32) -> Self {
        let frames = self.memory.region.spec().frames / 4 * quarters;
        let queues = self.queues.len() as u32;
        let share = frames / shared_by.max(1).saturating_mul(queues);
        self.queues.iter_mut().for_each(|queue| queue.wish = queue.fill.entries().min(share));
        // What was claimed before is given back first.
        self.memory.posting = None;
        let wanted = self.queues.iter().map(|queue| queue.wish).sum();
        self.memory.posting = Some((Posting::of(&self.memory.region, wanted), queues));
        self.queues.iter_mut().for_each(|queue| queue.share(&self.memory));
        self
    }

    /// Returns the number of frames posted for packets, and of those that the kernel can do nothing with.
    pub fn held(&self) -> (u32, usize) {
        (self.memory.table.held(), self.memory.aside.len())
    }

    /// Returns the packets of each queue, in the order in which they were added.
    pub(super) fn packets(&self) -> impl Iterator<Item = u64> {
        self.queues.iter().map(|queue| queue.packets)
    }

    pub fn drops(&self) -> &Drops {
        &self.memory.drops
    }

    /// True if nothing has arrived.
    pub(super) fn is_empty(&mut self) -> bool {
        self.queues.iter_mut().all(|queue| queue.receive.ready() == 0)
    }

    /// Calls `wake` with the number of each queue, in the order in which they were added, whose adapter needs a wake-up to see
    /// filled buffers.
    #[inline]
    pub(super) fn each_asleep(&self, wake: impl Fn(usize)) {
        if self.memory.page_bytes.is_some() {
            let asleep = |(_, queue): &(usize, &QueueRings)| queue.fill.needs_wakeup();
            self.queues.iter().enumerate().filter(asleep).for_each(|(at, _)| wake(at));
        }
    }

    /// Takes up to `budget` packets, for which `to` has room, and gives the kernel new memory.
    #[inline]
    pub fn receive(
        &mut self, cache: &mut Cache, to: &mut Batch, budget: usize, device: impl Fn() -> String,
    ) -> Result<usize, DeviceError> {
        let Self { queues, memory, first } = self;
        let (before, mut fault) = (to.len(), None);
        let (behind, ahead) = queues.split_at_mut(*first);
        for queue in ahead.iter_mut().chain(behind) {
            let left = budget - (to.len() - before);
            if left == 0 {
                break;
            }
            if let Err(slot) = queue.receive(memory, to, left) {
                let ring_frames = queue.fill.entries();
                fault = Some(DeviceError::NotHeld { device: device(), slot, ring_frames });
                break;
            }
        }
        *first = if *first + 1 < queues.len() { *first + 1 } else { 0 };
        if memory.fills_checksums {
            checksum::finish_all(&memory.region, to, before);
        }
        for queue in queues {
            if queue.posted + FILL_BULK.min(queue.wanted / 4) <= queue.wanted {
                queue.refill(memory, cache).map_err(|error| pool_fault(device(), error))?;
            }
        }
        fault.map_or(Ok(to.len() - before), Err)
    }

    pub(super) fn visit(&self, see: &mut dyn FnMut(&Frame)) {
        self.memory.table.visit(see);
        let heads = self.queues.iter().filter_map(|queue| queue.head.as_ref());
        self.memory.aside.iter().chain(heads).for_each(&mut *see);
        self.memory.passing.frames().iter().for_each(see);
    }

    /// Lets go of the rings; all frames inside.
    pub fn close(self) -> Vec<Frame> {
        let Self { queues, memory: Memory { mut aside, mut passing, table, .. }, .. } = self;
        aside.extend(queues.into_iter().filter_map(|queue| queue.head));
        aside.extend(passing.pop_each());
        aside.extend(table.into_held());
        aside
    }
}

impl QueueRings {
    /// Takes up to `budget` packets, for which `to` has room. The number of a buffer that is not held is an error.
    #[inline]
    fn receive(&mut self, memory: &mut Memory, to: &mut Batch, budget: usize) -> Result<(), u32> {
        let (before, end) = (to.len(), to.len() + budget);
        let mut result = Ok(());
        while to.len() < end {
            let Some(descriptor) = self.receive.take() else { break };
            match self.arrive(memory, &descriptor) {
                Ok(Some(frame)) => {
                    if let Err(frame) = to.push(frame) {
                        unreachable!("there was room for {frame:?}");
                    }
                }
                Ok(None) => {}
                Err(slot) => {
                    result = Err(slot);
                    break;
                }
            }
        }
        self.receive.release();
        self.packets += (to.len() - before) as u64;
        result
    }

    /// One buffer has come; the packet, if it was its last. The number of a buffer that is not held is an
    /// error.
    #[inline]
    fn arrive(&mut self, memory: &mut Memory, descriptor: &Descriptor) -> Result<Option<Frame>, u32> {
        let behind = descriptor.addr >> ADDRESS_BITS;
        let at = (descriptor.addr & ((1 << ADDRESS_BITS) - 1)).saturating_add(behind);
        let place = usize::try_from(at).ok().and_then(|at| Some((at, memory.region.buffer_at(at)?)));
        let Some((at, (index, start))) = place else { return Err(u32::MAX) };
        let Ok(Some((mut frame, _))) = memory.table.complete(index, 0) else { return Err(index) };
        self.posted = self.posted.saturating_sub(1);
        let is_last = descriptor.options & PACKET_CONTINUES == 0;
        let is_whole = is_last && self.head.is_none() && !self.discards;
        let is_placed = if at == start {
            memory.region.set_len(&mut frame, descriptor.len).is_ok()
        } else {
            memory.move_to_its_place(&mut frame, at.wrapping_sub(start), descriptor.len)
        };
        if !is_whole || !is_placed {
            return Ok(self.arrive_in_part(memory, frame, is_last, is_placed));
        }
        Ok(Some(frame))
    }

    /// Handles one buffer of a multi-buffer or rejected packet. Returns the packet once its last buffer is
    /// there.
    #[cold]
    fn arrive_in_part(
        &mut self, memory: &mut Memory, frame: Frame, is_last: bool, is_placed: bool,
    ) -> Option<Frame> {
        if !self.discards && !is_placed {
            memory.drops.add("misplaced");
            self.discards = true;
        }
        if self.discards {
            memory.put_aside(frame);
        } else {
            match &mut self.head {
                None => self.head = Some(frame),
                Some(head) => {
                    if let Err((_, frame)) = memory.region.link(head, frame) {
                        memory.drops.add("too-long");
                        self.discards = true;
                        memory.put_aside(frame);
                    }
                }
            }
        }
        if self.discards
            && let Some(head) = self.head.take()
        {
            memory.put_aside(head);
        }
        if !is_last {
            return None;
        }
        self.discards = false;
        self.head.take()
    }

    /// Wants as many frames as it may have beside other receivers now.
    fn share(&mut self, memory: &Memory) {
        let part = memory
            .posting
            .as_ref()
            .map_or(0, |(posting, queues)| posting.frames(self.posted * queues) / queues);
        self.wanted = self.wish.min(part).max(1);
    }

    /// Gives the kernel as many frames as are wanted, and the pool has.
    fn refill(&mut self, memory: &mut Memory, cache: &mut Cache) -> Result<(), PoolError> {
        self.share(memory);
        cache.give(&mut memory.passing)?;
        let len_bytes = memory.region.data_bytes_max();
        while self.posted < self.wanted {
            let count = (self.wanted - self.posted).min(self.fill.room()) as usize;
            match cache.take(&mut memory.passing, count.min(BATCH_FRAMES_MAX), len_bytes) {
                Ok(1..) => {}
                Ok(0) | Err(PoolError::Exhausted { .. }) => break,
                Err(error) => return Err(error),
            }
            while let Some(frame) = memory.passing.pop() {
                self.lend(memory, frame);
            }
        }
        self.fill.publish();
        Ok(())
    }

    /// Lets the kernel have a frame, if it lies so that it can.
    fn lend(&mut self, memory: &mut Memory, frame: Frame) {
        let at = memory.region.offset_bytes(&frame).ok();
        match at.and_then(|at| memory.window.begins_at(at, memory.page_bytes)) {
            Some(at) if self.fill.put(at as u64) => {
                memory.table.hold(frame);
                self.posted += 1;
            }
            _ => memory.aside.push(frame),
        }
    }
}

impl Memory {
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

    /// Keeps a dropped buffer until the next refill, which gives it back to the pool.
    fn put_aside(&mut self, frame: Frame) {
        if let Err(frame) = self.passing.push(frame) {
            self.aside.push(frame);
        }
    }
}
