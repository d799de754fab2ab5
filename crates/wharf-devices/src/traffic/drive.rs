//! Sending a source's frames at a pace.

use super::{Pace, Source};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use wharf_core::pool::{Burst, PoolError};
use wharf_core::queue::QueueError;
use wharf_core::sender::Sender;
use wharf_mem::Region;
use wharf_sys::clock::monotonic_ns;

/// Longest sleep before a frame is due, so that an end that is asked for is soon seen.
const NAP_NS_MAX: u64 = 20_000_000;

/// Why a source was not sent to its end.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DriveError {
    /// See [`PoolError`].
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// See [`QueueError`].
    #[error(transparent)]
    Queue(#[from] QueueError),
}

/// How to send.
#[derive(Debug, Clone, Copy)]
pub struct Drive<'a> {
    /// How fast.
    pub pace: Pace,
    /// From when on frames are due, nanoseconds of CLOCK_MONOTONIC.
    pub start_ns: u64,
    /// Frames handed over at a time, at most.
    pub burst_packets: usize,
    /// Ends it before the source does.
    pub stop: &'a AtomicBool,
}

/// What was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Driven {
    /// Frames.
    pub packets: u64,
    /// When the first was made, nanoseconds of CLOCK_MONOTONIC.
    pub first_ns: u64,
    /// When the last had been handed over.
    pub last_ns: u64,
}

/// Whether to go on.
#[derive(PartialEq, Eq)]
enum Going {
    On,
    Ended,
}

impl Drive<'_> {
    /// Sends the frames of `source` to its end, until told to stop, or until the queue is shut down.
    ///
    /// # Errors
    /// [`DriveError`]: the device died, or the frames do not fit the pool's.
    pub fn run<S: Source>(&self, sender: &mut Sender, source: &mut S) -> Result<Driven, DriveError> {
        let mut burst = sender.burst(self.burst_packets.max(1));
        let mut driven = Driven { packets: 0, first_ns: monotonic_ns(), last_ns: 0 };
        let has_clock = !self.pace.is_top() || source.is_stamped();
        while !self.stop.load(Relaxed) && source.remaining() > 0 {
            let now_ns = if has_clock { monotonic_ns() } else { 0 };
            let due = self.due(source, now_ns);
            if due == 0 {
                self.nap(source, now_ns);
                continue;
            }
            if driven.packets == 0 {
                driven.first_ns = monotonic_ns();
            }
            if self.send(sender, source, &mut burst, due, now_ns)? == Going::Ended {
                break;
            }
            // What an empty pool refused is made at the next round, with the time of then.
            driven.packets = sender.counters().packets.get();
        }
        driven.last_ns = monotonic_ns();
        Ok(driven)
    }

    /// How many frames are due now, at most a burst.
    #[inline]
    fn due(&self, source: &impl Source, now_ns: u64) -> usize {
        let most = source.remaining().min(self.burst_packets.max(1) as u64);
        if self.pace.is_top() {
            return most as usize;
        }
        let is_due = |&ahead: &u64| self.due_ns(source, ahead) <= now_ns;
        (0..most).take_while(is_due).count()
    }

    fn due_ns(&self, source: &impl Source, ahead: u64) -> u64 {
        self.start_ns.saturating_add(self.pace.due_ns(&source.position(ahead)))
    }

    fn nap(&self, source: &impl Source, now_ns: u64) {
        let wait_ns = self.due_ns(source, 0).saturating_sub(now_ns).min(NAP_NS_MAX);
        std::thread::sleep(Duration::from_nanos(wait_ns));
    }

    #[inline]
    fn send(
        &self, sender: &mut Sender, source: &mut impl Source, burst: &mut Burst, count: usize, now_ns: u64,
    ) -> Result<Going, DriveError> {
        match sender.fill(burst, count, source.longest_bytes()) {
            Ok(_) => {}
            Err(PoolError::Exhausted { .. }) => return going(sender.wait_for_memory()),
            Err(error) => return Err(error.into()),
        }
        let region = burst.pool().region().clone();
        write(&region, burst, source, now_ns)?;
        going(sender.send(burst))
    }
}

/// Writes the source's next frames over those of `burst`.
#[inline]
fn write(
    region: &Region, burst: &mut Burst, source: &mut impl Source, now_ns: u64,
) -> Result<(), DriveError> {
    for frame in burst.frames_mut() {
        region.set_len(frame, source.len_bytes()).map_err(PoolError::from)?;
        source.write(region.bytes_mut(frame).map_err(PoolError::from)?, now_ns);
    }
    Ok(())
}

/// A queue that was shut down is an end like any other.
fn going(sent: Result<(), QueueError>) -> Result<Going, DriveError> {
    match sent {
        Ok(()) => Ok(Going::On),
        Err(QueueError::Closed) => Ok(Going::Ended),
        Err(error) => Err(error.into()),
    }
}
