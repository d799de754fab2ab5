//! `GivingBack`: the threads that give a port's receive side back, for which its end waits.

use std::sync::{Condvar, Mutex};
use std::time::Duration;

/// Most time that [`Port::close`](super::Port::close) waits for another thread that has the device.
pub(super) const GIVING_BACK_MAX: Duration = Duration::from_secs(5);

/// Counts the threads that are giving the receive side back. The device is theirs meanwhile.
#[derive(Default)]
pub(super) struct GivingBack {
    threads: Mutex<u32>,
    is_over: Condvar,
}

impl GivingBack {
    pub(super) fn begin(&self) -> impl Drop + '_ {
        struct Begun<'a>(&'a GivingBack);
        impl Drop for Begun<'_> {
            fn drop(&mut self) {
                *wharf_mem::lock(&self.0.threads) -= 1;
                self.0.is_over.notify_all();
            }
        }
        *wharf_mem::lock(&self.threads) += 1;
        Begun(self)
    }

    /// Waits until no thread does so, for at most [`GIVING_BACK_MAX`].
    pub(super) fn wait(&self) {
        let threads = wharf_mem::lock(&self.threads);
        _ = self.is_over.wait_timeout_while(threads, GIVING_BACK_MAX, |threads| *threads > 0);
    }
}
