//! `prio`: bands, the first before the second before the third; first in, first out within each.
//!
//! The kernel's `pfifo_fast`: three bands, filled by priority or DSCP (`classify`). A full band holds back
//! the senders of that band only.

use super::buffers::{self, Buffers};
use super::registry::{Order, QUEUE_PACKETS, QUEUE_PACKETS_MAX, QdiscKind, QdiscSpec};
use super::store::Store;
use super::{Backpressure, DROP_HEAD, Limit, OVERLIMIT, Qdisc, QdiscContext, WhenFull};
use crate::dscp::{self, DscpBands};
use crate::options::{Key, Values};
use wharf_mem::{Batch, Frame, Region};

const BANDS: usize = 3;

/// `prio` of a registry.
pub(super) const KIND: QdiscKind = QdiscKind {
    name: "prio",
    usage: "prio[:key=value,...]",
    summary: "three bands, by DSCP: EF, VA and CS5 to CS7 first",
    takes_limit: false,
    order: Order::Band,
    keys: &[
        Key::number(
            "limit",
            1..=QUEUE_PACKETS_MAX as u64,
            "1 to 1048576 packets",
            "1000",
            "packets in each band",
        ),
        Key {
            name: "map",
            values: Values::DscpBands(BANDS as u8),
            default: "the kernel's bands, but ef, va and cs5 to cs7 in band 0",
            meaning: "bands of single DSCPs, such as 46=0/cs1=2; band 0 leaves first",
            when: "",
        },
    ],
    packets: |spec| Prio::BANDS * limit(spec),
    build: |spec, setup| {
        let map = spec.options().dscp_bands("map");
        Box::new(Prio::new(limit(spec)).dscp_bands(map.unwrap_or_default().into()).when_full(setup.when_full))
    },
};

fn limit(spec: &QdiscSpec) -> usize {
    spec.options().number("limit").map_or(QUEUE_PACKETS, |packets| packets as usize)
}

/// Priority bands.
#[derive(Debug)]
pub struct Prio {
    bands: [Store; BANDS],
    /// Frames that each band takes before it is full.
    limit_packets: usize,
    when_full: WhenFull,
    dscp_bands: DscpBands,
}

impl Prio {
    /// The number of bands.
    pub const BANDS: usize = BANDS;

    /// Empty bands for `limit_packets` each, from 1 to [`QUEUE_PACKETS_MAX`], whose senders wait. Other
    /// values are moved to the nearest bound. The kernel's default is a device's transmit queue length, 1000.
    pub fn new(limit_packets: usize) -> Self {
        let limit_packets = limit_packets.clamp(1, QUEUE_PACKETS_MAX);
        let bands = std::array::from_fn(|_| Store::with_capacity(limit_packets));
        Self { bands, limit_packets, when_full: WhenFull::Wait, dscp_bands: DscpBands::default() }
    }

    /// Sets the band of each DSCP.
    #[must_use]
    pub fn dscp_bands(mut self, bands: [u8; 64]) -> Self {
        self.dscp_bands = bands.into();
        self
    }

    /// Sets what the limit of a band does.
    #[must_use]
    pub fn when_full(mut self, when_full: WhenFull) -> Self {
        self.when_full = when_full;
        self
    }

    fn band(frame: &Frame) -> usize {
        usize::from(dscp::band_of(frame)).min(BANDS - 1)
    }

    /// Returns the eighths of the memory that it may take which all bands take.
    fn memory_eighths(&self) -> usize {
        match self.len() {
            0 => 0,
            len => Buffers::eighths_of(self.bands.iter().map(|band| &band.buffers), len),
        }
    }

    /// Band 0 may take all of that memory, and each later one a quarter less: bulk holds up nothing urgent.
    fn backpressure_of(&self, band: usize, eighths: usize) -> Backpressure {
        let (len, limit, most) = (self.bands[band].frames.len(), self.limit_packets, buffers::ALL - 2 * band);
        match self.when_full {
            WhenFull::Wait if eighths > most => Backpressure::of_all(0, false),
            WhenFull::Wait => {
                Backpressure::of_all(limit.saturating_sub(len), len <= limit / 2 && eighths <= most / 2)
            }
            WhenFull::DropHead => Backpressure::of_dropping(len > limit || eighths > buffers::ALL),
        }
    }
}

impl Qdisc for Prio {
    fn name(&self) -> &'static str {
        "prio"
    }

    fn reserve(&mut self, frames: usize) {
        self.bands.iter_mut().for_each(|band| band.reserve(frames));
    }

    fn storage(&self) -> usize {
        self.bands.iter().map(|band| band.capacity - band.frames.len()).min().unwrap_or(0)
    }

    fn enqueue(&mut self, _cx: &mut QdiscContext<'_>, from: &mut Batch) {
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

    fn dequeue(&mut self, _cx: &mut QdiscContext<'_>, to: &mut Batch, limit: Limit) {
        let (mut moved, mut moved_bytes) = (0, 0);
        for band in &mut self.bands {
            if moved == limit.packets || (moved > 0 && moved_bytes >= limit.bytes) {
                return;
            }
            let left = Limit { packets: limit.packets - moved, bytes: limit.bytes - moved_bytes };
            let (count, count_bytes) = band.drain(to, left);
            (moved, moved_bytes) = (moved + count, moved_bytes + count_bytes);
        }
    }

    fn len(&self) -> usize {
        self.bands.iter().map(|band| band.frames.len()).sum()
    }

    fn backpressure(&self) -> Backpressure {
        let eighths = self.memory_eighths();
        let first = self.backpressure_of(0, eighths);
        (1..BANDS).fold(first, |all, band| all.from_band(band as u8, self.backpressure_of(band, eighths)))
    }

    fn when_full(&self) -> WhenFull {
        self.when_full
    }

    fn bound_memory(&mut self, region: &Region) {
        self.bands.iter_mut().for_each(|band| band.buffers.bound(region));
    }

    fn trim(&mut self, cx: &mut QdiscContext<'_>) {
        if self.when_full != WhenFull::DropHead {
            return;
        }
        for band in &mut self.bands {
            while band.frames.len() > self.limit_packets {
                let Some(oldest) = band.pop() else { break };
                cx.drop(oldest, DROP_HEAD);
            }
        }
        while self.memory_eighths() > buffers::ALL {
            let last = self.bands.iter_mut().rev().find(|band| band.buffers.count_some(band.frames.len()));
            let Some(oldest) = last.and_then(Store::pop) else { break };
            cx.drop(oldest, OVERLIMIT);
        }
    }

    fn purge(&mut self, to: &mut Batch) {
        for band in &mut self.bands {
            band.drain(to, Limit::NONE);
        }
    }

    fn uses_bands(&self) -> bool {
        true
    }

    fn dscp_bands(&self) -> [u8; 64] {
        self.dscp_bands.into()
    }

    fn visit(&self, see: &mut dyn FnMut(&Frame)) {
        self.bands.iter().flat_map(|band| &band.frames).for_each(see);
    }
}
