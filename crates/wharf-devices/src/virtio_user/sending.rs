//! `Sending`: the transmit queue, and the frames in it.

use super::HEADER_BYTES;
use super::buffers::{Buffers, POOL_AT};
use super::session::Queue;
use crate::iface::{ETHERNET_BYTES, TxBook};
use crate::virtio::{DriverRing, Extent, RingError, feature};
use crate::vnet::{START_BYTES, VNET_HEADER_BYTES, VnetHeader};
use wharf_core::device::{Completions, Transmitted};
use wharf_mem::{Batch, Frame, Meta, Region};
use wharf_packet::checksum;
use wharf_packet::gso::{GSO_TCPV4, GSO_TCPV6, GSO_UDP};

/// Most buffers of one frame: a super-packet of 64 KiB in frames of 2 KiB takes 44.
pub(super) const SEGMENTS_MAX: usize = 64;
/// Number of free descriptors below which the queue stops: Linux's 2 + MAX_SKB_FRAGS.
const STOP_BELOW: u16 = 2 + 17;

#[derive(Debug)]
pub(super) struct Sending<R> {
    pub(super) queue: Queue<R>,
    buffers: Buffers,
    /// Work that may be left to the back end.
    features: u64,
    table: Box<[Option<Frame>]>,
    /// Number of free descriptors below which it is full.
    stop_below: u16,
    owes_doorbell: bool,
}

impl<R: DriverRing> Sending<R> {
    pub(super) fn new(queue: Queue<R>, buffers: Buffers, features: u64) -> Self {
        let size = queue.ring.size();
        // A small ring would always be full.
        let stop_below = if size >= 4 * STOP_BELOW { STOP_BELOW } else { 1 };
        let table = (0..size).map(|_| None).collect();
        Self { queue, buffers, features, table, stop_below, owes_doorbell: false }
    }

    pub(super) fn held(&self) -> usize {
        self.queue.ring.outstanding().into()
    }

