//! Times in which the device does nothing: stalls and freezes.

use super::counts::{FaultCounts, Kind};
use super::roll::Roll;
use std::sync::Arc;
use wharf_core::host::Clock;

/// A time in which the device does nothing. It begins with a call (`stall`) or after one (`freeze`).
pub(super) struct Pause {
    roll: Roll,
    kind: Kind,
    time_ns: u64,
    until_ns: Option<u64>,
    clock: Arc<dyn Clock>,
}

impl Pause {
    pub(super) fn new(roll: Roll, kind: Kind, time_ns: u64, clock: Arc<dyn Clock>) -> Self {
        Self { roll, kind, time_ns, until_ns: None, clock }
    }

    pub(super) fn set_clock(&mut self, clock: Arc<dyn Clock>) {
        self.clock = clock;
    }

    /// True if there may be such times.
    pub(super) fn can_begin(&self) -> bool {
        self.roll.is_on()
    }

    /// True if the device stands still in this call: the time goes on, or begins. The first call after it is spared, or with a
    /// chance of 100 % nothing would ever be sent.
    pub(super) fn begins_with(&mut self, counts: &FaultCounts) -> bool {
        match self.until_ns {
            Some(until_ns) if self.clock.now_ns() < until_ns => true,
            Some(_) => {
                self.until_ns = None;
                false
            }
            None => self.begins_after(counts),
        }
    }

    /// Begins it, by chance, after a call that has done something. Returns true if it has begun.
    pub(super) fn begins_after(&mut self, counts: &FaultCounts) -> bool {
        if !self.roll.is_on() || !self.roll.happens() {
            return false;
        }
        counts.add(self.kind, 1);
        self.until_ns = Some(self.clock.now_ns().saturating_add(self.time_ns));
        true
    }

    pub(super) fn is_on(&self) -> bool {
        self.until_ns.is_some_and(|until_ns| self.clock.now_ns() < until_ns)
    }

    pub(super) fn left_ns(&self) -> Option<u64> {
        let left_ns = self.until_ns?.saturating_sub(self.clock.now_ns());
        (left_ns > 0).then_some(left_ns)
    }

    pub(super) fn end(&mut self) {
        self.until_ns = None;
    }
}
