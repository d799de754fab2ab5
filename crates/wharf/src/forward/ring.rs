//! `Timed`: a device with a record of how long frames are inside: from the call that took them until it reports them as sent.
//!
//! One frame of each band is followed; the next one is chosen when it has come back. Each completion costs a comparison for each of them,
//! and each frame that is followed two readings of the clock. A device that stamps what it sends ([`Meta::ASKS_TIME`]) is asked to stamp
//! the frames that are followed: their time ends there. A device whose completions are not real is not wrapped.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use wharf_core::delay::{BANDS, add_all, band_of};
use wharf_core::delegate;
use wharf_core::device::{
    AnyDevice, Completions, Device, DeviceError, Notify, RxDevice, Transmitted, TxDevice,
};
use wharf_core::host::Clock;
use wharf_core::latency::Latency;
use wharf_core::wrap_device;
use wharf_devices::host::HostClock;
use wharf_mem::{Batch, Frame, Meta, Region};

/// Frames of a batch among which one is chosen.
const CHOICE: usize = 8;

/// Times in a device, by band.
#[derive(Debug, Default)]
pub(super) struct RingDelays {
    by_band: Mutex<[Latency; BANDS]>,
    /// Frames whose time ends with the device's stamp.
    stamped: AtomicU64,
}

impl RingDelays {
    /// Returns `device`, with its delays noted here if its completions are real.
    pub(super) fn around(self: &Arc<Self>, device: AnyDevice) -> AnyDevice {
        if !device.as_tx().is_some_and(|device| device.info().has_real_completions()) {
            return device;
        }
        wrap_device!(device, |inner| Timed::new(inner, Arc::new(HostClock), self.clone()))
    }

    /// Sums up what the devices of all queues have noted, by band.
    pub(super) fn sum<'a>(all: impl Iterator<Item = &'a Self>) -> [Latency; BANDS] {
        let mut sum: [Latency; BANDS] = Default::default();
        for one in all {
            let by_band = wharf_mem::lock(&one.by_band);
            add_all(&mut sum, &by_band);
        }
        sum
    }

    /// Returns the number of times that ended with the device's stamp.
    pub(super) fn stamped(&self) -> u64 {
        self.stamped.load(Relaxed)
    }

    /// Notes the time of a frame that came back at `now_ns`, or whose stamp says when it had left.
    fn note(&self, band: usize, since_ns: u64, stamp_ns: Option<u64>, now_ns: u64) {
        // While a reader has the lock, which is rare and short, times go unrecorded.
        if let Ok(mut by_band) = self.by_band.try_lock() {
            by_band[band].record(stamp_ns.unwrap_or(now_ns).saturating_sub(since_ns));
            self.stamped.fetch_add(stamp_ns.is_some().into(), Relaxed);
        }
    }
}

/// `D`, and the times that frames were inside.
struct Timed<D> {
    inner: D,
    /// By band, the frame that is followed.
    followed: [Option<Followed>; BANDS],
    clock: Arc<dyn Clock>,
    delays: Arc<RingDelays>,
    /// The memory of the frames, once the device is attached to it.
    region: Option<Arc<Region>>,
}

#[derive(Debug, Clone, Copy)]
struct Followed {
    index: u32,
    since_ns: u64,
    /// True if the device is asked to stamp it.
    asks_time: bool,
}

impl<D> Timed<D> {
    fn new(inner: D, clock: Arc<dyn Clock>, delays: Arc<RingDelays>) -> Self {
        Self { inner, followed: [None; BANDS], clock, delays, region: None }
    }

    /// Chooses frames among the first of `batch`, for the bands of which none is followed. Returns their places in it.
    #[inline]
    fn choose(&self, batch: &Batch) -> [Option<(usize, u32)>; BANDS] {
        let mut chosen = [None; BANDS];
        if self.followed.iter().all(Option::is_some) {
            return chosen;
        }
        for (place, frame) in batch.frames().iter().enumerate().take(CHOICE) {
            let band = band_of(frame);
            if self.followed[band].is_none() && chosen[band].is_none() {
                chosen[band] = Some((place, frame.index()));
            }
        }
        chosen
    }

