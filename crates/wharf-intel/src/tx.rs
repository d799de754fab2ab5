//! `Tx`: the transmit ring of a queue, and the frames in it.
//!
//! The tail register is written once for each batch. The adapter reports (RS) the last descriptor of a batch, and each
//! [`REPORT_EVERY`]th within one: 8254x manual, section 3.3.3; 82576 datasheet, section 7.2.2. A report says that all
//! descriptors up to it are done.

use super::bus::Bus;
use super::family::{Context, Family, Part, RS, RingRegisters, TX_DD, Work};
use super::ring::Ring;
use std::collections::VecDeque;
use std::io;
use std::marker::PhantomData;
use std::sync::Arc;
use wharf_core::device::Completions;
use wharf_mem::{Batch, Frame, Region};

/// Descriptors between two reports within a batch.
const REPORT_EVERY: u32 = 32;
/// Length of the shortest Ethernet frame, without check sequence. The driver pads shorter frames: adapters of both families can damage
/// a frame that they pad (`e1000_xmit_frame`, `igb_xmit_frame` of Linux).
pub(super) const SHORTEST_BYTES: u32 = 60;
/// Most bytes of one descriptor: 8254x manual, section 3.3.3.1. Those of `igb` may have more, and need not.
const PART_BYTES_MAX: u32 = 16_288;
/// Most buffers of one frame.
pub(super) const SEGMENTS_MAX: u32 = 40;

/// Writes zeros behind a short frame, up to the shortest length. The byte limit counts the frame's own length, which stays. Returns false if
/// the buffer has no room. The adapter pads a short frame in several buffers.
#[cold]
pub(super) fn pad(region: &Region, frame: &mut Frame) -> bool {
    let len_bytes = frame.len_bytes();
    if len_bytes >= SHORTEST_BYTES || !is_in_one(region, frame) {
        return true;
    }
    let Ok(()) = region.set_len(frame, SHORTEST_BYTES) else { return false };
    if let Ok(bytes) = region.bytes_mut(frame) {
        bytes[len_bytes as usize..].fill(0);
    }
    region.set_len(frame, len_bytes).is_ok()
}

fn is_in_one(region: &Region, frame: &Frame) -> bool {
    region.bytes(frame).is_ok_and(|first| first.len() == frame.len_bytes() as usize)
}

#[derive(Debug)]
pub(super) struct Tx<F> {
    ring: Ring,
    region: Arc<Region>,
    /// Address of the region's first byte for the adapter.
    region_at: u64,
    /// The frame that ends with each descriptor.
    table: Box<[Option<Frame>]>,
    /// Positions that the adapter is to report, in order.
    reports: VecDeque<u32>,
    /// The next descriptor to be written.
    next: u32,
    /// The first descriptor that the adapter has not been told of.
    published: u32,
    /// The first descriptor that is not done.
    done: u32,
    /// The first descriptor whose frame has not been given back.
    clean: u32,
    /// The second word of the last descriptor written, and the descriptors since one that is to be reported.
    last: (u64, u32),
    held: usize,
    /// The work that the adapter was last told of.
    context: Option<Context>,
    /// The last frame was a super-packet, behind which one may want a tail (`TAIL_BYTES`).
    follows_super: bool,
    of: PhantomData<F>,
}

impl<F: Family> Tx<F> {
    /// Makes the ring of `size` descriptors.
    ///
    /// # Errors
    /// Those of mapping memory.
    pub(super) fn new(
        bus: &impl Bus, registers: RingRegisters, size: u32, region: &Arc<Region>, region_at: u64,
    ) -> io::Result<Self> {
        Ok(Self {
            ring: Ring::new(bus, registers, size)?,
            region: region.clone(),
            region_at,
            table: (0..size).map(|_| None).collect(),
            reports: VecDeque::with_capacity(size as usize),
            next: 0,
            published: 0,
            done: 0,
            clean: 0,
            last: (0, 0),
            held: 0,
            context: None,
            follows_super: false,
            of: PhantomData,
        })
    }

    /// Returns the descriptors of the ring.
    pub(super) fn size(&self) -> u32 {
        self.ring.size()
    }

