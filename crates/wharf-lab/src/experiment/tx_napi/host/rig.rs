//! The settings of all runs, and their pools.

use crate::experiment::{Bench, LabError, host};
use std::time::Duration;
use wharf_core::poller::{Mode, Settings};
use wharf_core::pool::PagePool;

/// Distance of frames in bytes: a long message fits into one.
const FRAME_BYTES: u32 = 5120;

/// The settings of all runs.
pub(super) struct Rig {
    pub(super) guest_pool: PagePool,
    pub(super) far_pool: PagePool,
    pub(super) settings: Settings,
    pub(super) ring: u64,
    pub(super) pins: bool,
    pub(super) window_bytes: u64,
    pub(super) window_packets: u64,
    pub(super) burst_packets: usize,
    pub(super) rounds: u64,
    pub(super) long_bytes: u32,
    pub(super) settle: Duration,
    pub(super) measure: Duration,
}

impl Rig {
    pub(super) fn new(bench: &Bench<'_>) -> Result<Self, LabError> {
        let get = |key: &str| bench.parameters.get(key);
        let ms = |key: &str| get(key).map(Duration::from_millis);
        let frames = get("pool_frames")? as u32;
        let pool = || host::pool(PagePool::builder().frames(frames).frame_bytes(FRAME_BYTES));
        let mode = if get("spin")? > 0 { Mode::Adaptive } else { Mode::Sleeping };
        Ok(Self {
            guest_pool: pool()?,
            far_pool: pool()?,
            settings: Settings { mode, ..Settings::default() },
            ring: get("ring")?,
            pins: get("pin")? > 0,
            window_bytes: get("window_bytes")?,
            window_packets: get("window_packets")?,
            burst_packets: get("burst_packets")? as usize,
            rounds: get("rounds")?,
            long_bytes: get("long_bytes")? as u32,
            settle: ms("settle_ms")?,
            measure: bench.duration_ns.map_or_else(|| ms("measure_ms"), |ns| Ok(Duration::from_nanos(ns)))?,
        })
    }
}
