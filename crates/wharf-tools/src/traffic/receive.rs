//! A receiver that checks every frame.

mod idle;

use super::{Arrival, Check, Clocks, Findings, Verify};
use idle::Idle;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Acquire, Ordering::Relaxed};
use std::time::{Duration, Instant};
use wharf_core::device::{Device, DeviceError, RxDevice, close_receiver};
use wharf_core::poller::Mode;
use wharf_core::pool::{Cache, PagePool, PoolError};
use wharf_mem::{Batch, Frame, Region};
use wharf_sys::clock::{monotonic_ns, realtime_ns};

/// Most frames taken from the device at a time.
const BUDGET: usize = 64;
/// Time for arrivals to show after a request to stop. The kernel hands over a block of a packet socket's ring once it is full, or after
/// some milliseconds.
const QUIET: Duration = Duration::from_millis(20);
/// Time between two polls that find nothing, meanwhile.
const ENDING_NAP: Duration = Duration::from_micros(20);
/// Longest time between two readings of one clock without an interruption between them.
const PAIR_NS_MAX: u64 = 2_000;

/// The reason why receiving failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReceiveError {
    /// See [`PoolError`].
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// See [`DeviceError`].
    #[error(transparent)]
    Device(#[from] DeviceError),
}

/// The receive side of a device, memory for it, and the check of its frames.
pub struct Receiver<C = Box<dyn Verify>> {
    device: Box<dyn RxDevice>,
    cache: Cache,
    batch: Batch,
    /// The chunks of a super-packet, joined.
    joined: Vec<u8>,
    batches: u64,
    waits: Mode,
    check: C,
}

/// Ends of receiving, besides the device's own end and [`Check::is_done`].
#[derive(Debug, Clone, Copy)]
pub struct Until<'a> {
    /// Asks for the end once all arrivals are received: nothing came for 20 ms.
    pub stop: &'a AtomicBool,
    /// Asks for the end at once.
    pub end: &'a AtomicBool,
    /// Number of frames after which to end, exactly.
    pub count: u64,
    /// Frames received so far, for other threads to read.
    pub received: &'a AtomicU64,
}

impl<C> std::fmt::Debug for Receiver<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Receiver({})", self.device.name())
    }
}

impl<C: Check> Receiver<C> {
    /// Makes one of `device`, which has no memory attached yet, with frames of `pool`.
    ///
    /// # Errors
    /// [`ReceiveError`].
    pub fn new(mut device: Box<dyn RxDevice>, pool: &PagePool, check: C) -> Result<Self, ReceiveError> {
        device.attach(pool.region().clone())?;
        let cache = pool.cache("receiver")?;
        Ok(Self {
            device,
            cache,
            batch: Batch::new(BUDGET),
            joined: Vec::new(),
            batches: 0,
            waits: Mode::Adaptive,
            check,
        })
    }

    /// Sets the waiting mode of [`Receiver::run_until`]; adaptive by default.
    #[must_use]
    pub fn waiting(mut self, mode: Mode) -> Self {
        self.waits = mode;
        self
    }

    /// Receives and checks up to a batch of arrivals. Returns their number.
    ///
    /// # Errors
    /// [`ReceiveError`].
    pub fn poll(&mut self) -> Result<usize, ReceiveError> {
        self.poll_up_to(BUDGET)
    }

    #[inline]
    fn poll_up_to(&mut self, budget: usize) -> Result<usize, ReceiveError> {
        let received = self.device.receive(&mut self.cache, &mut self.batch, budget)?;
        if received > 0 {
            self.batches += 1;
            let now = self.check.clocks().read();
            let region = self.cache.pool().region();
            for frame in self.batch.frames() {
                let at = if frame.has_meta() { arrival(region, frame, now)? } else { now };
                self.check.check(whole(region, frame, &mut self.joined)?, at);
            }
            self.cache.give(&mut self.batch)?;
        }
        Ok(received)
    }

