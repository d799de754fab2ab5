//! What a region should be like, and what can be wrong with a use of memory.
#![forbid(unsafe_code)]

use crate::frame::FRAMES_MAX;

/// What a region should be like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RegionSpec {
    /// Buffers, 1 to 2^24.
    pub frames: u32,
    /// Bytes of one buffer with everything in it: a multiple of 64, from 128 to 64 KiB.
    pub frame_bytes: u32,
    /// Bytes kept free before the data, a multiple of 64, for headers that are put in front later.
    pub headroom_bytes: u32,
    /// Whether to take 2 MiB pages when enough are free.
    pub huge_pages: bool,
}

/// What can be wrong with a use of memory.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MemError {
    /// The numbers asked for make no region.
    #[error("a pool of {frames} frames of {frame_bytes} B with {headroom_bytes} B headroom cannot be: {why}")]
    Spec {
        /// Frames asked for.
        frames: u32,
        /// Bytes of each.
        frame_bytes: u32,
        /// Headroom asked for.
        headroom_bytes: u32,
        /// The bound that it breaks.
        why: &'static str,
    },
    /// The kernel gave no memory.
    #[error("cannot map {bytes} B for a pool: {source}")]
    Map {
        /// Bytes asked for.
        bytes: usize,
        /// The kernel's answer.
        source: std::io::Error,
    },
    /// 63 pools live already, or were dropped with frames still out.
    #[error("no pool number is free: at most 63 pools per process")]
    PoolNumbers,
    /// A frame was used with a pool that it does not belong to.
    #[error("frame {index} belongs to pool {theirs}, not to pool {ours}")]
    Foreign {
        /// The frame's index in its own pool.
        index: u32,
        /// The frame's pool.
        theirs: u8,
        /// The pool asked.
        ours: u8,
    },
    /// A length that does not fit.
    #[error("{len_bytes} B do not fit: at most {max_bytes} B here")]
    TooLong {
        /// Bytes asked for.
        len_bytes: u32,
        /// Bytes that would fit.
        max_bytes: u32,
    },
    /// A chain was given where one buffer is wanted.
    #[error("frame {index} is a chain: only its chunks can be changed, before it is linked")]
    Chain {
        /// The frame's index.
        index: u32,
    },
}

impl RegionSpec {
    /// Whether a region can be like this.
    pub(crate) fn check(&self) -> Result<(), MemError> {
        let why = if self.frames == 0 || self.frames > FRAMES_MAX {
            "1 to 16777216 frames"
        } else if !(128..=65536).contains(&self.frame_bytes) || !self.frame_bytes.is_multiple_of(64) {
            "frames are 128 to 65536 B, a multiple of 64"
        } else if !self.headroom_bytes.is_multiple_of(64) || self.headroom_bytes > self.frame_bytes / 2 {
            "headroom is a multiple of 64 and at most half of a frame"
        } else {
            return Ok(());
        };
        let RegionSpec { frames, frame_bytes, headroom_bytes, .. } = *self;
        Err(MemError::Spec { frames, frame_bytes, headroom_bytes, why })
    }
}
