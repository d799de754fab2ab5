//! `Reader`: copies one frame from a driver's buffer into memory of the pool.

use super::super::vring::Agreed;
use crate::iface::Drops;
use crate::virtio::{Chain, Memory, Window, feature};
use crate::vnet::{VNET_HEADER_BYTES, VnetHeader};
use wharf_core::pool::{Cache, PoolError};
use wharf_mem::batch::BATCH_FRAMES_MAX;
use wharf_mem::{Batch, Frame, Meta, Region};

/// Shortest frame: addresses and a type.
const FRAME_BYTES_MIN: u32 = 14;
/// Longest frame: IP's longest packet, and a header with two tags.
const FRAME_BYTES_MAX: u32 = 65535 + 22;

/// Reads frames; keeps memory for the next ones within a batch.
#[derive(Debug)]
pub(super) struct Reader {
    fresh: Batch,
    pieces: Vec<Frame>,
    pub(super) drops: Drops,
}

impl Default for Reader {
    fn default() -> Self {
        Self { fresh: Batch::new(BATCH_FRAMES_MAX), pieces: Vec::new(), drops: Drops::default() }
    }
}

impl Reader {
    /// Copies the frames in `chains` to the back of `to`, which has room for them. Returns the number of
    /// buffers that are done, and the reason if not all are, other than lack of memory.
    #[inline]
    pub(super) fn read_all(
        &mut self, memory: &Memory, agreed: Agreed, chains: &[Chain], cache: &mut Cache, to: &mut Batch,
    ) -> (usize, Result<(), PoolError>) {
        let mut done = 0;
        while let Some(left) = chains.get(done..).filter(|left| !left.is_empty()) {
            let plain = left.iter().take_while(|chain| is_plain(memory, agreed, chain, cache)).count();
            let read = match plain {
                0 => self.read(memory, agreed, &left[0], cache, to).map(usize::from),
                _ => read_plain(memory, agreed, &left[..plain], cache, to),
            };
            match read {
                Ok(0) => break,
                Ok(read) => done += read,
                Err(error) => return (done, Err(error)),
            }
        }
        (done, Ok(()))
    }

    /// Copies the frame in `chain` to the back of `to`, which has room for it, or drops it. Returns false
    /// without memory.
    #[inline(never)]
    fn read(
        &mut self, memory: &Memory, agreed: Agreed, chain: &Chain, cache: &mut Cache, to: &mut Batch,
    ) -> Result<bool, PoolError> {
        let header_bytes = agreed.header_bytes() as u32;
        let len = chain.readable_bytes().saturating_sub(header_bytes);
        if !(FRAME_BYTES_MIN..=FRAME_BYTES_MAX).contains(&len) {
            self.drops.add(if len < FRAME_BYTES_MIN { "too-short" } else { "too-long" });
            return Ok(true);
        }
        self.read_with_care(memory, agreed, chain, cache, to, len)
    }

