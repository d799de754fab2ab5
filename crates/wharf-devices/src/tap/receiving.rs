//! `Receiving`: frames from the kernel, one call each, straight into memory of a cache.
//!
//! The file does not say how long the next packet is, and the kernel drops the part of it that does not fit.
//! So there is always room for the longest packet: a frame, and behind it the *spill*, from which a long
//! packet is copied on. That costs a short packet nothing. While long packets come, there are frames for all
//! of it, and nothing is copied.

use super::PACKET_BYTES_MAX;
use super::end::End;
use crate::iface::{Drops, ETHERNET_BYTES, Step, pool_fault};
use crate::vnet::{START_BYTES, VNET_HEADER_BYTES, VnetHeader};
use std::array;
use std::io::{self, IoSliceMut};
use std::iter::once;
use wharf_core::device::DeviceError;
use wharf_core::pool::{Cache, PoolError};
use wharf_core::sg_writer::SgWriter;
use wharf_mem::{Batch, Frame, MemError, Meta, Region};
use wharf_sys::errno::EAGAIN;

/// Most frames kept ready for one packet.
const PIECES_MAX: usize = 62;
/// Short packets after a long one until the frames for another are given back.
const LONG_FOR: u32 = 64;

#[derive(Debug)]
pub(super) struct Receiving {
    /// Frames to be filled; none between two calls.
    spare: Batch,
    spill: Box<[u8]>,
    /// A packet that lies whole in the spill and waits for memory.
    waiting: Option<(u32, Meta)>,
    placer: SgWriter,
    /// Short packets until a single frame is kept ready.
    long_for: u32,
    pub(super) drops: Drops,
}

impl Default for Receiving {
    fn default() -> Self {
        Self {
            spare: Batch::new(PIECES_MAX),
            // One byte more than the longest packet: a packet that fills the spill was truncated.
            spill: vec![0; PACKET_BYTES_MAX + 1].into(),
            waiting: None,
            placer: SgWriter::default(),
            long_for: 0,
            drops: Drops::default(),
        }
    }
}

impl Receiving {
    pub(super) fn receive(
        &mut self, end: &mut End, cache: &mut Cache, to: &mut Batch, budget: usize,
    ) -> Result<usize, DeviceError> {
        if end.is_over() {
            return Ok(0);
        }
        let (before, budget) = (to.len(), budget.min(to.room()));
        let mut result = Ok(());
        while to.len() - before < budget {
            match self.step(end, cache, to) {
                Ok(Step::Received | Step::Dropped) => {}
                Ok(Step::Waits | Step::Empty) => break,
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
        }
        if !self.spare.is_empty() {
            // The frames belong to the cache.
            let given = cache.give(&mut self.spare);
            debug_assert!(given.is_ok());
        }
        result.map(|()| to.len() - before)
    }

    /// Receives one packet, for which `to` has room.
    #[inline]
    fn step(&mut self, end: &mut End, cache: &mut Cache, to: &mut Batch) -> Result<Step, DeviceError> {
        if let Some((len_bytes, meta)) = self.waiting.take() {
            return self.place(end, cache, to, len_bytes, &meta);
        }
        let piece_bytes = cache.pool().region().data_bytes_max() as usize;
        // If a frame could not hold all headers, each packet goes through the spill.
        if piece_bytes >= START_BYTES && !self.provide(end, cache, piece_bytes)? {
            return Ok(Step::Waits);
        }
        let region = cache.pool().region();
        let mut header = [0; VNET_HEADER_BYTES];
        let len_bytes = match self.read(end, region, &mut header) {
            Ok(len_bytes) => len_bytes,
            Err(error) if error.raw_os_error() == Some(EAGAIN) => return Ok(Step::Empty),
            Err(error) => return Err(end.fault_of_reading(error)),
        };
        self.long_for = if len_bytes > piece_bytes { LONG_FOR } else { self.long_for.saturating_sub(1) };
        match self.check(region, &header, len_bytes) {
            Err(reason) => Ok(Step::dropped(reason, &mut self.drops)),
            Ok(meta) if len_bytes <= piece_bytes * self.spare.len() => {
                self.take(region, to, len_bytes, &meta)
                    .map_err(|error| pool_fault(end.health.device(), error.into()))?;
                Ok(Step::Received)
            }
            Ok(meta) => {
                self.spill_all(region);
                self.place(end, cache, to, len_bytes as u32, &meta)
            }
        }
    }

    /// Provides a frame, and frames for the longest packet while long packets come, as far as there are any.
    /// Returns true if there is a frame.
    #[inline]
    fn provide(&mut self, end: &End, cache: &mut Cache, piece_bytes: usize) -> Result<bool, DeviceError> {
        let wanted = match self.long_for {
            0 => 1,
            _ => PACKET_BYTES_MAX.div_ceil(piece_bytes).min(PIECES_MAX),
        };
        let there = self.spare.len();
        if there < wanted {
            match cache.take(&mut self.spare, wanted - there, piece_bytes as u32) {
                Ok(_) | Err(PoolError::Exhausted { .. }) => {}
                Err(error) => return Err(pool_fault(end.health.device(), error)),
            }
        }
        Ok(!self.spare.is_empty())
    }

    /// Reads a packet into the frames, and behind them into the spill. Returns its bytes.
    #[inline]
    fn read(
        &mut self, end: &End, region: &Region, header: &mut [u8; VNET_HEADER_BYTES],
    ) -> io::Result<usize> {
        let Some(tap) = end.tap() else { return Err(io::Error::from_raw_os_error(EAGAIN)) };
        let (count, in_frames) = (self.spare.len() + 2, self.bytes_in_frames(region));
        let (frames, spill) = (region.each_bytes_mut(&mut self.spare), &mut self.spill[in_frames..]);
        let mut pieces = once(&mut header[..]).chain(frames).chain(once(spill)).map(IoSliceMut::new);
        let mut next = |_| pieces.next().unwrap_or_else(|| IoSliceMut::new(&mut []));
        // Nearly always there is one frame; an array of few is made quickly.
        let count = if count <= 3 {
            let mut few: [_; 3] = array::from_fn(&mut next);
            tap.read(&mut few[..count])?
        } else {
            let mut many: [_; PIECES_MAX + 2] = array::from_fn(&mut next);
            tap.read(&mut many[..count])?
        };
        Ok(count.saturating_sub(VNET_HEADER_BYTES))
    }

    /// Returns the start of the spill: the bytes before it are in frames.
    fn bytes_in_frames(&self, region: &Region) -> usize {
        (region.data_bytes_max() as usize * self.spare.len()).min(PACKET_BYTES_MAX)
    }

    /// Returns the requests in the header of the packet, or the reason to drop it.
    #[inline]
    fn check(
        &self, region: &Region, header: &[u8; VNET_HEADER_BYTES], len_bytes: usize,
    ) -> Result<Meta, &'static str> {
        if len_bytes < ETHERNET_BYTES as usize {
            return Err("too-short");
        }
        let header = VnetHeader::read(header);
        if header.is_plain() && len_bytes <= PACKET_BYTES_MAX {
            return Ok(Meta::default());
        }
        if len_bytes > PACKET_BYTES_MAX {
            return Err("truncated");
        }
        let start = match self.spare.frames().first() {
            Some(first) => region.bytes(first).map_err(|_| "foreign-pool")?,
            None => &self.spill,
        };
        header.meta(&start[..len_bytes.min(start.len())], len_bytes).map_err(|unfit| unfit.reason())
    }

