//! `StuckRing`: a ring by `TPACKET_V2` that the kernel fills no more.
//!
//! The kernel marks a slot as its own before it describes the frame (`rx_owner_map` in `tpacket_rcv`, since Linux 5.6). If it cannot
//! describe it, the slot stays marked, and the frame and all later ones are dropped. An empty ring drops none otherwise.

use crate::host::HostClock;
use wharf_core::host::Clock;

/// Time between two looks while nothing arrives, ns.
const LOOK_NS: u64 = 100_000_000;

/// The looks at a ring that is empty.
#[derive(Debug, Default)]
pub(super) struct StuckRing {
    /// Time of the next look.
    at_ns: u64,
    /// The kernel's drops at the last look. `None` if a frame has arrived since.
    drops: Option<u64>,
}

impl StuckRing {
    /// Notes that frames arrive.
    #[inline]
    pub(super) fn arrived(&mut self) {
        self.drops = None;
    }

    /// Returns true if a look is due.
    pub(super) fn is_due(&mut self) -> bool {
        let now_ns = HostClock.now_ns();
        let is_due = now_ns >= self.at_ns;
        if is_due {
            self.at_ns = now_ns + LOOK_NS;
        }
        is_due
    }

    /// Looks at an empty ring. Returns true if the kernel has dropped frames since it was empty at the last look.
    pub(super) fn is_stuck(&mut self, drops: u64) -> bool {
        self.drops.replace(drops).is_some_and(|before| before != drops)
    }

    /// Returns the time until the next look, ns.
    pub(super) fn left_ns(&self) -> u64 {
        self.at_ns.saturating_sub(HostClock.now_ns())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_while_the_ring_stays_empty_then_it_is_stuck() {
        let mut ring = StuckRing::default();
        // The first look may come after drops of a full ring.
        assert!(!ring.is_stuck(7) && !ring.is_stuck(7) && ring.is_stuck(8));
        ring.arrived();
        assert!(!ring.is_stuck(9) && ring.is_stuck(10));
    }
}
