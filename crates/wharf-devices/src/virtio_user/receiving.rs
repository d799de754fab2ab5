//! `Receiving`: the receive queue, and the buffers posted in it.

use super::HEADER_BYTES;
use super::buffers::{Buffers, POOL_AT};
use super::session::Queue;
use crate::iface::Drops;
use crate::virtio::{DriverRing, Extent, RingError, feature};
use crate::vnet::{VNET_HEADER_BYTES, VnetHeader};
use wharf_core::pool::{Cache, PoolError};
use wharf_mem::batch::BATCH_FRAMES_MAX;
use wharf_mem::{Batch, Frame, Posting};
use wharf_packet::checksum;

/// Buffers posted at a time, at least; a quarter of those wanted if these are few.
const FILL_BULK: u16 = 32;

#[derive(Debug)]
pub(super) struct Receiving<R> {
    pub(super) queue: Queue<R>,
    buffers: Buffers,
    merges: bool,
    table: Box<[Option<Frame>]>,
    /// Buffers posted for frames, at most.
    wanted: u16,
    posting: Posting,
    /// The first part of a frame in several buffers, its header, and the number of buffers still to come; no
    /// part if it is dropped.
    head: Option<(Option<Frame>, VnetHeader, u16)>,
    /// Frames that were dropped, until the next refill.
    aside: Vec<Frame>,
    passing: Batch,
    pub(super) drops: Drops,
}

impl<R: DriverRing> Receiving<R> {
    /// Makes the queue; `pairs` queues share the memory of `buffers`.
    pub(super) fn new(queue: Queue<R>, buffers: Buffers, features: u64, pairs: u16) -> Self {
        let size = queue.ring.size();
        let most =
            u16::try_from(buffers.region.spec().frames / 4 * 3 / u32::from(pairs)).unwrap_or(u16::MAX).max(1);
        let posting = Posting::of(&buffers.region, size.min(most).into());
        Self {
            merges: features & feature::MRG_RXBUF != 0,
            table: (0..size).map(|_| None).collect(),
            wanted: posting.frames(0) as u16,
            posting,
            head: None,
            aside: Vec::new(),
            passing: Batch::new(BATCH_FRAMES_MAX),
            drops: Drops::default(),
            queue,
            buffers,
        }
    }

    pub(super) fn held(&self) -> usize {
        let head = self.head.as_ref().is_some_and(|head| head.0.is_some());
        usize::from(self.queue.ring.outstanding()) + self.aside.len() + self.passing.len() + usize::from(head)
    }

    /// Takes up to `budget` frames, for which `to` has room, and gives the back end new memory.
    #[inline]
    pub(super) fn receive(
        &mut self, cache: &mut Cache, to: &mut Batch, budget: usize,
    ) -> Result<Result<usize, PoolError>, RingError> {
        let before = to.len();
        while to.len() - before < budget {
            let Some(used) = self.queue.ring.next_used()? else { break };
            let fault = RingError::NotHeld { id: used.id.into(), size: self.queue.ring.size() };
            let frame = self.table.get_mut(usize::from(used.id)).and_then(Option::take).ok_or(fault)?;
            if let Some(frame) = self.arrive(frame, used.written_bytes)
                && let Err(frame) = to.push(frame)
            {
                unreachable!("there was room for {frame:?}");
            }
        }
        let lacking = self.wanted - self.queue.ring.outstanding().min(self.wanted);
        if lacking >= FILL_BULK.min(self.wanted / 4).max(1) || !self.aside.is_empty() {
            return Ok(self.refill(cache).map(|()| to.len() - before));
        }
        Ok(Ok(to.len() - before))
    }

    /// Handles a used buffer with `written_bytes` in it. Returns the frame if that was its last buffer.
    #[inline]
    fn arrive(&mut self, mut frame: Frame, written_bytes: u32) -> Option<Frame> {
        if self.head.is_some() {
            return self.go_on(frame, written_bytes);
        }
        let Some(len_bytes) = written_bytes.checked_sub(HEADER_BYTES as u32).filter(|&len| len > 0) else {
            return self.malformed(frame);
        };
        // Takes a copy: the back end may go on writing there.
        let Ok(bytes) = self.buffers.header(&frame) else {
            return self.malformed(frame);
        };
        let (header, count) = split_header(&bytes)?;
        if !self.buffers.take(&mut frame, len_bytes, 0) {
            return self.malformed(frame);
        }
        let count = if self.merges { count } else { 1 };
        match count {
            1 if header.is_plain() => Some(frame),
            1 => self.finish(frame, &header),
            0 => self.malformed(frame),
            _ => {
                self.head = Some((Some(frame), header, count - 1));
                None
            }
        }
    }

    fn malformed(&mut self, frame: Frame) -> Option<Frame> {
        self.drops.add("malformed");
        self.aside.push(frame);
        None
    }