    /// Makes a frame of the frames that a packet was read into, which hold all of it.
    #[inline]
    fn take(
        &mut self, region: &Region, to: &mut Batch, len_bytes: usize, meta: &Meta,
    ) -> Result<(), MemError> {
        let piece_bytes = region.data_bytes_max() as usize;
        let Some(mut head) = self.spare.pop() else { return Ok(()) };
        if len_bytes <= piece_bytes {
            region.set_len(&mut head, len_bytes as u32)?;
        } else {
            head = self.link(region, head, len_bytes - piece_bytes)?;
        }
        if *meta != Meta::default() {
            region.set_meta(&mut head, meta)?;
        }
        to.push_within(head);
        Ok(())
    }

    /// Links the frames of the further `rest_bytes` behind the first frame.
    fn link(&mut self, region: &Region, head: Frame, mut rest_bytes: usize) -> Result<Frame, MemError> {
        let mut chain = region.chain(head);
        while rest_bytes > 0 {
            let Some(mut piece) = self.spare.pop() else { break };
            let len_bytes = rest_bytes.min(piece.len_bytes() as usize);
            region.set_len(&mut piece, len_bytes as u32)?;
            // Cannot fail: the frames are of one pool, full, no chains, and short enough in sum.
            chain.push(piece).map_err(|(error, _)| error)?;
            rest_bytes -= len_bytes;
        }
        Ok(chain.done())
    }

    /// Copies the bytes in the frames to their place in the spill.
    #[cold]
    fn spill_all(&mut self, region: &Region) {
        let spill = self.spill.chunks_mut(region.data_bytes_max() as usize);
        for (to, from) in spill.zip(region.each_bytes_mut(&mut self.spare)) {
            let count = to.len().min(from.len());
            to[..count].copy_from_slice(&from[..count]);
        }
    }

    /// Copies a packet that lies whole in the spill into frames; it waits if there are too few.
    fn place(
        &mut self, end: &End, cache: &mut Cache, to: &mut Batch, len_bytes: u32, meta: &Meta,
    ) -> Result<Step, DeviceError> {
        let chunks = once(&self.spill[..len_bytes as usize]);
        let placed = self.placer.place(cache, to, chunks, len_bytes, meta);
        let step = Step::placed(placed, end.health.device(), &mut self.drops)?;
        self.waiting = (step == Step::Waits).then_some((len_bytes, *meta));
        Ok(step)
    }
}