    /// Receives until the device has ended, the check is done, or `until`.
    ///
    /// # Errors
    /// [`ReceiveError`]. Packets received before that have been checked.
    pub fn run_until(&mut self, until: &Until<'_>) -> Result<(), ReceiveError> {
        let (mut left, mut last) = (until.count, None);
        let mut idle = Idle::new(self.waits, &*self.device);
        while left > 0 && !self.check.is_done() && !until.end.load(Acquire) {
            // Read before polling: frames sent before the end was announced are there now.
            let ended = self.device.ended();
            let budget = BUDGET.min(usize::try_from(left).unwrap_or(BUDGET));
            let received = self.poll_up_to(budget)?;
            left -= received as u64;
            if received > 0 {
                until.received.store(until.count - left, Relaxed);
            } else if ended {
                break;
            }
            if until.stop.load(Acquire) {
                if is_quiet(&mut last, received > 0) {
                    break;
                }
                if received == 0 {
                    std::thread::sleep(ENDING_NAP);
                }
            } else if left > 0 {
                idle.after(&mut *self.device, received, budget);
            }
        }
        Ok(())
    }

    /// Returns how the device works on this machine: see [`Device::mode`].
    pub fn mode(&self) -> Option<&'static str> {
        self.device.mode()
    }

    /// Returns the calls to the device that gave frames.
    pub fn batches(&self) -> u64 {
        self.batches
    }

    /// Shows drops before reception, by reason.
    pub fn drops(&mut self, see: &mut dyn FnMut(&'static str, u64)) {
        self.device.drops(see);
    }

    /// Closes the device, and takes back the memory posted for arrivals.
    ///
    /// # Errors
    /// Work that the device could not complete.
    pub fn close(&mut self) -> Result<(), DeviceError> {
        close_receiver(&mut *self.device, &mut self.cache)
    }

    /// Drops the device and returns the check.
    pub fn into_check(self) -> C {
        self.check
    }
}

impl<C: Verify> Receiver<C> {
    /// Receives until the device has ended, or `stop` is set and nothing is left.
    ///
    /// # Errors
    /// [`ReceiveError`].
    pub fn run(mut self, stop: &AtomicBool) -> Result<Findings, ReceiveError> {
        let (end, received) = (AtomicBool::new(false), AtomicU64::new(0));
        self.run_until(&Until { stop, end: &end, count: u64::MAX, received: &received })?;
        Ok(self.check.findings().clone())
    }
}

/// True if nothing has come for a while since the end was asked for; `last` is the time of the last arrival.
fn is_quiet(last: &mut Option<Instant>, received: bool) -> bool {
    let now = Instant::now();
    if received {
        *last = Some(now);
    }
    now - *last.get_or_insert(now) >= QUIET
}

impl Clocks {
    #[inline]
    pub(super) fn read(self) -> Arrival {
        match self {
            Clocks::None => Arrival::default(),
            Clocks::Monotonic => Arrival { monotonic_ns: monotonic_ns(), wall_ns: 0 },
            Clocks::Both => pair(),
        }
    }
}

/// Reads both clocks at one moment, as nearly as possible.
fn pair() -> Arrival {
    let mut before_ns = monotonic_ns();
    for _ in 0..3 {
        let wall_ns = realtime_ns();
        let after_ns = monotonic_ns();
        if after_ns - before_ns <= PAIR_NS_MAX {
            return Arrival { monotonic_ns: before_ns + (after_ns - before_ns) / 2, wall_ns };
        }
        before_ns = after_ns;
    }
    Arrival { monotonic_ns: before_ns, wall_ns: realtime_ns() }
}

/// Returns the arrival time of a frame that may carry it, by the clocks as they stand `now`. If both clocks were asked for, a time of
/// the wall clock is moved to the other one.
fn arrival(region: &Region, frame: &Frame, now: Arrival) -> Result<Arrival, PoolError> {
    let time_ns = region.meta(frame)?.time_ns;
    if time_ns == 0 || now.wall_ns == 0 {
        return Ok(now);
    }
    let monotonic_ns = now.monotonic_ns.wrapping_add(time_ns).wrapping_sub(now.wall_ns);
    Ok(Arrival { monotonic_ns, wall_ns: time_ns })
}

/// Returns all bytes of a frame; those of a chain are joined in `joined`.
#[inline]
pub(super) fn whole<'a>(
    region: &'a Region, frame: &'a Frame, joined: &'a mut Vec<u8>,
) -> Result<&'a [u8], PoolError> {
    let bytes = region.bytes(frame)?;
    if !frame.has_meta() || bytes.len() == frame.len_bytes() as usize {
        return Ok(bytes);
    }
    joined.clear();
    region.chunks(frame)?.for_each(|chunk| joined.extend_from_slice(chunk));
    Ok(joined)
}
