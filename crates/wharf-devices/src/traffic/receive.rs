//! A receiver that checks all it gets.

use super::{Check, Findings};
use std::sync::atomic::{AtomicBool, Ordering::Acquire};
use std::time::Duration;
use wharf_core::device::{Device, DeviceError};
use wharf_core::pool::{Cache, PagePool, PoolError};
use wharf_mem::{Batch, Frame, Region};
use wharf_sys::clock::monotonic_ns;

/// Frames taken from the device at a time.
const BUDGET: usize = 64;
/// Polls that find nothing before sleeping: some tens of microseconds, about as long as a sleep takes at least.
/// Yielding instead would put this thread behind whatever else the processors have to do, for milliseconds.
const SPINS: u32 = 1000;
const NAP: Duration = Duration::from_micros(20);

/// Why receiving failed.
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

/// A device's receive side, memory for it, and what checks the frames.
pub struct Receiver {
    device: Box<dyn Device>,
    cache: Cache,
    batch: Batch,
    /// The chunks of a super-packet, one after the other.
    joined: Vec<u8>,
    check: Box<dyn Check>,
}

impl std::fmt::Debug for Receiver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Receiver({})", self.device.name())
    }
}

impl Receiver {
    /// Of `device`, which was attached to no memory yet, into frames of `pool`.
    ///
    /// # Errors
    /// [`ReceiveError`].
    pub fn new(
        mut device: Box<dyn Device>, pool: &PagePool, check: Box<dyn Check>,
    ) -> Result<Self, ReceiveError> {
        device.attach(pool.region().clone())?;
        let cache = pool.cache("receiver")?;
        Ok(Self { device, cache, batch: Batch::new(BUDGET), joined: Vec::new(), check })
    }

    /// Receives and checks what has arrived, up to a batch; how many.
    ///
    /// # Errors
    /// [`ReceiveError`].
    pub fn poll(&mut self) -> Result<usize, ReceiveError> {
        let received = self.device.receive(&mut self.cache, &mut self.batch, BUDGET)?;
        if received > 0 {
            let now_ns = if self.check.wants_time() { monotonic_ns() } else { 0 };
            let region = self.cache.pool().region();
            for frame in self.batch.frames() {
                self.check.check(whole(region, frame, &mut self.joined)?, now_ns);
            }
            self.cache.give(&mut self.batch)?;
        }
        Ok(received)
    }

    /// Receives until the device says that nothing more will come, or `stop` is set and nothing is left.
    ///
    /// # Errors
    /// [`ReceiveError`].
    pub fn run(mut self, stop: &AtomicBool) -> Result<Findings, ReceiveError> {
        let mut idle = 0;
        loop {
            // Before polling: what was sent before the end was announced is there now.
            let stopped = stop.load(Acquire) || self.device.receive_ended();
            if self.poll()? > 0 {
                idle = 0;
            } else if stopped {
                return Ok(self.check.findings().clone());
            } else {
                idle += 1;
                if idle < SPINS { std::hint::spin_loop() } else { std::thread::sleep(NAP) }
            }
        }
    }
}

/// All bytes of a frame, those of a chain joined in `joined`.
#[inline]
fn whole<'a>(region: &'a Region, frame: &'a Frame, joined: &'a mut Vec<u8>) -> Result<&'a [u8], PoolError> {
    if !frame.has_meta() {
        return Ok(region.bytes(frame)?);
    }
    joined.clear();
    region.chunks(frame)?.for_each(|chunk| joined.extend_from_slice(chunk));
    Ok(joined)
}
