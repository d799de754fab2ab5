//! Frames that were dropped before they could be received, by reason.

use wharf_sys::xdp::Statistics;

/// What the rings found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Own {
    /// Longer than any super-packet.
    pub(super) too_long: u64,
    /// Not where it should be.
    pub(super) misplaced: u64,
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Drops {
    /// As last read.
    pub(super) kernel: Statistics,
    pub(super) own: Own,
}

impl Drops {
    /// Each reason and its count; the kernel's always, others where there are any.
    pub(super) fn show(&self, see: &mut dyn FnMut(&'static str, u64)) {
        // Nothing in the fill ring, or a frame longer than all that is: dropped once, and counted twice.
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
