//! `Counts`: what the devices before the present one have counted.

use crate::iface::Drops;
use wharf_core::device::Signals;

/// Drops by reason, and notifications, of devices that are closed.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) drops: Drops,
    pub(super) signals: Option<Signals>,
}

impl Counts {
    /// Shows the drops with those that `now` shows.
    pub(super) fn drops_with(
        &self, now: impl FnOnce(&mut dyn FnMut(&'static str, u64)), see: &mut dyn FnMut(&'static str, u64),
    ) {
        let mut sums = self.drops.clone();
        now(&mut |reason, count| sums.add_count(reason, count));
        sums.show(see);
    }

    /// Returns the notifications with those of the present device.
    pub(super) fn signals_with(&self, now: Option<Signals>) -> Option<Signals> {
        match (self.signals, now) {
            (Some(before), Some(now)) => Some(Signals {
                interrupts: before.interrupts + now.interrupts,
                kicks: before.kicks + now.kicks,
            }),
            (before, now) => before.or(now),
        }
    }
}
