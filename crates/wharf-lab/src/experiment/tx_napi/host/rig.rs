//! The settings of all runs, and their pools.

use crate::experiment::{Bench, LabError, host};
use serde::Deserialize;
use std::time::Duration;
use wharf_core::poller::{self, Mode};
use wharf_core::pool::PagePool;

/// Distance of frames in bytes: a long message fits into one.
const FRAME_BYTES: u32 = 5120;

/// The settings of all runs.
pub(super) struct Rig {
    pub(super) guest_pool: PagePool,
    pub(super) far_pool: PagePool,
    pub(super) poller: poller::Settings,
    pub(super) settings: Settings,
    pub(super) measure: Duration,
}

/// The parameters of all runs.
#[derive(Deserialize)]
pub(super) struct Settings {
    pool_frames: u32,
    spin: bool,
    pub(super) ring: u64,
    pub(super) pin: bool,
    pub(super) window_bytes: u64,
    pub(super) window_packets: u64,
    pub(super) burst_packets: usize,
    pub(super) rounds: u64,
    pub(super) long_bytes: u32,
    pub(super) settle_ms: u64,
}

impl Rig {
    pub(super) fn new(bench: &Bench<'_>) -> Result<Self, LabError> {
        let settings: Settings = bench.parameters.read_into()?;
        let frames = settings.pool_frames;
        let pool = || host::pool(PagePool::builder().frames(frames).frame_bytes(FRAME_BYTES));
        let mode = if settings.spin { Mode::Adaptive } else { Mode::Sleeping };
        Ok(Self {
            guest_pool: pool()?,
            far_pool: pool()?,
            poller: poller::Settings { mode, ..poller::Settings::default() },
            settings,
            measure: host::measure_time(bench)?,
        })
    }
}
