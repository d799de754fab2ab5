//! The live line: rates since the line before, packets, losses, drops by reason.

use crate::live::{Before, dropped};
use crate::output::grouped_on_stderr;
use crate::session::Watch;
use std::cell::RefCell;
use std::slice::from_ref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use wharf_core::drops::drops_by_reason;
use wharf_core::rx::RxQueue;
use wharf_tools::traffic::{Arrival, Arrivals, Check, Clocks};

/// Time between two looks of the receiving thread at its losses.
const EVERY_NS: u64 = 100_000_000;

/// Counts of the receiving thread, for the line.
#[derive(Debug, Default)]
pub(super) struct LiveCounts {
    bytes: AtomicU64,
    lost: AtomicU64,
}

/// Publishes counts of arrivals now and then.
#[derive(Debug, Default)]
pub(super) struct Published {
    arrivals: Arrivals,
    counts: Arc<LiveCounts>,
    /// Arrival time at the last publication.
    last_ns: u64,
}

impl Published {
    pub(super) fn counts(&self) -> Arc<LiveCounts> {
        self.counts.clone()
    }

    pub(super) fn into_arrivals(self) -> Arrivals {
        self.arrivals
    }
}

impl Check for Published {
    #[inline]
    fn check(&mut self, frame: &[u8], at: Arrival) {
        self.arrivals.check(frame, at);
        // The times of a file may step back.
        if at.monotonic_ns.wrapping_sub(self.last_ns) >= EVERY_NS {
            self.last_ns = at.monotonic_ns;
            self.counts.bytes.store(self.arrivals.all().bytes, Relaxed);
            self.counts.lost.store(self.arrivals.counts().lost, Relaxed);
        }
    }

    fn clocks(&self) -> Clocks {
        self.arrivals.clocks()
    }
}

/// The line.
pub(super) struct Live {
    queue: RxQueue,
    counts: Arc<LiveCounts>,
    before: RefCell<Before>,
}

impl Live {
    pub(super) fn new(queue: RxQueue, counts: Arc<LiveCounts>) -> Self {
        Self { queue, counts, before: RefCell::default() }
    }

    /// Shows the line after `packets` arrivals.
    pub(super) fn show(&self, watch: &Watch<'_>, packets: u64) {
        watch.say(|now| {
            let (bytes, lost) = (self.counts.bytes.load(Relaxed), self.counts.lost.load(Relaxed));
            let drops = drops_by_reason(&[], from_ref(&self.queue));
            let rates = self.before.borrow_mut().rates(now, packets, bytes);
            let (received, lost, dropped) =
                (grouped_on_stderr(packets), grouped_on_stderr(lost), dropped(&drops));
            format!("{rates}, received {received}, lost {lost}{dropped}")
        });
    }
}
