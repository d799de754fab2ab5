//! A receiver that checks every frame.

use super::{Arrival, Check, Clocks, Findings, Verify};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Acquire, Ordering::Relaxed};
use std::time::{Duration, Instant};
use wharf::{Port, PortBuilder};
use wharf_core::counters::Tally;
use wharf_core::device::DeviceError;
use wharf_core::poller::{Mode, Settings};
use wharf_core::pool::{Burst, PoolError};
use wharf_core::queue::QueueError;
use wharf_core::rx::{self, RecvError, RxQueue};
use wharf_core::wait::Wait;
use wharf_devices::iface::pool_fault;
use wharf_mem::{Frame, Region};
use wharf_sys::clock::{monotonic_ns, realtime_ns};

/// Most frames taken from the device at a time.
const BUDGET: usize = 64;
/// Time between two looks at the requests to end.
const LOOK: Duration = Duration::from_millis(20);
/// Time for arrivals to show after a request to stop. The kernel hands over a block of a packet socket's ring once it is full, or after
/// some milliseconds.
const QUIET: Duration = Duration::from_millis(20);
/// Time between two polls that find nothing, meanwhile.
const ENDING_NAP: Duration = Duration::from_micros(20);
/// Polls that find nothing before sleeping, of a device that does not notify: some tens of microseconds, about the least time of a
/// sleep. A longer sleep would show in the latencies.
const SPINS: u32 = 1000;
const NAP: Duration = Duration::from_micros(20);
/// After this many polls that found nothing, a fraction of a second, naps are long.
const IDLE_POLLS: u32 = SPINS + 5000;
const LONG_NAP: Duration = Duration::from_micros(500);
/// Time between two attempts of a check that is blocked.
const BLOCKED_NAP: Duration = Duration::from_millis(2);
/// Longest time between two readings of one clock without an interruption between them.
const PAIR_NS_MAX: u64 = 2_000;

/// A receive queue that its caller polls, and the check of its frames.
#[derive(Debug)]
pub struct Receiver<C = Box<dyn Verify>> {
    inner: rx::Receiver,
    mode: Mode,
    /// Polls in a row that found nothing.
    idle: u32,
    burst: Burst,
    /// The chunks of a super-packet, joined.
    joined: Vec<u8>,
    batches: Arc<Tally>,
    load: Load,
    check: C,
}

/// The time from the first arrival on, and the part of it in which none was there, nanoseconds.
#[derive(Debug, Default)]
struct Load {
    first_ns: Option<u64>,
    idle_since_ns: Option<u64>,
    idle_ns: u64,
}

/// Sets what a port must have for a [`Receiver`] that waits for arrivals by `mode`: packets come whole, so many
/// at a time.
pub fn receiving(port: PortBuilder, mode: Mode) -> PortBuilder {
    let settings = Settings { mode, budget_packets: BUDGET as u32, ..Settings::default() };
    port.poller(settings).takes_chains(true)
}

/// Ends of receiving, besides the device's own end and [`Check::is_done`].
#[derive(Clone, Copy)]
pub struct Until<'a> {
    /// Asks for the end once all arrivals are received: nothing came for 20 ms.
    pub stop: &'a AtomicBool,
    /// Asks for the end at once.
    pub end: &'a AtomicBool,
    /// Number of frames after which to end, exactly.
    pub count: u64,
    /// Frames received so far, for other threads to read.
    pub received: &'a AtomicU64,
    /// Hears of an error of a device that has not ended. Returns true if receiving goes on.
    pub survives: &'a dyn Fn(&DeviceError) -> bool,
}

impl<C: Check> Receiver<C> {
    /// Makes the one of `port`, which is built with [`receiving`]. It waits for arrivals by `mode`.
    ///
    /// # Errors
    /// Those of [`Port::receiver`].
    pub fn new(port: &Port, mode: Mode, check: C) -> Result<Self, QueueError> {
        let (inner, burst) = (port.receiver()?, port.burst(BUDGET));
        let (joined, load, batches) = (Vec::new(), Load::default(), Arc::default());
        Ok(Self { inner, mode, idle: 0, burst, joined, batches, load, check })
    }

    /// Receives until the device has ended, the check is done, or `until`.
    ///
    /// # Errors
    /// [`RecvError::Device`]. Packets received before that have been checked.
    pub fn run_until(&mut self, until: &Until<'_>) -> Result<(), RecvError> {
        let (mut left, mut last, mut looked) = (until.count, None, Instant::now());
        while left > 0 && !self.check.is_done() && !until.end.load(Acquire) {
            if self.check.is_blocked() {
                // What arrives meanwhile waits in the device's ring, or is dropped and counted there.
                std::thread::sleep(BLOCKED_NAP);
                self.check.pause();
                continue;
            }
            let stops = until.stop.load(Acquire);
            let received = match self.receive(stops) {
                Ok(received) => received,
                Err(RecvError::Closed) => break,
                Err(RecvError::Device(error))
                    if !self.inner.queue().has_ended() && (until.survives)(&error) =>
                {
                    continue;
                }
                Err(error) => return Err(error),
            };
            if received > 0 {
                let checked = self.check_burst(left);
                left -= checked.map_err(|error| pool_fault("receiver", error))?;
                until.received.store(until.count - left, Relaxed);
            }
            if received == 0 || looked.elapsed() >= LOOK {
                self.check.pause();
                looked = Instant::now();
            }
            self.load.note(received > 0);
            if stops && is_quiet(&mut last, received > 0) {
                break;
            }
        }
        Ok(())
    }