    /// Gets memory. Returns true if there is any.
    fn fetch(&mut self, cache: &mut Cache, count: usize) -> Result<bool, PoolError> {
        let piece_bytes = cache.pool().region().data_bytes_max();
        match cache.take(&mut self.fresh, count, piece_bytes) {
            Ok(_) => Ok(true),
            Err(PoolError::Exhausted { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Copies a frame in several pieces on either side, or with requests.
    #[inline(never)]
    #[allow(clippy::too_many_arguments)]
    fn read_with_care(
        &mut self, memory: &Memory, agreed: Agreed, chain: &Chain, cache: &mut Cache, to: &mut Batch,
        len: u32,
    ) -> Result<bool, PoolError> {
        let mut header = [0; VNET_HEADER_BYTES];
        if agreed.may_ask() {
            chain.copy_out(memory, 0, &mut header);
        }
        let header = VnetHeader::read(&header);
        let piece_bytes = piece_bytes(cache);
        let count = len.div_ceil(piece_bytes) as usize;
        if count > cache.pool().frames() as usize || count > BATCH_FRAMES_MAX {
            self.drops.add("too-long");
            return Ok(true);
        }
        while self.fresh.len() < count {
            if !self.fetch(cache, count - self.fresh.len())? {
                return Ok(false);
            }
        }
        let region = cache.pool().region().clone();
        let mut at = agreed.header_bytes() as u32;
        let mut left = len;
        self.pieces.extend((0..count).map_while(|_| self.fresh.pop()));
        for piece in &mut self.pieces {
            region.set_len(piece, left.min(piece_bytes))?;
            let copied = chain.copy_out(memory, at, region.bytes_mut(piece)?) as u32;
            (at, left) = (at + copied, left - copied.min(left));
        }
        match self.link(&region, agreed, &header)? {
            Some(frame) => {
                to.push_within(frame);
                Ok(true)
            }
            None => {
                self.drops.add("malformed");
                for piece in self.pieces.drain(..) {
                    cache.give_one(piece).map_err(|(error, _)| error)?;
                }
                Ok(true)
            }
        }
    }

    /// Joins the pieces to one frame with its header's requests; `None`, and the pieces stay, if that is
    /// impossible.
    fn link(
        &mut self, region: &Region, agreed: Agreed, header: &VnetHeader,
    ) -> Result<Option<Frame>, PoolError> {
        let len: usize = self.pieces.iter().map(|piece| piece.len_bytes() as usize).sum();
        let Some(start) = self.pieces.first() else { return Ok(None) };
        // All headers lie in the first piece: no pool has smaller frames.
        let meta = header.meta(region.bytes(start)?, len).ok().filter(|meta| may_ask(agreed, meta));
        let Some(meta) = meta else { return Ok(None) };
        let mut pieces = self.pieces.drain(..);
        let Some(mut head) = pieces.next() else { return Ok(None) };
        for piece in pieces {
            // Cannot fail: the pieces are of one pool, full, no chains, and short enough in sum.
            region.link(&mut head, piece).map_err(|(error, _)| error)?;
        }
        if meta != Meta::default() {
            region.set_meta(&mut head, &meta)?;
        }
        Ok(Some(head))
    }

    /// Gives back memory that was fetched for more frames than came.
    pub(super) fn settle(&mut self, cache: &mut Cache) -> Result<(), PoolError> {
        if self.fresh.is_empty() { Ok(()) } else { cache.give(&mut self.fresh) }
    }
}

/// Returns true if the frame lies in one buffer, fits one frame of the pool, and has no requests.
#[inline(always)]
fn is_plain(memory: &Memory, agreed: Agreed, chain: &Chain, cache: &Cache) -> bool {
    let len = chain.readable_bytes().checked_sub(agreed.header_bytes() as u32);
    let asks_nothing = |window: Window<'_>| {
        let mut requests = [0; 2];
        window.copy_out(0, &mut requests) && VnetHeader::is_plain_in(requests)
    };
    len.is_some_and(|len| (FRAME_BYTES_MIN..=piece_bytes(cache)).contains(&len))
        && chain.only_readable(memory).is_some_and(|window| !agreed.may_ask() || asks_nothing(window))
}

/// Copies such frames to the back of `to`, which has room for them. Returns their number: fewer without
/// memory.
#[inline(always)]
fn read_plain(
    memory: &Memory, agreed: Agreed, chains: &[Chain], cache: &mut Cache, to: &mut Batch,
) -> Result<usize, PoolError> {
    let before = to.len();
    let taken = match cache.take(to, chains.len(), piece_bytes(cache)) {
        Ok(taken) => taken,
        Err(PoolError::Exhausted { .. }) => return Ok(0),
        Err(error) => return Err(error),
    };
    let (region, header_bytes) = (cache.pool().region(), agreed.header_bytes());
    for (frame, chain) in to.frames_mut()[before..].iter_mut().zip(chains) {
        // Neither can fail: the frame is of this pool, and at most as long as its buffer.
        region.set_len(frame, chain.readable_bytes() - header_bytes as u32)?;
        let bytes = region.bytes_mut(frame)?;
        if let Some(window) = chain.only_readable(memory) {
            window.copy_out(header_bytes, bytes);
        }
    }
    to.refresh();
    Ok(taken)
}

/// Returns the longest frame that fits one buffer of the pool.
#[inline(always)]
fn piece_bytes(cache: &Cache) -> u32 {
    cache.pool().region().data_bytes_max()
}

/// Returns true if the driver may leave that work to the device.
fn may_ask(agreed: Agreed, meta: &Meta) -> bool {
    (meta.gso_kind == 0 || feature::device_takes(agreed.0, meta.gso_kind))
        && (!meta.needs_checksum || agreed.has(feature::CSUM))
}
