//! Puts a packet that lies elsewhere into frames of a cache: one frame, or a chain where one is too small.

use std::sync::Arc;
use wharf_core::pool::{Cache, PoolError};
use wharf_mem::batch::BATCH_FRAMES_MAX;
use wharf_mem::frame::LENGTH_BYTES_MAX;
use wharf_mem::{Batch, Frame, Meta, Region};

/// What became of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Placed {
    /// It is at the back of the batch.
    Done,
    /// The pool has not enough frames now.
    NoMemory,
    /// Not even all frames of the pool would hold it, or it is beyond the longest super-packet.
    TooLong,
}

/// Places packets; keeps what it needs for chains from one to the next.
#[derive(Debug)]
pub(crate) struct Placer {
    pieces: Vec<Frame>,
    /// For pieces on their way from and to a cache.
    taken: Batch,
}

impl Default for Placer {
    fn default() -> Self {
        Self { pieces: Vec::new(), taken: Batch::new(BATCH_FRAMES_MAX) }
    }
}

impl Placer {
    /// Copies a packet, the `chunks` one after the other and `len_bytes` in all, into memory of `cache`, and
    /// pushes it onto `to`, which has room for it. Bytes beyond those of the chunks are 0.
    pub(crate) fn place<'a>(
        &mut self, cache: &mut Cache, to: &mut Batch, chunks: impl Iterator<Item = &'a [u8]>, len_bytes: u32,
        meta: &Meta,
    ) -> Result<Placed, PoolError> {
        let piece_bytes = cache.pool().region().data_bytes_max();
        let count = len_bytes.div_ceil(piece_bytes).max(1);
        if count > cache.pool().frames() || len_bytes > LENGTH_BYTES_MAX {
            return Ok(Placed::TooLong);
        }
        if !self.take(cache, count as usize, piece_bytes)? {
            return Ok(Placed::NoMemory);
        }
        let region = cache.pool().region().clone();
        if let Some(last) = self.pieces.last_mut() {
            region.set_len(last, len_bytes - (count - 1) * piece_bytes)?;
        }
        scatter(chunks, &region, &mut self.pieces)?;
        if let Some(mut frame) = self.link(&region)? {
            if *meta != Meta::default() {
                region.set_meta(&mut frame, meta)?;
            }
            let pushed = to.push(frame);
            debug_assert!(pushed.is_ok(), "the caller has seen to room");
        }
        Ok(Placed::Done)
    }

    /// Takes all of `count` pieces, or none and gives back the others; whether it did.
    fn take(&mut self, cache: &mut Cache, count: usize, piece_bytes: u32) -> Result<bool, PoolError> {
        while self.pieces.len() < count {
            match cache.take(&mut self.taken, count - self.pieces.len(), piece_bytes) {
                Ok(_) => self.pieces.extend(std::iter::from_fn(|| self.taken.pop())),
                Err(PoolError::Exhausted { .. }) => {
                    for frame in self.pieces.drain(..) {
                        // Cannot fail: it was this cache's a moment ago.
                        cache.give_one(frame).map_err(|(error, _)| error)?;
                    }
                    return Ok(false);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    fn link(&mut self, region: &Arc<Region>) -> Result<Option<Frame>, PoolError> {
        let mut pieces = self.pieces.drain(..);
        let Some(mut head) = pieces.next() else { return Ok(None) };
        for piece in pieces {
            // Cannot fail: the pieces are of one pool, filled, no chains, and short enough in sum.
            region.link(&mut head, piece).map_err(|(error, _)| error)?;
        }
        Ok(Some(head))
    }
}

/// Fills the pieces with the chunks' bytes, and what is left of them with 0.
fn scatter<'a>(
    mut chunks: impl Iterator<Item = &'a [u8]>, region: &Region, pieces: &mut [Frame],
) -> Result<(), PoolError> {
    let mut chunk: &[u8] = &[];
    for piece in pieces {
        let mut rest = region.bytes_mut(piece)?;
        while !rest.is_empty() {
            if chunk.is_empty() {
                match chunks.next() {
                    Some(next) => chunk = next,
                    None => {
                        rest.fill(0);
                        break;
                    }
                }
            }
            let count = chunk.len().min(rest.len());
            rest[..count].copy_from_slice(&chunk[..count]);
            (chunk, rest) = (&chunk[count..], &mut rest[count..]);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use wharf_core::pool::PagePool;

    /// A pool whose frames hold 192 B each.
    fn pool(frames: u32) -> PagePool {
        let pool = PagePool::builder().frames(frames).frame_bytes(256).headroom_bytes(64).huge_pages(false);
        pool.build().unwrap()
    }

    fn all_bytes(pool: &PagePool, frame: &Frame) -> Vec<u8> {
        pool.region().chunks(frame).unwrap().flatten().copied().collect()
    }

    #[test]
    fn packets_of_every_shape_arrive_whole() {
        let pool = pool(16);
        let mut cache = pool.cache("test").unwrap();
        let (mut placer, mut to) = (Placer::default(), Batch::new(1));
        let bytes: Vec<u8> = (0..16 * 192).map(|n| (n % 251) as u8).collect();
        for len in [0, 1, 191, 192, 193, 384, 385, 1000, 16 * 192] {
            for chunk in [1, 7, 192, 4000] {
                let chunks = bytes[..len].chunks(chunk);
                let meta = Meta { gso_bytes: 100, ..Meta::default() };
                let placed = placer.place(&mut cache, &mut to, chunks, len as u32, &meta).unwrap();
                assert_eq!(placed, Placed::Done);
                let frame = &to.frames()[0];
                assert_eq!(frame.len_bytes() as usize, len);
                assert_eq!(all_bytes(&pool, frame), bytes[..len]);
                assert_eq!(pool.region().meta(frame).unwrap(), meta);
                cache.give(&mut to).unwrap();
            }
        }
        assert_eq!(pool.audit().out(), 0);
    }

    #[test]
    fn what_is_missing_is_zero_whatever_the_frame_held() {
        let pool = pool(4);
        let mut cache = pool.cache("test").unwrap();
        let (mut placer, mut to) = (Placer::default(), Batch::new(1));
        for (chunk, len) in [(vec![9; 700], 700), (vec![1, 2, 3], 500)] {
            placer.place(&mut cache, &mut to, [&chunk[..]].into_iter(), len, &Meta::default()).unwrap();
            let mut expected = chunk.clone();
            expected.resize(len as usize, 0);
            assert_eq!(all_bytes(&pool, &to.frames()[0]), expected);
            cache.give(&mut to).unwrap();
        }
    }

    #[test]
    fn a_pool_too_small_or_empty_says_so_and_keeps_its_frames() {
        let pool = pool(4);
        let mut cache = pool.cache("test").unwrap();
        let (mut placer, mut to, mut held) = (Placer::default(), Batch::new(1), Batch::new(2));
        let bytes = [0u8; 5 * 192];
        let mut place = |cache: &mut Cache, len: u32| {
            placer.place(cache, &mut to, [&bytes[..]].into_iter(), len, &Meta::default()).unwrap()
        };
        assert_eq!(place(&mut cache, 4 * 192 + 1), Placed::TooLong);
        assert_eq!(place(&mut cache, LENGTH_BYTES_MAX + 1), Placed::TooLong);
        cache.take(&mut held, 2, 1).unwrap();
        assert_eq!(place(&mut cache, 3 * 192), Placed::NoMemory);
        assert_eq!(pool.audit().out(), 2);
        cache.give(&mut held).unwrap();
        assert_eq!(place(&mut cache, 4 * 192), Placed::Done);
        assert_eq!(place(&mut cache, 1), Placed::NoMemory);
        cache.give(&mut to).unwrap();
        assert_eq!(pool.audit().out(), 0);
    }
}
