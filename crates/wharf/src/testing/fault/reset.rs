//! A reset of the device behind the faults.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// Whether the device behind the faults is opened anew.
#[derive(Debug, Clone, Default)]
pub(super) struct Reset(Arc<AtomicBool>);

impl Reset {
    pub(super) fn ask(&self) {
        self.0.store(true, SeqCst);
    }

    pub(super) fn is_asked(&self) -> bool {
        self.0.load(SeqCst)
    }

    pub(super) fn take(&self) -> bool {
        self.is_asked() && self.0.swap(false, SeqCst)
    }
}
