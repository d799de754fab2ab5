//! `Delayed`: a discipline with a record of how long frames waited in it.
//!
//! Assumption: frames are of the pool that it was made for. Goal: a frame that waits costs one store and one load more; every
//! `EVERY`th that leaves is entered in a histogram, by band. A frame that passes an empty discipline by, or is dropped, costs nothing.

use crate::delegate_qdisc;
use crate::latency::Latency;
use crate::pool::PagePool;
use crate::qdisc::{Limit, Qdisc, QdiscContext};
use std::sync::{Arc, Mutex};
use wharf_mem::{Batch, Frame};

/// Of the frames that leave, the part that is entered: one of so many.
const EVERY: u64 = 16;
/// Bands that are told apart; frames of later ones count as the last.
pub const BANDS: usize = 3;

/// Times in a discipline.
#[derive(Debug, Default)]
pub struct Delays(Mutex<Histograms>);

#[derive(Debug, Default)]
struct Histograms {
    /// Frames that have left, entered or not.
    left: u64,
    by_band: [Latency; BANDS],
}

/// Returns the band of a frame, from 0. In the frame, bands count from 1, and 0 means none: best effort.
#[inline]
pub fn band_of(frame: &Frame) -> usize {
    usize::from(frame.band().checked_sub(1).unwrap_or(1)).min(BANDS - 1)
}

/// Adds times to others, band by band.
pub fn add_all(to: &mut [Latency; BANDS], by_band: &[Latency; BANDS]) {
    to.iter_mut().zip(by_band).for_each(|(all, one)| all.add(one));
}

impl Delays {
    /// Adds the times to `to`, by band, and returns the number of frames that have left.
    fn add_to(&self, to: &mut [Latency; BANDS]) -> u64 {
        let of = wharf_mem::lock(&self.0);
        add_all(to, &of.by_band);
        of.left
    }
}

/// A record of how long packets wait in the disciplines of one queue, one after the other. A clone is another handle to the same record.
#[derive(Debug, Clone, Default)]
pub struct DelayMeter(Arc<Delays>);

impl DelayMeter {
    /// Returns `qdisc`, made for frames of `pool`, with its delays noted by `meter`, if there is one. Each packet
    /// that the discipline holds then costs a store and a load.
    pub fn around(meter: Option<&Self>, qdisc: Box<dyn Qdisc>, pool: &PagePool) -> Box<dyn Qdisc> {
        match meter {
            Some(meter) => Box::new(Delayed::new(qdisc, pool.frames(), meter.0.clone())),
            None => qdisc,
        }
    }

    /// Sums up what `meters` have noted, while `packets` packets left in all.
    pub fn sum(meters: &[Self], packets: u64) -> QueueDelay {
        QueueDelay::of(meters.iter().map(|meter| &*meter.0), packets)
    }
}

/// The time that packets of a direction waited in its discipline.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct QueueDelay {
    /// All packets; those that passed an empty discipline by waited for 0 ns.
    pub all: Latency,
    /// By band, those that the discipline held; without bands all are in the second, best effort's.
    pub by_band: [Latency; BANDS],
}

impl QueueDelay {
    /// Sums up what `delays` have noted, while `packets` packets left in all.
    #[doc(hidden)]
    pub fn of<'a>(delays: impl Iterator<Item = &'a Delays>, packets: u64) -> Self {
        let mut delay = Self::default();
        let left: u64 = delays.map(|one| one.add_to(&mut delay.by_band)).sum();
        delay.all.record_many(0, packets.saturating_sub(left) / EVERY);
        delay.by_band.iter().for_each(|band| delay.all.add(band));
        delay
    }
}

/// `Q`, and the times that frames waited in it.
pub struct Delayed<Q> {
    inner: Q,
    /// Time at which each frame of the pool last arrived, by its index.
    enqueued_ns: Box<[u64]>,
    left: u64,
    /// Those of them that `delays` has counted. Another discipline may have counted before this one.
    noted: u64,
    delays: Arc<Delays>,
}

impl<Q: Qdisc> Delayed<Q> {
    /// Before `inner`, for a pool of `frames` frames.
    pub fn new(inner: Q, frames: u32, delays: Arc<Delays>) -> Self {
        Self { inner, enqueued_ns: vec![0; frames as usize].into(), left: 0, noted: 0, delays }
    }

