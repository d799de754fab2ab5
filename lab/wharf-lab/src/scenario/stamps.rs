//! Packets on this machine that have left, and their delays. A sender notes the time of making for each
//! frame, and the line reads
//! it: packets stay as they are.

use super::Scenario;
use crate::comparators::histogram::Histogram;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use wharf_core::host::Clock;
use wharf_core::pool::Burst;
use wharf_devices::host::ExactClock;
use wharf_mem::Frame;

/// Delays of packets that left within the measured time, by sender.
#[derive(Debug)]
pub(super) struct Stamps {
    pub(super) measuring: AtomicBool,
    pub(super) delays: Vec<Histogram>,
    /// The time at which the packet of each frame was made. The frame's way to the device orders the
    /// accesses.
    made_ns: Vec<AtomicU64>,
}

impl Stamps {
    pub(super) fn new(scenario: &Scenario, frames: u32) -> Self {
        let delays = (0..scenario.sender_count()).map(|_| Histogram::default()).collect();
        let made_ns = (0..frames).map(|_| AtomicU64::new(0)).collect();
        Self { measuring: AtomicBool::new(false), delays, made_ns }
    }

    /// Notes that the packets of `burst` are made now.
    pub(super) fn make(&self, burst: &Burst) {
        let now_ns = ExactClock.now_ns();
        for frame in burst.frames() {
            if let Some(made_ns) = self.made_ns.get(frame.index() as usize) {
                made_ns.store(now_ns, Relaxed);
            }
        }
    }

    /// Counts the delay of a packet that left at `leaves_ns`. For the queue's owner.
    pub(super) fn see(&self, frame: &Frame, leaves_ns: u64) {
        if !self.measuring.load(Relaxed) {
            return;
        }
        let made_ns = self.made_ns.get(frame.index() as usize).map_or(0, |made_ns| made_ns.load(Relaxed));
        if let Some(delays) = self.delays.get(usize::from(frame.sender())) {
            delays.record(leaves_ns.saturating_sub(made_ns));
        }
    }
}
