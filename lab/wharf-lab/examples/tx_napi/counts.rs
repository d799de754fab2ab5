//! The counts of both sides of a run, and the flag that stops them.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Mutex, MutexGuard};
use wharf_tools::traffic::Latency;

/// The counts and the flag, shared by all threads of a run.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) stop: AtomicBool,
    /// Flows that are about to send, and have not counted it yet.
    sending: AtomicU64,
    /// Messages that entered the virtual machine's path.
    pub(super) sent: AtomicU64,
    pub(super) arrived: AtomicU64,
    times: Mutex<Latency>,
}

impl Counts {
    /// Returns the recorded times: of a stream from the application to the device, else round trips.
    pub(super) fn times(&self) -> MutexGuard<'_, Latency> {
        wharf_mem::lock(&self.times)
    }

    /// Counts the messages that `send` returns as sent. `send` is not called after the stop.
    ///
    /// A thread that sets the flag and then finds no flow sending knows that `sent` no longer changes: each
    /// side writes before it reads the other's word, in one order.
    pub(super) fn send(&self, send: impl FnOnce() -> u64) -> u64 {
        self.sending.fetch_add(1, SeqCst);
        let sent = if self.stop.load(SeqCst) { 0 } else { send() };
        self.sent.fetch_add(sent, Relaxed);
        self.sending.fetch_sub(1, SeqCst);
        sent
    }

    /// True if every message has arrived and none will be sent. To be called after the stop.
    pub(super) fn is_over(&self) -> bool {
        self.sending.load(SeqCst) == 0 && self.sent.load(Relaxed) == self.arrived.load(Relaxed)
    }
}

/// Sets the flag when it is dropped, for any reason.
pub(super) struct StopGuard<'a>(pub(super) &'a AtomicBool);

impl Drop for StopGuard<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn over_once_all_arrived_and_none_sends() {
        let seen = Counts::default();
        let sent = seen.send(|| {
            assert!(!seen.is_over(), "a flow is sending");
            3
        });
        assert!(sent == 3 && !seen.is_over());
        seen.arrived.fetch_add(3, Relaxed);
        assert!(seen.is_over());
        seen.stop.store(true, SeqCst);
        assert_eq!(seen.send(|| panic!("asked after stop")), 0);
        assert!(seen.is_over());
    }
}
