//! Frames that were dropped before they could be received, by reason.

use wharf_sys::xdp::Statistics;

/// Drops found in the rings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Own {
    /// Frames longer than any super-packet.
    pub(super) too_long: u64,
    /// Frames outside their buffer.
    pub(super) misplaced: u64,
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Drops {
    /// The kernel's counts as last read.
    pub(super) kernel: Statistics,
    pub(super) own: Own,
}

impl Drops {
    /// Shows each reason and its count: the kernel's always, others if there are any.
    pub(super) fn show(&self, see: &mut dyn FnMut(&'static str, u64)) {
        // The kernel drops a frame once and counts it twice if the fill ring is empty or the frame is longer
        // than it.
        see("kernel", self.kernel.received_dropped);
        let others = [
            ("ring-full", self.kernel.receive_ring_full),
            ("too-long", self.own.too_long),
            ("misplaced", self.own.misplaced),
        ];
        for (reason, count) in others.into_iter().filter(|(_, count)| *count > 0) {
            see(reason, count);
        }
    }
}