    fn note(&mut self, cx: &mut QdiscContext<'_>, left: &[Frame]) {
        let before = self.left;
        self.left += left.len() as u64;
        if before / EVERY == self.left / EVERY {
            return;
        }
        // While a reader has the lock, which is rare and short, times go unrecorded.
        let Ok(mut histograms) = self.delays.0.try_lock() else { return };
        let first = (EVERY - 1 - before % EVERY) as usize;
        for frame in left.iter().skip(first).step_by(EVERY as usize) {
            let Some(&enqueued_ns) = self.enqueued_ns.get(frame.index() as usize) else { continue };
            let band = band_of(frame);
            histograms.by_band[band].record(cx.now_ns().saturating_sub(enqueued_ns));
        }
        histograms.left += self.left - self.noted;
        self.noted = self.left;
    }
}

// A method left out here would get the default's answer in place of the inner discipline's.
#[deny(clippy::missing_trait_methods)]
impl<Q: Qdisc> Qdisc for Delayed<Q> {
    delegate_qdisc!(inner: name, reserve, storage, len, is_empty, backpressure, when_full, bound_memory, trim, purge);
    delegate_qdisc!(inner: can_bypass, uses_bands, dscp_bands, drops_expired, next_event_ns, visit, set_rate, stats);

    fn enqueue(&mut self, cx: &mut QdiscContext<'_>, from: &mut Batch) {
        for frame in from.frames() {
            if let Some(enqueued_ns) = self.enqueued_ns.get_mut(frame.index() as usize) {
                *enqueued_ns = cx.arrived_ns(frame);
            }
        }
        self.inner.enqueue(cx, from);
    }

    fn dequeue(&mut self, cx: &mut QdiscContext<'_>, to: &mut Batch, limit: Limit) {
        let before = to.len();
        self.inner.dequeue(cx, to, limit);
        if let Some(left) = to.frames().get(before..).filter(|left| !left.is_empty()) {
            self.note(cx, left);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::qdisc::contract::{self, ManualClock};
    use crate::qdisc::{Fifo, FifoLimit, Prio, RootQdisc, set_priority};

    const MS: u64 = 1_000_000;

    #[test]
    fn it_keeps_the_contract() {
        for seed in 0..50 {
            contract::check(seed, Box::new(Delayed::new(Prio::new(20), 512, Arc::default())));
        }
    }

    #[test]
    fn each_band_has_the_time_that_its_frames_waited_and_those_that_passed_by_have_none() {
        let pool = PagePool::builder().frames(256).frame_bytes(2048).build().unwrap();
        let (clock, delays) = (Arc::new(ManualClock::default()), Arc::<Delays>::default());
        let qdisc = Delayed::new(Prio::new(100), 256, delays.clone());
        let mut root = RootQdisc::new(Box::new(qdisc), pool.region(), clock.clone());
        let mut cache = pool.cache("test").unwrap();
        let mut batch = Batch::new(64);
        // 32 urgent frames and 32 others, of which the urgent ones leave after 2 ms and the others after 10 ms.
        cache.take(&mut batch, 64, 64).unwrap();
        for (frame, n) in batch.frames_mut().iter_mut().zip(0..) {
            set_priority(frame, if n < 32 { 6 } else { 0 });
        }
        root.begin();
        root.enqueue(&mut batch);
        for (ms, packets) in [(2, 32), (8, 32)] {
            clock.advance(ms * MS);
            root.begin();
            assert_eq!(root.dequeue(&mut batch, Limit::packets(packets)), packets);
        }
        // 64 more passed by.
        let mut delay = QueueDelay::of(std::iter::once(&*delays), 128);
        let [first, second, third] = &mut delay.by_band;
        assert_eq!([first.packets(), second.packets(), third.packets()], [2, 2, 0]);
        assert_eq!([first.max_ns(), second.max_ns()], [2 * MS, 10 * MS]);
        assert_eq!((delay.all.packets(), delay.all.quantile_ns(0.5)), (8, 0));
        cache.give(&mut batch).unwrap();
    }

    #[test]
    fn a_discipline_without_bands_is_counted_whole() {
        let (fifo, delays) = (Fifo::new(FifoLimit::Packets(9)), Arc::<Delays>::default());
        let delayed = Delayed::new(fifo, 16, delays);
        assert!(delayed.can_bypass() && !delayed.uses_bands() && delayed.name() == "fifo");
    }
}