    /// Adds a further buffer of a frame. It has no header, so its data begin where the header would.
    #[cold]
    fn go_on(&mut self, mut frame: Frame, written_bytes: u32) -> Option<Frame> {
        let (head, header, left) = self.head.take()?;
        let is_placed = written_bytes > 0 && self.buffers.take(&mut frame, written_bytes, HEADER_BYTES);
        let head = match head {
            Some(mut head) if is_placed => match self.buffers.region.link(&mut head, frame) {
                Ok(()) => Some(head),
                Err((_, frame)) => {
                    self.drops.add("too-long");
                    self.aside.extend([head, frame]);
                    None
                }
            },
            Some(head) => {
                self.drops.add("malformed");
                self.aside.extend([head, frame]);
                None
            }
            None => {
                self.aside.push(frame);
                None
            }
        };
        match (head, left) {
            (Some(frame), 1) => self.finish(frame, &header),
            (None, 1) => None,
            (head, left) => {
                self.head = Some((head, header, left - 1));
                None
            }
        }
    }

    /// Handles a whole frame with requests: fills in the checksum. The driver has not offered to take
    /// super-packets.
    #[cold]
    fn finish(&mut self, mut frame: Frame, header: &VnetHeader) -> Option<Frame> {
        if header.is_plain() {
            return Some(frame);
        }
        let len_bytes = frame.len_bytes() as usize;
        let (start, offset) = (header.checksum_start.into(), header.checksum_offset.into());
        let is_done = self.buffers.region.bytes_mut(&mut frame).is_ok_and(|bytes| {
            header.gso_kind == 0
                && bytes.len() == len_bytes
                && checksum::complete_transport(bytes, start, offset)
        });
        if is_done { Some(frame) } else { self.malformed(frame) }
    }

    /// Posts as many buffers as are wanted, and the pool has.
    fn refill(&mut self, cache: &mut Cache) -> Result<(), PoolError> {
        self.wanted = self.posting.frames(self.queue.ring.outstanding().into()) as u16;
        for frame in self.aside.drain(..) {
            cache.give_one(frame).map_err(|(error, _)| error)?;
        }
        let len_bytes = self.buffers.region.data_bytes_max();
        // All data of a further buffer must fit behind its headroom.
        let room_bytes = if self.merges { len_bytes } else { len_bytes + HEADER_BYTES as u32 };
        while self.queue.ring.outstanding() < self.wanted {
            let count = usize::from(self.wanted - self.queue.ring.outstanding()).min(BATCH_FRAMES_MAX);
            match cache.take(&mut self.passing, count, len_bytes) {
                Ok(1..) => {}
                Ok(0) | Err(PoolError::Exhausted { .. }) => break,
                Err(error) => return Err(error),
            }
            while let Some(frame) = self.passing.pop() {
                self.lend(frame, room_bytes);
            }
        }
        if self.queue.ring.publish() && self.queue.ring.needs_kick() {
            self.queue.tell();
        }
        Ok(())
    }

    fn lend(&mut self, frame: Frame, room_bytes: u32) {
        let at = self.buffers.header_at(&frame);
        let extent = at.map(|at| Extent { address: POOL_AT + at as u64, len_bytes: room_bytes });
        match extent.ok().and_then(|extent| self.queue.ring.add(&[], &[extent])) {
            Some(id) => self.table[usize::from(id)] = Some(frame),
            None => self.aside.push(frame),
        }
    }

    /// Takes memory posted in an earlier queue: the next refill posts it again.
    pub(super) fn adopt(&mut self, frames: impl Iterator<Item = Frame>) {
        self.aside.extend(frames);
    }

    pub(super) fn visit(&self, see: &mut dyn FnMut(&Frame)) {
        let head = self.head.iter().filter_map(|head| head.0.as_ref());
        self.table.iter().flatten().chain(&self.aside).chain(head).for_each(&mut *see);
        self.passing.frames().iter().for_each(see);
    }

    /// Returns all frames inside.
    pub(super) fn into_held(mut self) -> impl Iterator<Item = Frame> {
        let head = self.head.take().and_then(|head| head.0);
        let passing: Vec<Frame> = self.passing.pop_each().collect();
        self.table.into_iter().flatten().chain(self.aside).chain(head).chain(passing)
    }
}

/// Splits `struct virtio_net_hdr` into the header and the frame's number of buffers (virtio 1.2, section
/// 5.1.6).
#[inline]
fn split_header(bytes: &[u8; HEADER_BYTES]) -> Option<(VnetHeader, u16)> {
    let (header, rest) = bytes.split_first_chunk::<VNET_HEADER_BYTES>()?;
    let count = rest.first_chunk().map(|count| u16::from_le_bytes(*count))?;
    Some((VnetHeader::read(header), count))
}
