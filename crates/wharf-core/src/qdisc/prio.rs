//! `prio`: bands, the first before the second before the third; first in, first out within each.
//!
//! As the kernel's pfifo_fast: three bands, filled by priority or DSCP (`classify`). A band that is full
//! holds back its own senders only.

use super::{Qdisc, Store, Trim, classify};
use wharf_mem::{Batch, Frame};

const BANDS: usize = 3;

/// Priority bands.
#[derive(Debug)]
pub struct Prio {
    bands: [Store; BANDS],
    /// Frames that each band takes before it is full.
    limit_packets: usize,
}

impl Prio {
    /// Bands that there are.
    pub const BANDS: usize = BANDS;

    /// Empty bands for `limit_packets` each. The kernel's default is a device's transmit queue length, 1000.
    pub fn new(limit_packets: usize) -> Self {
        let limit_packets = limit_packets.max(1);
        Self { bands: std::array::from_fn(|_| Store::with_capacity(limit_packets)), limit_packets }
    }

    fn band(frame: &Frame) -> usize {
        usize::from(classify::band_of(frame)).min(BANDS - 1)
    }
}

impl Qdisc for Prio {
    fn name(&self) -> &'static str {
        "prio"
    }

    fn enqueue(&mut self, from: &mut Batch) {
        while let Some(first) = from.frames().first() {
            let band = &mut self.bands[Self::band(first)];
            if band.frames.len() == band.capacity {
                return;
            }
            if let Some(frame) = from.pop() {
                let pushed = band.push(frame);
                debug_assert!(pushed.is_ok());
            }
        }
    }

    fn storage(&self) -> usize {
        self.bands.iter().map(|band| band.capacity - band.frames.len()).min().unwrap_or(0)
    }

    fn dequeue(&mut self, to: &mut Batch, packets: usize, bytes: u64) -> usize {
        let (mut moved, mut moved_bytes) = (0, 0);
        for band in &mut self.bands {
            if moved == packets || (moved > 0 && moved_bytes >= bytes) {
                break;
            }
            let (count, count_bytes) = band.drain(to, packets - moved, bytes - moved_bytes);
            (moved, moved_bytes) = (moved + count, moved_bytes + count_bytes);
        }
        moved
    }

    fn len(&self) -> usize {
        self.bands.iter().map(|band| band.frames.len()).sum()
    }

    fn room(&self, band: u8) -> usize {
        let band = &self.bands[usize::from(band).min(BANDS - 1)];
        self.limit_packets.saturating_sub(band.frames.len())
    }

    fn has_drained(&self, band: u8) -> bool {
        self.bands[usize::from(band).min(BANDS - 1)].frames.len() <= self.limit_packets / 2
    }

    fn full_bands(&self) -> u32 {
        (0..BANDS as u8).filter(|&band| self.room(band) == 0).fold(0, |bits, band| bits | 1 << band)
    }

    fn can_bypass(&self) -> bool {
        false
    }

    fn uses_bands(&self) -> bool {
        true
    }

    fn reserve(&mut self, frames: usize) {
        self.bands.iter_mut().for_each(|band| band.reserve(frames));
    }

    fn next_event_ns(&self) -> Option<u64> {
        None
    }

    fn visit(&self, see: &mut dyn FnMut(&Frame)) {
        self.bands.iter().flat_map(|band| &band.frames).for_each(see);
    }
}

impl Trim for Prio {
    fn trim(&mut self, to: &mut Batch) -> usize {
        let limit_packets = self.limit_packets;
        let excess = |band: &Store| band.frames.len().saturating_sub(limit_packets);
        self.bands.iter_mut().map(|band| band.drain(to, excess(band), u64::MAX).0).sum()
    }
}
