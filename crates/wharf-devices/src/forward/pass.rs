//! What a direction does with what arrives.

use crate::host::ExactClock;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use wharf_core::host::Clock;
use wharf_core::pool::Burst;
use wharf_core::receive::{Handler, Rest};
use wharf_core::sender::{DropTail, Sender};

/// What it sends by.
pub(super) enum By {
    /// What does not fit waits, and is shown again: nothing else is received before.
    Waiting(Sender),
    /// What does not fit is dropped, and counted by the sender.
    DropTail(DropTail),
}

/// Written by the one thread that polls the receive side; read by anybody.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// When the first frames went on, and the last, on the exact clock; 0 for never.
    first_ns: AtomicU64,
    last_ns: AtomicU64,
    /// Frames that wait to be sent.
    pub(super) waiting: AtomicU64,
    /// Frames freed since the queue is closed.
    pub(super) refused: AtomicU64,
}

impl Counts {
    /// From the first frames that went on to the last.
    pub(super) fn span_ns(&self) -> u64 {
        self.last_ns.load(Relaxed).saturating_sub(self.first_ns.load(Relaxed))
    }

    /// Frames have gone on.
    pub(super) fn moved(&self) {
        let now_ns = ExactClock.now_ns();
        if self.first_ns.load(Relaxed) == 0 {
            self.first_ns.store(now_ns, Relaxed);
        }
        self.last_ns.store(now_ns, Relaxed);
    }
}

/// Sends what comes.
pub(super) fn handler(mut by: By) -> (Handler, Arc<Counts>) {
    let counts = Arc::new(Counts::default());
    let noted = counts.clone();
    let handler = move |burst: &mut Burst| {
        let offered = burst.len();
        let sent = match &mut by {
            By::Waiting(sender) => sender.try_send(burst),
            By::DropTail(sender) => sender.send(burst),
        };
        if burst.len() < offered {
            noted.moved();
        }
        let left = burst.len() as u64;
        if sent.is_err() {
            // The queue is closed, or dead: there is nowhere to send to.
            noted.refused.fetch_add(left, Relaxed);
            return Rest::Free;
        }
        noted.waiting.store(left, Relaxed);
        if left == 0 { Rest::Free } else { Rest::Again }
    };
    (Box::new(handler), counts)
}
