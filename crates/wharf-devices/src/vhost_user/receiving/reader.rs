//! `Reader`: one frame out of a driver's buffer into memory of ours.

use super::super::vring::Agreed;
use crate::virtio::{Chain, Memory, feature};
use crate::vnet::{VNET_HEADER_BYTES, VnetHeader};
use wharf_core::gso::{GSO_TCPV4, GSO_TCPV6, GSO_UDP};
use wharf_core::pool::{Cache, PoolError};
use wharf_mem::batch::BATCH_FRAMES_MAX;
use wharf_mem::{Batch, Frame, Meta, Region};

/// Shortest frame: addresses and a type.
const FRAME_BYTES_MIN: u32 = 14;
/// Longest one: IP's longest packet, and a header with two tags.
const FRAME_BYTES_MAX: u32 = 65535 + 22;

/// What became of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Came {
    Received,
    /// It is no frame; counted.
    Dropped,
    /// There is no memory for it now.
    NoMemory,
}

/// Frames that were no frames, by reason.
#[derive(Debug, Default)]
struct Drops {
    too_short: u64,
    too_long: u64,
    malformed: u64,
}

/// Reads frames; keeps memory for the next ones within a batch.
#[derive(Debug)]
pub(super) struct Reader {
    fresh: Batch,
    pieces: Vec<Frame>,
    drops: Drops,
}

impl Default for Reader {
    fn default() -> Self {
        Self { fresh: Batch::new(BATCH_FRAMES_MAX), pieces: Vec::new(), drops: Drops::default() }
    }
}

/// Frames fetched from a cache at a time.
const FETCH: usize = 32;

impl Reader {
    /// Copies the frame in `chain` to the back of `to`, which has room for it.
    #[inline]
    pub(super) fn read(
        &mut self, memory: &Memory, agreed: Agreed, chain: &Chain, cache: &mut Cache, to: &mut Batch,
    ) -> Result<Came, PoolError> {
        let header_bytes = agreed.header_bytes() as u32;
        let len = chain.readable_bytes().saturating_sub(header_bytes);
        if !(FRAME_BYTES_MIN..=FRAME_BYTES_MAX).contains(&len) {
            let count =
                if len < FRAME_BYTES_MIN { &mut self.drops.too_short } else { &mut self.drops.too_long };
            *count += 1;
            return Ok(Came::Dropped);
        }
        let mut requests = [0; 2];
        let window = chain.only_readable(memory).filter(|window| window.copy_out(0, &mut requests));
        let Some(window) = window.filter(|_| len <= piece_bytes(cache) && VnetHeader::is_plain_in(requests))
        else {
            return self.read_with_care(memory, agreed, chain, cache, to, len);
        };
        if self.fresh.is_empty() && !self.fetch(cache, FETCH.min(to.room()))? {
            return Ok(Came::NoMemory);
        }
        let Some(mut frame) = self.fresh.pop_back() else { return Ok(Came::NoMemory) };
        let region = cache.pool().region();
        region.set_len(&mut frame, len)?;
        window.copy_out(header_bytes as usize, region.bytes_mut(&mut frame)?);
        let pushed = to.push(frame);
        debug_assert!(pushed.is_ok(), "the caller has seen to room");
        Ok(Came::Received)
    }

    /// Gets memory; whether there is any.
    fn fetch(&mut self, cache: &mut Cache, count: usize) -> Result<bool, PoolError> {
        let piece_bytes = cache.pool().region().data_bytes_max();
        match cache.take(&mut self.fresh, count, piece_bytes) {
            Ok(_) => Ok(true),
            Err(PoolError::Exhausted { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// A frame in several pieces on either side, or with requests.
    #[inline(never)]
    #[allow(clippy::too_many_arguments)]
    fn read_with_care(
        &mut self, memory: &Memory, agreed: Agreed, chain: &Chain, cache: &mut Cache, to: &mut Batch,
        len: u32,
    ) -> Result<Came, PoolError> {
        let mut header = [0; VNET_HEADER_BYTES];
        chain.copy_out(memory, 0, &mut header);
        let header = VnetHeader::read(&header);
        let piece_bytes = piece_bytes(cache);
        let count = len.div_ceil(piece_bytes) as usize;
        if count > cache.pool().frames() as usize || count > BATCH_FRAMES_MAX {
            self.drops.too_long += 1;
            return Ok(Came::Dropped);
        }
        while self.fresh.len() < count {
            if !self.fetch(cache, count - self.fresh.len())? {
                return Ok(Came::NoMemory);
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
                let pushed = to.push(frame);
                debug_assert!(pushed.is_ok(), "the caller has seen to room");
                Ok(Came::Received)
            }
            None => {
                self.drops.malformed += 1;
                for piece in self.pieces.drain(..) {
                    cache.give_one(piece).map_err(|(error, _)| error)?;
                }
                Ok(Came::Dropped)
            }
        }
    }

    /// The pieces as one frame, with what its header asks for; `None`, and the pieces stay, where that cannot be.
    fn link(
        &mut self, region: &Region, agreed: Agreed, header: &VnetHeader,
    ) -> Result<Option<Frame>, PoolError> {
        let len: usize = self.pieces.iter().map(|piece| piece.len_bytes() as usize).sum();
        let Some(start) = self.pieces.first() else { return Ok(None) };
        // All headers lie in the first piece: no pool has smaller ones.
        let meta = header.meta(region.bytes(start)?, len).ok().filter(|meta| may_ask(agreed, meta));
        let Some(meta) = meta else { return Ok(None) };
        let mut pieces = self.pieces.drain(..);
        let Some(mut head) = pieces.next() else { return Ok(None) };
        for piece in pieces {
            // Cannot fail: the pieces are of one pool, filled, no chains, and short enough in sum.
            region.link(&mut head, piece).map_err(|(error, _)| error)?;
        }
        if meta != Meta::default() {
            region.set_meta(&mut head, &meta)?;
        }
        Ok(Some(head))
    }

    /// Gives back what was fetched for more frames than came.
    pub(super) fn settle(&mut self, cache: &mut Cache) -> Result<(), PoolError> {
        if self.fresh.is_empty() { Ok(()) } else { cache.give(&mut self.fresh) }
    }

    pub(super) fn drops(&self, see: &mut dyn FnMut(&'static str, u64)) {
        let Drops { too_short, too_long, malformed } = self.drops;
        for (reason, count) in [("too-short", too_short), ("too-long", too_long), ("malformed", malformed)] {
            if count > 0 {
                see(reason, count);
            }
        }
    }
}

/// Longest frame that lies in one buffer of ours.
#[inline(always)]
fn piece_bytes(cache: &Cache) -> u32 {
    cache.pool().region().data_bytes_max()
}

/// Whether the driver may leave that to us.
fn may_ask(agreed: Agreed, meta: &Meta) -> bool {
    let kind = match meta.gso_kind {
        0 => true,
        GSO_TCPV4 => agreed.has(feature::HOST_TSO4),
        GSO_TCPV6 => agreed.has(feature::HOST_TSO6),
        GSO_UDP => agreed.has(feature::HOST_USO),
        _ => false,
    };
    kind && (!meta.needs_checksum || agreed.has(feature::CSUM))
}
