//! `trace`: a wrapper around any device that writes the frames that the device takes and receives into a capture.
//!
//! A thread of its own writes the file: a slow or full disk neither holds up the path nor costs a frame. Frames that the disk could
//! not take are missing in the file, and counted ([`TraceCounts::missed`]). At the first error of the file the trace ends, cut to whole
//! frames. [`Device::close`] writes the rest and says in one line how much is missing.
//!
//! A sent frame bears the time at which the device took it, a received one its own time stamp if it has one. The file shows nothing of
//! a frame's later fate (failed, `link-down`), except with [`Trace::sent_only`]: a frame is then written when the device returns it as
//! sent.

mod file;
mod handoff;
#[cfg(test)]
mod tests;

pub use file::{TraceCounts, TraceFile};

use std::sync::Arc;
use wharf_core::delegate;
use wharf_core::device::{Completions, Device, DeviceError, Notify, RxDevice, Transmitted, TxDevice};
use wharf_core::host::Clock;
use wharf_core::pool::Cache;
use wharf_devices::host::WallClock;
use wharf_mem::{Batch, Frame, Region};

/// A wrapper that writes a device's frames into a capture.
pub struct Trace<D> {
    inner: D,
    to: TraceFile,
    region: Option<Arc<Region>>,
    is_closed: bool,
    sent_only: bool,
    /// Frames that the device holds.
    held: usize,
    /// The device is closed; the file is to be finished once all of its frames have come back.
    finishes: bool,
    offered: Offered,
    clock: Arc<dyn Clock>,
}

/// Bytes of the frames offered to the device: it owns those that it takes.
#[derive(Debug, Default)]
struct Offered {
    bytes: Vec<u8>,
    /// End of each frame in `bytes`.
    ends: Vec<usize>,
}

impl<D: Device> std::fmt::Debug for Trace<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Trace({} into {}, {} frames)", self.inner.name(), self.to.name, self.to.counts.frames())
    }
}

impl TraceFile {
    /// Wraps `inner` and traces it into this file, both ways if it sends and receives.
    pub fn around<D: Device>(&self, inner: D) -> Trace<D> {
        self.hold();
        let (to, offered, clock) = (self.clone(), Offered::default(), Arc::new(WallClock));
        let (is_closed, sent_only, finishes) = (false, false, false);
        Trace { inner, to, region: None, is_closed, sent_only, held: 0, finishes, offered, clock }
    }
}

impl<D: Device> Trace<D> {
    /// Traces sent frames alone: no received ones, and of the frames that the device takes those that it returns as sent, when it does.
    #[must_use]
    pub fn sent_only(mut self) -> Self {
        self.sent_only = true;
        self
    }

    /// Sets the clock for time stamps, counting from 1970; the wall clock by default.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// Returns the counts of the file. They may be read while the path has the device.
    pub fn counts(&self) -> Arc<TraceCounts> {
        self.to.counts.clone()
    }
}

impl<D> Trace<D> {
    /// Writes frames that are whole in memory, each with its own time stamp if it may bear one, or else the present time.
    fn note(&self, frames: &[Frame], region: &Region, own_stamps: bool) {
        if frames.is_empty() {
            return;
        }
        let (now_ns, mut file) = (self.clock.now_ns(), self.to.lock());
        for frame in frames {
            let stamp_ns = region.meta(frame).ok().and_then(|meta| meta.stamp_ns());
            let time_ns = stamp_ns.filter(|_| own_stamps).unwrap_or(now_ns);
            let chunks = region.chunks(frame).into_iter().flatten();
            file.record(&self.to.counts, time_ns, chunks, frame.len_bytes() as usize);
        }
    }

    /// Writes the first `taken` of the frames offered.
    fn record_taken(&mut self, taken: usize) {
        let now_ns = self.clock.now_ns();
        let Self { to, offered, .. } = self;
        let (mut file, mut start) = (to.lock(), 0);
        for at in 0..taken {
            let bytes =
                offered.ends.get(at).map(|&end| &offered.bytes[std::mem::replace(&mut start, end)..end]);
            let len = bytes.map_or(0, <[u8]>::len);
            file.record(&to.counts, now_ns, bytes.into_iter(), len);
        }
    }

