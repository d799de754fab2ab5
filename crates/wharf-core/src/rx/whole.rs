//! `Joiner`: packets in one piece, for a handler that takes no chains.

use crate::pool::Cache;
use wharf_mem::{Batch, Frame, Meta, Region};

/// Reason of arrivals that are longer than a frame, and dropped.
pub const TOO_LONG: &str = "too-long";

/// Memory to join chains in.
#[derive(Debug)]
pub(super) struct Joiner {
    bytes: Vec<u8>,
    fresh: Batch,
}

impl Default for Joiner {
    fn default() -> Self {
        Self { bytes: Vec::new(), fresh: Batch::new(1) }
    }
}

impl Joiner {
    /// Puts each chain of `batch` into one frame of `cache`. Those that fit none are freed: returns their
    /// number.
    #[cold]
    pub(super) fn make_whole(&mut self, cache: &mut Cache, batch: &mut Batch) -> u64 {
        let region = cache.pool().region().clone();
        if !batch.frames().iter().any(|frame| region.is_chain(frame)) {
            return 0;
        }
        let count = batch.len();
        for _ in 0..count {
            let Some(frame) = batch.pop() else { break };
            let whole = if region.is_chain(&frame) { self.join(cache, &region, frame) } else { Some(frame) };
            whole.into_iter().for_each(|frame| batch.push_within(frame));
        }
        (count - batch.len()) as u64
    }

    /// Copies a chain into one frame, if it fits one.
    fn join(&mut self, cache: &mut Cache, region: &Region, chain: Frame) -> Option<Frame> {
        let (len_bytes, meta) = (chain.len_bytes(), region.meta(&chain).unwrap_or_default());
        self.bytes.clear();
        if len_bytes <= region.data_bytes_max() {
            self.bytes.extend(region.chunks(&chain).into_iter().flatten().flatten());
        }
        // Its memory goes back before one frame is taken: there is one.
        let given = cache.give_one(chain);
        debug_assert!(given.is_ok(), "it is of this pool");
        if self.bytes.is_empty() || cache.take(&mut self.fresh, 1, len_bytes).is_err() {
            return None;
        }
        let mut frame = self.fresh.pop()?;
        region.bytes_mut(&mut frame).ok()?.copy_from_slice(&self.bytes);
        if meta != Meta::default() {
            region.set_meta(&mut frame, &meta).ok()?;
        }
        Some(frame)
    }
}
