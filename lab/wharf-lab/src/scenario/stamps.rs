//! Packets on this machine that arrive at the far end of a wire, and their delays: a sender writes the time into each, and the
//! far end reads it there.

use super::Scenario;
use crate::comparators::histogram::Histogram;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use wharf_core::host::Clock;
use wharf_core::pool::{Burst, PagePool};
use wharf_devices::host::ExactClock;
use wharf_mem::Batch;

/// The stamp lies behind the Ethernet header, which makes a packet's flow: the time, and the sender's number.
const STAMP: std::ops::Range<usize> = ETHERNET_BYTES..ETHERNET_BYTES + TIME_BYTES + 2;
const ETHERNET_BYTES: usize = 14;
const TIME_BYTES: usize = 8;

/// Delays of packets that arrived within the measured time, by sender.
#[derive(Debug)]
pub(super) struct Stamps {
    pub(super) measuring: AtomicBool,
    pub(super) delays: Vec<Histogram>,
}

impl Stamps {
    pub(super) fn new(scenario: &Scenario) -> Self {
        let delays = (0..scenario.sender_count()).map(|_| Histogram::default()).collect();
        Self { measuring: AtomicBool::new(false), delays }
    }

    /// Counts the delays of packets that have arrived.
    pub(super) fn see(&self, pool: &PagePool, frames: &Batch) {
        if !self.measuring.load(Relaxed) {
            return;
        }
        let now_ns = ExactClock.now_ns();
        for frame in frames.frames() {
            let stamp = pool.region().bytes(frame).ok().and_then(|bytes| bytes.get(STAMP));
            let Some(&[t0, t1, t2, t3, t4, t5, t6, t7, low, high]) = stamp else { continue };
            let made_ns = u64::from_le_bytes([t0, t1, t2, t3, t4, t5, t6, t7]);
            if let Some(delays) = self.delays.get(usize::from(u16::from_le_bytes([low, high]))) {
                delays.record(now_ns.saturating_sub(made_ns));
            }
        }
    }
}

/// Writes the time, and the sender's number, into each packet.
pub(super) fn stamp(burst: &mut Burst, number: usize) {
    let (now, number) = (ExactClock.now_ns().to_le_bytes(), (number as u16).to_le_bytes());
    for bytes in burst.iter_mut() {
        if let Some(stamp) = bytes.get_mut(STAMP) {
            stamp[..TIME_BYTES].copy_from_slice(&now);
            stamp[TIME_BYTES..].copy_from_slice(&number);
        }
    }
}
