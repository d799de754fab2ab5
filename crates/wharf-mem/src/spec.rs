//! The specification of a region, and the errors of its use.
#![forbid(unsafe_code)]

use crate::frame::{FRAMES_MAX, LENGTH_BYTES_MAX};

/// Bytes that a buffer has beside its data by default: 64 of headroom, and 448 of colour.
const BESIDE_BYTES: u32 = 512;
/// The most bytes of one buffer: the longest frame fits, [`LENGTH_BYTES_MAX`].
pub const FRAME_BYTES_MAX: u32 = (LENGTH_BYTES_MAX + BESIDE_BYTES).next_multiple_of(64);

/// The specification of a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RegionSpec {
    /// Number of buffers, 1 to 2^24.
    pub frames: u32,
    /// Bytes of one buffer, headroom and colour included: a multiple of 64, from 128 to
    /// [`FRAME_BYTES_MAX`] (262,656).
    pub frame_bytes: u32,
    /// Bytes kept free before the data, for headers that are put in front later: a multiple of 64, at most
    /// half of a buffer.
    pub headroom_bytes: u32,
    /// True to take 2 MiB pages, if enough are free.
    pub huge_pages: bool,
}

/// An error in the use of a region.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MemError {
    /// A number is out of bounds.
    #[error(
        "a pool of {frames} frames of {frame_bytes} B with {headroom_bytes} B headroom is out of bounds: {why}"
    )]
    Spec {
        /// Buffers asked for.
        frames: u32,
        /// Bytes of one buffer asked for.
        frame_bytes: u32,
        /// Bytes of headroom asked for.
        headroom_bytes: u32,
        /// The bound.
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
    /// 63 pools live, or were dropped with frames still out.
    #[error("no pool number is free: at most 63 pools per process")]
    PoolNumbers,
    /// A frame was used with another pool's region.
    #[error("frame {index} belongs to pool {theirs}, not to pool {ours}")]
    Foreign {
        /// The frame's index in its own pool.
        index: u32,
        /// The frame's pool.
        theirs: u8,
        /// The region's pool.
        ours: u8,
    },
    /// A length does not fit.
    #[error("{len_bytes} B do not fit: at most {max_bytes} B")]
    TooLong {
        /// Bytes asked for.
        len_bytes: u32,
        /// The upper bound, bytes.
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
    /// Checks the bounds.
    pub(crate) fn check(&self) -> Result<(), MemError> {
        let why = if self.frames == 0 || self.frames > FRAMES_MAX {
            "1 to 16777216 frames"
        } else if !(128..=FRAME_BYTES_MAX).contains(&self.frame_bytes) || !self.frame_bytes.is_multiple_of(64)
        {
            "frames are 128 to 262656 B, a multiple of 64"
        } else if !self.headroom_bytes.is_multiple_of(64) || self.headroom_bytes > self.frame_bytes / 2 {
            "headroom is a multiple of 64 and at most half of a frame"
        } else {
            return Ok(());
        };
        let RegionSpec { frames, frame_bytes, headroom_bytes, .. } = *self;
        Err(MemError::Spec { frames, frame_bytes, headroom_bytes, why })
    }
}
