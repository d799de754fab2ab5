//! What both sides of a run count, and when they are to stop.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Mutex, MutexGuard, PoisonError};
use wharf_tools::traffic::Latency;

/// Shared by both sides and by who looks at them.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) stop: AtomicBool,
    /// Flows that are about to send, and have not counted it yet.
    sending: AtomicU64,
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

    /// Counts the messages that `send` says it sent; it is not asked once all is to stop.
    ///
    /// Who says stop and then finds nobody sending knows that `sent` stays as it is: both write before they read what
    /// the other writes, in one order.
    pub(super) fn send(&self, send: impl FnOnce() -> u64) -> u64 {
        self.sending.fetch_add(1, SeqCst);
        let sent = if self.stop.load(SeqCst) { 0 } else { send() };
        self.sent.fetch_add(sent, Relaxed);
        self.sending.fetch_sub(1, SeqCst);
        sent
    }

    /// Whether every message has come out, and none will be sent any more. To be asked once all is to stop.
    pub(super) fn is_over(&self) -> bool {
        self.sending.load(SeqCst) == 0 && self.sent.load(Relaxed) == self.arrived.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_over_once_all_has_arrived_and_nobody_is_sending() {
        let seen = Seen::default();
        let sent = seen.send(|| {
            assert!(!seen.is_over(), "somebody is sending");
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
