//! What a direction does with what arrives.

use crate::host::ExactClock;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use wharf_core::gso::Shortener;
use wharf_core::host::Clock;
use wharf_core::pool::Burst;
use wharf_core::receive::{Handler, Rest};
use wharf_core::sender::SendNow;

/// Written by the one thread that polls the receive side, and by who supervises; read by anybody.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// When the first frames went on, and the last, on the exact clock; 0 for never.
    first_ns: AtomicU64,
    last_ns: AtomicU64,
    /// Frames that were known to have left.
    departed: AtomicU64,
    /// Frames that wait to be sent.
    pub(super) waiting: AtomicU64,
    /// Frames freed since the queue is closed.
    pub(super) refused: AtomicU64,
    /// Super-packets that were cut before the queue, and the pieces of them that went on.
    pub(super) cut: AtomicU64,
    pub(super) pieces: AtomicU64,
}

impl Counts {
    /// From the first frames that went on to the last.
    pub(super) fn span_ns(&self) -> u64 {
        self.last_ns.load(Relaxed).saturating_sub(self.first_ns.load(Relaxed))
    }

    /// So many frames have left in all.
    pub(super) fn departed(&self, packets: u64) {
        if self.departed.swap(packets, Relaxed) < packets {
            self.moved();
        }
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

/// Sends what comes by `by`, in pieces where `shortener` says so. What a sender leaves waits, and is shown again: nothing else is
/// received before.
pub(super) fn handler(
    mut by: impl SendNow + Send + 'static, mut shortener: Option<Shortener>,
) -> (Handler, Arc<Counts>) {
    let counts = Arc::new(Counts::default());
    let noted = counts.clone();
    let handler = move |burst: &mut Burst| {
        let (offered, pieces) = (burst.len(), noted.pieces.load(Relaxed));
        let sent = match &mut shortener {
            Some(shortener) => shortener.send(burst, &mut by),
            None => by.send_now(burst),
        };
        if let Some((cut, pieces)) = shortener.as_ref().map(Shortener::counts) {
            noted.cut.store(cut, Relaxed);
            noted.pieces.store(pieces, Relaxed);
        }
        if burst.len() < offered || noted.pieces.load(Relaxed) > pieces {
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
