//! A reset of the device behind the faults.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// Tells the faults of a device that the device is opened anew. Any thread may hold one.
#[derive(Debug, Clone, Default)]
pub struct FaultReset(Arc<AtomicBool>);

impl FaultReset {
    /// The device is opened anew: frames whose completion does not come fail as [`LOST`](wharf_core::device::LOST), and a stall or
    /// freeze is over. It happens when completions are next asked for.
    pub fn reset(&self) {
        self.0.store(true, SeqCst);
    }

    pub(super) fn is_asked(&self) -> bool {
        self.0.load(SeqCst)
    }

    pub(super) fn take(&self) -> bool {
        self.is_asked() && self.0.swap(false, SeqCst)
    }
}