    /// Returns the memory that frames lie in.
    pub(super) fn region(&self) -> &Region {
        &self.region
    }

    /// Returns the number of the pool that frames are of.
    #[inline(always)]
    pub(super) fn pool(&self) -> u8 {
        self.region.number()
    }

    /// Returns the buffers of a frame.
    #[cold]
    pub(super) fn segments(&self, frame: &Frame) -> u32 {
        self.region.chunks(frame).map_or(1, |chunks| chunks.count() as u32)
    }

    /// Returns the descriptors of data of a frame, at most.
    #[cold]
    pub(super) fn parts(&self, frame: &Frame) -> u32 {
        self.segments(frame) + frame.len_bytes() / PART_BYTES_MAX + 1
    }

    /// Returns true if the next frame, although in one buffer, takes two descriptors.
    #[inline(always)]
    pub(super) fn splits_next(&self) -> bool {
        F::TAIL_BYTES > 0 && self.follows_super
    }

    /// Returns the number of frames inside.
    #[inline]
    pub(super) fn held(&self) -> usize {
        self.held
    }

    /// Returns the number of descriptors that were done in all, modulo 2^32.
    pub(super) fn done(&self) -> u32 {
        self.done
    }

    /// Returns the descriptors that can be written now: one stays unused, or a full ring would look like an empty one.
    #[inline(always)]
    pub(super) fn room(&self) -> u32 {
        self.ring.size() - 1 - self.next.wrapping_sub(self.clean)
    }

    /// Posts frames from the front that lie in one buffer, as long as `wants` accepts them and there is room.
    #[inline]
    pub(super) fn post_while(&mut self, batch: &mut Batch, wants: impl Fn(&Frame) -> bool) {
        let mut room = self.room();
        let takes = |frame: &Frame| {
            let takes = room > 0 && wants(frame);
            room = room.saturating_sub(1);
            takes
        };
        batch.take_while(takes, |frame| self.post(frame));
    }

    /// Posts a frame that lies in one buffer, for which there is room.
    #[inline(always)]
    fn post(&mut self, frame: Frame) {
        // A frame of another pool was refused before: its offset is never taken.
        let offset = self.region.offset_bytes(&frame).unwrap_or(0) as u64;
        let len_bytes = frame.len_bytes();
        let part = Part {
            address: self.region_at + offset,
            len_bytes,
            frame_bytes: len_bytes,
            is_last: true,
            work: Work::None,
        };
        self.put(F::transmit(&part));
        self.hold(frame);
    }

    /// Posts a frame of any number of buffers, for which there is room, behind the description of the adapter's work on
    /// it if there is any.
    #[cold]
    pub(super) fn post_chain(
        &mut self, frame: Frame, context: Option<Context>,
    ) -> Result<(), (&'static str, Frame)> {
        let region = self.region.clone();
        let start = region.mapping().start().as_ptr() as usize;
        let len_bytes = frame.len_bytes();
        let frame_bytes = if is_in_one(&region, &frame) { len_bytes.max(SHORTEST_BYTES) } else { len_bytes };
        let Ok(chunks) = region.chunks(&frame) else { return Err(("foreign-pool", frame)) };
        // A super-packet has a description of its own, even if it is like that of the one before.
        let is_own = matches!(context, Some(Context::Segments(_)));
        if let Some(described) = context.filter(|_| is_own || self.context != context) {
            self.put(F::context(&described));
            self.context = context;
        }
        let work = match context {
            None => Work::None,
            Some(Context::Checksum(_)) => Work::Checksum,
            Some(Context::Segments(of)) => {
                Work::Segments { is_ipv6: of.is_ipv6, payload_bytes: of.payload_bytes }
            }
        };
        let has_tail = std::mem::replace(&mut self.follows_super, is_own) || is_own;
        let mut left = len_bytes as usize;
        for chunk in chunks {
            left = left.saturating_sub(chunk.len());
            let address = self.region_at + (chunk.as_ptr() as usize - start) as u64;
            let padding = if left == 0 { frame_bytes - len_bytes } else { 0 };
            let (part_bytes, is_last) = (chunk.len() as u32 + padding, left == 0);
            let part = Part { address, len_bytes: part_bytes, frame_bytes, is_last, work };
            self.put_parts(part, if has_tail && is_last { F::TAIL_BYTES } else { 0 });
        }
        self.hold(frame);
        Ok(())
    }