    /// Returns true if it takes no more until frames have left.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.queue.ring.room() < self.stop_below
    }

    #[inline]
    pub(super) fn transmit(&mut self, batch: &mut Batch, more: bool, book: &mut TxBook) -> Transmitted {
        let has_room = self.post_some(batch, usize::MAX, book);
        let doorbell = (!more || !has_room) && self.flush();
        Transmitted { doorbell, stopped: !has_room }
    }

    /// Posts up to `most` frames from the front while there is room; those that cannot be sent go into
    /// `book`. Returns true if there is room for more.
    #[inline]
    pub(super) fn post_some(&mut self, batch: &mut Batch, most: usize, book: &mut TxBook) -> bool {
        let end = batch.len().saturating_sub(most);
        let mut has_room = !self.is_full();
        while has_room && batch.len() > end {
            let before = batch.len();
            self.post_usual(batch, before - end, book);
            let is_stuck = batch.len() == before && !self.take_unusual(batch, book);
            has_room = !is_stuck && !self.is_full();
        }
        has_room
    }

    /// Posts up to `most` frames from the front that lie in one buffer each, with their headers in front,
    /// while there is room.
    #[inline]
    fn post_usual(&mut self, batch: &mut Batch, most: usize, book: &mut TxBook) {
        let mut room = usize::from((self.queue.ring.room() + 1).saturating_sub(self.stop_below)).min(most);
        let is_usual = |frame: &Frame| !frame.has_meta() && frame.len_bytes() > ETHERNET_BYTES;
        let wants = |frame: &Frame| {
            let takes = room > 0 && is_usual(frame);
            room = room.saturating_sub(1);
            takes
        };
        batch.take_while(wants, |frame| self.post(frame, book));
    }

    /// Posts a frame that lies in one buffer.
    #[inline(always)]
    fn post(&mut self, mut frame: Frame, book: &mut TxBook) {
        let len_bytes = frame.len_bytes() + HEADER_BYTES as u32;
        let place = self.buffers.put_header(&mut frame, &[0; HEADER_BYTES]);
        let (Ok(at), Ok(bytes)) = (place, self.buffers.region.bytes(&frame)) else {
            return book.fail([frame], "foreign-pool");
        };
        self.buffers.put(at + HEADER_BYTES, bytes);
        self.add(frame, &[Extent { address: POOL_AT + at as u64, len_bytes }], book);
    }

    #[inline]
    fn add(&mut self, frame: Frame, parts: &[Extent], book: &mut TxBook) {
        match self.queue.ring.add(parts, &[]) {
            Some(id) => {
                self.table[usize::from(id)] = Some(frame);
                self.owes_doorbell = true;
            }
            // The caller has checked that there is room.
            None => book.fail([frame], "no-room"),
        }
    }

    /// Handles the first frame, an unusual one. Returns true if there was room for it.
    #[cold]
    fn take_unusual(&mut self, batch: &mut Batch, book: &mut TxBook) -> bool {
        let region = self.buffers.region.clone();
        let Some(first) = batch.frames().first() else { return true };
        let count = region.chunks(first).map_or(1, Iterator::count);
        let fault = match count {
            _ if first.len_bytes() <= ETHERNET_BYTES => Some("too-short"),
            1..=SEGMENTS_MAX if count <= self.table.len() => None,
            _ => Some("too-many-chunks"),
        };
        if fault.is_none() && count > self.queue.ring.room().into() {
            return false;
        }
        let Some(mut frame) = batch.pop() else { return true };
        match fault.map_or_else(|| self.prepare(&region, &mut frame), Err) {
            Ok(parts) => self.add(frame, &parts, book),
            Err(reason) => book.fail([frame], reason),
        }
        true
    }

    /// Puts a frame's header in front of it, and lists its parts.
    fn prepare(&self, region: &Region, frame: &mut Frame) -> Result<Vec<Extent>, &'static str> {
        let foreign = |_| "foreign-pool";
        let meta = region.meta(frame).map_err(foreign)?;
        let header = self.header(region, frame, &meta)?;
        self.buffers.put_header(frame, &header_bytes(&header)).map_err(|_| "no-headroom")?;
        let start = region.mapping().start().as_ptr() as usize;
        let parts = region.chunks(frame).map_err(foreign)?.enumerate().map(|(at, chunk)| {
            let before = if at == 0 { HEADER_BYTES } else { 0 };
            let offset = chunk.as_ptr() as usize - start;
            self.buffers.put(offset, chunk);
            Extent { address: POOL_AT + (offset - before) as u64, len_bytes: (chunk.len() + before) as u32 }
        });
        Ok(parts.collect())
    }

    /// Makes the requests to the back end. Work that it does not do is done here, or is the reason that the
    /// frame fails.
    fn header(&self, region: &Region, frame: &mut Frame, meta: &Meta) -> Result<VnetHeader, &'static str> {
        let is_super = meta.gso_bytes > 0;
        if is_super && !matches!(meta.gso_kind, GSO_TCPV4 | GSO_TCPV6 | GSO_UDP) {
            return Err("gso-kind");
        }
        if is_super && !feature::device_takes(self.features, meta.gso_kind) {
            return Err("super-packet");
        }
        if !meta.needs_checksum && !is_super {
            return Ok(VnetHeader::default());
        }
        let len_bytes = frame.len_bytes() as usize;
        let bytes = region.bytes_mut(frame).map_err(|_| "foreign-pool")?;
        if self.features & feature::CSUM == 0 {
            let (start, offset) = (meta.checksum_start.into(), meta.checksum_offset.into());
            let done = bytes.len() == len_bytes && checksum::complete_transport(bytes, start, offset);
            return if done { Ok(VnetHeader::default()) } else { Err("unfinished-checksum") };
        }
        let start = &bytes[..bytes.len().min(START_BYTES)];
        let header = VnetHeader::to_send(start, len_bytes, meta).map_err(|unfit| unfit.reason())?;
        // Without the feature the bit is not to be set (section 5.1.6.2): the back end handles CWR as it can.
        let has_ecn = header.has_ecn && self.features & feature::HOST_ECN != 0;
        Ok(VnetHeader { has_ecn, ..header })
    }

    /// Shows the back end the posted frames, and notifies it if it asks for that. Returns true if it did.
    #[inline]
    pub(super) fn flush(&mut self) -> bool {
        if !std::mem::take(&mut self.owes_doorbell) {
            return false;
        }
        self.queue.ring.publish();
        let kicks = self.queue.ring.needs_kick();
        if kicks {
            self.queue.tell();
        }
        kicks
    }

    /// Gives back up to `budget` frames that have left.
    #[inline]
    pub(super) fn reap(&mut self, budget: usize, into: &mut Completions) -> Result<(), RingError> {
        let mut room = budget.min(into.sent.room());
        while room > 0 {
            let Some(used) = self.queue.ring.next_used()? else { break };
            let fault = RingError::NotHeld { id: used.id.into(), size: self.queue.ring.size() };
            let frame = self.table.get_mut(usize::from(used.id)).and_then(Option::take).ok_or(fault)?;
            self.buffers.prefetch_sent(&frame);
            into.sent.push_within(frame);
            room -= 1;
        }
        Ok(())
    }

    /// Returns the frames that have left and were not given back, of a back end that is gone and will use no
    /// more buffers.
    pub(super) fn left(&mut self) -> impl Iterator<Item = Frame> {
        std::iter::from_fn(|| {
            let used = self.queue.ring.next_used().ok()??;
            self.table.get_mut(usize::from(used.id))?.take()
        })
    }

    pub(super) fn visit(&self, see: &mut dyn FnMut(&Frame)) {
        self.table.iter().flatten().for_each(see);
    }

    /// Returns all frames inside.
    pub(super) fn into_held(self) -> impl Iterator<Item = Frame> {
        self.table.into_iter().flatten()
    }
}

/// The header as the back end reads it (virtio 1.2, section 5.1.6); the number of buffers of a frame to be
/// sent is 0.
fn header_bytes(header: &VnetHeader) -> [u8; HEADER_BYTES] {
    let mut bytes = [0; HEADER_BYTES];
    bytes[..VNET_HEADER_BYTES].copy_from_slice(&header.bytes());
    bytes
}
