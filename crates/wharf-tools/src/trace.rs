//! `trace`: a wrapper around any device that writes into a capture what the device takes, when it takes it, and
//! what it receives.
//!
//! The file is written by a thread of its own: a disk that is slow or full never holds up the path, nor costs it
//! a frame. What the disk could not follow is not in the file, and counted ([`TraceCounts::missed`]); at the
//! first error of the file the trace ends, cut to whole frames. [`Device::close`] writes the rest and says in one
//! line what is missing.
//!
//! A frame that is sent bears the time at which the device took it, one received its own time stamp where it has
//! one. The device's later verdict on a frame (failed, `link-down`) is not in the file, unless only what was sent is to be in it
//! ([`Trace::sent_only`]): then a frame is written when the device gives it back as sent.

mod file;
mod handoff;
#[cfg(test)]
mod tests;

pub use file::{TraceCounts, TraceFile};

use std::os::fd::RawFd;
use std::path::Path;
use std::sync::Arc;
use wharf_core::device::{Capabilities, Completions, Device, DeviceError, Signals, Transmitted};
use wharf_core::host::Clock;
use wharf_core::pool::Cache;
use wharf_devices::host::WallClock;
use wharf_mem::{Batch, Frame, Region};

/// A device whose frames are written into a capture.
pub struct Trace {
    inner: Box<dyn Device>,
    to: TraceFile,
    region: Option<Arc<Region>>,
    is_closed: bool,
    sent_only: bool,
    /// The device is closed, and the file is to be once all its frames have come back.
    finishes: bool,
    offered: Offered,
    clock: Arc<dyn Clock>,
}

/// The bytes of the frames that the device is being offered: those that it takes are out of reach afterwards.
#[derive(Debug, Default)]
struct Offered {
    bytes: Vec<u8>,
    /// Where each frame ends.
    ends: Vec<usize>,
}

impl std::fmt::Debug for Trace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Trace({} into {}, {} frames)", self.inner.name(), self.to.name, self.to.counts.frames())
    }
}

impl TraceFile {
    /// `inner`, traced into this file. Of a device that both sends and receives, both are.
    pub fn around(&self, inner: Box<dyn Device>) -> Trace {
        self.lock().users += 1;
        let (to, offered, clock) = (self.clone(), Offered::default(), Arc::new(WallClock));
        Trace { inner, to, region: None, is_closed: false, sent_only: false, finishes: false, offered, clock }
    }
}

impl Trace {
    /// `inner`, traced into a file of its own: see [`TraceFile::create`].
    ///
    /// # Errors
    /// As there.
    pub fn new(inner: Box<dyn Device>, path: &Path) -> Result<Self, DeviceError> {
        Ok(TraceFile::create(path)?.around(inner))
    }

    /// Only what was sent is to be in the file: nothing that is received, and of what the device takes those frames that it gives
    /// back as sent, when it does.
    #[must_use]
    pub fn sent_only(mut self) -> Self {
        self.sent_only = true;
        self
    }

    /// The clock for time stamps, counting from 1970; the wall clock by default.
    #[must_use]
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = clock;
        self
    }

    /// What is in the file and what is not, to be read while the path has the device.
    pub fn counts(&self) -> Arc<TraceCounts> {
        self.to.counts.clone()
    }

    /// Notes frames that are whole in memory, each with its own time stamp, where it is to have one, or else that of now.
    fn note(&self, frames: &[Frame], region: &Region, own_stamps: bool) {
        if frames.is_empty() {
            return;
        }
        let (now_ns, mut file) = (self.clock.now_ns(), self.to.lock());
        for frame in frames {
            let stamp_ns = region.meta(frame).map_or(0, |meta| meta.time_ns);
            let time_ns = if own_stamps && stamp_ns > 0 { stamp_ns } else { now_ns };
            let chunks = region.chunks(frame).into_iter().flatten();
            file.record(&self.to.counts, time_ns, chunks, frame.len_bytes() as usize);
        }
    }

    /// Notes that `taken` of the frames offered went.
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

    /// Closes the file, unless others are traced into it; what is missing there, if anything.
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
            // A frame of another pool has no bytes here; the device below refuses it.
            region.chunks(frame).into_iter().flatten().for_each(|chunk| self.bytes.extend_from_slice(chunk));
            self.ends.push(self.bytes.len());
        }
    }
}

