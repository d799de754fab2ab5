//! The memory of a receiver, and of a device that is examined as one.

use super::{TUNING, values};
use clap::Args;
use wharf_core::pool::{PagePool, PoolBuilder};

/// Frames, and bytes of each.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct MemoryArgs {
    /// Frames of memory
    #[arg(long, help_heading = TUNING, value_name = "N", default_value = "4096", value_parser = values::number(1..=values::FRAMES_MAX))]
    pub(crate) frames: u32,
    /// Bytes of memory per frame, a multiple of 64; 512 of them are headroom and placement: 1536 are left for
    /// a packet
    #[arg(long, help_heading = TUNING, value_name = "N", default_value = "2048", value_parser = values::memory_bytes)]
    frame_bytes: u32,
}

impl MemoryArgs {
    /// Returns a builder of a pool with that memory.
    pub(crate) fn pool(self) -> PoolBuilder {
        PagePool::builder().frames(self.frames).frame_bytes(self.frame_bytes)
    }
}