    /// Describes `part` in as many descriptors as it takes, and its last `tail_bytes` in one of their own.
    fn put_parts(&mut self, part: Part, tail_bytes: u32) {
        let (mut address, mut left) = (part.address, part.len_bytes);
        while left > 0 {
            let tail_bytes = if left > 2 * tail_bytes { tail_bytes } else { 0 };
            let len_bytes = (left - tail_bytes).min(PART_BYTES_MAX);
            left -= len_bytes;
            self.put(F::transmit(&Part { address, len_bytes, is_last: part.is_last && left == 0, ..part }));
            address += u64::from(len_bytes);
        }
    }

    #[inline(always)]
    fn put(&mut self, words: [u64; 2]) {
        self.ring.put(self.next, words);
        self.next = self.next.wrapping_add(1);
        self.last = (words[1], self.last.1 + 1);
    }

    /// Keeps the frame that ends with the last descriptor.
    #[inline(always)]
    fn hold(&mut self, frame: Frame) {
        let place = self.ring.place(self.next.wrapping_sub(1));
        self.table[place as usize] = Some(frame);
        self.held += 1;
        if self.last.1 >= REPORT_EVERY {
            self.ask_for_report();
        }
    }

    /// Has the last descriptor reported.
    #[inline]
    fn ask_for_report(&mut self) {
        let at = self.next.wrapping_sub(1);
        self.ring.set_second(at, self.last.0 | RS);
        self.reports.push_back(at);
        self.last.1 = 0;
    }

    /// Writes the tail register if there are descriptors that the adapter does not know of. Returns true if so.
    #[inline]
    pub(super) fn flush(&mut self, bus: &impl Bus) -> bool {
        if self.published == self.next {
            return false;
        }
        if self.last.1 > 0 {
            self.ask_for_report();
        }
        self.published = self.next;
        self.ring.publish(bus, self.next);
        true
    }

    /// Gives back up to `budget` frames that have left, for which `into` has room.
    #[inline]
    pub(super) fn reap(&mut self, budget: usize, into: &mut Completions) {
        let mut room = budget.min(into.sent.room());
        while room > 0 {
            let Some(frame) = self.take_done() else { break };
            if let Err(frame) = into.sent.push(frame) {
                unreachable!("there was room for {frame:?}");
            }
            room -= 1;
        }
    }

    /// Takes the next frame that has left.
    #[inline(always)]
    pub(super) fn take_done(&mut self) -> Option<Frame> {
        loop {
            if self.clean == self.done && !self.look() {
                return None;
            }
            let place = self.ring.place(self.clean) as usize;
            self.clean = self.clean.wrapping_add(1);
            if let Some(frame) = self.table[place].take() {
                self.held -= 1;
                return Some(frame);
            }
        }
    }

    /// Looks for a report. Returns true if descriptors are done that were not before.
    #[inline]
    fn look(&mut self) -> bool {
        match self.reports.front() {
            Some(&at) if self.is_done(at) => {
                self.reports.pop_front();
                self.done = at.wrapping_add(1);
                true
            }
            _ => false,
        }
    }

    /// True if the adapter says that a descriptor is done.
    #[inline(always)]
    fn is_done(&self, position: u32) -> bool {
        self.ring.second(position) & TX_DD != 0
    }

    /// True if a report has come that was not taken.
    pub(super) fn has_done(&self) -> bool {
        self.clean != self.done || self.reports.front().is_some_and(|&at| self.is_done(at))
    }

    pub(super) fn visit(&self, see: &mut dyn FnMut(&Frame)) {
        self.table.iter().flatten().for_each(see);
    }

    /// Returns the frames inside, in order, of an adapter that does not send any more.
    pub(super) fn into_held(mut self) -> impl Iterator<Item = Frame> {
        let (first, last) = (self.clean, self.next);
        let count = last.wrapping_sub(first);
        (0..count).filter_map(move |at| self.table[self.ring.place(first.wrapping_add(at)) as usize].take())
    }
}