// Whatever is not said here would be the default's answer, not that of what is inside.
#[deny(clippy::missing_trait_methods)]
impl Device for Trace {
    /// That of the device inside.
    fn name(&self) -> String {
        self.inner.name()
    }

    fn mode(&self) -> Option<&'static str> {
        self.inner.mode()
    }

    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn attach(&mut self, region: Arc<Region>) -> Result<(), DeviceError> {
        self.region = Some(region.clone());
        self.inner.attach(region)
    }

    fn transmit(&mut self, batch: &mut Batch, more: bool) -> Transmitted {
        if self.sent_only {
            return self.inner.transmit(batch, more);
        }
        let offered = batch.len();
        let is_open = !self.is_closed && self.to.lock().is_open();
        if is_open {
            self.offered.copy(self.region.as_ref(), batch);
        }
        let done = self.inner.transmit(batch, more);
        let taken = offered.saturating_sub(batch.len());
        if taken > 0 {
            self.record_taken(taken);
        }
        done
    }

    fn flush(&mut self) -> bool {
        self.inner.flush()
    }

    fn reap(&mut self, budget: usize, into: &mut Completions) -> Result<(), DeviceError> {
        let before = into.sent.len();
        let reaped = self.inner.reap(budget, into);
        if let (true, Some(region)) = (self.sent_only, &self.region) {
            self.note(into.sent.frames().get(before..).unwrap_or_default(), region, false);
        }
        if self.finishes && self.inner.outstanding() == 0 {
            return reaped.and(self.finish());
        }
        reaped
    }

    fn outstanding(&self) -> usize {
        self.inner.outstanding()
    }

    fn visit(&self, see: &mut dyn FnMut(&Frame)) {
        self.inner.visit(see);
    }

    fn receive(&mut self, cache: &mut Cache, to: &mut Batch, budget: usize) -> Result<usize, DeviceError> {
        let before = to.len();
        let received = self.inner.receive(cache, to, budget)?;
        if !self.sent_only {
            self.note(to.frames().get(before..).unwrap_or_default(), cache.pool().region(), true);
        }
        Ok(received)
    }

    fn receive_ended(&self) -> bool {
        self.inner.receive_ended()
    }

    fn receives_super_packets(&self) -> bool {
        self.inner.receives_super_packets()
    }

    fn take_waiting(&mut self, to: &mut Batch) -> usize {
        self.inner.take_waiting(to)
    }

    fn receive_drops(&mut self, see: &mut dyn FnMut(&'static str, u64)) {
        self.inner.receive_drops(see);
    }

    fn hurry(&mut self) {
        self.inner.hurry();
    }

    fn signals(&mut self) -> Option<Signals> {
        self.inner.signals()
    }

    fn arm(&mut self) -> bool {
        self.inner.arm()
    }

    fn disarm(&mut self) {
        self.inner.disarm();
    }

    fn wait_fd(&self) -> Option<RawFd> {
        self.inner.wait_fd()
    }

    fn next_completion_ns(&self) -> Option<u64> {
        self.inner.next_completion_ns()
    }

    fn next_arrival_ns(&self) -> Option<u64> {
        self.inner.next_arrival_ns()
    }

    fn next_look_ns(&self) -> Option<u64> {
        self.inner.next_look_ns()
    }

    fn close(&mut self) -> Result<(), DeviceError> {
        let closed = self.inner.close();
        // What had left by then may still have to be given back.
        self.finishes = self.sent_only && self.inner.outstanding() > 0;
        let finished = if self.finishes { Ok(()) } else { self.finish() };
        closed.and(finished)
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        // Documented: only `close` can report it.
        let _ = self.finish();
    }
}