    /// Receives, and waits a while if there is nothing: a short while once the end was asked for.
    #[inline]
    fn receive(&mut self, stops: bool) -> Result<usize, RecvError> {
        if stops || self.inner.queue().notifies() {
            return self.inner.recv(&mut self.burst, if stops { ENDING_NAP } else { LOOK });
        }
        let received = self.inner.recv(&mut self.burst, Wait::Never)?;
        self.idle = if received > 0 { 0 } else { IDLE_POLLS.min(self.idle + 1) };
        match self.mode {
            _ if received > 0 => {}
            Mode::Busy => std::hint::spin_loop(),
            Mode::Adaptive if self.idle < SPINS => std::hint::spin_loop(),
            _ => std::thread::sleep(if self.idle < IDLE_POLLS { NAP } else { LONG_NAP }),
        }
        Ok(received)
    }

    /// Checks the first `most` frames of the burst, and frees all. Returns the number checked.
    #[inline]
    fn check_burst(&mut self, most: u64) -> Result<u64, PoolError> {
        self.batches.add(1);
        let now = self.check.clocks().read();
        let count = usize::try_from(most).map_or(self.burst.len(), |most| self.burst.len().min(most));
        let region = self.burst.pool().region();
        for frame in &self.burst.frames()[..count] {
            let at = if frame.has_meta() { arrival(region, frame, now)? } else { now };
            self.check.check(whole(region, frame, &mut self.joined)?, at);
        }
        self.burst.clear();
        Ok(count as u64)
    }

    /// Returns the receive queue: its device's mode, counts and drops.
    pub fn queue(&self) -> &RxQueue {
        self.inner.queue()
    }

    /// Returns the calls to the device that gave frames, for any thread to read.
    pub fn batches(&self) -> &Arc<Tally> {
        &self.batches
    }

    /// Returns the seconds from the first arrival to the last, and the share of them in which frames were there to check, 0 to 1.
    pub fn load(&self) -> (f64, f64) {
        self.load.of(monotonic_ns())
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
    /// Those of [`Receiver::run_until`].
    pub fn run(mut self, stop: &AtomicBool) -> Result<Findings, RecvError> {
        let (end, received) = (AtomicBool::new(false), AtomicU64::new(0));
        let survives = |_: &DeviceError| false;
        self.run_until(&Until {
            stop,
            end: &end,
            count: u64::MAX,
            received: &received,
            survives: &survives,
        })?;
        Ok(self.check.findings().clone())
    }
}

impl Load {
    /// Notes a poll. The clock is read only where arrivals begin or end.
    #[inline]
    fn note(&mut self, has_arrived: bool) {
        match (has_arrived, self.idle_since_ns) {
            (true, Some(since_ns)) => {
                self.idle_ns += monotonic_ns().saturating_sub(since_ns);
                self.idle_since_ns = None;
            }
            (true, None) if self.first_ns.is_none() => self.first_ns = Some(monotonic_ns()),
            (false, None) if self.first_ns.is_some() => self.idle_since_ns = Some(monotonic_ns()),
            _ => {}
        }
    }

    /// Returns the seconds, without those after the last arrival, and the share of them without the idle time.
    fn of(&self, now_ns: u64) -> (f64, f64) {
        let end_ns = self.idle_since_ns.unwrap_or(now_ns);
        let span_ns = self.first_ns.map_or(0, |first_ns| end_ns.saturating_sub(first_ns));
        let busy_ns = span_ns.saturating_sub(self.idle_ns);
        (span_ns as f64 / 1e9, busy_ns as f64 / span_ns.max(1) as f64)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn load_is_counted_between_the_first_arrival_and_the_last() {
        let mut load = Load::default();
        load.note(false);
        assert_eq!((load.of(1_000), load.idle_since_ns), ((0.0, 0.0), None), "nothing has arrived yet");
        load.note(true);
        load.first_ns = Some(1_000);
        load.idle_ns = 250;
        assert_eq!(load.of(2_000), (1e-6, 0.75));
        load.idle_since_ns = Some(1_500);
        assert_eq!(load.of(9_000), (5e-7, 0.5), "the time behind the last arrival does not count");
        load.note(true);
        assert!(load.idle_ns > 250 && load.idle_since_ns.is_none());
    }
}
