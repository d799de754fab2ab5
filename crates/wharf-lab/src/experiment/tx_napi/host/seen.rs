//! What both sides of a run count, and when they are to stop.

use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Mutex, MutexGuard, PoisonError};
use wharf_devices::traffic::Latency;

/// Shared by both sides and by who looks at them.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) stop: AtomicBool,
    /// Messages that went into the virtual machine's path, and that came out of the device.
    pub(super) sent: AtomicU64,
    pub(super) arrived: AtomicU64,
    times: Mutex<Latency>,
}

impl Seen {
    /// Where times are noted: of a stream from the application to the device, else round trips.
    pub(super) fn times(&self) -> MutexGuard<'_, Latency> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