    /// Asks for the stamps of the frames at these places.
    #[cold]
    fn ask(region: &Region, batch: &mut Batch, chosen: &[Option<(usize, u32)>]) {
        for (place, _) in chosen.iter().flatten() {
            if let Some(frame) = batch.frames_mut().get_mut(*place)
                && let Ok(meta) = region.meta(frame)
            {
                // The frame is of that region.
                let _ = region.set_meta(frame, &Meta { time_ns: Meta::ASKS_TIME, ..meta });
            }
        }
        batch.refresh();
    }

    /// Looks for the frames that are followed among those that have come back.
    #[inline]
    fn look(&mut self, sent: &[Frame], failed: &[(Frame, &'static str)]) {
        if sent.is_empty() && failed.is_empty() {
            return;
        }
        for band in 0..BANDS {
            let Some(followed) = self.followed[band] else { continue };
            let is_it = |frame: &Frame| frame.index() == followed.index;
            if let Some(frame) = sent.iter().find(|frame| is_it(frame)) {
                let meta = self.region.as_ref().and_then(|region| region.meta(frame).ok());
                let stamp_ns = meta.filter(|_| followed.asks_time).and_then(|meta| meta.stamp_ns());
                self.delays.note(band, followed.since_ns, stamp_ns, self.clock.exact_ns());
                self.followed[band] = None;
            } else if failed.iter().any(|(frame, _)| is_it(frame)) {
                self.followed[band] = None;
            }
        }
    }
}

#[deny(clippy::missing_trait_methods)]
impl<D: Device> Notify for Timed<D> {
    delegate!(inner: arm, disarm, wait_fd, signals);
}

#[deny(clippy::missing_trait_methods)]
impl<D: Device> Device for Timed<D> {
    delegate!(inner: name, mode, mode_reason, facts, set_line, link, visit, close);

    fn attach(&mut self, region: Arc<Region>) -> Result<(), DeviceError> {
        self.region = Some(region.clone());
        self.inner.attach(region)
    }
}

#[deny(clippy::missing_trait_methods)]
impl<D: TxDevice> TxDevice for Timed<D> {
    delegate!(inner: info, flush, outstanding, next_completion_ns, set_patience);

    #[inline]
    fn transmit(&mut self, batch: &mut Batch, more: bool) -> Transmitted {
        let chosen = self.choose(batch);
        if chosen.iter().all(Option::is_none) {
            return self.inner.transmit(batch, more);
        }
        let region = self.region.as_ref().filter(|_| self.inner.info().timestamps);
        if let Some(region) = region {
            Self::ask(region, batch, &chosen);
        }
        let asks_time = region.is_some();
        let (since_ns, before) = (self.clock.exact_ns(), batch.len());
        let transmitted = self.inner.transmit(batch, more);
        let taken = before - batch.len();
        for (followed, chosen) in self.followed.iter_mut().zip(chosen) {
            if let Some((_, index)) = chosen.filter(|(place, _)| *place < taken) {
                *followed = Some(Followed { index, since_ns, asks_time });
            }
        }
        transmitted
    }

    #[inline]
    fn reap(&mut self, budget: usize, urgent: bool, into: &mut Completions) -> Result<(), DeviceError> {
        let (sent, failed) = (into.sent.len(), into.failed.len());
        let reaped = self.inner.reap(budget, urgent, into);
        self.look(
            into.sent.frames().get(sent..).unwrap_or_default(),
            into.failed.get(failed..).unwrap_or_default(),
        );
        reaped
    }
}

#[deny(clippy::missing_trait_methods)]
impl<D: RxDevice> RxDevice for Timed<D> {
    delegate!(inner: receive, ended, reclaim, drops, queue_packets, next_arrival_ns, holds_back, thin);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::SeqCst;
    use wharf_core::device::TxInfo;
    use wharf_core::pool::PagePool;
    use wharf_core::qdisc::contract::ManualClock;
    use wharf_testkit::gate::Gate;

    const MS: u64 = 1_000_000;

    #[test]
    fn each_band_has_the_time_that_its_frames_were_inside() {
        let pool = PagePool::builder().frames(64).frame_bytes(2048).build().unwrap();
        let (gate, control) = Gate::new(8);
        let (clock, delays) = (Arc::new(ManualClock::default()), Arc::<RingDelays>::default());
        let mut device = Timed::new(gate, clock.clone(), delays.clone());
        device.attach(pool.region().clone()).unwrap();
        let mut cache = pool.cache("test").unwrap();
        let (mut batch, mut gone) = (Batch::new(16), Completions::new(16));
        cache.take(&mut batch, 12, 64).unwrap();
        for (frame, n) in batch.frames_mut().iter_mut().zip(0..) {
            frame.set_band(if n == 3 { 1 } else { 2 });
        }
        // Eight are taken. Those of band 1 are followed from frame 0 on, that of band 0 is frame 3.
        device.transmit(&mut batch, false);
        for allowed in [1, 7] {
            clock.advance(2 * MS);
            control.allowed.store(allowed, SeqCst);
            device.reap(16, false, &mut gone).unwrap();
        }
        // One of the four that were left is followed from now on, and fails: it counts for nothing.
        control.failures.store(4, SeqCst);
        control.allowed.store(4, SeqCst);
        device.transmit(&mut batch, false);
        device.reap(16, false, &mut gone).unwrap();
        let [first, second, third] = RingDelays::sum([&*delays].into_iter());
        assert_eq!([first.packets(), second.packets(), third.packets()], [1, 1, 0]);
        assert_eq!([first.max_ns(), second.max_ns()], [4 * MS, 2 * MS]);
        assert_eq!((gone.sent.len(), gone.failed.len()), (8, 4));
        gone.failed.drain(..).for_each(|(frame, _)| drop(gone.sent.push(frame)));
        cache.give(&mut gone.sent).unwrap();
    }

    /// Sends at once. Frames that ask for it have left at 3 ms.
    #[derive(Debug, Default)]
    struct Stamping {
        region: Option<Arc<Region>>,
        inside: Vec<Frame>,
    }

    impl Notify for Stamping {}

    impl Device for Stamping {
        fn name(&self) -> String {
            "stamping".into()
        }

        fn attach(&mut self, region: Arc<Region>) -> Result<(), DeviceError> {
            self.region = Some(region);
            Ok(())
        }

        fn visit(&self, see: &mut dyn FnMut(&Frame)) {
            self.inside.iter().for_each(see);
        }

        fn close(&mut self) -> Result<(), DeviceError> {
            Ok(())
        }
    }

    impl TxDevice for Stamping {
        fn info(&self) -> TxInfo {
            TxInfo { timestamps: true, ..TxInfo::default() }
        }

        fn transmit(&mut self, batch: &mut Batch, _more: bool) -> Transmitted {
            self.inside.extend(std::iter::from_fn(|| batch.pop()));
            Transmitted::default()
        }

        fn flush(&mut self) -> bool {
            false
        }

        fn reap(&mut self, _budget: usize, _urgent: bool, into: &mut Completions) -> Result<(), DeviceError> {
            let region = self.region.clone().unwrap();
            for mut frame in self.inside.drain(..) {
                let meta = region.meta(&frame).unwrap();
                if meta.time_ns == Meta::ASKS_TIME {
                    region.set_meta(&mut frame, &Meta { time_ns: 3 * MS, ..meta }).unwrap();
                }
                into.sent.push(frame).unwrap();
            }
            Ok(())
        }

        fn outstanding(&self) -> usize {
            self.inside.len()
        }
    }

    #[test]
    fn the_time_of_a_frame_that_the_device_has_stamped_ends_with_the_stamp() {
        let pool = PagePool::builder().frames(64).frame_bytes(2048).build().unwrap();
        let (clock, delays) = (Arc::new(ManualClock::default()), Arc::<RingDelays>::default());
        clock.advance(MS);
        let mut device = Timed::new(Stamping::default(), clock.clone(), delays.clone());
        device.attach(pool.region().clone()).unwrap();
        let mut cache = pool.cache("test").unwrap();
        let (mut batch, mut gone) = (Batch::new(16), Completions::new(16));
        cache.take(&mut batch, 5, 64).unwrap();
        device.transmit(&mut batch, false);
        clock.advance(10 * MS);
        device.reap(16, false, &mut gone).unwrap();
        let asked = gone.sent.frames().iter().filter(|frame| frame.has_meta()).count();
        assert_eq!((asked, delays.stamped()), (1, 1), "one of a band is followed, and asked for");
        let most_ns = RingDelays::sum([&*delays].into_iter()).iter().map(Latency::max_ns).max();
        assert_eq!(most_ns, Some(2 * MS));
        cache.give(&mut gone.sent).unwrap();
    }
}
