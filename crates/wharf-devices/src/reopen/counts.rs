//! `Counts`: what the devices before the present one have counted.

use wharf_core::device::Signals;

/// Drops by reason, and notifications, of devices that are closed.
#[derive(Debug, Default)]
pub(super) struct Counts {
    drops: Vec<(&'static str, u64)>,
    signals: Option<Signals>,
}

fn add(sums: &mut Vec<(&'static str, u64)>, reason: &'static str, count: u64) {
    match sums.iter_mut().find(|(known, _)| *known == reason) {
        Some((_, sum)) => *sum += count,
        None => sums.push((reason, count)),
    }
}

impl Counts {
    /// True if no drop was counted.
    pub(super) fn has_no_drops(&self) -> bool {
        self.drops.is_empty()
    }

    pub(super) fn add_drops(&mut self, reason: &'static str, count: u64) {
        add(&mut self.drops, reason, count);
    }

    pub(super) fn set_signals(&mut self, signals: Option<Signals>) {
        self.signals = signals;
    }

    /// Shows the drops with those that `now` shows.
    pub(super) fn drops_with(
        &self, now: impl FnOnce(&mut dyn FnMut(&'static str, u64)), see: &mut dyn FnMut(&'static str, u64),
    ) {
        let mut sums = self.drops.clone();
        now(&mut |reason, count| add(&mut sums, reason, count));
        sums.into_iter().for_each(|(reason, count)| see(reason, count));
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
