//! Timing errors: the time at which the device had a frame, minus the time at which it was due.
//!
//! *Due* is the frame's place in the schedule: the start, plus [`super::Pace::due_ns`]. *Had* is a clock read right after the call in
//! which the device took the frame, its doorbell rung: never earlier than the device took it, later for the first frames of a batch.
//! The device's own work and the wire are not included. Both are CLOCK_MONOTONIC. A frame is never handed over before it is due.
//!
//! A [`Schedule`] keeps the due time of each frame of a pool by its index. The sender writes it as it fills the frame; [`Timed`], a
//! wrapper of the device, reads it once the frame has been taken. A super-packet that is segmented below the wrapper counts as *had*
//! once its first segments are: segments have no due time of their own.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use wharf::metrics::Latency;
use wharf_core::delegate;
use wharf_core::device::{Device, DeviceError, Duplex, Notify, RxDevice, Transmitted, TxDevice};
use wharf_core::gso::Segmenter;
use wharf_core::pool::PagePool;
use wharf_mem::batch::BATCH_FRAMES_MAX;
use wharf_mem::{Batch, Frame};
use wharf_sys::clock::monotonic_ns;

/// The due times of the frames of a pool, and their timing errors.
#[derive(Debug)]
pub struct Schedule {
    pool: PagePool,
    /// By frame, nanoseconds of CLOCK_MONOTONIC; 0 for none.
    // Written by a frame's owner before it hands the frame on, read by the next: the hand-over orders them.
    due_ns: Box<[AtomicU64]>,
    /// Errors noted by the wrappers of all queues' devices, once they are closed.
    errors: Mutex<Latency>,
}

impl Schedule {
    /// Makes that of the frames of `pool`.
    pub fn new(pool: &PagePool) -> Arc<Self> {
        let due_ns = (0..pool.frames()).map(|_| AtomicU64::new(0)).collect();
        Arc::new(Self { pool: pool.clone(), due_ns, errors: Mutex::default() })
    }

    /// Notes the due time of `frame`, nanoseconds of CLOCK_MONOTONIC; 0 for never.
    #[inline]
    pub fn set(&self, frame: &Frame, due_ns: u64) {
        if let Some(place) = self.due_ns.get(frame.index() as usize) {
            place.store(due_ns, Relaxed);
        }
    }

    #[inline]
    fn due_ns(&self, frame: &Frame) -> u64 {
        self.due_ns.get(frame.index() as usize).map_or(0, |place| place.load(Relaxed))
    }

    /// Returns the timing errors; none before the device is closed.
    pub fn errors(&self) -> Latency {
        wharf_mem::lock(&self.errors).clone()
    }
}

/// A wrapper that notes the timing error of each frame.
pub struct Timed<D> {
    device: Segmenter<D>,
    schedule: Arc<Schedule>,
    errors: Latency,
    /// Due times of the batch at hand: the device owns the frames that it takes.
    due_ns: Vec<u64>,
}

impl<D: TxDevice> Timed<D> {
    /// Wraps `device`, for frames of the pool of `schedule`.
    pub fn new(device: D, schedule: Arc<Schedule>) -> Self {
        let device = Segmenter::new(device, &schedule.pool);
        Self { device, schedule, errors: Latency::default(), due_ns: Vec::with_capacity(BATCH_FRAMES_MAX) }
    }

    #[inline]
    fn note(&mut self, taken: usize) {
        if taken > 0 {
            let now_ns = monotonic_ns();
            let due = self.due_ns[..taken].iter().filter(|&&due_ns| due_ns > 0);
            due.for_each(|&due_ns| self.errors.record(now_ns.saturating_sub(due_ns)));
        }
    }
}

impl<D: TxDevice> std::fmt::Debug for Timed<D> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Timed({})", self.device.name())
    }
}

#[deny(clippy::missing_trait_methods)]
impl<D: TxDevice> Notify for Timed<D> {
    delegate!(device: arm, disarm, wait_fd, signals);
}

#[deny(clippy::missing_trait_methods)]
impl<D: TxDevice> Device for Timed<D> {
    delegate!(device: name, mode, mode_reason, facts, set_line, link, attach, visit);

    fn close(&mut self) -> Result<(), DeviceError> {
        // Queues of one pool have one schedule.
        wharf_mem::lock(&self.schedule.errors).add(&std::mem::take(&mut self.errors));
        self.device.close()
    }
}

#[deny(clippy::missing_trait_methods)]
impl<D: TxDevice> TxDevice for Timed<D> {
    delegate!(device: info, flush, reap, outstanding, next_completion_ns, set_patience);

    fn transmit(&mut self, batch: &mut Batch, more: bool) -> Transmitted {
        self.due_ns.clear();
        self.due_ns.extend(batch.frames().iter().map(|frame| self.schedule.due_ns(frame)));
        let transmitted = self.device.transmit(batch, more);
        self.note(self.due_ns.len().saturating_sub(batch.len()));
        transmitted
    }
}

#[deny(clippy::missing_trait_methods)]
impl<D: Duplex> RxDevice for Timed<D> {
    delegate!(device: receive, ended, reclaim, drops, queue_packets, next_arrival_ns, holds_back, thin);
}