    /// Closes the file unless other devices are traced into it. Returns an error if frames are missing in it.
    fn finish(&mut self) -> Result<(), DeviceError> {
        if std::mem::replace(&mut self.is_closed, true) { Ok(()) } else { self.to.leave() }
    }
}

impl Offered {
    fn copy(&mut self, region: Option<&Arc<Region>>, batch: &Batch) {
        self.bytes.clear();
        self.ends.clear();
        let Some(region) = region else { return };
        for frame in batch.frames() {
            // A frame of another pool has no bytes here; the device refuses it.
            region.chunks(frame).into_iter().flatten().for_each(|chunk| self.bytes.extend_from_slice(chunk));
            self.ends.push(self.bytes.len());
        }
    }
}

#[deny(clippy::missing_trait_methods)]
impl<D: Device> Notify for Trace<D> {
    delegate!(inner: arm, disarm, wait_fd, signals);
}

#[deny(clippy::missing_trait_methods)]
impl<D: Device> Device for Trace<D> {
    delegate!(inner: name, mode, mode_reason, facts, set_line, visit);

    /// Writes what has waited for a second: an idle device is asked now and then.
    fn link(&mut self) -> Option<Result<(), DeviceError>> {
        self.to.lock().flush_late();
        self.inner.link()
    }

    fn attach(&mut self, region: Arc<Region>) -> Result<(), DeviceError> {
        self.region = Some(region.clone());
        self.inner.attach(region)
    }

    fn close(&mut self) -> Result<(), DeviceError> {
        let closed = self.inner.close();
        // Frames that had left by then may still have to come back.
        self.finishes = self.sent_only && self.held > 0;
        let finished = if self.finishes { Ok(()) } else { self.finish() };
        closed.and(finished)
    }
}

#[deny(clippy::missing_trait_methods)]
impl<D: TxDevice> TxDevice for Trace<D> {
    delegate!(inner: info, flush, outstanding, next_completion_ns, set_patience);

    fn transmit(&mut self, batch: &mut Batch, more: bool) -> Transmitted {
        let offered = batch.len();
        let is_open = !self.sent_only && !self.is_closed && self.to.lock().is_open();
        if is_open {
            self.offered.copy(self.region.as_ref(), batch);
        }
        let done = self.inner.transmit(batch, more);
        let taken = offered.saturating_sub(batch.len());
        self.held += taken;
        if taken > 0 && !self.sent_only {
            self.record_taken(taken);
        }
        done
    }

    fn reap(&mut self, budget: usize, urgent: bool, into: &mut Completions) -> Result<(), DeviceError> {
        let (before, sent_before) = (into.len(), into.sent.len());
        let reaped = self.inner.reap(budget, urgent, into);
        self.held = self.held.saturating_sub(into.len() - before);
        if let (true, Some(region)) = (self.sent_only, &self.region) {
            self.note(into.sent.frames().get(sent_before..).unwrap_or_default(), region, false);
        }
        if self.finishes && self.held == 0 {
            return reaped.and(self.finish());
        }
        reaped
    }
}

#[deny(clippy::missing_trait_methods)]
impl<D: RxDevice> RxDevice for Trace<D> {
    delegate!(inner: ended, reclaim, drops, queue_packets, next_arrival_ns, holds_back, thin);

    fn receive(&mut self, cache: &mut Cache, to: &mut Batch, budget: usize) -> Result<usize, DeviceError> {
        let before = to.len();
        let received = self.inner.receive(cache, to, budget);
        if !self.sent_only {
            self.note(to.frames().get(before..).unwrap_or_default(), cache.pool().region(), true);
        }
        received
    }
}

impl<D> Drop for Trace<D> {
    fn drop(&mut self) {
        // Documented: only `close` can report it.
        let _ = self.finish();
    }
}
